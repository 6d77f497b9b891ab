/* SPDX-License-Identifier: MIT */
/* Restartable sequences for x86-64: the value operations; their shape and the adds are in arch/x86/rseq.h.
 * Included by percpu.h. */
#ifndef LINEWRIGHT_ARCH_X86_64_RSEQ_H
#define LINEWRIGHT_ARCH_X86_64_RSEQ_H

#include "../x86/rseq.h"

/* Value sequences and the fall-back of single threads use the same word. The fall-back takes the CPU's lock word (the first
 * word of the 64 KiB unit) and then has every sequence aborted that tested the lock word before. */
#define LW__SEQ_TEST_LOCK     \
    "movq %%rax, %%rcx\n\t"   \
    "andq $-65536, %%rcx\n\t" \
    "cmpl $0, (%%rcx)\n\t"    \
    "jne 34f\n\t" LW__DELAY

/* Value operations. `old` receives the value before; false: nothing happened (aborted, locked, or no CPU number). */
#define LW__SEQ_VALUE(name, bits, body)                                                                               \
    LW__INLINE bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, uint##bits##_t expected, uint##bits##_t *old, \
                                             ptrdiff_t off, unsigned limit)                                           \
    {                                                                                                                 \
        uint##bits##_t was = 0;                                                                                       \
        unsigned no = 0;                                                                                              \
        __asm__ volatile(LW__SEQ_BEGIN("34f") LW__SEQ_TEST_LOCK body LW__SEQ_END("movl $1, %[no]\n\tjmp 32b")         \
                         : [was] "+&r"(was), [no] "+&r"(no)                                                           \
                         : LW__SEQ_INPUTS, [v] "r"(v), [expected] "r"(expected)                                       \
                         : "rax", "rcx", "memory", "cc");                                                             \
        *old = was;                                                                                                   \
        return !no;                                                                                                   \
    }

#define LW__SEQ_VALUES(bits, load, store, cmp, reg, was32, c)                                                            \
    LW__SEQ_VALUE(read, bits, load " (%%rax), " was32 "\n")                                                              \
    LW__SEQ_VALUE(write, bits, store " %" reg "[v], (%%rax)\n")                                                          \
    LW__SEQ_VALUE(xchg, bits, load " (%%rax), " was32 "\n\t" LW__DELAY store " %" reg "[v], (%%rax)\n")                  \
    LW__SEQ_VALUE(and, bits,                                                                                             \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "movq %q[was], %%rcx\n\tandq %q[v], %%rcx\n\t" store " " c    \
                       ", (%%rax)\n")                                                                                    \
    LW__SEQ_VALUE(or, bits,                                                                                              \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "movq %q[was], %%rcx\n\torq %q[v], %%rcx\n\t" store " " c     \
                       ", (%%rax)\n")                                                                                    \
    LW__SEQ_VALUE(xor, bits,                                                                                             \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "movq %q[was], %%rcx\n\txorq %q[v], %%rcx\n\t" store " " c    \
                       ", (%%rax)\n")                                                                                    \
    LW__SEQ_VALUE(fetch_add, bits,                                                                                       \
                  load " (%%rax), " was32 "\n\t" LW__DELAY "leaq (%q[was], %q[v]), %%rcx\n\t" store " " c ", (%%rax)\n") \
    /* Unequal: leaves without a store. */                                                                               \
    LW__SEQ_VALUE(cmpxchg, bits,                                                                                         \
                  load " (%%rax), " was32 "\n\t" LW__DELAY cmp " %" reg "[was], %" reg "[expected]\n\t"                  \
                       "jne 32f\n\t" store " %" reg "[v], (%%rax)\n")

LW__SEQ_VALUES(8, "movzbl", "movb", "cmpb", "b", "%k[was]", "%%cl")
LW__SEQ_VALUES(16, "movzwl", "movw", "cmpw", "w", "%k[was]", "%%cx")
LW__SEQ_VALUES(32, "movl", "movl", "cmpl", "k", "%k[was]", "%%ecx")
LW__SEQ_VALUES(64, "movq", "movq", "cmpq", "q", "%q[was]", "%%rcx")

/* Takes the first node off a list: loads the head, then the word `v` bytes into the node that it points to, and commits
 * that. Leaves without a store where the list is empty. The node cannot go away in between: a thread that takes it off first
 * runs on this CPU, which aborts the sequence, or holds the lock word. */
LW__SEQ_VALUE(pop, 64,
              "movq (%%rax), %q[was]\n\t" LW__DELAY "testq %q[was], %q[was]\n\tjz 32f\n\t"
              "movq (%q[was], %q[v]), %%rcx\n\t" LW__DELAY "movq %%rcx, (%%rax)\n")

/* Those that tell where they took place: `old` receives the address of this CPU's word. pop_at stores the node to *v; push
 * puts a chain that begins at v, and whose last link is at `expected`, before what is there. */
LW__SEQ_VALUE(add_at, 64, "movq %%rax, %q[was]\n\t" LW__DELAY "addq %q[v], (%%rax)\n")
LW__SEQ_VALUE(push, 64,
              "movq (%%rax), %%rcx\n\t" LW__DELAY "movq %%rcx, (%q[expected])\n\tmovq %%rax, %q[was]\n\t" LW__DELAY
              "movq %q[v], (%%rax)\n")
LW__SEQ_VALUE(pop_at, 64,
              "movq (%%rax), %%rcx\n\tmovq %%rcx, (%q[v])\n\tmovq %%rax, %q[was]\n\t" LW__DELAY
              "testq %%rcx, %%rcx\n\tjz 32f\n\tmovq (%%rcx), %%rcx\n\t" LW__DELAY "movq %%rcx, (%%rax)\n")

#endif
