/* SPDX-License-Identifier: MIT */
/* A coroutine that counts, goes on in another thread and counts again in the same function: the second time must use that
 * thread's area, not the first one's. The first thread's area is made to say CPU 0, as if the kernel had registered it; the
 * second one's says that it has no CPU. Run in mode "atomic", where no kernel writes to the areas. */
#include <linewright/percpu.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

static ucontext_t inside, outside;
static uint64_t *words;

/* As the linux/rseq.h of the kernel has it: cpu_id_start, cpu_id. */
static void say_cpu(uint32_t cpu_id_start, uint32_t cpu_id) {
    uint32_t *area = (uint32_t *)(void *)(lw__thread_pointer() + lw_percpu_rt.offset);

    area[0] = cpu_id_start;
    area[1] = cpu_id;
}

static void coroutine(void) {
    for (int i = 0; i < 3; i++) { /* a loop: what does not change in it may be computed before it */
        lw_this_cpu_add_u64(words, 1);
        if (i == 0)
            swapcontext(&inside, &outside); /* returns in another thread */
    }
}

static void *second_thread(void *unused) {
    swapcontext(&outside, &inside);
    return unused;
}

int main(void) {
    static char stack[256 * 1024];
    pthread_t thread;
    const char *why;

    if (lw_percpu_mode(&why) != LW_PERCPU_ATOMIC) {
        printf("%s: this test needs the mode without sequences\n", why);
        return 2;
    }
    words = lw_percpu_alloc(sizeof *words, sizeof *words);
    if (!words || getcontext(&inside))
        return 2;
    uint64_t *first_word = lw_per_cpu_ptr(words, 0);
    lw_percpu_rt.limit = LW__RSEQ_LIMIT(1); /* sequences are tried, as in a mode that has them */
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof stack;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    say_cpu(0, 0); /* while the second thread runs, too */
    if (swapcontext(&outside, &inside) || pthread_create(&thread, NULL, second_thread, NULL) || pthread_join(thread, NULL))
        return 2;
    say_cpu(0, (uint32_t)-1);
    printf("on the first thread's CPU %d of 1, in all %d of 3\n", (int)*first_word, (int)lw_percpu_sum_u64(words));
    return *first_word != 1 || lw_percpu_sum_u64(words) != 3;
}
