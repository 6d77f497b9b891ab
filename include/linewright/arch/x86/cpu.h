/* x86: full fence and the spin loop's hint. What the CPU can do is asked of CPUID where it is needed. */
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

#endif
