/* The threads' records of counters, and sums over them and over the CPUs' counters.
 *
 * Records come in chunks with a bit for each record in use; a new thread takes the lowest free one. When a thread ends, its counts
 * are folded: added to one set of counts for all ended threads. So a sum visits the records of live threads only. A sum that
 * overlaps a fold begins again (fold_seq), so that it misses no count and adds none twice.
 *
 * A program can contain two copies of this library, in the program and in a plug-in, say. Each copy sums its own records only,
 * so a reader compiled into one copy must not count in a domain of the other. `lw_srcu.pair` therefore carries a bias that is
 * different for each copy (its thread-specific key's number, unique in the process), and lw__srcu_self the same bias with the
 * opposite sign: a copy's own domains lead to its own records, another copy's domain leads to an address that is never mapped,
 * and the reader faults. Readers pay nothing for this. */
#define _GNU_SOURCE
#include "records.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static uint64_t slots_taken[(LW__SRCU_SLOTS + 63) / 64]; /* under the registry */
static struct lw__srcu_words folded[LW__SRCU_SLOTS]; /* counts of threads that have ended; under fold_lock */
static uint32_t fold_lock;
static uint32_t fold_seq; /* odd while counts are moved from a record to `folded` */

const void *lw__srcu_home(void)
{
    return &slots_taken;
}

const struct lw__srcu_words *lw__srcu_folded(unsigned slot)
{
    return &folded[slot - 1];
}

#if LW_HAVE_THREAD_WORDS
#define CHUNK_RECORDS (8 * sizeof(unsigned long))
#define PAGE 4096u
#ifdef __LP64__
/* Bits above the 47 of user addresses: with another copy's bias the address is not canonical. */
#define MOST_KEYS 32u
#define BIAS(key) ((uintptr_t)((key) + 1) << 48)
#define GUARD 0u
/* A line more than a record, so that the same slot of different records lies in different cache sets. */
#define SPACING (LW__SRCU_RECORD_BYTES + 64u)
#define STAGGER(i) 0u
#else
/* Pages: a record covers at most two, and another copy's bias leads to the guard pages before or after it. */
#define MOST_KEYS 8u
#define BIAS(key) ((uintptr_t)(key) * 2 * PAGE)
#define GUARD (2 * (MOST_KEYS - 1) * PAGE)
#define SPACING (GUARD + 2 * PAGE)
#define STAGGER(i) ((i) * 64u)
#endif

struct chunk {
    struct chunk *next;
    unsigned long used; /* bit i: a live thread has record i */
    unsigned long ready; /* bit i: record i is accessible */
};

/* Only grows, by compare-and-swap: a signal handler may add a chunk. */
static struct chunk *chunks;

__thread char *lw__srcu_self __attribute__((tls_model("initial-exec")));
static __thread volatile sig_atomic_t self_over
    __attribute__((tls_model("initial-exec"))); /* the thread's record is given back */
static pthread_key_t self_key;
static bool have_key;

static struct lw__srcu_record *record_at(struct chunk *c, unsigned i)
{
    return (struct lw__srcu_record *)(void *)((char *)c + PAGE + GUARD + (size_t)i * SPACING + STAGGER(i));
}

static struct lw__srcu_record *self_record(void)
{
    return (struct lw__srcu_record *)((uintptr_t)lw__srcu_self + BIAS(self_key));
}

static struct chunk *first_chunk(void)
{
    return __atomic_load_n(&chunks, __ATOMIC_ACQUIRE); /* pairs with the release in new_chunk() */
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

static struct chunk *new_chunk(void)
{
    size_t bytes = PAGE + GUARD + CHUNK_RECORDS * SPACING;
    struct chunk *c = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c == MAP_FAILED)
        return NULL;
    if (mprotect(c, GUARD ? PAGE : bytes, PROT_READ | PROT_WRITE)) {
        munmap(c, bytes);
        return NULL;
    }
    c->next = __atomic_load_n(&chunks, __ATOMIC_RELAXED);
    /* Release: a thread that finds the chunk finds its contents; pairs with first_chunk(). */
    while (!__atomic_compare_exchange_n(&chunks, &c->next, c, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return c;
}

/* Makes record i accessible, before its bit is set: a sum reads every record whose bit is set. */
static bool make_ready(struct chunk *c, unsigned i)
{
    unsigned long bit = 1ul << i;
    if (!GUARD || __atomic_load_n(&c->ready, __ATOMIC_RELAXED) & bit)
        return true;
    char *first = (char *)((uintptr_t)record_at(c, i) & ~(uintptr_t)(PAGE - 1));
    if (mprotect(first, 2 * PAGE, PROT_READ | PROT_WRITE))
        return false;
    __atomic_fetch_or(&c->ready, bit, __ATOMIC_RELAXED); /* a hint: making it accessible again is harmless */
    return true;
}

static struct lw__srcu_record *take_from(struct chunk *c)
{
    unsigned long used = __atomic_load_n(&c->used, __ATOMIC_RELAXED);
    while (~used) {
        unsigned i = (unsigned)__builtin_ctzl(~used);
        if (!make_ready(c, i))
            return NULL;
        /* Acquire: the last owner's counts are folded before ours begin; pairs with the release in fold(). The heavy barrier
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

static void move_count(unsigned long *to, unsigned long *from)
{
    unsigned long count = __atomic_load_n(from, __ATOMIC_RELAXED);
    if (!count)
        return;
    /* Release: a sum that sees one of these sees the odd fold_seq. Pairs with the acquires in sum_once(). */
    __atomic_store_n(to, __atomic_load_n(to, __ATOMIC_RELAXED) + count, __ATOMIC_RELEASE);
    __atomic_store_n(from, 0, __ATOMIC_RELEASE);
}

/* Moves a record's counts to `folded` and frees the record. Its thread does not count any more. Under fold_lock. */
static void fold(struct lw__srcu_record *r)
{
    __atomic_fetch_add(&fold_seq, 1, __ATOMIC_ACQ_REL); /* acquire: no store below comes before it */
    for (unsigned s = 0; s < LW__SRCU_SLOTS; s++)
        for (unsigned i = 0; i < 2; i++) {
            move_count(&folded[s].locks[i], &r->slot[s].locks[i]);
            move_count(&folded[s].unlocks[i], &r->slot[s].unlocks[i]);
        }
    give_record(r);
    __atomic_fetch_add(&fold_seq, 1, __ATOMIC_RELEASE); /* pairs with the acquire in sum_once() */
}

/* Called when a thread ends. Readers in destructors that run later, or in signal handlers, count per CPU. */
static void self_end(void *record)
{
    uint64_t mask = 0;
    block_signals(&mask); /* a handler that forks would wait for the lock */
    self_over = 1;
    lw__srcu_self = NULL;
    lw_futex_lock(&fold_lock);
    fold(record);
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
            fold(r);
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
    return BIAS(self_key) + LW__SRCU_FIRST + (slot - 1) * sizeof(struct lw__srcu_words);
}

/* The slot's last domain ended with no reader inside, so no thread counts here now. A critical section that began in one thread
 * and ended in another left a surplus in one record and a deficit in the other; reports of the new domain must not show
 * them. */
static void clear_slot(unsigned slot)
{
    static const struct lw__srcu_words none;
    struct lw__srcu_cursor at = {0};
    lw_futex_lock(&fold_lock);
    folded[slot - 1] = none;
    for (struct lw__srcu_record *r; (r = lw__srcu_next_record(&at));)
        for (unsigned i = 0; i < 2; i++) { /* relaxed: the caller of lw_srcu_init() orders it before use */
            __atomic_store_n(&r->slot[slot - 1].locks[i], 0, __ATOMIC_RELAXED);
            __atomic_store_n(&r->slot[slot - 1].unlocks[i], 0, __ATOMIC_RELAXED);
        }
    lw_futex_unlock(&fold_lock);
}

unsigned lw__srcu_take_slot(void)
{
    for (unsigned i = 0; have_key && i < LW__SRCU_USABLE_SLOTS && i < LW__SRCU_SLOTS; i++)
        if (!(slots_taken[i / 64] >> (i % 64) & 1)) {
            slots_taken[i / 64] |= (uint64_t)1 << (i % 64);
            clear_slot(i + 1);
            return i + 1;
        }
    return 0;
}

void lw__srcu_give_slot(unsigned slot)
{
    if (slot)
        slots_taken[(slot - 1) / 64] &= ~((uint64_t)1 << ((slot - 1) % 64));
}

bool lw__srcu_would_wait_for_itself(const struct lw__srcu_domain *d)
{
    if (!d->slot || !lw__srcu_self || d->srcu->flavour == LW_SRCU_FAST_UPDOWN)
        return false;
    const struct lw__srcu_words *w = &self_record()->slot[d->slot - 1];
    for (unsigned i = 0; i < 2; i++) /* relaxed: written by this thread only */
        if ((long)(__atomic_load_n(&w->locks[i], __ATOMIC_RELAXED) - __atomic_load_n(&w->unlocks[i], __ATOMIC_RELAXED)) > 0)
            return true;
    return false;
}

/* ---- sums of records ---- */

static unsigned long *word_of(struct lw__srcu_words *w, unsigned index, bool unlocks)
{
    return unlocks ? &w->unlocks[index] : &w->locks[index];
}

static unsigned long sum_once(unsigned slot, unsigned index, bool unlocks)
{
    /* Acquire on every load: pairs with move_count(), and shows ThreadSanitizer what the heavy barrier orders. */
    unsigned long sum = __atomic_load_n(word_of(&folded[slot - 1], index, unlocks), __ATOMIC_ACQUIRE);
    for (struct chunk *c = first_chunk(); c; c = c->next)
        for (unsigned long used = __atomic_load_n(&c->used, __ATOMIC_ACQUIRE); used; used &= used - 1) {
            struct lw__srcu_record *r = record_at(c, (unsigned)__builtin_ctzl(used));
            sum += __atomic_load_n(word_of(&r->slot[slot - 1], index, unlocks), __ATOMIC_ACQUIRE);
        }
    return sum;
}

static unsigned long sum_records(const struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    if (!d->slot)
        return 0;
    for (unsigned tries = 0; tries < 4; tries++) {
        uint32_t before = __atomic_load_n(&fold_seq, __ATOMIC_ACQUIRE); /* pairs with the release in fold() */
        unsigned long sum = sum_once(d->slot, index, unlocks);
        if (!(before & 1) && __atomic_load_n(&fold_seq, __ATOMIC_RELAXED) == before)
            return sum;
    }
    lw_futex_lock(&fold_lock); /* many threads end just now */
    unsigned long sum = sum_once(d->slot, index, unlocks);
    lw_futex_unlock(&fold_lock);
    return sum;
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
    (void)at, (void)fold_lock, (void)fold_seq;
    return NULL;
}

uintptr_t lw__srcu_first_pair(unsigned slot)
{
    return slot;
}

unsigned lw__srcu_take_slot(void)
{
    return 0;
}

void lw__srcu_give_slot(unsigned slot)
{
    (void)slot;
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

static unsigned long sum_cpus(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    /* Acquire: pairs with the store in count() in readers.c. A reader sets it before it counts, so the heavy barrier that makes
     * its count visible makes this visible too. */
    if (!__atomic_load_n(&d->cpu_words, __ATOMIC_ACQUIRE))
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

unsigned long lw__srcu_sum(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    return sum_records(d, index, unlocks) + sum_cpus(d, index, unlocks) -
           (unlocks ? d->base.unlocks[index] : d->base.locks[index]);
}
