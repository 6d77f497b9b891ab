/* SPDX-License-Identifier: MIT */
/* The threads' marks. Chunks of them are mapped when needed and never unmapped, so that a writer walks them without a lock, and a
 * thread that ends gives its own to the next one as they are. */
#define _GNU_SOURCE
#include "marks.h"

#include <linewright/percpu.h>

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#define CHUNK_THREADS 127u /* with the link before them 32 KiB */

struct chunk {
    struct chunk *next;
    uint32_t ever; /* the number of threads below that writers look at: slot.h */
    struct lw__rw_thread thread[CHUNK_THREADS];
};
#include "slot.h"

static struct chunk *chunks; /* only grows, by compare-and-swap: a signal handler may add one */

#define FOUR LW__RW_RETIRED, LW__RW_RETIRED, LW__RW_RETIRED, LW__RW_RETIRED
const struct lw__rw_thread lw__rw_none = {.mark = {FOUR, FOUR, FOUR, FOUR}};
_Static_assert(LW__RW_MARKS == 16, "each position is taken");

__thread struct lw__rw_thread *lw__rw_self __attribute__((tls_model("initial-exec"))) = (struct lw__rw_thread *)&lw__rw_none;
static __thread bool over __attribute__((tls_model("initial-exec"))); /* the thread's marks are given back */
static pthread_key_t key;
static bool have_key;

static struct chunk *first_chunk(void)
{
    return __atomic_load_n(&chunks, __ATOMIC_ACQUIRE); /* pairs with the release in new_chunk() */
}

static struct chunk *new_chunk(void)
{
    struct chunk *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED)
        return NULL;
    c->next = __atomic_load_n(&chunks, __ATOMIC_RELAXED);
    /* Release: who finds the chunk finds its link; pairs with first_chunk(). A reader's mark comes after this in its thread, so the
     * barrier that makes the mark visible to a writer makes the chunk visible, too. */
    while (!__atomic_compare_exchange_n(&chunks, &c->next, c, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return c;
}

static struct lw__rw_thread *take(void)
{
    struct lw__rw_thread *t = NULL;
    for (struct chunk *c = first_chunk(); c && !t; c = c->next)
        t = take_from(c);
    if (t)
        return t;
    struct chunk *c = new_chunk();
    return c ? take_from(c) : NULL;
}

struct lw__rw_thread *lw__rw_own_marks(bool in_handler)
{
    if (lw__rw_self != LW__RW_NONE)
        return lw__rw_self;
    /* Keys from 32 on make glibc's pthread_setspecific allocate, which a signal handler must not. */
    if (over || !have_key || (in_handler && key >= 32))
        return NULL;
    int saved = errno;
    struct lw__rw_thread *t = take();
    if (t && pthread_setspecific(key, t)) {
        give_slot_back(t);
        t = NULL;
    }
    /* A handler that interrupted this took marks, too, and holds none of them now: the ones taken last stay. */
    if (t && lw__rw_self != LW__RW_NONE)
        give_slot_back(lw__rw_self);
    if (t)
        lw__rw_self = t;
    errno = saved;
    return t;
}

static bool lies_in(const struct chunk *c, const struct lw__rw_thread *t)
{
    return c && (uintptr_t)t >= (uintptr_t)&c->thread[0] && (uintptr_t)t <= (uintptr_t)&c->thread[CHUNK_THREADS - 1];
}

struct lw__rw_thread *lw__rw_next_thread(struct lw__rw_thread *t)
{
    static __thread struct chunk *found __attribute__((tls_model("initial-exec"))); /* last; a walk goes on where it was */
    struct chunk *c = t ? found : first_chunk();
    if (t && !lies_in(c, t)) /* a signal handler's walk came between */
        for (c = first_chunk(); !lies_in(c, t);)
            c = c->next;
    if (t && t - c->thread + 1 < (ptrdiff_t)__atomic_load_n(&c->ever, __ATOMIC_RELAXED))
        return t + 1;
    found = t ? c->next : c;
    return found ? &found->thread[0] : NULL;
}

/* Reads in destructors that run later count in the plain locks. A handler that reads now would mark what the next thread has. */
static void thread_ends(void *key_value)
{
    (void)key_value; /* not the thread's marks where a handler interrupted lw__rw_own_marks() */
    struct lw__rw_thread *own = lw__rw_self;
    over = true;
    lw__rw_self = LW__RW_NONE;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (own != LW__RW_NONE)
        give_slot_back(own);
}

/* In the child the locks of the parent's other threads stay held; new threads take their marks over. */
static void after_fork_in_child(void)
{
    for (struct lw__rw_thread *t = lw__rw_next_thread(NULL); t; t = lw__rw_next_thread(t))
        if (t != lw__rw_self && t->used) {
            lw__rw_leave_behind(t);
            give_slot_back(t);
        }
}

/* The object stays: threads call it when they end, also after a dlclose() of a plug-in that has this library in it. */
__attribute__((constructor(101))) static void start(void)
{
    lw__percpu_pin(&key);
    have_key = !pthread_key_create(&key, thread_ends) && !pthread_atfork(NULL, NULL, after_fork_in_child);
}
