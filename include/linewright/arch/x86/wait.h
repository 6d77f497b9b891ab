/* SPDX-License-Identifier: MIT */
/* x86: the forms of waiting, each one instruction or the pair that watches a word. */
#ifndef LINEWRIGHT_ARCH_X86_WAIT_H
#define LINEWRIGHT_ARCH_X86_WAIT_H

#include <stdint.h>

/* Every hint by name, and what the CPU must have for it: delays(name, needs) pass some time; watches(name, needs) wait for a store to a
 * word, and end by themselves where none comes. */
#define LW_WAIT_HINTS(delays, watches) \
    delays(none, nothing) delays(pause, nothing) delays(tpause, waitpkg) watches(umwait, waitpkg) watches(mwaitx, monitorx)
#define LW_WAIT_USUAL pause /* what lw_cpu_relax() is */

/* Ticks of the time-stamp counter: what TPAUSE waits, about one PAUSE of Intel's CPUs since Skylake (140 cycles, Intel's optimization
 * reference manual), and after which a watch ends, some tens of us: a store that the monitor cannot see delays its waiter by no more. */
#define LW_TPAUSE_TICKS 128u
#define LW_WATCH_TICKS 100000u

static inline void lw_hint_none(void)
{
    __asm__ __volatile__("" : : : "memory");
}

static inline void lw_hint_pause(void)
{
    __builtin_ia32_pause();
}

/* Deadlines are in edx:eax. Bit 0 of the operand: the lighter of both states, C0.1, which ends sooner. */
static inline void lw_hint_tpause(void)
{
    uint64_t until = __builtin_ia32_rdtsc() + LW_TPAUSE_TICKS;
    __asm__ __volatile__("tpause %[state]"
                         :
                         : [state] "r"(1), "a"((uint32_t)until), "d"((uint32_t)(until >> 32))
                         : "memory", "cc");
}

/* A watch is armed before the word is compared: a store after the comparison ends the wait that follows, or its beginning. */

static inline void lw__umonitor(const void *word)
{
    __asm__ __volatile__("umonitor %[word]" : : [word] "r"(word) : "memory");
}

static inline void lw__umwait(void)
{
    uint64_t until = __builtin_ia32_rdtsc() + LW_WATCH_TICKS;
    __asm__ __volatile__("umwait %[state]"
                         :
                         : [state] "r"(1), "a"((uint32_t)until), "d"((uint32_t)(until >> 32))
                         : "memory", "cc");
}

static inline void lw__monitorx(const void *word)
{
    __asm__ __volatile__("monitorx" : : "a"(word), "c"(0), "d"(0) : "memory");
}

/* ecx bit 1: the timer in ebx ends the wait; eax 0xf0: without entering a C-state, as Linux's delay loop has it. */
static inline void lw__mwaitx(void)
{
    __asm__ __volatile__("mwaitx" : : "a"(0xf0), "b"(LW_WATCH_TICKS), "c"(2) : "memory");
}

/* Both return at once where *word is not `seen`. They order nothing: who found the word changed loads it again, with the order it needs. */
#define LW__WATCHES(bits)                                                                       \
    static inline void lw_watch_umwait_u##bits(const uint##bits##_t *word, uint##bits##_t seen) \
    {                                                                                           \
        lw__umonitor(word);                                                                     \
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == seen)                                    \
            lw__umwait();                                                                       \
    }                                                                                           \
    static inline void lw_watch_mwaitx_u##bits(const uint##bits##_t *word, uint##bits##_t seen) \
    {                                                                                           \
        lw__monitorx(word);                                                                     \
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == seen)                                    \
            lw__mwaitx();                                                                       \
    }
LW__WATCHES(32)
#ifdef __x86_64__
LW__WATCHES(64)
#endif
#undef LW__WATCHES

#endif
