/* SPDX-License-Identifier: MIT */
/* Programs for trials of `linewright trial --pad make`: decoys that padding cannot help, and one case that it must help.
 *
 * pad_decoys KIND OPERATIONS: two threads, each with that many operations; the time is the program's own. The output says
 * whether the two words lie on one line of 64 bytes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };
static uint64_t *words[2];
static pthread_mutex_t *mutex;
static long operations;

/* The site that is padded. Blocks of at most 48 bytes; what threads share lies in their first 24. */
__attribute__((noinline)) void *make(size_t bytes) {
    void *volatile made = calloc(1, bytes);
    return made;
}

static void *add(void *which) {
    uint64_t *mine = words[(uintptr_t)which];
    for (long i = 0; i < operations; i++)
        __atomic_fetch_add(mine, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *lock(void *which) {
    (void)which;
    for (long i = 0; i < operations / 4; i++) {
        pthread_mutex_lock(mutex);
        ++*(volatile uint64_t *)words[0];
        pthread_mutex_unlock(mutex);
    }
    return NULL;
}

/* Two neighbouring blocks on one line of 64 bytes, unless they are padded. Of three blocks of 32 bytes in a row, two are:
 * the first begins in the middle of a line with glibc's malloc in a program that has allocated nothing before. */
static void neighbours(void) {
    uint64_t *first = make(24), *second = make(24), *third = make(24);
    bool together = (uintptr_t)first / LINE == (uintptr_t)second / LINE;
    words[0] = together ? first : second, words[1] = together ? second : third;
}

/* One thread writes, the other reads what it writes. */
static void *tell(void *which) {
    uint64_t *word = words[0], sum = 0;
    for (long i = 0; i < operations; i++)
        if (which)
            sum += __atomic_load_n(word, __ATOMIC_ACQUIRE);
        else
            __atomic_store_n(word, (uint64_t)i, __ATOMIC_SEQ_CST);
    return (void *)(uintptr_t)(sum & 1);
}

/* Each thread on a CPU of its own, as far as there are any: on one CPU nothing travels, whatever is shared, and the
 * scheduler of a machine with two CPUs was seen to put both threads of so short a program on one of them, for all launches
 * of a trial. */
static void pin(pthread_attr_t *attributes, int number) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    int skip = number % CPU_COUNT(&allowed), cpu = 0;
    while (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
        cpu++;
    CPU_SET(cpu, &one);
    pthread_attr_setaffinity_np(attributes, sizeof one, &one);
}

int main(int argc, char **argv) {
    if (argc != 3 || (operations = atol(argv[2])) < 4)
        return fprintf(stderr, "pad_decoys counter|fields|mutex|told|apart|neighbours OPERATIONS\n"), 2;
    const char *kind = argv[1];
    void *(*run)(void *) = add;
    if (!strcmp(kind, "counter")) /* one word, both threads */
        words[0] = words[1] = make(24);
    else if (!strcmp(kind, "fields")) /* two words of one block: false sharing that separating blocks does not end */
        words[0] = make(24), words[1] = words[0] + 1;
    else if (!strcmp(kind, "mutex")) /* what it guards is on a page of its own in both: padding moves the mutex alone */
        mutex = make(sizeof *mutex), words[0] = aligned_alloc(4096, 4096), run = lock;
    else if (!strcmp(kind, "told"))
        words[0] = words[1] = make(24), run = tell;
    else if (!strcmp(kind, "apart")) /* nothing is shared with or without padding */
        words[0] = (uint64_t *)make(24) + 0, free(malloc(8192)), words[1] = (uint64_t *)((char *)malloc(8192) + 4096);
    else if (!strcmp(kind, "neighbours")) /* the case that padding is for */
        neighbours();
    else
        return 2;
    printf("lines %d\n", (uintptr_t)words[0] / LINE == (uintptr_t)words[1] / LINE ? 1 : 2);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pin(&attributes, (int)i);
        if (pthread_create(&threads[i], &attributes, run, (void *)i))
            return 3;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
