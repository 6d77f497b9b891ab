/* SPDX-License-Identifier: MIT */
/* i386 forms at 64 bits: the ways this machine has to read, write and change eight bytes at once.
 *
 * Contracts of the reads, each of them tested (tests/cpp/wide/):
 *
 *   form                          mapping    line           copy-on-write   torn   CPU
 *   movq_read, fild_read,         readable   stays shared   kept            no     SSE2; x87
 *     fxam_fild_read
 *   cmpxchg8b_read_once           writable   dirtied        broken          no     Pentium
 *   read_twice_cmpxchg8b_verify   writable   dirtied        broken          no     Pentium
 *   read_twice_read               readable   stays shared   kept            YES    any
 *
 * Eight bytes are moved at once only where the address is a multiple of eight (Intel SDM volume 3, "Guaranteed
 * Atomic Operations", from the Pentium on). i386 itself aligns a uint64_t member to four: declare operands
 * lw_u64. Nothing here tests the CPU or the address: the caller does.
 *
 * A locked instruction is a full barrier, so those forms are compiler barriers too (and their "memory" stands for
 * `*p`: of the six registers a frame pointer leaves, CMPXCHG8B wants four); the plain ones order nothing for the
 * compiler. Every form addresses with one base register. EBX is named as an operand: a position-independent
 * build keeps no pointer there (gcc since 5, clang always). */
#ifndef LINEWRIGHT_ARCH_I386_WIDE_H
#define LINEWRIGHT_ARCH_I386_WIDE_H

#define LW_WIDE_I386 1 /* wide.h takes these forms */

#include <stdbool.h>
#include <stdint.h>

#include "../x86/cpu.h" /* lw_full_fence */

/* Eight bytes at an address that is a multiple of eight, also inside a struct */
typedef uint64_t lw_u64 __attribute__((aligned(8)));

/* What XMM0 is to a compiler whose options say that the CPU has none: gcc refuses the name and never uses the register.
 * So in such a translation unit no function may be given the attribute target("sse…") and use these forms, nor may
 * link-time optimisation inline it into a unit that was compiled with SSE. */
#if defined(__SSE__) || defined(__clang__)
#define LW_CLOBBERS_XMM : "xmm0", "xmm1"
#else
#define LW_CLOBBERS_XMM
#endif

/* Naming all eight makes the compiler empty the x87 stack first, so that one push cannot overflow it */
#define LW_CLOBBER_X87 "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)"

/* The value that a first compare-exchange supposes to be there; the published one was zero as well */
#define LW_WIDE_GUESS 0

static inline uint64_t lw_u64_of(uint32_t lo, uint32_t hi)
{
    return (uint64_t)hi << 32 | lo;
}

/* Reads */

/* two `mov`: what a compiler makes of a plain read. Tears; here as the control of the torn-value tests */
static inline uint64_t lw_read_twice_read_u64(const lw_u64 *p)
{
    uint32_t lo, hi;

    __asm__ __volatile__("movl (%[p]), %[lo]\n\t"
                         "movl 4(%[p]), %[hi]"
                         : [lo] "=&r"(lo), [hi] "=r"(hi)
                         : [p] "r"(p), "m"(*p));
    return lw_u64_of(lo, hi);
}

/* SSE2 `movq`; then the low half by `movd` (returned), the high half over the stack (in `halves[1]`): back to back
 * 0.5 ns, where both over the stack take 0.7 and `movd; psrlq; movd` 0.76 (measured: one of each keeps neither waiting) */
static inline uint32_t lw_movq_read_halves(const lw_u64 *p, uint32_t halves[2])
{
    uint32_t lo;

    __asm__ __volatile__("movq (%[p]), %%xmm0\n\t"
                         "movq %%xmm0, %[halves]\n\t"
                         "movd %%xmm0, %[lo]"
                         : [lo] "=r"(lo), [halves] "=m"(*(uint32_t (*)[2])halves)
                         : [p] "r"(p), "m"(*p)LW_CLOBBERS_XMM);
    return lo;
}

static inline uint64_t lw_movq_read_u64(const lw_u64 *p)
{
    uint32_t halves[2], lo = lw_movq_read_halves(p, halves);

    return lw_u64_of(lo, halves[1]);
}

/* x87 `fild; fistp`: exact for every value (64-bit significand, precision control does not apply). The caller
 * knows that the x87 stack is empty and that no MMX value is live; else use fxam_fild */
static inline uint64_t lw_fild_read_u64(const lw_u64 *p)
{
    uint64_t v;

    __asm__ __volatile__("fildll (%[p])\n\t"
                         "fistpll %[v]"
                         : [v] "=m"(v)
                         : [p] "r"(p), "m"(*p)
                         : LW_CLOBBER_X87);
    return v;
}

/* `fdecstp; fxam; fnstsw; fincstp`: whether the register that a push would take is free. That is the one below the top of
 * the x87 stack, whatever is in the top itself. MMX instructions mark all eight registers used, so where this one is free
 * there is no live MMX value either */
static inline bool lw_fxam_x87_free(void)
{
    uint16_t status;

    __asm__ __volatile__("fdecstp\n\t"
                         "fxam\n\t"
                         "fnstsw %[status]\n\t"
                         "fincstp"
                         : [status] "=a"(status)
                         :
                         : LW_CLOBBER_X87); /* the compiler's own values are put away first */
    return (status & 0x4500) == 0x4100; /* C3 = 1, C2 = 0, C0 = 1: empty */
}

/* `fnsave; fild; fistp; frstor`: whatever was in the x87 or MMX registers is there again afterwards */
static inline uint64_t lw_fnsave_fild_read_u64(const lw_u64 *p)
{
    uint64_t v;
    uint32_t state[27];

    __asm__ __volatile__("fnsave %[state]\n\t"
                         "fildll (%[p])\n\t"
                         "fistpll %[v]\n\t"
                         "frstor %[state]"
                         : [v] "=m"(v), [state] "=m"(state)
                         : [p] "r"(p), "m"(*p));
    return v;
}

/* `fxam`, then `fild` where a push has room, `fnsave_fild` where all registers are in use */
static inline uint64_t lw_fxam_fild_read_u64(const lw_u64 *p)
{
    return __builtin_expect(lw_fxam_x87_free(), 1) ? lw_fild_read_u64(p) : lw_fnsave_fild_read_u64(p);
}

/* `lock cmpxchg8b` once, putting back what it compares with, whatever that is: EBX:ECX are copied, not set */
static inline uint64_t lw_cmpxchg8b_read_once_u64(lw_u64 *p)
{
    uint64_t v;

    __asm__ __volatile__("movl %%ebx, %%eax\n\t"
                         "movl %%ecx, %%edx\n\t"
                         "lock cmpxchg8b (%[p])"
                         : "=&A"(v)
                         : [p] "r"(p)
                         : "cc", "memory");
    return v;
}

/* two `mov`, then `lock cmpxchg8b` to see that both belong together, until they do */
static inline uint64_t lw_read_twice_cmpxchg8b_verify_u64(lw_u64 *p)
{
    uint64_t v;

    __asm__ __volatile__("1:\n\t"
                         "movl (%[p]), %%eax\n\t"
                         "movl 4(%[p]), %%edx\n\t"
                         "movl %%eax, %%ebx\n\t"
                         "movl %%edx, %%ecx\n\t"
                         "lock cmpxchg8b (%[p])\n\t"
                         "jne 1b"
                         : "=&A"(v)
                         : [p] "r"(p)
                         : "ebx", "ecx", "cc", "memory");
    return v;
}

/* Writes */

/* SSE2 `movd; movd; punpckldq; movq`: the halves meet in a register. Stored to the stack as two words and loaded as
 * one, which is what gcc does, they would wait for both stores to leave the store buffer (6 ns instead of 0.8) */
static inline void lw_movq_write_u64(lw_u64 *p, uint64_t v)
{
    __asm__ __volatile__("movd %[lo], %%xmm0\n\t"
                         "movd %[hi], %%xmm1\n\t"
                         "punpckldq %%xmm1, %%xmm0\n\t"
                         "movq %%xmm0, (%[p])"
                         : "=m"(*p)
                         : [p] "r"(p), [lo] "rm"((uint32_t)v), [hi] "rm"((uint32_t)(v >> 32)) LW_CLOBBERS_XMM);
}

/* x87 `fild; fistp`; the caller knows that the x87 registers are free */
static inline void lw_fistp_write_u64(lw_u64 *p, uint64_t v)
{
    __asm__ __volatile__("fildll %[v]\n\t"
                         "fistpll (%[p])"
                         : "=m"(*p)
                         : [p] "r"(p), [v] "m"(v)
                         : LW_CLOBBER_X87);
}

/* `fnsave; fild; fistp; frstor` */
static inline void lw_fnsave_fistp_write_u64(lw_u64 *p, uint64_t v)
{
    uint32_t state[27];

    __asm__ __volatile__("fnsave %[state]\n\t"
                         "fildll %[v]\n\t"
                         "fistpll (%[p])\n\t"
                         "frstor %[state]"
                         : "=m"(*p), [state] "=m"(state)
                         : [p] "r"(p), [v] "m"(v));
}

/* `fxam`, then `fistp` or `fnsave_fistp` */
static inline void lw_fxam_fistp_write_u64(lw_u64 *p, uint64_t v)
{
    if (__builtin_expect(lw_fxam_x87_free(), 1))
        lw_fistp_write_u64(p, v);
    else
        lw_fnsave_fistp_write_u64(p, v);
}

/* Read-modify-writes: a loop of `lock cmpxchg8b`, named by where its first comparand comes from */

/* `lock cmpxchg8b` once: whether `*old` was there; `*old` is then what was */
static inline bool lw_cmpxchg8b_u64(lw_u64 *p, uint64_t *old, uint64_t desired)
{
    uint64_t was = *old;
    bool done;

    __asm__ __volatile__("lock cmpxchg8b (%[p])"
                         : "+A"(was), "=@ccz"(done)
                         : [p] "r"(p), "b"((uint32_t)desired), "c"((uint32_t)(desired >> 32))
                         : "memory");
    *old = was;
    return done;
}

/* From EDX:EAX on: `lo` and `hi` combine the low and the high halves; `keep` comes between */
#define LW_CMPXCHG8B_ROUNDS(keep, lo, hi)                                        \
    "1:\n\t"                                                                     \
    "movl %%eax, %%ebx\n\t"                                                      \
    "movl %%edx, %%ecx\n\t" keep lo " %[vlo], %%ebx\n\t" hi " %[vhi], %%ecx\n\t" \
    "lock cmpxchg8b (%[p])\n\t"                                                  \
    "jne 1b"

/* The old value is put aside before the compare-exchange: what waits for its EDX:EAX waits 1.3 ns longer (measured) */
#define LW_CMPXCHG8B_KEEP "movl %%eax, %[old_lo]\n\tmovl %%edx, %[old_hi]\n\t"

/* two `mov` first: the pair may be torn, and the compare finds out */
#define LW_CMPXCHG8B_LOOP_TORN_FIRST(op, lo, hi)                                                    \
    static inline void lw_cmpxchg8b_loop_torn_first_##op##_u64(lw_u64 *p, uint64_t v)               \
    {                                                                                               \
        uint64_t old;                                                                               \
                                                                                                    \
        __asm__ __volatile__("movl (%[p]), %%eax\n\t"                                               \
                             "movl 4(%[p]), %%edx\n" LW_CMPXCHG8B_ROUNDS("", lo, hi)                \
                             : "=&A"(old)                                                           \
                             : [p] "r"(p), [vlo] "g"((uint32_t)v), [vhi] "g"((uint32_t)(v >> 32))   \
                             : "ebx", "ecx", "cc", "memory");                                       \
    }                                                                                               \
                                                                                                    \
    static inline uint64_t lw_cmpxchg8b_loop_torn_first_fetch_##op##_u64(lw_u64 *p, uint64_t v)     \
    {                                                                                               \
        uint64_t old;                                                                               \
        uint32_t old_lo, old_hi;                                                                    \
                                                                                                    \
        __asm__ __volatile__("movl (%[p]), %%eax\n\t"                                               \
                             "movl 4(%[p]), %%edx\n" LW_CMPXCHG8B_ROUNDS(LW_CMPXCHG8B_KEEP, lo, hi) \
                             : "=&A"(old), [old_lo] "=&rm"(old_lo), [old_hi] "=&rm"(old_hi)         \
                             : [p] "r"(p), [vlo] "g"((uint32_t)v), [vhi] "g"((uint32_t)(v >> 32))   \
                             : "ebx", "ecx", "cc", "memory");                                       \
        return lw_u64_of(old_lo, old_hi);                                                           \
    }

/* a value the caller supplies first */
#define LW_CMPXCHG8B_LOOP_FROM(op, lo, hi)                                                        \
    static inline uint64_t lw_cmpxchg8b_loop_from_##op##_u64(lw_u64 *p, uint64_t v, uint64_t old) \
    {                                                                                             \
        uint32_t old_lo, old_hi;                                                                  \
                                                                                                  \
        __asm__ __volatile__(LW_CMPXCHG8B_ROUNDS(LW_CMPXCHG8B_KEEP, lo, hi)                       \
                             : "+&A"(old), [old_lo] "=&rm"(old_lo), [old_hi] "=&rm"(old_hi)       \
                             : [p] "r"(p), [vlo] "g"((uint32_t)v), [vhi] "g"((uint32_t)(v >> 32)) \
                             : "ebx", "ecx", "cc", "memory");                                     \
        return lw_u64_of(old_lo, old_hi);                                                         \
    }

LW_CMPXCHG8B_LOOP_TORN_FIRST(add, "addl", "adcl")
LW_CMPXCHG8B_LOOP_TORN_FIRST(sub, "subl", "sbbl")
LW_CMPXCHG8B_LOOP_TORN_FIRST(and, "andl", "andl")
LW_CMPXCHG8B_LOOP_TORN_FIRST(or, "orl", "orl")
LW_CMPXCHG8B_LOOP_TORN_FIRST(xor, "xorl", "xorl")
LW_CMPXCHG8B_LOOP_FROM(add, "addl", "adcl")
LW_CMPXCHG8B_LOOP_FROM(sub, "subl", "sbbl")
LW_CMPXCHG8B_LOOP_FROM(and, "andl", "andl")
LW_CMPXCHG8B_LOOP_FROM(or, "orl", "orl")
LW_CMPXCHG8B_LOOP_FROM(xor, "xorl", "xorl")

/* The other three starts; each returns the old value, `after` is the new one in terms of `old` and `v`.
 *   read_first    `movq`: never a torn comparand
 *   guess_first   no read: a constant, so that the first access already asks for the line; a second round follows
 *                 unless the constant was right
 *   last_value    no read: what this caller left there last time; right in the first round unless another thread has written since */
#define LW_CMPXCHG8B_LOOP_STARTS(op, after)                                                               \
    static inline uint64_t lw_cmpxchg8b_loop_read_first_##op##_u64(lw_u64 *p, uint64_t v)                 \
    {                                                                                                     \
        return lw_cmpxchg8b_loop_from_##op##_u64(p, v, lw_movq_read_u64(p));                              \
    }                                                                                                     \
                                                                                                          \
    static inline uint64_t lw_cmpxchg8b_loop_guess_first_##op##_u64(lw_u64 *p, uint64_t v)                \
    {                                                                                                     \
        return lw_cmpxchg8b_loop_from_##op##_u64(p, v, LW_WIDE_GUESS);                                    \
    }                                                                                                     \
                                                                                                          \
    static inline uint64_t lw_cmpxchg8b_loop_last_value_##op##_u64(lw_u64 *p, uint64_t v, uint64_t *last) \
    {                                                                                                     \
        uint64_t old = lw_cmpxchg8b_loop_from_##op##_u64(p, v, *last);                                    \
                                                                                                          \
        *last = after;                                                                                    \
        return old;                                                                                       \
    }

LW_CMPXCHG8B_LOOP_STARTS(add, old + v)
LW_CMPXCHG8B_LOOP_STARTS(sub, old - v)
LW_CMPXCHG8B_LOOP_STARTS(and, old &v)
LW_CMPXCHG8B_LOOP_STARTS(or, old | v)
LW_CMPXCHG8B_LOOP_STARTS(xor, old ^ v)

/* two `mov` first, then `lock cmpxchg8b` of nothing but the new value */
static inline uint64_t lw_cmpxchg8b_loop_xchg_u64(lw_u64 *p, uint64_t v)
{
    uint64_t old;

    __asm__ __volatile__("movl (%[p]), %%eax\n\t"
                         "movl 4(%[p]), %%edx\n"
                         "1:\n\t"
                         "lock cmpxchg8b (%[p])\n\t"
                         "jne 1b"
                         : "=&A"(old)
                         : [p] "r"(p), "b"((uint32_t)v), "c"((uint32_t)(v >> 32))
                         : "cc", "memory");
    return old;
}

#endif
