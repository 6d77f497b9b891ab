/* SPDX-License-Identifier: MIT */
/* x86-64 forms at 128 bits: the ways this machine has to read, write and exchange sixteen bytes at once.
 *
 * Contracts of the reads, each of them tested (tests/cpp/wide/):
 *
 *   form                           mapping    line           copy-on-write   torn   CPU
 *   movdqa_read                    readable   stays shared   kept            no     one with AVX
 *   cmpxchg16b_read_once           writable   dirtied        broken          no     one with CMPXCHG16B
 *   read_twice_cmpxchg16b_verify   writable   dirtied        broken          no     the same
 *   read_twice_read                readable   stays shared   kept            YES    any
 *
 * Which processors move sixteen aligned bytes at once is the vendor's word for those that enumerate AVX, and it holds for
 * the SSE and the AVX encoding of an aligned move:
 *   Intel       SDM volume 3, "Guaranteed Atomic Operations": no condition on the memory's type
 *   AMD         APM volume 2, 7.3.2 "Access Atomicity": for cacheable memory
 *   Zhaoxin     answered to GCC's developers (PR 104688): for write-back memory
 * No statement is known of other vendors (VIA, Hygon), nor for older processors: there it may be two moves. So the memory
 * must be write-back, which all memory that a program gets from malloc(), mmap() of files or the stack is; memory of a
 * device that a driver maps uncached or write-combining is not.
 *
 * A misaligned address is a general-protection fault in each of these forms but the last, never a split
 * lock. A locked instruction is a full barrier, so those forms are compiler barriers too. */
#ifndef LINEWRIGHT_ARCH_X86_64_WIDE_H
#define LINEWRIGHT_ARCH_X86_64_WIDE_H

#define LW_WIDE_X86_64 1 /* wide.h takes these forms */

#include <stdbool.h>
#include <stdint.h>

#include "../x86/cpu.h" /* lw_full_fence */

/* Eight bytes: aligned by the language already; the name is for code that is also built for i386 */
typedef uint64_t lw_u64 __attribute__((aligned(8)));
/* Sixteen bytes at an address that is a multiple of sixteen */
__extension__ typedef unsigned __int128 lw_u128 __attribute__((aligned(16)));

typedef long long lw_wide_vector __attribute__((vector_size(16)));

/* In a function with over-aligned variables and an array of variable length, or alloca(), clang keeps the frame's address in RBX
 * and lets an operand or a clobber of assembly take it (14 and 19 do). So with clang the forms put RBX back themselves. */
#ifdef __clang__
#define LW_WIDE_AT "D" /* the address, in none of the registers in use */
#define LW_WIDE_RBX "S"
#define LW_WIDE_RBX_LOST "rsi"
#define LW_WIDE_SWAP(insns) "xchgq %%rbx, %%rsi\n\t" insns "\n\txchgq %%rbx, %%rsi"
#else
#define LW_WIDE_AT "r"
#define LW_WIDE_RBX "b"
#define LW_WIDE_RBX_LOST "rbx"
#define LW_WIDE_SWAP(insns) insns
#endif

static inline lw_u128 lw_u128_of(uint64_t lo, uint64_t hi)
{
    return (lw_u128)hi << 64 | lo;
}

/* Reads */

/* two `mov`: what a compiler makes of a plain read. Tears; here as the control of the torn-value tests */
static inline lw_u128 lw_read_twice_read_u128(const lw_u128 *p)
{
    uint64_t lo, hi;

    __asm__ __volatile__("movq (%[p]), %[lo]\n\t"
                         "movq 8(%[p]), %[hi]"
                         : [lo] "=&r"(lo), [hi] "=r"(hi)
                         : [p] "r"(p), "m"(*p));
    return lw_u128_of(lo, hi);
}

/* `movdqa` (`vmovdqa` where the compiler may use AVX, so that no encoding is mixed) */
static inline lw_u128 lw_movdqa_read_u128(const lw_u128 *p)
{
    lw_wide_vector v;

#ifdef __AVX__
    __asm__ __volatile__("vmovdqa (%[p]), %[v]" : [v] "=x"(v) : [p] "r"(p), "m"(*p));
#else
    __asm__ __volatile__("movdqa (%[p]), %[v]" : [v] "=x"(v) : [p] "r"(p), "m"(*p));
#endif
    return lw_u128_of((uint64_t)v[0], (uint64_t)v[1]);
}

/* `lock cmpxchg16b` once, putting back what it compares with, whatever that is: RBX:RCX are copied, not set */
static inline lw_u128 lw_cmpxchg16b_read_once_u128(lw_u128 *p)
{
    uint64_t lo, hi;

    __asm__ __volatile__("movq %%rbx, %%rax\n\t"
                         "movq %%rcx, %%rdx\n\t"
                         "lock cmpxchg16b (%[p])"
                         : "+m"(*p), "=&a"(lo), "=&d"(hi)
                         : [p] "r"(p)
                         : "cc", "memory");
    return lw_u128_of(lo, hi);
}

/* two `mov`, then `lock cmpxchg16b` to see that both belong together, until they do */
static inline lw_u128 lw_read_twice_cmpxchg16b_verify_u128(lw_u128 *p)
{
    uint64_t lo, hi;

    __asm__ __volatile__(LW_WIDE_SWAP("1:\n\t"
                                      "movq (%[p]), %%rax\n\t"
                                      "movq 8(%[p]), %%rdx\n\t"
                                      "movq %%rax, %%rbx\n\t"
                                      "movq %%rdx, %%rcx\n\t"
                                      "lock cmpxchg16b (%[p])\n\t"
                                      "jne 1b")
                         : "+m"(*p), "=&a"(lo), "=&d"(hi)
                         : [p] LW_WIDE_AT(p)
                         : LW_WIDE_RBX_LOST, "rcx", "cc", "memory");
    return lw_u128_of(lo, hi);
}

/* Writes and exchanges */

/* `movdqa` */
static inline void lw_movdqa_write_u128(lw_u128 *p, lw_u128 v)
{
    lw_wide_vector wide = {(long long)(uint64_t)v, (long long)(uint64_t)(v >> 64)};

#ifdef __AVX__
    __asm__ __volatile__("vmovdqa %[v], (%[p])" : "=m"(*p) : [p] "r"(p), [v] "x"(wide));
#else
    __asm__ __volatile__("movdqa %[v], (%[p])" : "=m"(*p) : [p] "r"(p), [v] "x"(wide));
#endif
}

/* `lock cmpxchg16b` once: whether `*old` was there; `*old` is then what was */
static inline bool lw_cmpxchg16b_u128(lw_u128 *p, lw_u128 *old, lw_u128 desired)
{
    uint64_t lo = (uint64_t)*old, hi = (uint64_t)(*old >> 64);
    bool done;

    __asm__ __volatile__(LW_WIDE_SWAP("lock cmpxchg16b (%[p])")
                         : "+m"(*p), "+a"(lo), "+d"(hi), "=@ccz"(done)
                         : [p] LW_WIDE_AT(p), LW_WIDE_RBX((uint64_t)desired), "c"((uint64_t)(desired >> 64))
                         : "memory");
    *old = lw_u128_of(lo, hi);
    return done;
}

/* two `mov` first (the pair may be torn, and the compare finds out), then `lock cmpxchg16b` until it holds */
static inline lw_u128 lw_cmpxchg16b_loop_xchg_u128(lw_u128 *p, lw_u128 v)
{
    uint64_t lo, hi;

    __asm__ __volatile__(LW_WIDE_SWAP("movq (%[p]), %%rax\n\t"
                                      "movq 8(%[p]), %%rdx\n"
                                      "1:\n\t"
                                      "lock cmpxchg16b (%[p])\n\t"
                                      "jne 1b")
                         : "+m"(*p), "=&a"(lo), "=&d"(hi)
                         : [p] LW_WIDE_AT(p), LW_WIDE_RBX((uint64_t)v), "c"((uint64_t)(v >> 64))
                         : "cc", "memory");
    return lw_u128_of(lo, hi);
}

#endif
