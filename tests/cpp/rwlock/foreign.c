/* SPDX-License-Identifier: MIT */
/* Functions for one lock that are found in several ways: called, asked for by name, bound by a library that is opened with RTLD_DEEPBIND. Whatever the
 * way they exclude each other, also where liblinewright-rwlock.so is preloaded; and dlsym() and dlopen() answer each caller as before.
 * usage: foreign PLUGIN NAME, which only the search path of the linked library leads to. Exit code: 0, or 1 with a line for what is not so. */
#define _GNU_SOURCE
#include "either.h"
#include "foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__i386__)
#define OLDEST "GLIBC_2.1"
#define OLD_NAMES "GLIBC_2.2"
#else
#define OLDEST "GLIBC_2.17"
#endif
#ifndef OLD_NAMES
#define OLD_NAMES OLDEST
#endif

static const char *way_name;
static int failures;

static void holds(const char *sentence, bool condition) {
    if (condition)
        return;
    printf("%s: not so: %s\n", way_name, sentence);
    failures++;
}

int where(void) { return 1; }

/* ---- ways ---- */

typedef void *finds(void *handle, const char *name);

static void *by_version(void *handle, const char *name) { return dlvsym(handle, name, OLDEST); }
static void *behind_the_library(void *handle, const char *name) {
    (void)handle;
    return library_next(name);
}

/* glibc has these names for programs linked with an old libpthread. */
static void *by_old_name(void *handle, const char *name) {
    char old[64];
    snprintf(old, sizeof old, "__%s", name);
    return dlvsym(handle, old, OLD_NAMES);
}

static struct ways found(finds *find, void *handle) {
    struct ways w;
    *(void **)&w.rdlock = find(handle, "pthread_rwlock_rdlock");
    *(void **)&w.tryrdlock = find(handle, "pthread_rwlock_tryrdlock");
    *(void **)&w.wrlock = find(handle, "pthread_rwlock_wrlock");
    *(void **)&w.trywrlock = find(handle, "pthread_rwlock_trywrlock");
    *(void **)&w.unlock = find(handle, "pthread_rwlock_unlock");
    return w;
}

static struct ways of_plugin(void *plugin) {
    struct ways (*calls)(void);
    if (!plugin) {
        printf("%s\n", dlerror());
        exit(2);
    }
    *(void **)&calls = dlsym(plugin, "library_calls");
    struct ways w = calls();
    dlclose(plugin); /* the functions are not the plug-in's */
    return w;
}

/* ---- what holds of each ---- */

static const struct ways own = {pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_wrlock,
                                pthread_rwlock_trywrlock, pthread_rwlock_unlock};

struct try {
    int (*function)(pthread_rwlock_t *);
    int (*unlock)(pthread_rwlock_t *);
    pthread_rwlock_t *lock;
    int result;
};

static void *tries(void *given) {
    struct try *t = given;
    t->result = t->function(t->lock);
    if (!t->result && t->unlock(t->lock))
        t->result = -1;
    return NULL;
}

static int by_another(pthread_rwlock_t *l, int (*function)(pthread_rwlock_t *), int (*unlock)(pthread_rwlock_t *)) {
    struct try t = {function, unlock, l, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, tries, &t) || pthread_join(thread, NULL))
        abort();
    return t.result;
}

static void excludes(pthread_rwlock_t *l, const struct ways *one, const struct ways *other) {
    holds("it is held for reading", one->rdlock(l) == 0);
    holds("another reader gets it", by_another(l, other->tryrdlock, other->unlock) == 0);
    holds("a writer does not", by_another(l, other->trywrlock, other->unlock) == EBUSY);
    holds("it is released", one->unlock(l) == 0);
    holds("then a writer gets it", by_another(l, other->wrlock, other->unlock) == 0);
    holds("it is held for writing", one->wrlock(l) == 0);
    holds("a reader does not get it", by_another(l, other->tryrdlock, other->unlock) == EBUSY);
    holds("nor another writer", by_another(l, other->trywrlock, other->unlock) == EBUSY);
    holds("it is released from writing", one->unlock(l) == 0);
    holds("then a reader gets it", by_another(l, other->rdlock, other->unlock) == 0);
}

static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static volatile long a, b;
static bool over; /* atomic */
static long torn, reads; /* atomic */

static void *reads_on(void *unused) {
    long n = 0, t = 0;
    for (; !__atomic_load_n(&over, __ATOMIC_RELAXED); n++) {
        pthread_rwlock_rdlock(&shared);
        long first = a;
        for (volatile int i = 0; i < 20; i++)
            ;
        t += first != b;
        pthread_rwlock_unlock(&shared);
    }
    __atomic_add_fetch(&torn, t, __ATOMIC_RELAXED);
    __atomic_add_fetch(&reads, n, __ATOMIC_RELAXED);
    return unused;
}

/* Two threads read in the common way while another writes in this one. */
static void writes_beside_readers(const struct ways *w) {
    pthread_t thread[2];
    over = false;
    torn = reads = 0;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, reads_on, NULL))
            abort();
    for (int i = 0; i < 300; i++) {
        holds("it is read often", read_often(&shared) == 0);
        w->wrlock(&shared);
        a++;
        for (volatile int k = 0; k < 20000; k++)
            ;
        b++;
        w->unlock(&shared);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    holds("no reader sees half of a write", torn == 0);
    printf("%s: reads=%ld torn=%ld\n", way_name, reads, torn);
}

static void check(const char *name, struct ways w) {
    way_name = name;
    if (!w.rdlock || !w.tryrdlock || !w.wrlock || !w.trywrlock || !w.unlock) {
        holds("the functions are found", false);
        return;
    }
    for (int biased = 0; biased < 2; biased++) {
        pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
        for (int i = 0; i < 2; i++) {
            holds("it is read often", !biased || read_often(&l) == 0);
            excludes(&l, i ? &w : &own, i ? &own : &w);
        }
    }
    writes_beside_readers(&w);
}

/* The library's functions stand before the C library's, and call the next ones: a lock of several processes, and one of this. */
static void is_watched(int shared) {
    pthread_rwlock_t l;
    pthread_rwlockattr_t attributes;
    const struct timespec passed = {0, 0};
    way_name = shared ? "a process-shared lock that a library watches" : "a lock that a library watches";
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setpshared(&attributes, shared);
    holds("it begins", pthread_rwlock_init(&l, &attributes) == 0);
    holds("a reader gets it", pthread_rwlock_timedrdlock(&l, &passed) == 0);
    holds("a writer does not", by_another(&l, own.trywrlock, own.unlock) == EBUSY);
    holds("it is released", own.unlock(&l) == 0);
    holds("then a writer gets it", by_another(&l, own.wrlock, own.unlock) == 0);
}

/* What is none of the locks' functions is found as each caller finds it. */
static void the_rest_stays(const char *apart) {
    way_name = "other names";
    int (*next)(void);
    *(void **)&next = dlsym(RTLD_NEXT, "where");
    holds("the next function behind the program is the library's", next && next != where && next() == 2);
    holds("there is none behind the library", library_next("where") == NULL);
    holds("what is not there has an error", dlsym(RTLD_DEFAULT, "is_not_there") == NULL && dlerror());
    holds("a version that is not there, too", !dlvsym(RTLD_DEFAULT, "pthread_rwlock_rdlock", "GLIBC_9.9") && dlerror());
    holds("the library opens what lies on its own search path", library_opens(apart) != NULL);
    holds("and the program does not, before it is loaded", dlopen("is-not-there.so", RTLD_NOW) == NULL && dlerror());
}

int main(int count, char **words) {
    alarm(800);
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count != 3)
        return 2;
    void *libc = dlopen(LIBC_SO, RTLD_NOW),
         *threads = dlsym(libc, "pthread_rwlock_rdlock") ? libc : dlopen(LIBPTHREAD_SO, RTLD_NOW);
    check("the program's calls", own);
    check("a linked library's calls", library_calls());
    check("dlsym of the C library", found(dlsym, threads));
    check("dlvsym of the C library", found(by_version, threads));
    check("dlvsym of the C library's old names", found(by_old_name, threads));
    check("dlsym(RTLD_DEFAULT)", found(dlsym, RTLD_DEFAULT));
    check("dlvsym(RTLD_DEFAULT)", found(by_version, RTLD_DEFAULT));
    check("dlsym(RTLD_NEXT) of the program", found(dlsym, RTLD_NEXT));
    check("dlsym(RTLD_NEXT) of a library", found(behind_the_library, NULL));
    check("a library opened with RTLD_DEEPBIND", of_plugin(dlopen(words[1], RTLD_NOW | RTLD_DEEPBIND)));
    check("the same by dlmopen", of_plugin(dlmopen(LM_ID_BASE, words[1], RTLD_NOW | RTLD_DEEPBIND)));
    is_watched(PTHREAD_PROCESS_PRIVATE);
    is_watched(PTHREAD_PROCESS_SHARED);
    the_rest_stays(words[2]);
    printf("%d things are not so\n", failures);
    return failures != 0;
}
