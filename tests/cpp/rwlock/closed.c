/* SPDX-License-Identifier: MIT */
/* A program opens a library with locks itself, a thread marks a lock of it, the library is closed, and then the thread ends, which calls the library.
 * usage: closed LIBRARY READ_LOCK UNLOCK, the names of its functions. Exit code: 0, or 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t turn;
static int (*rdlock)(pthread_rwlock_t *), (*unlock)(pthread_rwlock_t *);

static void *marks(void *unused) {
    for (uint32_t biased = 0; biased != 1;) { /* the third word of the library's lock: rwlock.h */
        rdlock(&lock);
        unlock(&lock);
        memcpy(&biased, (const char *)&lock + 8, sizeof biased);
    }
    rdlock(&lock);
    unlock(&lock);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    return unused;
}

int main(int count, char **words) {
    pthread_t thread;
    void *library = count == 4 ? dlopen(words[1], RTLD_NOW) : NULL;
    if (!library) {
        puts(count == 4 ? dlerror() : "usage: closed LIBRARY READ_LOCK UNLOCK");
        return 1;
    }
    *(void **)&rdlock = dlsym(library, words[2]);
    *(void **)&unlock = dlsym(library, words[3]);
    if (!rdlock || !unlock || pthread_barrier_init(&turn, NULL, 2) || pthread_create(&thread, NULL, marks, NULL))
        return 1;
    pthread_barrier_wait(&turn); /* it has marked */
    dlclose(library);
    pthread_barrier_wait(&turn); /* it ends */
    return pthread_join(thread, NULL);
}
