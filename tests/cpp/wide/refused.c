/* SPDX-License-Identifier: MIT */
/* What must not compile: an operand that its own declaration aligns too little. */
#include <linewright/wide.h>

#if defined(__i386__)
struct trap {
    int first;
    uint64_t counter; /* at offset 4 */
};
void bump(struct trap *t);
void bump(struct trap *t) { lw_add_u64(&t->counter, 1); }
/* the same once more where the address itself is known: g++ sees no other */
extern struct trap placed;
__attribute__((aligned(8))) struct trap placed;
void bump_placed(void);
void bump_placed(void) { lw_add_u64(&placed.counter, 1); }
#else
struct __attribute__((packed)) trap {
    int first;
    lw_u128 value __attribute__((packed, aligned(4)));
};
extern struct trap trap;
__attribute__((aligned(16))) struct trap trap;
void swap(void);
void swap(void) { lw_xchg_u128(&trap.value, 1); }
#endif
