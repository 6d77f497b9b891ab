/* SPDX-License-Identifier: MIT */
/* A library that uses a program's locks: linked with it, or opened later; and asks the dynamic linker, which looks who asks. */
#define _GNU_SOURCE
#include "foreign.h"

#include <dlfcn.h>

struct ways library_calls(void) {
    return (struct ways){pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_wrlock, pthread_rwlock_trywrlock,
                         pthread_rwlock_unlock};
}

/* Volatile: the functions are called, and do not jump to the dynamic linker's. */
void *library_next(const char *name) {
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

void *library_opens(const char *file) {
    void *volatile opened = dlopen(file, RTLD_NOW);
    return opened;
}

int where(void) { return 2; }

pthread_rwlock_t *library_lock(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    return &lock;
}
