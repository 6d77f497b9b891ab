/* SPDX-License-Identifier: MIT */
/* x86: full fence, the spin loop's hint, words of one thread. What the CPU can do is asked of CPUID where it is needed. */
#ifndef LINEWRIGHT_ARCH_X86_CPU_H
#define LINEWRIGHT_ARCH_X86_CPU_H

/* `lock or` of nothing into the stack: the full barrier that costs least, and no store address of the caller's. In
 * assembly because ThreadSanitizer refuses the compiler's fence. */
static inline void lw_full_fence(void)
{
#ifdef __x86_64__
    __asm__ __volatile__("lock orl $0, (%%rsp)" : : : "cc", "memory");
#else
    __asm__ __volatile__("lock orl $0, (%%esp)" : : : "cc", "memory");
#endif
}

/* One round of a spin loop: `pause` */
static inline void lw_cpu_relax(void)
{
    __builtin_ia32_pause();
}

/* One instruction adds to memory, so neither a signal nor a preemption can interrupt it, and a word that one thread alone
 * writes needs no restartable sequence. */
#define LW_HAVE_THREAD_WORDS 1

#ifdef __LP64__
#define LW__ADD_ULONG "addq"
#else
#define LW__ADD_ULONG "addl"
#endif

/* Both add one; the address is in one register, because CPUs that rename memory words do so for that form only; compiler
 * barriers. */

/* `add`: what comes before it is performed before it; a later load may be performed before it */
static inline __attribute__((always_inline)) void lw_thread_word_inc(unsigned long *word)
{
    __asm__ volatile(LW__ADD_ULONG " $1, (%[word])" : : [word] "r"(word) : "memory", "cc");
}

/* `lock add`: a full barrier on both of its sides */
static inline __attribute__((always_inline)) void lw_thread_word_inc_full(unsigned long *word)
{
    __asm__ volatile("lock; " LW__ADD_ULONG " $1, (%[word])" : : [word] "r"(word) : "memory", "cc");
}

#endif
