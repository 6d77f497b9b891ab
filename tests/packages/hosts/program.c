/* SPDX-License-Identifier: MIT */
/* Adds to one word from two threads, by the compiler's outline helpers on arm64, and prints the rate. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200000 };
static atomic_long sum;

static void *add(void *argument) {
    for (int i = 0; i < ROUNDS; i++)
        atomic_fetch_add(&sum, 1);
    return argument;
}

int main(void) {
    struct timespec began, ended;
    pthread_t other;

    clock_gettime(CLOCK_MONOTONIC, &began);
    if (pthread_create(&other, NULL, add, NULL) != 0)
        return 2;
    add(NULL);
    pthread_join(other, NULL);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("rate %.0f\n",
           2 * ROUNDS / ((double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9));
    return sum != 2 * ROUNDS;
}
