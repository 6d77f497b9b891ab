/* SPDX-License-Identifier: MIT */
/* Plain data handed from one thread to the next through operations of atomic.h, ordered or (wrongly) relaxed. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <linewright/atomic.h>

#define STEPS 8

static uint32_t step;
static int data[STEPS];
static bool ordered;

/* Each step hands over by another operation with a release part … */
static void hand_over(unsigned i) {
    uint32_t expected = i;

    if (!ordered) {
        lw_add_u32(&step, 1);
        return;
    }
    switch (i) {
    case 0: lw_inc_u32_release(&step); break;
    case 1: lw_fetch_add_u32(&step, 1); break;
    case 2: lw_xchg_u32_release(&step, i + 1); break;
    case 3: lw_cmpxchg_u32_acq_rel(&step, i, i + 1); break;
    case 4: lw_try_cmpxchg_u32_release(&step, &expected, i + 1); break;
    case 5: lw_write_u32_release(&step, i + 1); break;
    case 6: lw_add_return_u32_release(&step, 1); break;
    default: lw_inc_not_zero_u32(&step); break;
    }
}

static void *producer(void *unused) {
    for (unsigned i = 0; i < STEPS; i++) {
        data[i] = (int)i + 1;
        hand_over(i);
    }
    return unused;
}

/* … and is taken by another one with an acquire part; the relaxed one pairs with nothing, which is the point. */
static uint32_t look(unsigned i) {
    uint32_t expected = ~0u;

    if (!ordered)
        return lw_read_u32_relaxed(&step);
    switch (i % 4) {
    case 0: return lw_read_u32_acquire(&step);
    case 1: return lw_fetch_add_u32_acquire(&step, 0);
    case 2: return lw_cmpxchg_u32_acquire(&step, expected, 0);
    default: return lw_read_u32(&step);
    }
}

int main(int argc, char **argv) {
    pthread_t thread;
    int sum = 0;

    ordered = argc > 1 && strcmp(argv[1], "ordered") == 0;
    if (pthread_create(&thread, NULL, producer, NULL) != 0)
        return 3;
    for (unsigned i = 0; i < STEPS; i++) {
        while (look(i) <= i)
            ;
        sum += data[i];
    }
    pthread_join(thread, NULL);
    printf("%d\n", sum);
    return sum != STEPS * (STEPS + 1) / 2;
}
