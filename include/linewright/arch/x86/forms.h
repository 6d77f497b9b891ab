/* SPDX-License-Identifier: MIT */
/* The x86 forms that the probe times and the library's percpu and readers parts use, at the machine word's width: 64 bits
 * on x86-64, 32 on i386. A locked instruction is a full barrier, so each of those is a compiler barrier too. */
#ifndef LINEWRIGHT_ARCH_X86_FORMS_H
#define LINEWRIGHT_ARCH_X86_FORMS_H

#include <stdint.h>

#include "../generic/forms.h" /* LW_FORM_GUESS */
#include "locked.h"           /* lw_lock_add_u<bits>, lw_lock_xadd_u<bits>, lw_xchg_u<bits>, lw_prefetchw */

/* `add`, not locked: the floor, and not atomic between threads */
#define LW_X86_PLAIN_ADD(bits, s, imm)                                                            \
    static inline void lw_plain_add_u##bits(uint##bits##_t *p, uint##bits##_t v)                  \
    {                                                                                             \
        __asm__ __volatile__("add" s " %[v], (%[p])" : "+m"(*p) : [p] "r"(p), [v] imm(v) : "cc"); \
    }

/* `mov` of a constant, then `lea; lock cmpxchg; jne`: the first access to the line asks for ownership */
#define LW_X86_GUESS_FIRST(bits, s)                                                                       \
    static inline uint##bits##_t lw_cmpxchg_loop_guess_first_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                                     \
        uint##bits##_t old = LW_FORM_GUESS, sum;                                                          \
                                                                                                          \
        __asm__ __volatile__("1:\n\t"                                                                     \
                             "lea" s " (%[old], %[v]), %[sum]\n\t"                                        \
                             "lock cmpxchg" s " %[sum], (%[p])\n\t"                                       \
                             "jne 1b"                                                                     \
                             : "+m"(*p), [old] "+&a"(old), [sum] "=&r"(sum)                               \
                             : [p] "r"(p), [v] "r"(v)                                                     \
                             : "cc", "memory");                                                           \
        return old;                                                                                       \
    }

/* `mov` load, then `lea; lock cmpxchg; jne`: the load fetches the line shared before the write asks for it */
#define LW_X86_READ_FIRST(bits, s)                                                                       \
    static inline uint##bits##_t lw_cmpxchg_loop_read_first_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                                    \
        uint##bits##_t old, sum;                                                                         \
                                                                                                         \
        __asm__ __volatile__("mov" s " (%[p]), %[old]\n"                                                 \
                             "1:\n\t"                                                                    \
                             "lea" s " (%[old], %[v]), %[sum]\n\t"                                       \
                             "lock cmpxchg" s " %[sum], (%[p])\n\t"                                      \
                             "jne 1b"                                                                    \
                             : "+m"(*p), [old] "=&a"(old), [sum] "=&r"(sum)                              \
                             : [p] "r"(p), [v] "r"(v)                                                    \
                             : "cc", "memory");                                                          \
        return old;                                                                                      \
    }

/* `mov` load */
#define LW_X86_MOV_READ(bits, s)                                                                      \
    static inline uint##bits##_t lw_mov_read_u##bits(const uint##bits##_t *p)                         \
    {                                                                                                 \
        uint##bits##_t v;                                                                             \
                                                                                                      \
        __asm__ __volatile__("mov" s " (%[p]), %[v]" : [v] "=r"(v) : [p] "r"(p), "m"(*p) : "memory"); \
        return v;                                                                                     \
    }

/* `lock inc`: one byte of operand less than `lock add`, and the carry flag stays */
#define LW_X86_LOCK_INC(bits, s)                                                               \
    static inline void lw_lock_inc_u##bits(uint##bits##_t *p)                                  \
    {                                                                                          \
        __asm__ __volatile__("lock inc" s " (%[p])" : "+m"(*p) : [p] "r"(p) : "cc", "memory"); \
    }                                                                                          \
                                                                                               \
    static inline void lw_prefetchw_lock_inc_u##bits(uint##bits##_t *p)                        \
    {                                                                                          \
        lw_prefetchw(p);                                                                       \
        lw_lock_inc_u##bits(p);                                                                \
    }

/* `prefetchw`, then the form whose name follows */
#define LW_X86_PREFETCHED(form, bits)                                                               \
    static inline uint##bits##_t lw_prefetchw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                               \
        lw_prefetchw(p);                                                                            \
        return lw_##form##_u##bits(p, v);                                                           \
    }

#define LW_X86_PREFETCHED_ADD(bits)                                                       \
    static inline void lw_prefetchw_lock_add_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                     \
        lw_prefetchw(p);                                                                  \
        lw_lock_add_u##bits(p, v);                                                        \
    }

#define LW_X86_WORD_FORMS(bits, s, imm)               \
    LW_X86_PLAIN_ADD(bits, s, imm)                    \
    LW_X86_GUESS_FIRST(bits, s)                       \
    LW_X86_READ_FIRST(bits, s)                        \
    LW_X86_MOV_READ(bits, s)                          \
    LW_X86_LOCK_INC(bits, s)                          \
    LW_X86_PREFETCHED_ADD(bits)                       \
    LW_X86_PREFETCHED(lock_xadd, bits)                \
    LW_X86_PREFETCHED(cmpxchg_loop_guess_first, bits) \
    LW_X86_PREFETCHED(cmpxchg_loop_read_first, bits)  \
    LW_X86_PREFETCHED(xchg, bits)

#if defined(__i386__)
LW_X86_WORD_FORMS(32, "l", "ir")
#elif !defined(__ILP32__)
LW_X86_WORD_FORMS(64, "q", "er")
#endif

#undef LW_X86_PLAIN_ADD
#undef LW_X86_GUESS_FIRST
#undef LW_X86_READ_FIRST
#undef LW_X86_MOV_READ
#undef LW_X86_LOCK_INC
#undef LW_X86_PREFETCHED
#undef LW_X86_PREFETCHED_ADD
#undef LW_X86_WORD_FORMS

#endif
