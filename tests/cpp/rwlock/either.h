/* SPDX-License-Identifier: MIT */
/* One name for the functions of two locks that behave alike: pthread's, preloaded or not, and with OWN_LOCKS the library's, which answer with the same error
 * codes here. */
#ifndef LINEWRIGHT_TEST_EITHER_H
#define LINEWRIGHT_TEST_EITHER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef OWN_LOCKS
#include <linewright/rwlock.h>
typedef struct lw_rwlock either_t;
#define EITHER_INIT LW_RWLOCK_INIT
static inline int begin_lock(either_t *l) {
    lw_rwlock_init(l);
    return 0;
}
static inline int end_lock(either_t *l) { return -lw_rwlock_destroy(l); }
static inline int read_lock(either_t *l) { return -lw_rwlock_read_lock(l); }
static inline int try_read(either_t *l) { return -lw_rwlock_try_read(l); }
static inline int write_lock(either_t *l) { return -lw_rwlock_write_lock(l); }
static inline int try_write(either_t *l) { return -lw_rwlock_try_write(l); }
#else
typedef pthread_rwlock_t either_t;
#define EITHER_INIT PTHREAD_RWLOCK_INITIALIZER
static inline int begin_lock(either_t *l) { return pthread_rwlock_init(l, NULL); }
static inline int end_lock(either_t *l) { return pthread_rwlock_destroy(l); }
static inline int read_lock(either_t *l) { return pthread_rwlock_rdlock(l); }
static inline int try_read(either_t *l) { return pthread_rwlock_tryrdlock(l); }
static inline int write_lock(either_t *l) { return pthread_rwlock_wrlock(l); }
static inline int try_write(either_t *l) { return pthread_rwlock_trywrlock(l); }
#endif

static inline int unlock_either(either_t *l, bool write) {
#ifdef OWN_LOCKS
    return write ? -lw_rwlock_write_unlock(l) : -lw_rwlock_read_unlock(l);
#else
    (void)write;
    return pthread_rwlock_unlock(l);
#endif
}

/* Whether locks turn biased: not glibc's own. */
static inline bool has_bias(void) {
#ifdef OWN_LOCKS
    return true;
#else
    return getenv("LW_INTERPOSED") != NULL;
#endif
}

static inline bool is_biased(const either_t *l) {
    uint32_t biased; /* the third word of the library's lock: rwlock.h */
    memcpy(&biased, (const char *)l + 8, sizeof biased);
    return biased == 1;
}

/* Until readers mark: they come to, when what ended the biases of other locks allows it. Not 0: an error. */
static inline int read_often(either_t *l) {
    int error = 0;
    for (int n = 0; !error && (has_bias() ? !is_biased(l) : n < 1000); n++)
        if (!(error = read_lock(l)))
            error = unlock_either(l, false);
    return error;
}

#endif
