/* SPDX-License-Identifier: MIT */
/* Per-CPU memory: chunks of one 64 KiB unit per possible CPU, small allocations packed into them.
 *
 *   handle ─► [ guard unit | unit of CPU 0 | unit of CPU 1 | … ]      64 KiB each, aligned to 64 KiB
 *   a unit:   [ lock word, 128 bytes | words … 32 KiB | second words … 64 KiB )
 *
 * A handle points into the guard unit, which is never accessible: the copy of CPU c lies (c + 1) units further on.
 * Units are mapped without reserving memory and without huge pages, so that a page is allocated when its own CPU first
 * writes to it, on that CPU's node under the default policy, and thousands of possible CPUs cost addresses only.
 */
#define _GNU_SOURCE
#include "rseq.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRANULE 8u
#define GRANULES (LW_PERCPU_SECOND / GRANULE)
#define FIRST_GRANULE (LW_PERCPU_RESERVED / GRANULE)
#define BITS 64u

_Static_assert(LW_PERCPU_RESERVED % GRANULE == 0 && GRANULES % BITS == 0, "bitmaps have whole words");

struct chunk {
    struct chunk *next;
    char *guard; /* handles are guard + offset */
    size_t bytes; /* of the mapping, guard included */
    unsigned used_granules;
    unsigned cursor; /* where a search begins: behind the last allocation, or at what was freed last */
    unsigned longest; /* no free run is longer; lowered by searches that find nothing */
    unsigned touched; /* granules below were allocated before and have to be zeroed */
    uint64_t used[GRANULES / BITS]; /* the reserved ones too */
    uint64_t first[GRANULES / BITS]; /* set at the first granule of an allocation */
};

/* The chunk that was allocated from or freed to last is the first. */
static struct chunk *chunks;
static pthread_mutex_t chunks_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- bitmaps, a word at a time ---- */

static bool get(const uint64_t *map, unsigned i)
{
    return map[i / BITS] >> (i % BITS) & 1;
}

static void set(uint64_t *map, unsigned i, unsigned n, bool value)
{
    for (unsigned end = i + n, bits; i < end; i += bits) {
        bits = BITS - i % BITS < end - i ? BITS - i % BITS : end - i;
        uint64_t mask = (bits == BITS ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1) << (i % BITS);
        map[i / BITS] = value ? map[i / BITS] | mask : map[i / BITS] & ~mask;
    }
}

/* The first bit from i on that is `value`, or `end`. */
static unsigned next(const uint64_t *map, unsigned i, unsigned end, bool value)
{
    while (i < end) {
        uint64_t word = (value ? map[i / BITS] : ~map[i / BITS]) >> (i % BITS);
        if (word) {
            i += (unsigned)__builtin_ctzll(word);
            return i < end ? i : end;
        }
        i = (i / BITS + 1) * BITS;
    }
    return end;
}

/* Where the free run begins that ends before i. The reserved granules at the start are used, so that it ends. */
static unsigned run_begin(const uint64_t *used, unsigned i)
{
    for (;;) {
        unsigned bits = (i - 1) % BITS + 1; /* of the word, up to i - 1 */
        uint64_t below = used[(i - 1) / BITS] << (BITS - bits);
        if (below)
            return i - (unsigned)__builtin_clzll(below);
        i -= bits;
    }
}

/* ---- fork: the child must find the lock free and the list whole ----
 * An allocator's fork handlers may hold its locks while before_fork() waits. So under this lock nothing allocates, blocks or
 * calls out: chunks are mapped, cleared and unmapped without it. */

static void before_fork(void)
{
    pthread_mutex_lock(&chunks_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&chunks_lock);
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void watch_fork(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- chunks ---- */

static char *map_units(size_t bytes)
{
    /* One unit more than needed, to cut an aligned piece out of it. */
    char *raw = mmap(NULL, bytes + LW_PERCPU_STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    size_t head = (size_t)(-(uintptr_t)raw & (LW_PERCPU_STRIDE - 1));
    char *guard = raw + head;
    if (head)
        munmap(raw, head);
    if (head < LW_PERCPU_STRIDE)
        munmap(guard + bytes, LW_PERCPU_STRIDE - head);
    if (mprotect(guard + LW_PERCPU_STRIDE, bytes - LW_PERCPU_STRIDE, PROT_READ | PROT_WRITE)) {
        munmap(guard, bytes);
        return NULL;
    }
    /* A huge page would span 32 CPUs' units and live on one node. A kernel without huge pages refuses; that is harmless. */
    (void)madvise(guard, bytes, MADV_NOHUGEPAGE);
    return guard;
}

static struct chunk *new_chunk(void)
{
    uint64_t bytes = ((uint64_t)lw_percpu_rt.nr_cpus + 1) * LW_PERCPU_STRIDE;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    struct chunk *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED)
        return NULL;
    c->bytes = (size_t)bytes;
    c->guard = map_units(c->bytes);
    if (!c->guard) {
        munmap(c, sizeof *c);
        return NULL;
    }
    set(c->used, 0, FIRST_GRANULE, true);
    c->cursor = FIRST_GRANULE;
    c->longest = GRANULES - FIRST_GRANULE;
    return c;
}

static void delete_chunk(struct chunk *c)
{
    munmap(c->guard, c->bytes);
    munmap(c, sizeof *c);
}

static void push_chunk(struct chunk *c)
{
    c->next = chunks;
    chunks = c;
}

/* ---- taking and giving back, under the lock ---- */

/* The first free run of n granules that begins in [from, to) at a multiple of `step`, or 0. */
static unsigned find_run(const struct chunk *c, unsigned n, unsigned step, unsigned from, unsigned to)
{
    for (unsigned taken = from;;) {
        unsigned start = (next(c->used, taken, to, false) + step - 1) / step * step;
        if (start >= to || start + n > GRANULES)
            return 0;
        taken = next(c->used, start, start + n, true);
        if (taken == start + n)
            return start;
    }
}

/* The first of n granules that are now used, or 0. *dirty: some were allocated before. */
static unsigned take(struct chunk *c, unsigned n, unsigned step, bool *dirty)
{
    if (c->longest < n)
        return 0;
    unsigned start = find_run(c, n, step, c->cursor, GRANULES);
    if (!start)
        start = find_run(c, n, step, FIRST_GRANULE, c->cursor);
    if (!start) { /* a longer run would have held one that is aligned */
        c->longest = c->longest < n + step - 2 ? c->longest : n + step - 2;
        return 0;
    }
    set(c->used, start, n, true);
    set(c->first, start, 1, true);
    c->used_granules += n;
    c->cursor = start + n;
    *dirty = start < c->touched;
    c->touched = c->touched > c->cursor ? c->touched : c->cursor;
    return start;
}

/* A handle, or NULL where no chunk has room. */
static char *take_from_any(unsigned n, unsigned step, bool *dirty)
{
    for (struct chunk **link = &chunks; *link; link = &(*link)->next) {
        struct chunk *c = *link;
        unsigned start = take(c, n, step, dirty);
        if (!start)
            continue;
        *link = c->next;
        push_chunk(c);
        return c->guard + start * GRANULE;
    }
    return NULL;
}

/* False: no allocation begins at p. *empty: a chunk that nothing is left in, off the list; the last one stays, because the
 * next allocation would only map it again. */
static bool release(uintptr_t p, struct chunk **empty)
{
    struct chunk **link = &chunks;
    while (*link && p - (uintptr_t)(*link)->guard >= LW_PERCPU_SECOND)
        link = &(*link)->next;
    struct chunk *c = *link;
    unsigned i = c ? (unsigned)((p - (uintptr_t)c->guard) / GRANULE) : 0;
    if (!c || p % GRANULE || !get(c->first, i))
        return false;
    unsigned end = next(c->used, i + 1, GRANULES, false);
    unsigned n = next(c->first, i + 1, end, true) - i;
    set(c->first, i, 1, false);
    set(c->used, i, n, false);
    c->used_granules -= n;
    c->cursor = i;
    unsigned run = next(c->used, i, GRANULES, true) - run_begin(c->used, i + 1);
    c->longest = c->longest > run ? c->longest : run;
    *link = c->next;
    if (!c->used_granules && chunks)
        *empty = c;
    else
        push_chunk(c);
    return true;
}

/* ---- the interface ---- */

/* Zeroes [p, p + bytes) only where it is not zero: reading a page that was never written allocates none, writing would
 * create it here instead of on its CPU's node. */
static void clear(char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += GRANULE) {
        uint64_t word;
        memcpy(&word, p + i, sizeof word);
        if (word)
            memset(p + i, 0, GRANULE);
    }
}

/* The caller owns the granules, so this needs no lock. */
static void clear_copies(const void *p, size_t bytes)
{
    unsigned used = lw__percpu_used_cpus(p);
    for (unsigned cpu = 0; cpu < used; cpu++)
        clear(lw__percpu_unit(p, cpu), bytes);
    used = lw__percpu_used_stripes(p);
    for (unsigned cpu = 0; cpu < used; cpu++)
        clear(lw__percpu_unit(p, cpu) + LW_PERCPU_SECOND, bytes);
}

static void *allocate(unsigned n, unsigned step)
{
    bool dirty = false;
    pthread_mutex_lock(&chunks_lock);
    char *p = take_from_any(n, step, &dirty);
    pthread_mutex_unlock(&chunks_lock);
    if (!p) {
        struct chunk *c = new_chunk();
        if (!c)
            return NULL;
        p = c->guard + take(c, n, step, &dirty) * GRANULE;
        pthread_mutex_lock(&chunks_lock);
        push_chunk(c);
        pthread_mutex_unlock(&chunks_lock);
    }
    if (dirty)
        clear_copies(p, n * GRANULE);
    return p;
}

void *lw_percpu_alloc(size_t size, size_t align)
{
    if (!align)
        align = GRANULE;
    if ((align & (align - 1)) || align > LW_PERCPU_MAX_ALIGN || !size || size > LW_PERCPU_MAX_SIZE) {
        errno = EINVAL;
        return NULL;
    }
    unsigned step = align > GRANULE ? (unsigned)align / GRANULE : 1;
    unsigned n = (unsigned)((size + GRANULE - 1) / GRANULE);
    if ((FIRST_GRANULE + step - 1) / step * step + n > GRANULES) { /* fits no unit at that alignment */
        errno = EINVAL;
        return NULL;
    }
    lw__percpu_start();
    pthread_once(&fork_once, watch_fork);
    void *p = allocate(n, step);
    if (!p)
        errno = ENOMEM;
    return p;
}

int lw_percpu_free(void *p)
{
    if (!p)
        return 0;
    struct chunk *empty = NULL;
    pthread_mutex_lock(&chunks_lock);
    bool known = release((uintptr_t)p, &empty);
    pthread_mutex_unlock(&chunks_lock);
    if (empty)
        delete_chunk(empty);
#ifdef LW_DEBUG
    if (!known) {
        fprintf(stderr, "linewright: lw_percpu_free(%p): not a live per-CPU allocation (freed twice?)\n", p);
        abort();
    }
#endif
    return known ? 0 : -EINVAL;
}

void *lw_per_cpu_ptr(const void *p, unsigned cpu)
{
    if (cpu >= lw_percpu_rt.nr_cpus) {
        errno = EINVAL;
        return NULL;
    }
    lw__percpu_mark(&lw__percpu_marks(p)->cpus, cpu); /* the caller may store there */
    return lw__percpu_unit(p, cpu);
}

void *lw__percpu_define(const char *name, size_t size, size_t align)
{
    void *p = lw_percpu_alloc(size, align < 8 ? 8 : align);
    if (!p) {
        fprintf(stderr, "linewright: LW_DEFINE_PERCPU(%s): %s\n", name, strerror(errno));
        abort();
    }
    return p;
}
