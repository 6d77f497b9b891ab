/* SPDX-License-Identifier: MIT */
/* Ways past a preloaded library, closed: who asks dlsym() or dlvsym() for the C library's pthread_rwlock_* gets this library's, and no library is opened with
 * RTLD_DEEPBIND, which would bind it to the C library's. Two kinds of functions on one lock would exclude no one. */
#define _GNU_SOURCE
#include "lookups.h"

#include "../../common/environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* dlsym(RTLD_NEXT) and dlopen() look who calls them: they must return to our caller. gcc before 15 makes jumps of such calls when it optimises
 * (src/CMakeLists.txt asks for it), and rwlock_foreign sees that it did. */
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define JUMP_TO __attribute__((musttail)) return
#endif
#endif
#ifndef JUMP_TO
#define JUMP_TO return
#endif

/* ---- the C library's functions ---- */

/* This library has a dlsym() of its own, so the symbol tables are read, as the dynamic linker reads them. A sanitizer asks dlsym() for the functions behind its own
 * ones before these can be called: nothing here calls any. */
struct symbols {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    size_t own_name; /* DT_SONAME, among those */
    const uint32_t *hashes; /* DT_GNU_HASH */
    const uint16_t *versions; /* or NULL */
};

/* The dynamic linker has made addresses of what the file says, but for the kernel's own object. */
static const void *at(uintptr_t base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : value);
}

static struct symbols symbols_of(const struct link_map *object)
{
    struct symbols s = {.base = object->l_addr};
    for (const ElfW(Dyn) *d = object->l_ld; d->d_tag != DT_NULL; d++) {
        const void *table = at(s.base, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_SYMTAB:
            s.symbols = table;
            break;
        case DT_STRTAB:
            s.names = table;
            break;
        case DT_SONAME:
            s.own_name = d->d_un.d_val;
            break;
        case DT_GNU_HASH:
            s.hashes = table;
            break;
        case DT_VERSYM:
            s.versions = table;
            break;
        default:
            break;
        }
    }
    return s;
}

static bool same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* A definition that programs linked today would get: one with bit 15 in its version is kept for old ones. */
static void *defined(const struct symbols *s, const char *name)
{
    const uint32_t *h = s->hashes;
    if (!h || !s->symbols || !s->names)
        return NULL;
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    uint32_t buckets = h[0], first = h[1];
    const uint32_t *bucket = (const uint32_t *)((const uintptr_t *)(const void *)(h + 4) + h[2]), *chain = bucket + buckets;
    uint32_t i = buckets ? bucket[hash % buckets] : 0;
    for (bool last = i < first; !last; last = chain[i - first] & 1, i++) {
        const ElfW(Sym) *symbol = &s->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 15) == STT_FUNC &&
            !(s->versions && s->versions[i] & 0x8000) && same(s->names + symbol->st_name, name))
            return (void *)(s->base + symbol->st_value);
    }
    return NULL;
}

static bool is_c_library(const struct symbols *s)
{
    const char *own = s->names ? s->names + s->own_name : "";
    return same(own, LIBC_SO) || same(own, LIBPTHREAD_SO);
}

/* The objects that begin with the program stay, up to the C library at least, in this order. A lock's functions are the C library's own: what another
 * library puts before them asks for the next ones, which are this library's for everyone. */
void *next_function(const char *name)
{
    bool behind = false;
    void *found = NULL;
    for (const struct link_map *object = _r_debug.r_map; object && !found; object = object->l_next) {
        if (behind) {
            struct symbols symbols = symbols_of(object);
            if (!own_function(name) || is_c_library(&symbols))
                found = defined(&symbols, name);
        }
        behind = behind || object->l_ld == _DYNAMIC;
    }
    return found;
}

/* ---- what programs find ---- */

static const void *object_of(const void *function)
{
    Dl_info object = {0};
    return function && dladdr(function, &object) ? object.dli_fbase : NULL;
}

/* What a program gets that found `found`: another library's function is none of ours to replace. */
static __attribute__((noinline)) void *instead(void *found, void *own)
{
    const void *object = object_of(found);
    return object && object == object_of((const void *)(uintptr_t)NEXT(pthread_rwlock_init)) ? own : found;
}

EXPORTED void *dlsym(void *handle, const char *name)
{
    void *own = own_function(name);
    if (!own)
        JUMP_TO NEXT(dlsym)(handle, name);
    return handle == RTLD_NEXT ? own : instead(NEXT(dlsym)(handle, name), own);
}

EXPORTED void *dlvsym(void *handle, const char *name, const char *version)
{
    void *own = own_function(name);
    if (!own)
        JUMP_TO NEXT(dlvsym)(handle, name, version);
    return handle == RTLD_NEXT ? own : instead(NEXT(dlvsym)(handle, name, version), own);
}

static int without_deepbind(const char *file, int flags)
{
    if (!(flags & RTLD_DEEPBIND))
        return flags;
    if (lw_verbose())
        dprintf(STDERR_FILENO,
                "linewright-rwlock[%d %s]: %s is opened without RTLD_DEEPBIND: its locks would be the C library's\n",
                (int)getpid(), program_invocation_short_name, file ? file : "the program");
    return flags & ~RTLD_DEEPBIND;
}

EXPORTED void *dlopen(const char *file, int flags)
{
    JUMP_TO NEXT(dlopen)(file, without_deepbind(file, flags));
}

/* Another namespace has its own C library, which this library is not in front of. */
EXPORTED void *dlmopen(Lmid_t where, const char *file, int flags)
{
    JUMP_TO NEXT(dlmopen)(where, file, where == LM_ID_BASE ? without_deepbind(file, flags) : flags);
}
