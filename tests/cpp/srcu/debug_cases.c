/* SPDX-License-Identifier: MIT */
/* Wrong uses, compiled as in a debug build. Each runs in a child process and aborts. */
#define LW_DEBUG
#include <linewright/srcu.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lw_srcu_fast a, b;
static lw_srcu_index begun;

static void used_twice(void) {
    lw_srcu_index c = lw_srcu_read_lock_fast(&a);
    lw_srcu_read_unlock_fast(&a, c);
    lw_srcu_read_unlock_fast(&a, c);
}

static void of_another_domain(void) {
    lw_srcu_index c = lw_srcu_read_lock_fast(&a);
    lw_srcu_read_unlock_fast(&b, c);
}

static void of_another_flavour(void) { begun = lw_srcu_read_lock((struct lw_srcu_normal *)(void *)&a); }

static void waits_for_itself(void) {
    begun = lw_srcu_read_lock_fast(&a);
    if (lw_srcu_synchronize(&a))
        return;
}

static void *ends_it(void *unused) {
    lw_srcu_read_unlock_fast(&a, begun);
    return unused;
}

static void ended_by_another_thread(void) {
    pthread_t t;
    begun = lw_srcu_read_lock_fast(&a);
    if (!pthread_create(&t, NULL, ends_it, NULL))
        pthread_join(t, NULL);
}

static void not_initialised(void) {
    static struct lw_srcu_fast none;
    begun = lw_srcu_read_lock_fast(&none);
}

static struct lw_srcu_head twice;

static void nothing(struct lw_srcu_head *head) { (void)head; }

static void queued_twice(void) {
    lw_srcu_index reader = lw_srcu_read_lock_fast(&a); /* keeps the first from running */
    if (!lw_srcu_call(&a, &twice, nothing))
        lw_srcu_call(&a, &twice, nothing);
    lw_srcu_read_unlock_fast(&a, reader);
}

static void waits_for_itself_on_a_condition(void) {
    begun = lw_srcu_read_lock_fast(&a);
    if (lw_srcu_cond_synchronize(&a, lw_srcu_get_state(&a)))
        return;
}

/* Correct uses: return. */
static void right_uses(void) {
    lw_srcu_index outer = lw_srcu_read_lock_fast(&a), inner = lw_srcu_read_lock_fast(&a);
    if (lw_srcu_synchronize(&b))
        return;
    lw_srcu_read_unlock_fast(&a, inner);
    if (!lw_srcu_read_lock_held(&a) || lw_srcu_read_lock_held(&b))
        abort();
    pid_t child = fork(); /* has this thread's critical section */
    lw_srcu_read_unlock_fast(&a, outer);
    int status = 0;
    if (lw_srcu_synchronize(&a) || (child && (waitpid(child, &status, 0) != child || status)))
        abort();
    if (!child)
        _exit(0);
    if (lw_srcu_read_lock_held(&a))
        abort();
}

static void queued_again(void) {
    for (int i = 0; i < 2; i++) /* after it has run */
        if (lw_srcu_call(&b, &twice, nothing) || lw_srcu_barrier(&b))
            abort();
}

static struct lw_srcu_head several[2];
static int taken;

static struct lw_srcu_head *take(void) { return &several[taken++]; }

/* Arguments are evaluated once, and a call that is refused does not count as queued. */
static void refused_then_queued(void) {
    if (!lw_srcu_call(&b, several, NULL) || lw_srcu_call(&b, several, nothing) || lw_srcu_barrier(&b))
        abort();
    if (lw_srcu_call(&b, take(), nothing) || taken != 1 || lw_srcu_barrier(&b))
        abort();
}

typedef void (*wrong_use)(void);
extern const wrong_use wrong_uses[];
const wrong_use wrong_uses[] = {used_twice,
                                of_another_domain,
                                of_another_flavour,
                                waits_for_itself,
                                ended_by_another_thread,
                                not_initialised,
                                queued_twice,
                                waits_for_itself_on_a_condition,
                                right_uses,
                                queued_again,
                                refused_then_queued,
                                0};

int prepare_debug_cases(void);
int prepare_debug_cases(void) {
    int err = lw_srcu_init(&a);
    return err ? err : lw_srcu_init(&b);
}
