/* SPDX-License-Identifier: MIT */
/* Restartable sequences for arm64: per-CPU steps that either commit on the CPU they read, or did not happen.
 * Included by percpu.h.
 *
 *   adrp/add desc ; str [rseq, #8]     publish the descriptor: from label 31 to 32 the kernel aborts this thread when it
 *                                      preempts, migrates or signals it.
 *   31: ldr w9, [rseq, #4]             the CPU, read inside the sequence: migrating after this line aborts.
 *       cmp w9, limit ; b.hs           unregistered (-1), refused (-2) or unknown CPU: all are >= limit unsigned.
 *       add x9, q, x9, lsl #16         address of this CPU's word in one register.
 *       ldr, op, str                   the store is the commit: one instruction, the last one. A naturally aligned store
 *                                      of up to 8 bytes is single-copy atomic for a thread that sums from another CPU.
 *   32:
 *   34: (elsewhere) abort              where the kernel sends the thread if it was preempted, migrated or got a signal
 *                                      between 31 and 32; the four bytes before it are the signature it checks.
 *
 * Exclusive or LSE instructions have no place here: the kernel's abort is what makes the steps one.
 * Nothing here retries: the caller counts aborts and takes the fall-back, so that every operation ends.
 */
#ifndef LINEWRIGHT_ARCH_ARM64_RSEQ_H
#define LINEWRIGHT_ARCH_ARM64_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW_HAVE_RSEQ 1
#define LW_SYS_RSEQ 293 /* the system call; older kernel headers lack its name */
#ifdef __AARCH64EB__
#define LW_RSEQ_SIG 0x00bc28d4u /* the same instruction bytes, read as big-endian data */
#else
#define LW_RSEQ_SIG 0xd428bc00u /* brk #0x45e0: what the libc registers with */
#endif

/* What sequences compare the CPU number with, for `nr` CPUs. */
#define LW__RSEQ_LIMIT(nr) (nr)
#define LW__RSEQ_CPUS(limit) (limit) /* the number of CPUs that a limit stands for */
#define LW__RSEQ_MOST_CPUS 0x7fffffffu

/* Build option of the tests: pauses between any two steps, so that most sequences are interrupted. */
#ifdef LW_RSEQ_DELAY
#define LW__STR2(x) #x
#define LW__STR(x) LW__STR2(x)
#define LW__DELAY ".rept " LW__STR(LW_RSEQ_DELAY) "\n\tyield\n\t.endr\n\t"
#else
#define LW__DELAY ""
#endif

/* The address that offsets of thread-local areas are relative to. Volatile: a coroutine may go on in another thread after
 * any call, so the compiler must not keep the address from before. */
static inline char *lw__thread_pointer(void)
{
    char *tp;
    __asm__ volatile("mrs %[tp], tpidr_el0" : [tp] "=r"(tp));
    return tp;
}

/* As in arch/x86/rseq.h. */
LW__INLINE struct lw__rt_view lw__rt_read(const void *rt, size_t at)
{
    struct lw__rt_view view;
#ifdef __OPTIMIZE__
    __asm__("ldr %w[limit], [%[rt], %[at]]" : [limit] "=r"(view.limit) : [rt] "r"(rt), [at] "i"(at));
#else /* a parameter is no constant then */
    __asm__("ldr %w[limit], [%[rt], %[at]]" : [limit] "=r"(view.limit) : [rt] "r"(rt), [at] "r"(at));
#endif
    __asm__("ldr %[offset], [%[rt]]" : [offset] "=r"(view.offset) : [rt] "r"(rt), "r"(view.limit));
    return view;
}

#define LW__SEQ_BEGIN(out)                                                          \
    ".pushsection __rseq_cs, \"aw?\", %%progbits\n\t"                               \
    ".balign 32\n"                                                                  \
    "30:\t.long 0, 0\n\t"                                                           \
    ".quad 31f, 32f - 31f, 34f\n\t"                                                 \
    ".popsection\n\t"                                                               \
    "adrp x9, 30b\n\t"                                                              \
    "add x9, x9, :lo12:30b\n\t"                                                     \
    "str x9, [%[area], #8]\n"                                                       \
    "31:\t" LW__DELAY "ldr w9, [%[area], #4]\n\t" LW__DELAY "cmp w9, %w[limit]\n\t" \
    "b.hs " out "\n\t"                                                              \
    "add x9, %[q], x9, lsl #16\n\t" LW__DELAY

/* Value sequences and the fall-back of single threads use the same word (see percpu.h). The lock word is 0 when free, so
 * adding it changes no address, but makes every access of the word depend on it: a sequence that finds the lock free reads
 * what the last holder stored before freeing it (pairs with the release store in unlock_unit(), src/percpu/ops.c). */
#define LW__SEQ_TEST_LOCK(out)             \
    "and x10, x9, #0xffffffffffff0000\n\t" \
    "ldr w10, [x10]\n\t"                   \
    "cbnz w10, " out "\n\t"                \
    "add x9, x9, x10\n\t" LW__DELAY

/* The end of the sequence; `done`: code that runs after success. Only unconditional branches lead into or out of
 * the section elsewhere: a conditional one reaches 1 MiB, and the linker may put the function (main, or one that is often or
 * rarely called) further away. */
#define LW__SEQ_END(done, abort)                                \
    "32:\t" done "\n\t"                                         \
    ".pushsection .text.lw_rseq_abort, \"ax?\", %%progbits\n\t" \
    ".inst 0xd428bc00\n"                                        \
    "34:\t" abort "\n\t"                                        \
    ".popsection\n"

/* Additive. True: added. False: nothing happened. */
#define LW__SEQ_ADD(bits, r)                                                                                         \
    LW__INLINE bool lw__seq_add_u##bits(char *q, uint##bits##_t v, ptrdiff_t off, unsigned limit)                    \
    {                                                                                                                \
        __asm__ goto(LW__SEQ_BEGIN("%l[no]") "ldr " r "10, [x9]\n\t" LW__DELAY "add " r "10, " r "10, %" r "[v]\n\t" \
                                             "str " r "10, [x9]\n" LW__SEQ_END("", "b %l[no]")                       \
                     :                                                                                               \
                     : [area] "r"(lw__thread_pointer() + off), [limit] "r"(limit), [q] "r"(q), [v] "r"(v)            \
                     : "x9", "x10", "memory", "cc"                                                                   \
                     : no);                                                                                          \
        return true;                                                                                                 \
    no:                                                                                                              \
        return false;                                                                                                \
    }
LW__SEQ_ADD(32, "w")
LW__SEQ_ADD(64, "x")

/* Value operations. `old` receives the value before; false: nothing happened (aborted, locked, or no CPU number). */
#define LW__SEQ_VALUE(name, bits, body)                                                                                 \
    LW__INLINE bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, uint##bits##_t expected, uint##bits##_t *old,   \
                                             ptrdiff_t off, unsigned limit)                                             \
    {                                                                                                                   \
        uint##bits##_t was = 0;                                                                                         \
        unsigned no = 1;                                                                                                \
        __asm__ volatile(LW__SEQ_BEGIN("33f") LW__SEQ_TEST_LOCK("33f") body LW__SEQ_END("mov %w[no], #0\n33:", "b 33b") \
                         : [was] "+&r"(was), [no] "+&r"(no)                                                             \
                         : [area] "r"(lw__thread_pointer() + off), [limit] "r"(limit), [q] "r"(q), [v] "r"(v),          \
                           [expected] "r"((uint64_t)expected)                                                           \
                         : "x9", "x10", "memory", "cc");                                                                \
        *old = was;                                                                                                     \
        return !no;                                                                                                     \
    }

#define LW__SEQ_VALUES(bits, z, r)                                                                        \
    LW__SEQ_VALUE(read, bits, "ldr" z " %" r "[was], [x9]\n")                                             \
    LW__SEQ_VALUE(write, bits, "str" z " %" r "[v], [x9]\n")                                              \
    LW__SEQ_VALUE(xchg, bits, "ldr" z " %" r "[was], [x9]\n\t" LW__DELAY "str" z " %" r "[v], [x9]\n")    \
    LW__SEQ_VALUE(and, bits,                                                                              \
                  "ldr" z " %" r "[was], [x9]\n\t" LW__DELAY "and x10, %x[was], %x[v]\n\t"                \
                  "str" z " " r "10, [x9]\n")                                                             \
    LW__SEQ_VALUE(or, bits,                                                                               \
                  "ldr" z " %" r "[was], [x9]\n\t" LW__DELAY "orr x10, %x[was], %x[v]\n\t"                \
                  "str" z " " r "10, [x9]\n")                                                             \
    LW__SEQ_VALUE(xor, bits,                                                                              \
                  "ldr" z " %" r "[was], [x9]\n\t" LW__DELAY "eor x10, %x[was], %x[v]\n\t"                \
                  "str" z " " r "10, [x9]\n")                                                             \
    LW__SEQ_VALUE(fetch_add, bits,                                                                        \
                  "ldr" z " %" r "[was], [x9]\n\t" LW__DELAY "add x10, %x[was], %x[v]\n\t"                \
                  "str" z " " r "10, [x9]\n")                                                             \
    /* Unequal: leaves without a store. ldrb and ldrh zero-extend, and so does the operand `expected`. */ \
    LW__SEQ_VALUE(cmpxchg, bits,                                                                          \
                  "ldr" z " %" r "[was], [x9]\n\t" LW__DELAY "cmp %" r "[was], %" r "[expected]\n\t"      \
                  "b.ne 32f\n\tstr" z " %" r "[v], [x9]\n")

LW__SEQ_VALUES(8, "b", "w")
LW__SEQ_VALUES(16, "h", "w")
LW__SEQ_VALUES(32, "", "w")
LW__SEQ_VALUES(64, "", "x")

/* Takes the first node off a list; as in arch/x86_64/rseq.h. */
LW__SEQ_VALUE(pop, 64,
              "ldr %x[was], [x9]\n\t" LW__DELAY "cbz %x[was], 32f\n\t"
              "ldr x10, [%x[was], %x[v]]\n\t" LW__DELAY "str x10, [x9]\n")

/* Those that tell where they took place; as in arch/x86_64/rseq.h. */
LW__SEQ_VALUE(add_at, 64,
              "ldr x10, [x9]\n\t" LW__DELAY "add x10, x10, %x[v]\n\tmov %x[was], x9\n\t" LW__DELAY "str x10, [x9]\n")
LW__SEQ_VALUE(push, 64,
              "ldr x10, [x9]\n\t" LW__DELAY "str x10, [%x[expected]]\n\tmov %x[was], x9\n\t" LW__DELAY "str %x[v], [x9]\n")
LW__SEQ_VALUE(pop_at, 64,
              "ldr x10, [x9]\n\tstr x10, [%x[v]]\n\tmov %x[was], x9\n\t" LW__DELAY
              "cbz x10, 32f\n\tldr x10, [x10]\n\t" LW__DELAY "str x10, [x9]\n")

#endif
