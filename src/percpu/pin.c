/* SPDX-License-Identifier: MIT */
/* Keeps objects with sequences loaded: the kernel may read a thread's last descriptor long after the code has run. */
#define _GNU_SOURCE
#include <linewright/percpu.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

/* Weak: a static program has no loader, and nothing in it can be unloaded. dlopen() is looked up, since naming it makes
 * the linker warn about every static program. */
#pragma weak dladdr
#pragma weak dlsym
#pragma weak dl_iterate_phdr

struct finding {
    uintptr_t address;
    int seen; /* objects before this one; the first is the main program, which stays anyway */
    int at;
};

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct finding *f = data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD && f->address - info->dlpi_addr - ph->p_vaddr < ph->p_memsz) {
            f->at = f->seen;
            return 1;
        }
    }
    f->seen++;
    return 0;
}

void lw__percpu_pin(const void *address)
{
    if (!dladdr || !dlsym || !dl_iterate_phdr)
        return;
    int saved = errno;
    struct finding f = {(uintptr_t)address, 0, -1};
    Dl_info object;
    if (dl_iterate_phdr(find, &f) && f.at > 0 && dladdr(address, &object) && object.dli_fname) {
        void *(*open_object)(const char *, int);
        *(void **)(void *)&open_object = dlsym(RTLD_DEFAULT, "dlopen");
        if (open_object)
            (void)open_object(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
    errno = saved;
}
