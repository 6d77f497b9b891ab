/* Critical sections that end with their block in C: each function leaves its block another way. */
#include <linewright/srcu.h>

int leave_by_return(struct lw_srcu *s);
int leave_by_return(struct lw_srcu *s) {
    lw_srcu_guard_fast(s);
    {
        lw_srcu_guard_fast(s); /* nests */
    }
    return 1;
}

int leave_by_break(struct lw_srcu *s);
int leave_by_break(struct lw_srcu *s) {
    int rounds = 0;
    for (;;) {
        lw_srcu_guard(s);
        if (++rounds == 3)
            break;
    }
    return rounds;
}
