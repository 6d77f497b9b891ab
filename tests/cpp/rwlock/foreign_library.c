/* SPDX-License-Identifier: MIT */
/* A library that uses a program's locks: linked with it, or opened later; and asks the dynamic linker, which looks who asks. */
#define _GNU_SOURCE
#include "foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

struct ways library_calls(void) {
    return (struct ways){pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_wrlock, pthread_rwlock_trywrlock,
                         pthread_rwlock_unlock};
}

/* Volatile: the functions are called, and do not jump to the dynamic linker's. */
void *library_next(const char *name) {
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

/* As a library that watches locks does; called again before it has returned, it says so. */
static __thread bool inside;

#define WATCHES(name, parameters, ...)         \
    int name parameters {                      \
        __typeof__(&name) next;                \
        *(void **)&next = library_next(#name); \
        if (inside)                            \
            return EDEADLK;                    \
        inside = true;                         \
        int error = next(__VA_ARGS__);         \
        inside = false;                        \
        return error;                          \
    }

WATCHES(pthread_rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t *attributes), l, attributes)
WATCHES(pthread_rwlock_timedrdlock, (pthread_rwlock_t * l, const struct timespec *end), l, end)

void *library_opens(const char *file) {
    void *volatile opened = dlopen(file, RTLD_NOW);
    return opened;
}

int where(void) { return 2; }

pthread_rwlock_t *library_lock(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    return &lock;
}
