/* Restartable sequences for x86-64: per-CPU steps that either commit on the CPU they read, or did not happen.
 *
 * Every sequence has the same shape, and every step a reason:
 *
 *   lea desc, %rax ; mov %rax, %fs:rseq_cs   announce: from label 31 to 32 the kernel watches over this thread.
 *                                            Stored every time (eager): comparing first and storing only when the kernel
 *                                            has cleared it costs the same or more, see docs/percpu.md.
 *   31: mov %fs:cpu_id, %eax                 the CPU, read inside the watch: migrating after this line aborts.
 *       cmp %nr, %eax ; jae                  unregistered (-1), refused (-2) or unknown CPU: all are >= nr unsigned.
 *       shl $16, %rax ; add %q, %rax         address of this CPU's word in ONE register. A commit through base + index
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
#ifndef LINEWRIGHT_ARCH_X86_64_RSEQ_H
#define LINEWRIGHT_ARCH_X86_64_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW_HAVE_RSEQ 1
#define LW_RSEQ_SIG 0x53053053u /* what the libc registers with; the kernel compares it before it jumps to an abort path */

/* Build option of the tests: LW_RSEQ_DELAY pauses between any two steps, so that most sequences are interrupted. */
#ifdef LW_RSEQ_DELAY
#define LW__STR2(x) #x
#define LW__STR(x) LW__STR2(x)
#define LW__DELAY ".rept " LW__STR(LW_RSEQ_DELAY) "\n\tpause\n\t.endr\n\t"
#else
#define LW__DELAY ""
#endif

/* What offsets of thread-local areas count from. */
static inline char *lw__thread_pointer(void)
{
    char *tp;
    __asm__("movq %%fs:0, %0" : "=r"(tp));
    return tp;
}

/* One load that may be hoisted out of loops: the fields of lw_percpu_rt are final before any per-CPU pointer exists, and
 * naming such a pointer as an input keeps the load behind its allocation. */
static inline ptrdiff_t lw__rt_offset(const void *rt, const void *p)
{
    ptrdiff_t offset;
    __asm__("movq (%1), %0" : "=r"(offset) : "r"(rt), "r"(p));
    return offset;
}

static inline unsigned lw__rt_nr(const void *rt, const void *p)
{
    unsigned nr;
    __asm__("movl 8(%1), %0" : "=r"(nr) : "r"(rt), "r"(p));
    return nr;
}

/* Announce, then the address of this CPU's word in %rax. `out` is where an unusable CPU number goes. */
#define LW__SEQ_BEGIN(out) \
    ".pushsection __rseq_cs, \"aw?\", @progbits\n\t" \
    ".balign 32\n" \
    "30:\t.long 0, 0\n\t" \
    ".quad 31f, 32f - 31f, 34f\n\t" \
    ".popsection\n\t" \
    "leaq 30b(%%rip), %%rax\n\t" \
    "movq %%rax, %%fs:8(%[off])\n" \
    "31:\t" LW__DELAY \
    "movl %%fs:4(%[off]), %%eax\n\t" LW__DELAY \
    "cmpl %[nr], %%eax\n\t" \
    "jae " out "\n\t" \
    "shlq $16, %%rax\n\t" \
    "addq %[q], %%rax\n\t" LW__DELAY

/* Value words share one word with the fall-back of single threads, which takes the CPU's lock word (first word of the
 * 64 KiB unit) and then sees to it that every sequence that tested it before is aborted. */
#define LW__SEQ_TEST_LOCK(out) \
    "movq %%rax, %%rcx\n\t" \
    "andq $-65536, %%rcx\n\t" \
    "cmpl $0, (%%rcx)\n\t" \
    "jne " out "\n\t" LW__DELAY

/* The end of the watch, and the abort path. Its first bytes decode as an undefined instruction with the signature as its
 * operand, so that no jump into it can go unnoticed. */
#define LW__SEQ_END(abort) \
    "32:\n\t" \
    ".pushsection .text.lw_rseq_abort, \"ax?\", @progbits\n\t" \
    ".byte 0x0f, 0xb9, 0x3d\n\t" \
    ".long 0x53053053\n" \
    "34:\t" abort "\n\t" \
    ".popsection\n"

/* Additive: one add to memory is load, addition and commit at once. True: added. False: nothing happened. */
#define LW__SEQ_ADD(bits, suffix) \
    static inline bool lw__seq_add_u##bits(char *q, uint##bits##_t v, ptrdiff_t off, unsigned nr) \
    { \
        __asm__ goto(LW__SEQ_BEGIN("%l[no]") "add" suffix " %[v], (%%rax)\n" LW__SEQ_END("jmp %l[no]") \
                     : \
                     : [off] "r"(off), [nr] "r"(nr), [q] "r"(q), [v] "er"(v) \
                     : "rax", "memory", "cc" \
                     : no); \
        return true; \
    no: \
        return false; \
    }
LW__SEQ_ADD(32, "l")
LW__SEQ_ADD(64, "q")

/* Value operations. `old` receives the value before; false: nothing happened (aborted, locked, or no CPU number). */
#define LW__SEQ_VALUE(name, bits, test_lock, body) \
    static inline bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, uint##bits##_t expected, uint##bits##_t *old, \
                                                ptrdiff_t off, unsigned nr) \
    { \
        uint##bits##_t was = 0; \
        unsigned no = 0; \
        __asm__ volatile(LW__SEQ_BEGIN("34f") test_lock body LW__SEQ_END("movl $1, %[no]\n\tjmp 32b") \
                         : [was] "+&r"(was), [no] "+&r"(no) \
                         : [off] "r"(off), [nr] "r"(nr), [q] "r"(q), [v] "r"(v), [expected] "r"(expected) \
                         : "rax", "rcx", "memory", "cc"); \
        *old = was; \
        return !no; \
    }

#define LW__SEQ_VALUES(bits, load, store, cmp, reg, was32, c) \
    LW__SEQ_VALUE(read, bits, LW__SEQ_TEST_LOCK("34f"), load " (%%rax), " was32 "\n") \
    LW__SEQ_VALUE(write, bits, LW__SEQ_TEST_LOCK("34f"), store " %" reg "[v], (%%rax)\n") \
    LW__SEQ_VALUE(xchg, bits, LW__SEQ_TEST_LOCK("34f"), \
                  load " (%%rax), " was32 "\n\t" LW__DELAY store " %" reg "[v], (%%rax)\n") \
    LW__SEQ_VALUE(and, bits, LW__SEQ_TEST_LOCK("34f"), \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "movq %q[was], %%rcx\n\tandq %q[v], %%rcx\n\t" \
                       store " " c ", (%%rax)\n") \
    LW__SEQ_VALUE(or, bits, LW__SEQ_TEST_LOCK("34f"), \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "movq %q[was], %%rcx\n\torq %q[v], %%rcx\n\t" \
                       store " " c ", (%%rax)\n") \
    LW__SEQ_VALUE(fetch_add, bits, LW__SEQ_TEST_LOCK("34f"), \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "leaq (%q[was], %q[v]), %%rcx\n\t" store " " c ", (%%rax)\n") \
    /* Unequal: leaves without a store. */ \
    LW__SEQ_VALUE(cmpxchg, bits, LW__SEQ_TEST_LOCK("34f"), \
                  load " (%%rax), " was32 "\n\t" LW__DELAY cmp " %" reg "[was], %" reg "[expected]\n\t" \
                       "jne 32f\n\t" store " %" reg "[v], (%%rax)\n")

LW__SEQ_VALUES(8, "movzbl", "movb", "cmpb", "b", "%k[was]", "%%cl")
LW__SEQ_VALUES(16, "movzwl", "movw", "cmpw", "w", "%k[was]", "%%cx")
LW__SEQ_VALUES(32, "movl", "movl", "cmpl", "k", "%k[was]", "%%ecx")
LW__SEQ_VALUES(64, "movq", "movq", "cmpq", "q", "%q[was]", "%%rcx")

#endif
