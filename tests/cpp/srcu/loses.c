/* SPDX-License-Identifier: MIT */
/* lw_srcu_call() that loses the first callback of an object that is no variable of its caller's, for the torture to find; linked in
 * its place by --wrap. */
#include <linewright/srcu.h>

typedef void (*callback)(struct lw_srcu_head *);
int __real_lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, callback fn);
int __wrap_lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, callback fn);

int __wrap_lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, callback fn) {
    static bool lost;
    bool variable = (uintptr_t)head - (uintptr_t)__builtin_frame_address(0) < 65536;
    return variable || __atomic_exchange_n(&lost, true, __ATOMIC_RELAXED) ? __real_lw_srcu_call(s, head, fn) : 0;
}
