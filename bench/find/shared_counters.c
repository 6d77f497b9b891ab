/* SPDX-License-Identifier: MIT */
/* Two threads add to a given number of shared counters, each on a cache line of its own. Against a baseline of this program,
 * `find --fail-new` must pass it unchanged and fail it with one counter more.
 *
 * shared_counters ROUNDS LINES: each thread adds to one counter in each round, to all of them in turn. With EVERY=N in the
 * environment it adds to `planted_newcomer` in each N-th round, too. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct counter {
    uint64_t value;
} __attribute__((aligned(128)));
/* Names of three octal digits. */
#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define SIXTY_FOUR(X, n) \
    EIGHT(X, n##0) EIGHT(X, n##1) EIGHT(X, n##2) EIGHT(X, n##3) EIGHT(X, n##4) EIGHT(X, n##5) EIGHT(X, n##6) EIGHT(X, n##7)
#define NAMES(X) SIXTY_FOUR(X, 0) SIXTY_FOUR(X, 1) SIXTY_FOUR(X, 2) SIXTY_FOUR(X, 3)
#define DEFINED(n) struct counter queue_##n;
#define LISTED(n) &queue_##n,

NAMES(DEFINED)
struct counter planted_newcomer;
static struct counter *const all[] = {NAMES(LISTED)};
static unsigned long rounds, lines, every;
static pthread_barrier_t both;

static void *count(void *none) {
    pthread_barrier_wait(&both);
    for (unsigned long n = 0, next = 0, left = every; n < rounds; n++) {
        __atomic_fetch_add(&all[next]->value, 1, __ATOMIC_RELAXED);
        next = next + 1 < lines ? next + 1 : 0;
        if (every && --left == 0) {
            __atomic_fetch_add(&planted_newcomer.value, 1, __ATOMIC_RELAXED);
            left = every;
        }
    }
    return none;
}

int main(int argc, char **argv) {
    const char *seldom = getenv("EVERY");
    rounds = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    lines = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    every = seldom ? strtoul(seldom, NULL, 10) : 0;
    if (!rounds || !lines || lines > sizeof all / sizeof *all)
        return 2;
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&other, NULL, count, NULL))
        return 3;
    count(NULL);
    return pthread_join(other, NULL) != 0;
}
