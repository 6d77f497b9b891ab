/* SPDX-License-Identifier: MIT */
/* Readers-writer locks whose readers share no cache line and execute no atomic instruction.
 *
 *   static struct lw_rwlock table_lock = LW_RWLOCK_INIT;         zeroed memory is an unlocked lock, too
 *
 *   lw_rwlock_read_lock(&table_lock);                            reader: one store to a line of its own thread
 *   … read the table …
 *   lw_rwlock_read_unlock(&table_lock);
 *
 *   if (lw_rwlock_write_lock(&table_lock) == 0) {                writer: a membarrier if readers were biased
 *       … change the table …
 *       lw_rwlock_write_unlock(&table_lock);
 *   }
 *
 * A lock begins plain: readers count themselves in the lock's word, as in any readers-writer lock. Where reads are frequent it turns
 * biased: a reader then stores the lock's address into a word of its own thread (a mark) and looks whether the lock is still biased.
 * A writer takes the plain lock, ends the bias, has every thread of the process execute a barrier by membarrier(PRIVATE_EXPEDITED),
 * and waits for each thread's mark. The time that this took, but for the waiting, puts off the next bias of any lock of the process by 24
 * times as much, so that a program that writes often loses at most 4 %. (The scheme is BRAVO's, Dice and Kogan 2019, with per-thread marks and an asymmetric barrier
 * instead of a hashed table and a full fence.)
 *
 * Who goes first. A waiting writer goes before readers that come later. A reader that waits for the writer inside goes before writers that do not
 * have the lock yet, but for tries, and one that waits for waiting writers alone does so after 1 ms. A thread that holds the lock for reading passes
 * the writers that wait for it, so that it may lock it for reading as often as it likes; that it holds another one does not count. So two threads,
 * each with a read lock that the other wants, too, wait where a writer waits for each of the two locks: for ever where those read locks are marks,
 * and until they have waited for 1 ms where they are counts. All threads lock nested locks in one order, read locks as well. (A thread that has
 * counted itself in more than eight plain locks at once no longer tells them apart and passes waiting writers of any.) There is no upgrade from
 * reading to writing.
 *
 * Ordering. A critical section sees everything that critical sections of writers before it did, and a writer's comes after every
 * reader's before it (acquire and release).
 *
 * Unlocking in another thread. A read lock may be released by another thread than the one that took it. A lock that is used so must
 * not be locked recursively at the same time: the inner lock may then wait for a writer that waits for the outer one. The thread that
 * took it goes on passing writers that wait for that lock if it had counted in the plain lock.
 *
 * fork(). The child has the locks as they were; what other threads held stays held there, until the lock is made again, and no thread waits for it. A thread that ends while it holds a lock
 * leaves it held. No function is a cancellation point. In signal handlers only lw_rwlock_try_read() and lw_rwlock_read_unlock() may be
 * called, in pairs, and not for a lock whose read locks other threads release; they may interrupt any function here. A try by a thread
 * that has the lock for reading already is refused while a writer waits.
 *
 * LW_DEBUG, defined where the functions are called, aborts where a lock is released that is not held so, or destroyed while it is held, and names
 * the place on standard error.
 *
 * Functions return 0 or a negative errno. Where membarrier is not available, at first use or in the calling thread, locks stay
 * plain. Where a system-call filter takes it away after a lock was biased, a write lock fails with membarrier's error, such as
 * -EPERM, and the lock is not taken: a program that sandboxes its threads calls lw_rwlock_stay_plain() before. */
#ifndef LINEWRIGHT_RWLOCK_H
#define LINEWRIGHT_RWLOCK_H

#include <linewright/api.h>

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Users do not access the fields. Free of padding; 16 bytes, so that it fits a pthread_rwlock_t of every architecture. */
struct lw_rwlock {
    uint32_t state;  /* readers that count themselves, a writer, who waits: src/rwlock/plain.h */
    uint32_t queue;  /* writers sleep on it */
    uint32_t
        biased; /* LW__RW_BIASED: readers mark; LW__RW_ENDING: no longer, but marks may be there. Changed by who holds the plain
                        lock; from the first to the second also by a writer that waits for it and by a release of another's mark */
    uint32_t writer; /* the writer inside, by the library's own number of its thread; 0: none */
};

#define LW__RW_BIASED 1u
#define LW__RW_ENDING 2u
#define LW__RW_LOOK \
    4u /* plain; this times how often a reader has looked whether the lock should be biased since the last writer */
#define LW__RW_LOOKS 0x7ffffffcu
#define LW__RW_STAYS_PLAIN 0x80000000u /* beside LW__RW_ENDING or alone: the lock turns biased no more */

#define LW_RWLOCK_INIT {0, 0, 0, 0}

/* A lock that stays plain until it is destroyed: no writer of it executes a membarrier, and readers always count themselves in it. */
#define LW_RWLOCK_INIT_PLAIN {0, 0, LW__RW_STAYS_PLAIN, 0}

#define LW_RWLOCK_FOREVER UINT64_MAX

/* Makes an unlocked lock, also where a lock was before. */
LW_API void lw_rwlock_init(struct lw_rwlock *l);
/* The same, and the lock stays plain until it is destroyed, as after LW_RWLOCK_INIT_PLAIN. */
LW_API void lw_rwlock_init_plain(struct lw_rwlock *l);
/* Ends a lock that no thread holds or waits for; its memory may be reused then. A lock whose read locks are never released in other threads needs
 * no such call. -EBUSY: a thread holds it, and it stays as it is. Of a lock that readers mark only the caller's mark and those of eight other
 * threads are looked at, so that the time does not grow with their number: with more threads -EBUSY is certain under LW_DEBUG alone. The call that
 * follows releases by other threads looks at all marks, which it takes back, some 3 ns for each. */
LW_API int lw_rwlock_destroy(struct lw_rwlock *l);

/* Takes the lock for writing. -EDEADLK: the calling thread holds it for writing; or membarrier's error (see above). */
LW_API int lw_rwlock_write_lock(struct lw_rwlock *l) __attribute__((warn_unused_result));
/* The same if no reader or writer is inside: -EBUSY otherwise. */
LW_API int lw_rwlock_try_write(struct lw_rwlock *l) __attribute__((warn_unused_result));
/* The same within `ns` nanoseconds: -ETIMEDOUT otherwise. */
LW_API int lw_rwlock_write_lock_timeout(struct lw_rwlock *l, uint64_t ns) __attribute__((warn_unused_result));
/* The same until CLOCK_MONOTONIC shows `end` nanoseconds: -ETIMEDOUT otherwise, also where it does already and the lock is not free. */
LW_API int lw_rwlock_write_lock_until(struct lw_rwlock *l, uint64_t end) __attribute__((warn_unused_result));
/* For the thread that holds the lock for writing; -EPERM in any other. */
LW_API int lw_rwlock_write_unlock(struct lw_rwlock *l);
/* Makes a write lock of the calling thread a read lock, which lw_rwlock_read_unlock() ends; -EPERM where it holds none. No other writer comes in
 * between: what the thread reads is as it left it, and later readers see it (release). Readers that wait come in as soon as no writer
 * waits. */
LW_API int lw_rwlock_downgrade(struct lw_rwlock *l);

/* As lw_rwlock_read_lock() within `ns` nanoseconds, also 0: -ETIMEDOUT otherwise. */
LW_API int lw_rwlock_read_lock_timeout(struct lw_rwlock *l, uint64_t ns) __attribute__((warn_unused_result));
/* The same until CLOCK_MONOTONIC shows `end` nanoseconds, as lw_rwlock_write_lock_until(). */
LW_API int lw_rwlock_read_lock_until(struct lw_rwlock *l, uint64_t end) __attribute__((warn_unused_result));

/* From now on no lock of this process turns biased; locks that are stay so until their next writer. For one lock: LW_RWLOCK_INIT_PLAIN. */
LW_API void lw_rwlock_stay_plain(void);

/* A lock that shares no cache line with what lies beside it: its address is a multiple of LW_RWLOCK_APART, and so is its size. A plain lock's
 * line moves to each CPU that locks it, and takes along what else is on it. The functions take `&padded.lock`. */
#define LW_RWLOCK_APART \
    128 /* bytes, as between all words of this library that threads write: two lines of 64, which CPUs fetch in pairs */
struct lw_rwlock_padded {
    struct lw_rwlock lock;
} __attribute__((aligned(LW_RWLOCK_APART)));

#define LW_RWLOCK_PADDED_INIT {LW_RWLOCK_INIT}

/* ---- how readers mark; not for users ---- */

#define LW__RW_MARKS 16u

/* A thread's marks. A lock is marked at one position only, which follows from its address, so that a writer looks at one word of
 * each thread. Never unmapped: a thread's successor takes it over as it is. */
struct lw__rw_thread {
    struct lw_rwlock
        *mark[LW__RW_MARKS]; /* written by this thread; by a writer where other threads released what it stood for */
    uint32_t again[LW__RW_MARKS]; /* read locks of the marked lock beyond the first */
    uint32_t
        waited; /* odd: writers sleep for one of the marks, or are about to; who wakes them makes it the next even number */
    uint32_t used; /* 1: a living thread has it */
    struct lw_rwlock *waits_for; /* a lock whose state may say that this thread waits: read in a child of fork() */
} __attribute__((aligned(128)));

/* The calling thread's marks; before its first read of a biased lock and after its last destructor those of no thread, whose positions are all
 * taken. */
extern LW_API __thread struct lw__rw_thread *lw__rw_self __attribute__((tls_model("initial-exec")));

LW_API int lw__rw_read_slow(struct lw_rwlock *l, uint64_t ns);
LW_API int lw__rw_read_unlock_slow(struct lw_rwlock *l);
LW_API int lw__rw_read_unlock_plain(struct lw_rwlock *l);
LW_API void lw__rw_wake_writer(struct lw__rw_thread *self);

static inline uintptr_t lw__rw_position(const struct lw_rwlock *l)
{
#ifdef __cplusplus
    uintptr_t a = reinterpret_cast<uintptr_t>(l) / sizeof(void *);
#else
    uintptr_t a = (uintptr_t)l / sizeof(void *);
#endif
    return (a ^ a >> 4 ^ a >> 8 ^ a >> 16) % LW__RW_MARKS; /* locks lie in structures of all sizes: many bits count */
}

#include <linewright/rwlock_mark.h>

/* Takes the lock for reading. -EDEADLK: the calling thread holds it for writing; -EAGAIN: 2^19 readers. */
LW_ALWAYS_INLINE int lw_rwlock_read_lock(struct lw_rwlock *l)
{
    if (__builtin_expect(lw__rw_mark(lw__rw_self, l), 1))
        return 0;
    return lw__rw_read_slow(l, LW_RWLOCK_FOREVER);
}

/* The same if no writer is inside or waits: -EBUSY otherwise. Async-signal-safe. */
LW_ALWAYS_INLINE int lw_rwlock_try_read(struct lw_rwlock *l)
{
    if (__builtin_expect(lw__rw_mark(lw__rw_self, l), 1))
        return 0;
    return lw__rw_read_slow(l, 0);
}

/* 0, or -EPERM where no thread holds the lock for reading; that is not noticed while read locks are handed over. */
LW_ALWAYS_INLINE int lw_rwlock_read_unlock(struct lw_rwlock *l)
{
    if (__builtin_expect(LW_RW_LOAD(&l->biased, RELAXED) != LW__RW_BIASED,
                         0)) /* a thread's marks cost a plain lock nothing */
        return lw__rw_read_unlock_plain(l);
    if (__builtin_expect(lw__rw_unmark(lw__rw_self, l), 1))
        return 0;
    return lw__rw_read_unlock_slow(l);
}

/* `release` failed at this place: says so and aborts. */
LW_API void lw__rw_complain(const struct lw_rwlock *l, const char *release, const char *file, int line)
    __attribute__((noreturn, cold));

/* As lw_rwlock_destroy(), with a look at every thread's marks. */
LW_API int lw__rw_destroy_checked(struct lw_rwlock *l);

#ifdef LW_DEBUG
#define LW__RW_CHECKED(release, call)                                                        \
    static inline int lw__checked_##release(struct lw_rwlock *l, const char *file, int line) \
    {                                                                                        \
        int error = call(l);                                                                 \
        if (error)                                                                           \
            lw__rw_complain(l, #release, file, line);                                        \
        return error;                                                                        \
    }
LW__RW_CHECKED(lw_rwlock_read_unlock, lw_rwlock_read_unlock)
LW__RW_CHECKED(lw_rwlock_write_unlock, lw_rwlock_write_unlock)
LW__RW_CHECKED(lw_rwlock_downgrade, lw_rwlock_downgrade)
LW__RW_CHECKED(lw_rwlock_destroy, lw__rw_destroy_checked)
#define lw_rwlock_read_unlock(l) lw__checked_lw_rwlock_read_unlock((l), __FILE__, __LINE__)
#define lw_rwlock_write_unlock(l) lw__checked_lw_rwlock_write_unlock((l), __FILE__, __LINE__)
#define lw_rwlock_downgrade(l) lw__checked_lw_rwlock_downgrade((l), __FILE__, __LINE__)
#define lw_rwlock_destroy(l) lw__checked_lw_rwlock_destroy((l), __FILE__, __LINE__)
#endif

#ifdef __cplusplus
}
#endif

#ifndef LW_C_API
#include <linewright/rwlock_mutex.h>
#endif

LW__HEADER_ENDS

#endif
