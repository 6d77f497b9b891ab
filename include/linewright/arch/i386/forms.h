/* i386 forms at 32 bits. A locked instruction is a full barrier, so each of those is a compiler barrier too. */
#ifndef LINEWRIGHT_ARCH_I386_FORMS_H
#define LINEWRIGHT_ARCH_I386_FORMS_H

#include <stdint.h>

#include "../generic/forms.h" /* LW_FORM_GUESS */
#include "../x86/locked.h"    /* lw_lock_add_u32, lw_lock_xadd_u32, lw_xchg_u32, lw_prefetchw */

/* `add`, not locked: the floor, and not atomic between threads */
static inline void lw_plain_add_u32(uint32_t *p, uint32_t v)
{
    __asm__ __volatile__("addl %[v], (%[p])" : "+m"(*p) : [p] "r"(p), [v] "ir"(v) : "cc");
}

/* `mov` of a constant, then `lea; lock cmpxchg; jne`: the first access to the line asks for ownership */
static inline uint32_t lw_cmpxchg_loop_guess_first_u32(uint32_t *p, uint32_t v)
{
    uint32_t old = LW_FORM_GUESS, sum;

    __asm__ __volatile__("1:\n\t"
                         "leal (%[old], %[v]), %[sum]\n\t"
                         "lock cmpxchgl %[sum], (%[p])\n\t"
                         "jne 1b"
                         : "+m"(*p), [old] "+&a"(old), [sum] "=&r"(sum)
                         : [p] "r"(p), [v] "r"(v)
                         : "cc", "memory");
    return old;
}

/* `mov` load, then `lea; lock cmpxchg; jne`: the load fetches the line shared before the write asks for it */
static inline uint32_t lw_cmpxchg_loop_read_first_u32(uint32_t *p, uint32_t v)
{
    uint32_t old, sum;

    __asm__ __volatile__("movl (%[p]), %[old]\n"
                         "1:\n\t"
                         "leal (%[old], %[v]), %[sum]\n\t"
                         "lock cmpxchgl %[sum], (%[p])\n\t"
                         "jne 1b"
                         : "+m"(*p), [old] "=&a"(old), [sum] "=&r"(sum)
                         : [p] "r"(p), [v] "r"(v)
                         : "cc", "memory");
    return old;
}

/* `mov` load */
static inline uint32_t lw_mov_read_u32(const uint32_t *p)
{
    uint32_t v;

    __asm__ __volatile__("movl (%[p]), %[v]" : [v] "=r"(v) : [p] "r"(p), "m"(*p) : "memory");
    return v;
}

/* `lock inc`: one byte of operand less than `lock add`, and the carry flag stays */
static inline void lw_lock_inc_u32(uint32_t *p)
{
    __asm__ __volatile__("lock incl (%[p])" : "+m"(*p) : [p] "r"(p) : "cc", "memory");
}

/* `prefetchw`, then `lock_inc` */
static inline void lw_prefetchw_lock_inc_u32(uint32_t *p)
{
    lw_prefetchw(p);
    lw_lock_inc_u32(p);
}

/* `prefetchw`, then `lock_add` */
static inline void lw_prefetchw_lock_add_u32(uint32_t *p, uint32_t v)
{
    lw_prefetchw(p);
    lw_lock_add_u32(p, v);
}

/* `prefetchw`, then `lock_xadd` */
static inline uint32_t lw_prefetchw_lock_xadd_u32(uint32_t *p, uint32_t v)
{
    lw_prefetchw(p);
    return lw_lock_xadd_u32(p, v);
}

/* `prefetchw`, then `cmpxchg_loop_guess_first` */
static inline uint32_t lw_prefetchw_cmpxchg_loop_guess_first_u32(uint32_t *p, uint32_t v)
{
    lw_prefetchw(p);
    return lw_cmpxchg_loop_guess_first_u32(p, v);
}

/* `prefetchw`, then `cmpxchg_loop_read_first` */
static inline uint32_t lw_prefetchw_cmpxchg_loop_read_first_u32(uint32_t *p, uint32_t v)
{
    lw_prefetchw(p);
    return lw_cmpxchg_loop_read_first_u32(p, v);
}

/* `prefetchw`, then `xchg` */
static inline uint32_t lw_prefetchw_xchg_u32(uint32_t *p, uint32_t v)
{
    lw_prefetchw(p);
    return lw_xchg_u32(p, v);
}

#endif
