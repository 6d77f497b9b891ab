/* SPDX-License-Identifier: MIT */
/* What the restartable sequences of x86-64 and i386 share: per-CPU steps that either commit on the CPU they read, or did
 * not happen.
 * Included by percpu.h.
 *
 * Every sequence has the same shape, and every step a reason (names of x86-64; the other differs in register names):
 *
 *   lea desc, %rax ; mov %rax, %fs:rseq_cs   publish the descriptor: from label 31 to 32 the kernel aborts this thread when
 *                                            it preempts, migrates or signals it.
 *   31: mov %fs:cpu_id-2, %eax               the CPU, read inside the sequence: migrating after this line aborts. The four
 *                                            bytes begin in the middle of cpu_id_start, whose upper half is 0 with fewer
 *                                            than 2^16 CPUs: what is loaded is the CPU number times 64 KiB, the distance
 *                                            of its unit, and the shift costs nothing.
 *       cmp %limit, %eax ; jae               unregistered (-1), refused (-2) or unknown CPU: all are >= limit, unsigned.
 *       add %q, %rax                         address of this CPU's word in ONE register. A commit through base + index
 *                                            keeps some CPUs from forwarding the last store to the next load by register
 *                                            renaming (2.2 ns against 0.35 where that happens).
 *       op (%rax)                            commit: one instruction, the last one.
 *   32:
 *   34: (elsewhere) abort                    where the kernel sends the thread if it was preempted, migrated or got a
 *                                            signal between 31 and 32. Four bytes of signature stand before it; it lies
 *                                            outside [31, 32), so it cannot itself be restarted. Nothing was stored.
 *
 * Nothing here retries: the caller counts aborts and takes the fall-back, so that every operation ends.
 * The descriptor and the abort path go into the function's own section group ("?"), so that a C++ inline function
 * that the linker discards takes them along.
 */
#ifndef LINEWRIGHT_ARCH_X86_RSEQ_H
#define LINEWRIGHT_ARCH_X86_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW_HAVE_RSEQ 1
#ifdef __x86_64__
#define LW_SYS_RSEQ 334 /* the system call; older kernel headers lack its name */
#else
#define LW_SYS_RSEQ 386
#endif
#define LW_RSEQ_SIG 0x53053053u /* what the libc registers with; the kernel compares it before it jumps to an abort path */

/* What sequences compare their CPU field with, for `nr` CPUs; more than that many do not fit the field. */
#define LW__RSEQ_LIMIT(nr) ((nr) << 16)
#define LW__RSEQ_CPUS(limit) ((limit) >> 16) /* the number of CPUs that a limit stands for */
#define LW__RSEQ_MOST_CPUS 0x7fffu

/* Build option of the tests: LW_RSEQ_DELAY pauses between any two steps, so that most sequences are interrupted. */
#ifdef LW_RSEQ_DELAY
#define LW__STR2(x) #x
#define LW__STR(x) LW__STR2(x)
#define LW__DELAY ".rept " LW__STR(LW_RSEQ_DELAY) "\n\tpause\n\t.endr\n\t"
#else
#define LW__DELAY ""
#endif

/* The differences between the two: the address register, the thread pointer's segment, the fields of a descriptor and
 * how a descriptor's address is formed. A descriptor's address is not relative to
 * the instruction pointer on i386: position-independent code forms it from the global offset table's. */
#ifdef __x86_64__
#define LW__AX "%%rax"
#define LW__AREA "%%fs:"
#define LW__FIELDS(begin, end, abort) ".quad " begin ", " end " - " begin ", " abort "\n\t"
#define LW__DESCRIPTOR(label) "leaq " label "(%%rip), %%rax\n\t"
#else
#define LW__AX "%%eax"
#define LW__AREA "%%gs:"
#define LW__FIELDS(begin, end, abort) ".long " begin ", 0, " end " - " begin ", 0, " abort ", 0\n\t"
#ifdef __PIC__
/* The global offset table's address. LLVM's assembler relocates every mention of the table relative to the place that
 * mentions it: where a compiler that uses it takes the table for a variable, the address is wrong, the kernel finds no
 * descriptor there and ends the process. Hence written out; not volatile, so that a loop forms it once. */
#ifdef __clang__
static inline const void *lw__got(void)
{
    const void *got;
    __asm__("calll 1f\n1:\tpopl %[got]\n\taddl $_GLOBAL_OFFSET_TABLE_+(.-1b), %[got]" : [got] "=r"(got) : : "cc");
    return got;
}
#else
extern const char lw__got_is[] __asm__("_GLOBAL_OFFSET_TABLE_") __attribute__((visibility("hidden")));
#define lw__got() ((const void *)lw__got_is)
#endif
#define LW__GOT , [got] "r"(lw__got())
#define LW__DESCRIPTOR(label) "leal " label "@GOTOFF(%[got]), %%eax\n\t"
#else
#define LW__DESCRIPTOR(label) "movl $" label ", %%eax\n\t"
#endif
#endif
#ifndef LW__GOT
#define LW__GOT
#endif

/* The address that offsets of thread-local areas are relative to. Volatile: a coroutine may go on in another thread after
 * any call, so the compiler must not keep the address from before. */
static inline char *lw__thread_pointer(void)
{
    char *tp;
    __asm__ volatile("mov " LW__AREA "0, %[tp]" : [tp] "=r"(tp));
    return tp;
}

/* How a limit is an operand. "g" would do, but clang then takes memory, and reloads everything in a loop; i386 is short of
 * registers. */
#ifdef __x86_64__
#define LW__LIMIT_IN(limit) "r"(limit)
#else
#define LW__LIMIT_IN(limit) "g"(limit)
#endif
/* The same for the word's address: where clang addresses a frame by two registers, no third is left for it on i386. */
#if defined(__i386__) && defined(__clang__)
#define LW__WORD_IN(q) "g"(q)
#else
#define LW__WORD_IN(q) "r"(q)
#endif

/* Reads lw_percpu_rt.offset and the limit that stands `at` bytes into it. Both are final as soon as the library has started,
 * but for a limit that grows, so the compiler may hoist this out of loops and above calls. Where it hoists it to before that
 * start, the limit is 0, and the caller must do without a sequence: the offset is not one of an area. Hence the limit is an
 * operand of the second load, which cannot come before the first. Two loads of one result each: gcc leaves others in the
 * loop. */
LW__INLINE struct lw__rt_view lw__rt_read(const void *rt, size_t at)
{
    struct lw__rt_view view;
#ifdef __OPTIMIZE__
    __asm__("movl %c[at](%[rt]), %[limit]" : [limit] "=r"(view.limit) : [rt] "r"(rt), [at] "i"(at));
#else /* a parameter is no constant then */
    __asm__("movl (%[rt],%[at]), %[limit]" : [limit] "=r"(view.limit) : [rt] "r"(rt), [at] "r"(at));
#endif
    __asm__("mov (%[rt]), %[offset]" : [offset] "=r"(view.offset) : [rt] "r"(rt), LW__LIMIT_IN(view.limit));
    return view;
}

#define LW__SEQ_TABLE(label, begin, end)             \
    ".pushsection __rseq_cs, \"aw?\", @progbits\n\t" \
    ".balign 32\n" label ":\t.long 0, 0\n\t" LW__FIELDS(begin, end, "34f") ".popsection\n\t"

/* The CPU's distance into `reg`, or out. */
#define LW__SEQ_CPU(off, limit, reg, out)                                              \
    "movl " LW__AREA "2(" off "), " reg "\n\t" LW__DELAY "cmpl " limit ", " reg "\n\t" \
    "jae " out "\n\t"

/* Publishes the descriptor, then forms the address of this CPU's word in the address register. An unusable CPU number jumps
 * to `out`. */
#define LW__SEQ_BEGIN(out)                    \
    LW__SEQ_TABLE("30", "31f", "32f")         \
    LW__DESCRIPTOR("30b")                     \
    "mov " LW__AX ", " LW__AREA "8(%[off])\n" \
    "31:\t" LW__DELAY LW__SEQ_CPU("%[off]", "%[limit]", "%%eax", out) "add %[q], " LW__AX "\n\t" LW__DELAY

/* The abort path. Its first bytes decode as an undefined instruction with the signature as its operand, so that no jump
 * into it can go unnoticed. `more`: cold code that only this sequence jumps to. */
#define LW__SEQ_ELSEWHERE(abort, more)                         \
    ".pushsection .text.lw_rseq_abort, \"ax?\", @progbits\n\t" \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                               \
    ".long 0x53053053\n"                                       \
    "34:\t" abort "\n" more "\t.popsection\n"

/* The end of the sequence. */
#define LW__SEQ_END(abort) "32:\n\t" LW__SEQ_ELSEWHERE(abort, "")

#define LW__SEQ_INPUTS [off] "r"(off), [limit] LW__LIMIT_IN(limit), [q] LW__WORD_IN(q) LW__GOT

/* Additive: one add to memory is load, addition and commit at once. True: added. False: nothing happened. */
#define LW__SEQ_ADD(bits, suffix, imm)                                                                      \
    LW__INLINE bool lw__seq_add_u##bits(char *q, uint##bits##_t v, ptrdiff_t off, unsigned limit)           \
    {                                                                                                       \
        __asm__ goto(LW__SEQ_BEGIN("%l[no]") "add" suffix " %[v], (" LW__AX ")\n" LW__SEQ_END("jmp %l[no]") \
                     :                                                                                      \
                     : LW__SEQ_INPUTS, [v] imm(v)                                                           \
                     : LW__CLOBBERED, "memory", "cc"                                                        \
                     : no);                                                                                 \
        return true;                                                                                        \
    no:                                                                                                     \
        return false;                                                                                       \
    }

#ifdef __x86_64__
#define LW__CLOBBERED "rax"
LW__SEQ_ADD(64, "q", "er")
#else
#define LW__CLOBBERED "eax"
#endif
LW__SEQ_ADD(32, "l", "ir")

#endif
