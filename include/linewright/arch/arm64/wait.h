/* SPDX-License-Identifier: MIT */
/* arm64: the forms of waiting, each one instruction or the sequence that watches a word. */
#ifndef LINEWRIGHT_ARCH_ARM64_WAIT_H
#define LINEWRIGHT_ARCH_ARM64_WAIT_H

#include <stdint.h>

/* As in arch/x86/wait.h. WFE is here behind an exclusive load alone: then the store to the word is an event, and so is every return
 * from the kernel, whether there is an event stream or not. A WFE without it could sleep for ever where there is none. */
#define LW_WAIT_HINTS(delays, watches)                                                                     \
    delays(none, nothing) delays(yield, nothing) delays(isb, nothing) delays(sb, sb) watches(wfe, nothing) \
        watches(wfet, wfxt)
#define LW_WAIT_USUAL isb /* what lw_cpu_relax() is */

static inline void lw_hint_none(void)
{
    __asm__ __volatile__("" : : : "memory");
}

static inline void lw_hint_yield(void)
{
    __asm__ __volatile__("yield" : : : "memory");
}

static inline void lw_hint_isb(void)
{
    __asm__ __volatile__("isb" : : : "memory");
}

/* `sb` by its number: assemblers know the name only for Armv8.5 */
static inline void lw_hint_sb(void)
{
    __asm__ __volatile__(".inst 0xd50330ff" : : : "memory");
}

/* The generic timer's count at which a WFET that begins now ends, some tens of us later. */
static inline uint64_t lw__wfet_end(void)
{
    uint64_t now, per_second;
    __asm__ __volatile__("mrs %[now], cntvct_el0" : [now] "=r"(now));
    __asm__ __volatile__("mrs %[per_second], cntfrq_el0" : [per_second] "=r"(per_second));
    return now + per_second / 20000;
}

/* The word is loaded exclusively, which arms the monitor, and compared; the wait begins only where it is `seen` still. One sequence,
 * because a store of the compiler's between could clear the monitor without an event. (Arm ARM, "Wait for Event": what sets the event
 * register is another CPU's store that clears the monitor, and an exception return, among others.) A stale event ends a wait at once,
 * and the caller loads again. Both order nothing; CLREX leaves no reservation behind. */
#define LW__WATCH(name, bits, width, wait, end)                                                   \
    static inline void lw_watch_##name##_u##bits(const uint##bits##_t *word, uint##bits##_t seen) \
    {                                                                                             \
        register uint64_t limit __asm__("x16") = (end);                                           \
        uint##bits##_t now;                                                                       \
        __asm__ __volatile__("ldxr %" width "[now], %[word]\n\t"                                  \
                             "eor %" width "[now], %" width "[now], %" width "[seen]\n\t"         \
                             "cbnz %" width "[now], 1f\n\t" wait "\n"                             \
                             "1:\n\t"                                                             \
                             "clrex"                                                              \
                             : [now] "=&r"(now)                                                   \
                             : [word] "Q"(*word), [seen] "r"(seen), [limit] "r"(limit)            \
                             : "memory");                                                         \
    }
/* `wfet x16` by its number: assemblers know the name only for Armv8.7 */
#define LW__WFET ".inst 0xd5031010"
LW__WATCH(wfe, 32, "w", "wfe", 0)
LW__WATCH(wfe, 64, "x", "wfe", 0)
LW__WATCH(wfet, 32, "w", LW__WFET, lw__wfet_end())
LW__WATCH(wfet, 64, "x", LW__WFET, lw__wfet_end())
#undef LW__WATCH
#undef LW__WFET

#endif
