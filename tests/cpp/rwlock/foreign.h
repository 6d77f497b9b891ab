/* SPDX-License-Identifier: MIT */
/* What a library of the test foreign.c gives to its program. */
#ifndef LINEWRIGHT_TEST_FOREIGN_H
#define LINEWRIGHT_TEST_FOREIGN_H

#include <pthread.h>

struct ways { /* functions for one lock, found in one way */
    int (*rdlock)(pthread_rwlock_t *);
    int (*tryrdlock)(pthread_rwlock_t *);
    int (*wrlock)(pthread_rwlock_t *);
    int (*trywrlock)(pthread_rwlock_t *);
    int (*unlock)(pthread_rwlock_t *);
};

struct ways library_calls(void); /* what the library's own calls lead to */
void *library_next(const char *name); /* dlsym(RTLD_NEXT) from there */
void *library_opens(const char *file); /* dlopen() from there */
pthread_rwlock_t *library_lock(void);
int where(void); /* 1 in the program, 2 in the library */

#endif
