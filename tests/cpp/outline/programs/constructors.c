/* SPDX-License-Identifier: MIT */
/* A library and a program with constructors before, at and after libgcc's, one of which starts a thread that adds on. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_long sum;
static pthread_t thread;

static void *add(void *arg) {
    for (int i = 0; i < 20000; i++)
        atomic_fetch_add(&sum, 1);
    return arg;
}

__attribute__((constructor(101))) static void first(void) {
    pthread_create(&thread, NULL, add, NULL);
    add(NULL);
}

__attribute__((constructor)) static void last(void) { add(NULL); }

int sums(void);
int sums(void) {
    pthread_join(thread, NULL);
    add(NULL);
    puts(sum == 80000 ? "sums exact" : "sums wrong");
    return sum != 80000;
}

#ifndef SUMS_IN_A_LIBRARY
void tell(const char *path);

int main(int argc, char **argv) {
    (void)argc;
    tell(argv[0]);
    return sums();
}
#endif
