/* SPDX-License-Identifier: MIT */
/* Per-CPU operations at the edges of a program's life: in constructors before main, in destructors after it, in thread-exit
 * destructors after ours, in a library that is opened and closed, in a static program. Exit code 0, or the failing
 * line's. */
#define _GNU_SOURCE
#include <linewright/percpu.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(x)                                                  \
    do                                                            \
        if (!(x)) {                                               \
            fprintf(stderr, "life: line %d: %s\n", __LINE__, #x); \
            _exit(1);                                             \
        }                                                         \
    while (0)

static uint64_t *count;
static uint32_t *value;
static pthread_key_t key;

static uint32_t value_sum(void) {
    uint32_t sum = 0;
    for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
        sum += __atomic_load_n((uint32_t *)lw_per_cpu_ptr(value, cpu), __ATOMIC_RELAXED);
    return sum;
}

static void once_more(void) {
    lw_this_cpu_inc(count);
    lw_this_cpu_fetch_add(value, 1);
}

static uint64_t *mine;

/* The first constructor: the library starts in this loop, and the compiler reads offset and limit ahead of it, where both
 * are 0. */
__attribute__((constructor(101))) static void counts_before_the_library_starts(void) {
    for (int i = 0; i < 1000; i++) {
        if (!mine)
            mine = lw_percpu_alloc(sizeof *mine, sizeof *mine);
        CHECK(mine);
        lw_this_cpu_inc(mine);
    }
    CHECK(lw_percpu_sum(mine) == 1000);
    CHECK(lw_percpu_free(mine) == 0);
}

/* 101 as the library's own: no order between the two is promised, and none is needed. */
__attribute__((constructor(101))) static void before_main(void) {
    count = lw_percpu_alloc(sizeof *count, sizeof *count);
    value = lw_percpu_alloc(sizeof *value, sizeof *value);
    CHECK(count && value);
    once_more();
    CHECK(lw_percpu_sum(count) == 1 && value_sum() == 1);
}

static uint64_t expected = 1;

__attribute__((destructor)) static void after_main(void) {
    once_more();
    CHECK(lw_percpu_sum(count) == expected + 1 && value_sum() == (uint32_t)(expected + 1));
}

/* Runs for four rounds: in the last ones the library has taken back a registration of its own. */
static void at_thread_exit(void *round) {
    once_more();
    if ((uintptr_t)round < 4)
        pthread_setspecific(key, (void *)((uintptr_t)round + 1));
}

static void *thread(void *unused) {
    (void)unused;
    pthread_setspecific(key, (void *)1);
    for (int i = 0; i < 100; i++)
        once_more();
    return NULL;
}

static void many_threads(void) {
    pthread_key_create(&key, at_thread_exit);
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, thread, NULL) == 0);
        pthread_join(t, NULL);
        expected += 100 + 4;
    }
    CHECK(lw_percpu_sum(count) == expected && value_sum() == (uint32_t)expected);
}

static uint64_t (*use)(uint64_t *, int);

static void *use_in_thread(void *unused) {
    CHECK(use(count, 1000));
    return unused;
}

/* Opened, used and closed while this thread's last descriptor may still be the library's. */
static void plugin(const char *path) {
    for (int i = 0; i < 5; i++) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            fprintf(stderr, "life: %s\n", dlerror());
        CHECK(handle);
        *(void **)(void *)&use = dlsym(handle, "plugin_use");
        CHECK(use && use(count, 1000) == (uint64_t)(i + 1) * 1000);
        expected += 1000, lw_this_cpu_fetch_add(value, 1000);
        CHECK(dlclose(handle) == 0);
        usleep(2000); /* switched out and in again: the kernel reads the descriptor */
    }
    /* Where these threads take the fall-back, only the plug-in's copy of the library knows of their words. */
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, use_in_thread, NULL) == 0);
        pthread_join(t, NULL);
        expected += 1000, lw_this_cpu_fetch_add(value, 1000);
    }
    CHECK(lw_percpu_sum(count) == expected);
}

#ifdef __aarch64__
/* As in a large program: main, which the linker puts in front, is further from abort paths than a conditional branch
 * reaches. */
__asm__(".pushsection .text\n\t.skip 0x110000\n\t.popsection");
#endif

__attribute__((section(".text.startup"))) int main(int argc, char **argv) {
    lw_this_cpu_or(value, 0);
    if (argc > 1)
        plugin(argv[1]);
    many_threads();
    return 0;
}
