/* SPDX-License-Identifier: MIT */
/* The threads' records of counters, and sums over them and over the CPUs' counters.
 *
 * Records come in chunks with a bit for each record in use; a new thread takes the lowest free one. When a thread ends, its
 * counts are folded (fold.h), so a sum visits the records of live threads only.
 *
 * A record has a page for every LW__SRCU_PAGE_SLOTS domains. A chunk reserves addresses for all pages of its records: first
 * those of the first domains for all of them, then those of the next domains. So a page of a record is a fixed distance from
 * the one before, and lw_srcu.pair, an offset from the thread's record, reaches every domain. Addresses become accessible
 * when the first domain needs them, in all chunks at once; memory is used when a thread counts there.
 *
 * A program can contain two copies of this library, in the program and in a plug-in, say. Each copy sums its own records
 * only, so a reader compiled into one copy must not count in a domain of the other. `lw_srcu.pair` therefore carries a bias
 * that is different for each copy (its thread-specific key's number, unique in the process), and lw__srcu_self the same bias
 * with the opposite sign: a copy's own domains lead to its own records, another copy's domain leads to an address that is
 * never mapped, and the reader faults. Readers pay nothing for this. */
#define _GNU_SOURCE
#include "records.h"

#include "arena.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#if LW_HAVE_THREAD_WORDS
#define CHUNK_RECORDS (8 * (unsigned)sizeof(unsigned long))
#define PAGE 4096u
#define PAGE_SLOTS ((unsigned)LW__SRCU_PAGE_SLOTS)
#ifdef __LP64__
/* Bits above the 47 of user addresses: with another copy's bias the address is not canonical. */
#define MOST_KEYS 32u
#define BIAS(key) ((uintptr_t)((key) + 1) << 48)
#define GUARD 0u
#define MOST_GROUPS ((LW__SRCU_DOMAINS + PAGE_SLOTS - 1) / PAGE_SLOTS)
/* A line more than a page, so that the same slot of different records lies in different cache sets. */
#define SPACING (LW__SRCU_PAGE_BYTES + 64u)
#define STAGGER(i) 0u
#else
/* Pages: a record covers at most two, and another copy's bias leads to the guard pages before or after it. */
#define MOST_KEYS 8u
#define BIAS(key) ((uintptr_t)(key) * 2 * PAGE)
#define GUARD (2 * (MOST_KEYS - 1) * PAGE)
#define MOST_GROUPS 4u /* 2 MiB of addresses each for 32 threads */
#define SPACING (GUARD + 2 * PAGE)
#define STAGGER(i) ((i) * 64u)
#endif

#define GROUP_BYTES (GUARD + CHUNK_RECORDS * SPACING) /* the pages of one group of domains for all records of a chunk */
_Static_assert(GROUP_BYTES % PAGE == 0, "groups begin at a page");

struct chunk {
    struct chunk *next;
    unsigned long used; /* bit i: a live thread has record i */
    unsigned reserved; /* groups that have addresses */
    unsigned accessible; /* groups that can be accessed; only grows */
};

/* Only grows, by compare-and-swap: a signal handler may add a chunk. */
static struct chunk *chunks;
/* The number of those, from the first, that are accessible in all chunks; only grows, under the registry. */
static unsigned groups;
static unsigned groups_wanted; /* the same, or one more while open_group() makes it true */
static struct lw__srcu_words folded[MOST_GROUPS * PAGE_SLOTS]; /* counts of threads that have ended; under fold_lock */
static uint32_t fold_lock;
static uint32_t fold_seq; /* odd while counts are moved from a record to `folded` */

const struct lw__srcu_words *lw__srcu_folded(unsigned slot)
{
    return &folded[slot - 1];
}

__thread char *lw__srcu_self __attribute__((tls_model("initial-exec")));
static __thread volatile sig_atomic_t self_over
    __attribute__((tls_model("initial-exec"))); /* the thread's record is given back */
static pthread_key_t self_key;
static bool have_key;

static struct lw__srcu_record *record_at(struct chunk *c, unsigned i)
{
    return (struct lw__srcu_record *)(void *)((char *)c + PAGE + GUARD + (size_t)i * SPACING + STAGGER(i));
}

/* From a record to its counters for a slot. */
static size_t offset_of(unsigned slot)
{
    return (slot - 1) / PAGE_SLOTS * GROUP_BYTES + LW__SRCU_FIRST + (slot - 1) % PAGE_SLOTS * sizeof(struct lw__srcu_words);
}

struct lw__srcu_words *lw__srcu_words_of(struct lw__srcu_record *r, unsigned slot)
{
    return (struct lw__srcu_words *)(void *)((char *)r + offset_of(slot));
}

static struct lw__srcu_record *self_record(void)
{
    return (struct lw__srcu_record *)((uintptr_t)lw__srcu_self + BIAS(self_key));
}

static struct chunk *first_chunk(void)
{
    return __atomic_load_n(&chunks, __ATOMIC_SEQ_CST); /* pairs with new_chunk(), and with open_groups() */
}

/* Raw: also the signals that the libc keeps for itself. */
static void block_signals(uint64_t *old)
{
    static const uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, old, sizeof all);
}

static void restore_signals(const uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof *old);
}

/* ---- taking a record ---- */

static bool make_accessible(struct chunk *c, unsigned from, unsigned to)
{
    char *first = (char *)c + PAGE + (size_t)from * GROUP_BYTES;
    if (!GUARD)
        return !mprotect(first, (to - from) * GROUP_BYTES, PROT_READ | PROT_WRITE);
    for (unsigned g = from; g < to; g++)
        for (unsigned i = 0; i < CHUNK_RECORDS; i++) {
            char *record = (char *)record_at(c, i) + (size_t)g * GROUP_BYTES;
            if (mprotect((char *)((uintptr_t)record & ~(uintptr_t)(PAGE - 1)), 2 * PAGE, PROT_READ | PROT_WRITE))
                return false;
        }
    return true;
}

/* Makes the groups that domains use accessible. Threads may do it at once: once more is harmless. */
static bool open_groups(struct chunk *c)
{
    /* Sequentially consistent, as the list of chunks: a thread that finds a chunk which open_group() did not find sees its
     * number. */
    unsigned wanted = __atomic_load_n(&groups_wanted, __ATOMIC_SEQ_CST);
    unsigned have = __atomic_load_n(&c->accessible, __ATOMIC_ACQUIRE); /* pairs with the release below */
    if (have >= wanted)
        return true;
    if (wanted > c->reserved || !make_accessible(c, have, wanted))
        return false;
    while (have < wanted &&
           !__atomic_compare_exchange_n(&c->accessible, &have, wanted, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return true;
}

/* Addresses for as many groups as there may be, or, where they are limited, for half as many, and so on. */
static struct chunk *new_chunk(void)
{
    void *m = MAP_FAILED;
    unsigned reserved = 2 * MOST_GROUPS;
    while (m == MAP_FAILED && reserved > 1) {
        reserved /= 2;
        m = mmap(NULL, PAGE + GUARD + (size_t)reserved * GROUP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    }
    if (m == MAP_FAILED)
        return NULL;
    struct chunk *c = m;
    bool good = !mprotect(m, PAGE, PROT_READ | PROT_WRITE);
    if (good) {
        c->reserved = reserved;
        good = open_groups(c); /* or no record of it could be taken: each read would add another chunk */
    }
    if (!good) {
        munmap(m, PAGE + GUARD + (size_t)reserved * GROUP_BYTES);
        return NULL;
    }
    (void)madvise(m, PAGE + (size_t)reserved * GROUP_BYTES, MADV_NOHUGEPAGE); /* one count must not take 2 MiB */
    c->next = __atomic_load_n(&chunks, __ATOMIC_RELAXED);
    /* Release: a thread that finds the chunk finds its contents; pairs with first_chunk(). Sequentially consistent:
     * open_groups(). */
    while (!__atomic_compare_exchange_n(&chunks, &c->next, c, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return c;
}

static struct lw__srcu_record *take_from(struct chunk *c)
{
    unsigned long used = __atomic_load_n(&c->used, __ATOMIC_RELAXED);
    if (!open_groups(c)) /* before a bit is set: a sum reads every record whose bit is set */
        return NULL;
    while (~used) {
        unsigned i = (unsigned)__builtin_ctzl(~used);
        /* Acquire: the last owner's counts are folded before ours begin; pairs with LW_FOLD_GIVE. The heavy barrier
         * orders bits and counts alike: if a count is made before an updater's sum, the bit is set before that sum too. */
        if (__atomic_compare_exchange_n(&c->used, &used, used | 1ul << i, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return record_at(c, i);
    }
    return NULL;
}

static struct lw__srcu_record *take_record(void)
{
    struct chunk *c = first_chunk();
    for (; c; c = c->next) {
        struct lw__srcu_record *r = take_from(c);
        if (r)
            return r;
    }
    c = new_chunk();
    return c ? take_from(c) : NULL;
}

static void give_record(const struct lw__srcu_record *r)
{
    for (struct chunk *c = first_chunk(); c; c = c->next) {
        size_t offset = (uintptr_t)r - (uintptr_t)record_at(c, 0);
        if (offset < CHUNK_RECORDS * SPACING) /* release: pairs with the acquire in take_from() */
            __atomic_fetch_and(&c->used, ~(1ul << offset / SPACING), __ATOMIC_RELEASE);
    }
}

struct lw__srcu_record *lw__srcu_own_record(void)
{
    if (lw__srcu_self)
        return self_record();
    if (self_over || !have_key)
        return NULL;
    int saved = errno;
    uint64_t mask = 0;
    block_signals(&mask); /* a handler in between could fork, and the child would not know whose the record is */
    if (!lw__srcu_self) { /* a handler may have taken one until then */
        struct lw__srcu_record *r = take_record();
        LW__SRCU_POINT(LW__SRCU_AT_TAKE);
        if (r && pthread_setspecific(self_key, r)) {
            give_record(r);
            r = NULL;
        }
        if (r) {
            __atomic_store_n(&r->tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELAXED); /* for reports only */
            lw__srcu_self = (char *)((uintptr_t)r - BIAS(self_key));
        }
    }
    restore_signals(&mask);
    errno = saved;
    return lw__srcu_self ? self_record() : NULL;
}

/* ---- giving it back ---- */

struct kind {
    unsigned slot, index;
    bool unlocks;
};

static unsigned long *word_of(struct lw__srcu_words *w, const struct kind *k)
{
    return k->unlocks ? &w->unlocks[k->index] : &w->locks[k->index];
}

static unsigned long add_up(const struct kind *k)
{
    /* Acquire on every load: pairs with fold_move(), and shows ThreadSanitizer what the heavy barrier orders. */
    unsigned long sum = __atomic_load_n(word_of(&folded[k->slot - 1], k), __ATOMIC_ACQUIRE);
    size_t offset = offset_of(k->slot);
    for (struct chunk *c = first_chunk(); c; c = c->next)
        for (unsigned long used = __atomic_load_n(&c->used, __ATOMIC_ACQUIRE); used; used &= used - 1) {
            char *r = (char *)record_at(c, (unsigned)__builtin_ctzl(used));
            sum += __atomic_load_n(word_of((struct lw__srcu_words *)(void *)(r + offset), k), __ATOMIC_ACQUIRE);
        }
    return sum;
}

/* A group's words in a record, and for ended threads; numbered as in memory. */
static unsigned long *record_words(struct lw__srcu_record *r, unsigned group)
{
    return lw__srcu_words_of(r, group * PAGE_SLOTS + 1)->locks;
}

#define LW_FOLD_WORD unsigned long
#define LW_FOLD_RECORD struct lw__srcu_record
#define LW_FOLD_KIND const struct kind
#define LW_FOLD_GROUPS() \
    __atomic_load_n(&groups, __ATOMIC_RELAXED) /* a domain of a later group has no count of this thread */
#define LW_FOLD_WORDS (PAGE_SLOTS * (unsigned)(sizeof(struct lw__srcu_words) / sizeof(unsigned long)))
#define LW_FOLD_FROM(r, g, w) (record_words(r, g) + (w))
#define LW_FOLD_TO(g, w) (folded[(g) * PAGE_SLOTS].locks + (w))
#define LW_FOLD_LOAD(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#define LW_FOLD_STORE(word, v) __atomic_store_n(word, v, __ATOMIC_RELEASE)
#define LW_FOLD_BEGIN() __atomic_fetch_add(&fold_seq, 1, __ATOMIC_ACQ_REL)
#define LW_FOLD_END() __atomic_fetch_add(&fold_seq, 1, __ATOMIC_RELEASE)
#define LW_FOLD_GIVE(r) give_record(r)
#define LW_FOLD_NUMBER() __atomic_load_n(&fold_seq, __ATOMIC_ACQUIRE)
#define LW_FOLD_NUMBER_AGAIN() __atomic_load_n(&fold_seq, __ATOMIC_RELAXED)
#define LW_FOLD_ADD_UP(k) add_up(k)
#define LW_FOLD_TRIES 4
#define LW_FOLD_LOCK() lw_futex_lock(&fold_lock)
#define LW_FOLD_UNLOCK() lw_futex_unlock(&fold_lock)
#include "fold.h"

/* Called when a thread ends. Readers in destructors that run later, or in signal handlers, count per CPU. */
static void self_end(void *record)
{
    uint64_t mask = 0;
    block_signals(&mask); /* a handler that forks would wait for the lock */
    self_over = 1;
    lw__srcu_self = NULL;
    lw_futex_lock(&fold_lock);
    fold_record(record);
    lw_futex_unlock(&fold_lock);
    restore_signals(&mask);
}

void lw__srcu_records_start(void)
{
    /* Keys from 32 on make glibc's pthread_setspecific allocate, which a signal handler must not. */
    have_key = !pthread_key_create(&self_key, self_end) && self_key < MOST_KEYS;
}

void lw__srcu_records_before_fork(void)
{
    lw_futex_lock(&fold_lock);
}

void lw__srcu_records_after_fork(bool child)
{
    struct lw__srcu_cursor at = {0};
    for (struct lw__srcu_record *r; child && (r = lw__srcu_next_record(&at));)
        if (lw__srcu_self && r == self_record())
            r->tid = (int32_t)syscall(SYS_gettid);
        else
            fold_record(r);
    lw_futex_unlock(&fold_lock);
}

struct lw__srcu_record *lw__srcu_next_record(struct lw__srcu_cursor *at)
{
    struct chunk *c = at->begun ? at->chunk : first_chunk();
    at->begun = true;
    for (; c; c = c->next, at->next = 0)
        for (; at->next < CHUNK_RECORDS; at->next++)
            if (__atomic_load_n(&c->used, __ATOMIC_ACQUIRE) >> at->next & 1) { /* acquire: as in sum_once() */
                at->chunk = c;
                return record_at(c, at->next++);
            }
    at->chunk = NULL;
    return NULL;
}

/* ---- slots ---- */

uintptr_t lw__srcu_first_pair(unsigned slot)
{
    return BIAS(self_key) + offset_of(slot);
}

/* Makes the next group accessible in every chunk. */
static bool open_group(void)
{
    bool good = true;
    /* Sequentially consistent, before the list is read: pairs with open_groups(). */
    __atomic_store_n(&groups_wanted, groups + 1, __ATOMIC_SEQ_CST);
    for (struct chunk *c = first_chunk(); c && good; c = c->next)
        good = open_groups(c);
    if (good)
        __atomic_store_n(&groups, groups + 1, __ATOMIC_RELAXED); /* read by threads that end: LW_FOLD_GROUPS */
    else
        __atomic_store_n(&groups_wanted, groups,
                         __ATOMIC_RELAXED); /* no domain uses it; some records have it to no purpose */
    return good;
}

static void clear(unsigned long *word)
{
    if (__atomic_load_n(word, __ATOMIC_RELAXED)) /* a page without counts is not made memory */
        __atomic_store_n(word, 0, __ATOMIC_RELAXED); /* relaxed: the caller of lw_srcu_init() orders it before use */
}

/* The slot's last domain ended with no reader inside, so no thread counts here now. A critical section that began in one
 * thread and ended in another left a surplus in one record and a deficit in the other; reports of the new domain must not
 * show them. */
static void clear_slot(unsigned slot)
{
    struct lw__srcu_cursor at = {0};
    lw_futex_lock(&fold_lock);
    for (unsigned i = 0; i < 4; i++)
        clear(folded[slot - 1].locks + i);
    for (struct lw__srcu_record *r; (r = lw__srcu_next_record(&at));)
        for (unsigned i = 0; i < 4; i++)
            clear(lw__srcu_words_of(r, slot)->locks + i);
    lw_futex_unlock(&fold_lock);
}

unsigned lw__srcu_take_slot(unsigned index)
{
    if (!have_key || index >= LW__SRCU_USABLE_SLOTS || index >= MOST_GROUPS * PAGE_SLOTS)
        return 0;
    while (index >= groups * PAGE_SLOTS)
        if (!open_group())
            return 0;
    clear_slot(index + 1);
    return index + 1;
}

bool lw__srcu_would_wait_for_itself(const struct lw__srcu_domain *d)
{
    if (!d->slot || !lw__srcu_self || d->srcu->flavour == LW__SRCU_FAST_UPDOWN)
        return false;
    const struct lw__srcu_words *w = lw__srcu_words_of(self_record(), d->slot);
    for (unsigned i = 0; i < 2; i++) /* relaxed: written by this thread only */
        if ((long)(__atomic_load_n(&w->locks[i], __ATOMIC_RELAXED) - __atomic_load_n(&w->unlocks[i], __ATOMIC_RELAXED)) > 0)
            return true;
    return false;
}

static unsigned long sum_records(const struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    const struct kind k = {d->slot, index, unlocks};
    return d->slot ? fold_sum(&k) : 0;
}

#else /* readers count per CPU */

struct lw__srcu_record *lw__srcu_own_record(void)
{
    return NULL;
}

void lw__srcu_records_start(void) {}

void lw__srcu_records_before_fork(void) {}

void lw__srcu_records_after_fork(bool child)
{
    (void)child;
}

struct lw__srcu_record *lw__srcu_next_record(struct lw__srcu_cursor *at)
{
    (void)at;
    return NULL;
}

struct lw__srcu_words *lw__srcu_words_of(struct lw__srcu_record *r, unsigned slot)
{
    (void)slot;
    return r->slot;
}

const struct lw__srcu_words *lw__srcu_folded(unsigned slot)
{
    (void)slot;
    return NULL;
}

uintptr_t lw__srcu_first_pair(unsigned slot)
{
    return slot;
}

unsigned lw__srcu_take_slot(unsigned index)
{
    (void)index;
    return 0;
}

bool lw__srcu_would_wait_for_itself(const struct lw__srcu_domain *d)
{
    (void)d;
    return false;
}

static unsigned long sum_records(const struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    (void)d, (void)index, (void)unlocks;
    return 0;
}
#endif

/* ---- sums ---- */

static unsigned long sum_cpus(const struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    if (!d->cpu)
        return 0;
    unsigned long *word = (unsigned long *)((uintptr_t)d->cpu + ((unlocks ? 2 : 0) + index) * LW__SRCU_WORD);
#ifdef LW_THREAD_SANITIZER
    (void)__atomic_load_n(&d->seen_by_tsan, __ATOMIC_ACQUIRE); /* pairs with count() in readers.c */
#endif
#ifdef __LP64__
    return (unsigned long)lw_percpu_sum_u64((uint64_t *)word);
#else
    return (unsigned long)lw_percpu_sum_u32((uint32_t *)word);
#endif
}

unsigned long lw__srcu_sum(const struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    const unsigned long *others = unlocks ? &d->others.unlocks[index] : &d->others.locks[index];
    return sum_records(d, index, unlocks) + sum_cpus(d, index, unlocks) +
           __atomic_load_n(others, __ATOMIC_ACQUIRE) - /* as in add_up() */
           (unlocks ? d->base.unlocks[index] : d->base.locks[index]);
}
