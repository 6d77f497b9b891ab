/* SPDX-License-Identifier: MIT */
/* Two readers that write the same word in their critical sections. These order readers with updaters, not with each other,
 * and ThreadSanitizer has to report it. Argument "cpu": in a domain that counts per CPU. */
#include <linewright/srcu.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct lw_srcu_fast domain;
extern volatile unsigned lw__srcu_test_slots; /* 0: domains count per CPU */
static int word;
static int at; /* relaxed: the first writes, the second writes, the first ends */

static void await(int turn) {
    while (__atomic_load_n(&at, __ATOMIC_RELAXED) != turn)
        usleep(100);
}

static void turn_over(struct lw_srcu_fast *s) {
    lw_srcu_index c = lw_srcu_read_lock_fast(s);
    word++;
    lw_srcu_read_unlock_fast(s, c);
    __atomic_fetch_add(&at, 1, __ATOMIC_RELAXED);
}

static void *first(void *s) {
    turn_over(s);
    await(2);
    return NULL;
}

static void *second(void *s) {
    await(1);
    turn_over(s);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "cpu"))
        lw__srcu_test_slots = 0;
    struct lw_srcu_fast *s = &domain;
    if (lw_srcu_init(s))
        return 2;
    pthread_t a, b;
    if (pthread_create(&a, NULL, first, s) || pthread_create(&b, NULL, second, s))
        return 2;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
