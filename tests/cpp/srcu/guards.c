/* SPDX-License-Identifier: MIT */
/* Critical sections that end with their block in C: each function leaves its block another way. */
#include <linewright/srcu.h>

int leave_by_return(struct lw_srcu_fast *s);
int leave_by_return(struct lw_srcu_fast *s) {
    lw_srcu_guard(s);
    {
        lw_srcu_guard(s); /* nests */
    }
    return 1;
}

int leave_by_break(struct lw_srcu_normal *s);
int leave_by_break(struct lw_srcu_normal *s) {
    int rounds = 0;
    for (;;) {
        lw_srcu_guard(s);
        if (++rounds == 3)
            break;
    }
    return rounds;
}

/* 0: pointers of every kind are loaded and stored. */
int dereference_atomics(void);
int dereference_atomics(void) {
    static int a, b;
    _Atomic(int *) atomic = &a;
    int *volatile plain = &a;
    struct {
        int *pointer;
    } in = {&a};
    const __typeof__(in) *constant = &in;
    if (lw_srcu_dereference(atomic) != &a || lw_srcu_dereference(plain) != &a ||
        lw_srcu_dereference(constant->pointer) != &a)
        return 1;
    lw_srcu_assign_pointer(atomic, &b);
    lw_srcu_assign_pointer(plain, &b);
    lw_srcu_assign_pointer(in.pointer, NULL);
    return lw_srcu_dereference(atomic) != &b || lw_srcu_dereference(plain) != &b || lw_srcu_dereference(in.pointer) != NULL;
}
