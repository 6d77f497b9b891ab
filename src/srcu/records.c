/* The threads' records of counters, and sums over them and over the CPUs' counters. */
#define _GNU_SOURCE
#include "records.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static struct lw__srcu_record *records; /* only grows, by compare-and-swap: a signal handler may add one */
static uint64_t slots_taken[(LW__SRCU_SLOTS + 63) / 64]; /* under the registry */

const void *lw__srcu_home(void)
{
    return &records;
}

struct lw__srcu_record *lw__srcu_first_record(void)
{
    return __atomic_load_n(&records, __ATOMIC_ACQUIRE); /* pairs with the release in take_record() */
}

/* ---- threads ---- */

#if LW__SRCU_THREAD_WORDS
__thread char *lw__srcu_self __attribute__((tls_model("initial-exec")));

enum self_state { SELF_NONE, SELF_BUSY, SELF_TAKEN, SELF_OVER };
static __thread volatile sig_atomic_t self_state __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static bool have_key;

/* Called when a thread ends. Its counts stay, and the record's next owner continues them. Readers in destructors that run
 * later, or in signal handlers, count per CPU. */
static void self_end(void *record)
{
    struct lw__srcu_record *r = record;
    self_state = SELF_OVER;
    lw__srcu_self = NULL;
    __atomic_store_n(&r->in_use, 0, __ATOMIC_RELEASE); /* pairs with the acquire in take_record() */
}

static struct lw__srcu_record *take_record(void)
{
    struct lw__srcu_record *r;
    for (r = lw__srcu_first_record(); r; r = r->next) {
        uint32_t free = 0; /* acquire: the last owner's plain adds come before ours */
        if (!__atomic_load_n(&r->in_use, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&r->in_use, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return r;
    }
    r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        return NULL;
    r->in_use = 1;
    r->next = __atomic_load_n(&records, __ATOMIC_RELAXED);
    /* Release: a thread that finds the record finds its `next`. The heavy barrier orders list and counts alike: if a count is
     * made before an updater's sum, the record is on the list before that sum too. */
    while (!__atomic_compare_exchange_n(&records, &r->next, r, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return r;
}

/* A signal handler that interrupts this counts per CPU. */
struct lw__srcu_record *lw__srcu_own_record(void)
{
    if (lw__srcu_self)
        return (struct lw__srcu_record *)(void *)lw__srcu_self;
    if (self_state != SELF_NONE || !have_key)
        return NULL;
    int saved = errno;
    self_state = SELF_BUSY;
    struct lw__srcu_record *r = take_record();
    if (r && pthread_setspecific(self_key, r)) {
        __atomic_store_n(&r->in_use, 0, __ATOMIC_RELEASE); /* pairs with the acquire in take_record() */
        r = NULL;
    }
    if (r) {
        __atomic_store_n(&r->tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELAXED); /* for reports only */
        self_state = SELF_TAKEN;
        lw__srcu_self = (char *)r;
    } else {
        self_state = SELF_NONE;
    }
    errno = saved;
    return r;
}

void lw__srcu_records_start(void)
{
    /* Keys from 32 on make glibc's pthread_setspecific allocate, which a signal handler must not. */
    have_key = !pthread_key_create(&self_key, self_end) && self_key < 32;
}

void lw__srcu_records_after_fork(void)
{
    for (struct lw__srcu_record *r = records; r; r = r->next) {
        bool mine = (char *)r == lw__srcu_self;
        r->in_use = mine;
        if (mine)
            r->tid = (int32_t)syscall(SYS_gettid);
    }
}
#else
struct lw__srcu_record *lw__srcu_own_record(void)
{
    return NULL;
}

void lw__srcu_records_start(void) {}

void lw__srcu_records_after_fork(void) {}
#endif

/* ---- slots ---- */

#if LW__SRCU_THREAD_WORDS
/* The slot's last domain ended with no reader inside, so no thread counts here now. A critical section that began in one thread
 * and ended in another left a surplus in one record and a deficit in the other; reports of the new domain must not show
 * them. */
static void clear_slot(unsigned slot)
{
    for (struct lw__srcu_record *r = lw__srcu_first_record(); r; r = r->next)
        for (unsigned i = 0; i < 2; i++) { /* relaxed: the caller of lw_srcu_init() orders it before use */
            __atomic_store_n(&r->slot[slot - 1].locks[i], 0, __ATOMIC_RELAXED);
            __atomic_store_n(&r->slot[slot - 1].unlocks[i], 0, __ATOMIC_RELAXED);
        }
}
#endif

unsigned lw__srcu_take_slot(void)
{
#if LW__SRCU_THREAD_WORDS
    for (unsigned i = 0; have_key && i < LW__SRCU_USABLE_SLOTS && i < LW__SRCU_SLOTS; i++)
        if (!(slots_taken[i / 64] >> (i % 64) & 1)) {
            slots_taken[i / 64] |= (uint64_t)1 << (i % 64);
            clear_slot(i + 1);
            return i + 1;
        }
#endif
    return 0;
}

void lw__srcu_give_slot(unsigned slot)
{
    if (slot)
        slots_taken[(slot - 1) / 64] &= ~((uint64_t)1 << ((slot - 1) % 64));
}

/* ---- sums ---- */

static unsigned long sum_records(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    unsigned long sum = 0;
    if (!d->slot)
        return 0;
    /* Acquire on every load: shows ThreadSanitizer what the heavy barrier orders. */
    for (struct lw__srcu_record *r = lw__srcu_first_record(); r; r = r->next) {
        struct lw__srcu_words *w = &r->slot[d->slot - 1];
        sum += __atomic_load_n(unlocks ? &w->unlocks[index] : &w->locks[index], __ATOMIC_ACQUIRE);
    }
    return sum;
}

static unsigned long sum_cpus(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
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
