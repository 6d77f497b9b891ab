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
    uint64_t used[GRANULES / BITS];
    uint64_t first[GRANULES / BITS]; /* set at the first granule of an allocation */
    uint64_t dirty[GRANULES / BITS]; /* was allocated before: has to be zeroed */
};

static struct chunk *chunks;
static pthread_mutex_t chunks_lock = PTHREAD_MUTEX_INITIALIZER;

static bool get(const uint64_t *map, unsigned i)
{
    return map[i / BITS] >> (i % BITS) & 1;
}

static void set(uint64_t *map, unsigned i, bool value)
{
    uint64_t bit = (uint64_t)1 << (i % BITS);
    map[i / BITS] = value ? map[i / BITS] | bit : map[i / BITS] & ~bit;
}

/* ---- fork: the child must find the lock free and the list whole ---- */

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
    struct chunk *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->bytes = (size_t)bytes;
    c->guard = map_units(c->bytes);
    if (!c->guard) {
        free(c);
        return NULL;
    }
    c->next = chunks;
    chunks = c;
    return c;
}

/* First granule of a free run of n whose address is aligned, or 0 (granule 0 is the lock word's). */
static unsigned find_run(const struct chunk *c, unsigned n, unsigned step)
{
    unsigned start = (FIRST_GRANULE + step - 1) / step * step;
    while (start + n <= GRANULES) {
        unsigned run = 0;
        while (run < n && !get(c->used, start + run))
            run++;
        if (run == n)
            return start;
        start = (start + run + step) / step * step;
    }
    return 0;
}

/* Zeroes [p, p + bytes) only where it is not zero: reading a page that was never written allocates none, writing would create it
 * here instead of on its CPU's node. */
static void clear(char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += GRANULE) {
        uint64_t word;
        memcpy(&word, p + i, sizeof word);
        if (word)
            memset(p + i, 0, GRANULE);
    }
}

static void clear_copies(const struct chunk *c, unsigned start, unsigned n)
{
    bool dirty = false;
    for (unsigned i = start; i < start + n; i++)
        dirty |= get(c->dirty, i);
    for (unsigned cpu = 0; dirty && cpu < lw_percpu_rt.nr_cpus; cpu++) {
        char *word = LW__CPU0(c->guard) + (size_t)cpu * LW_PERCPU_STRIDE + start * GRANULE;
        clear(word, n * GRANULE);
        clear(word + LW_PERCPU_SECOND, n * GRANULE);
    }
}

static void *take(struct chunk *c, unsigned start, unsigned n)
{
    clear_copies(c, start, n);
    for (unsigned i = start; i < start + n; i++) {
        set(c->used, i, true);
        set(c->dirty, i, true);
    }
    set(c->first, start, true);
    c->used_granules += n;
    return c->guard + start * GRANULE;
}

static void *allocate(unsigned n, unsigned step)
{
    for (struct chunk *c = chunks; c; c = c->next) {
        unsigned start = find_run(c, n, step);
        if (start)
            return take(c, start, n);
    }
    struct chunk *c = new_chunk();
    return c ? take(c, find_run(c, n, step), n) : NULL;
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
    pthread_mutex_lock(&chunks_lock);
    void *p = allocate(n, step);
    pthread_mutex_unlock(&chunks_lock);
    if (!p)
        errno = ENOMEM;
    return p;
}

/* Gives an empty chunk back, but for the last one: the next allocation would only map it again. */
static void drop_if_empty(struct chunk *c)
{
    if (c->used_granules || (chunks == c && !c->next))
        return;
    struct chunk **link = &chunks;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    munmap(c->guard, c->bytes);
    free(c);
}

static bool release(uintptr_t p)
{
    for (struct chunk *c = chunks; c; c = c->next) {
        uintptr_t offset = p - (uintptr_t)c->guard;
        if (offset >= LW_PERCPU_SECOND)
            continue;
        unsigned i = (unsigned)(offset / GRANULE);
        if (offset % GRANULE || !get(c->first, i))
            return false;
        set(c->first, i, false);
        do {
            set(c->used, i++, false);
            c->used_granules--;
        } while (i < GRANULES && get(c->used, i) && !get(c->first, i));
        drop_if_empty(c);
        return true;
    }
    return false;
}

int lw_percpu_free(void *p)
{
    if (!p)
        return 0;
    pthread_mutex_lock(&chunks_lock);
    bool known = release((uintptr_t)p);
    pthread_mutex_unlock(&chunks_lock);
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
    lw__percpu_use_cpu(cpu); /* the caller may count there */
    return LW__CPU0((uintptr_t)p) + (size_t)cpu * LW_PERCPU_STRIDE;
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
