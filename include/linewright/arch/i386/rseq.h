/* SPDX-License-Identifier: MIT */
/* Restartable sequences for 32-bit x86: 64-bit adds and the value operations; their shape and the 32-bit adds are in
 * arch/x86/rseq.h. Included by percpu.h. What differs:
 * - 64 bits must commit with ONE instruction: an add/adc pair could be cut in two. As long as the upper half does not
 * change,
 *   which is nearly always so for a counter of small steps, that is a store of the lower half. Else it is cmpxchg8b, unlocked:
 *   within the sequence no other thread of this CPU can come between.
 * - Six registers: value operations keep their operands in a record and use fixed registers.
 */
#ifndef LINEWRIGHT_ARCH_I386_RSEQ_H
#define LINEWRIGHT_ARCH_I386_RSEQ_H

#include "../x86/rseq.h"

/* Operands of the sequences with fixed registers; the offsets below are those of this record. */
struct lw__seq_args {
    ptrdiff_t off; /* 0 */
    unsigned limit; /* 4 */
    char *q; /* 8 */
    const void *got; /* 12: where descriptors are counted from */
    uint32_t v[2]; /* 16, 20 */
    uint32_t expected[2]; /* 24, 28 */
    uint32_t old[2]; /* 32, 36 */
    uint32_t no; /* 40 */
};

/* In a function with over-aligned variables and an array of variable length, or alloca(), clang keeps the frame's address in ESI
 * and lets an operand of assembly take it (14 and 19 do). So with clang the record comes in EDI, and ESI is put back. */
#ifdef __clang__
#define LW__ARGS_IN "D"
#define LW__ARGS_LOST "eax"
#define LW__ARGS_TAKE "pushl %%esi\n\tmovl %%edi, %%esi\n\t"
#define LW__ARGS_LEAVE "movl %%esi, %%edi\n\tpopl %%esi\n"
#else
#define LW__ARGS_IN "S"
#define LW__ARGS_LOST "eax", "edi"
#define LW__ARGS_TAKE ""
#define LW__ARGS_LEAVE ""
#endif

#ifdef __PIC__
#define LW__ARGS_GOT lw__got()
#define LW__DESCRIPTOR_ARGS "movl 12(%%esi), %%eax\n\tleal 30b@GOTOFF(%%eax), %%eax\n\t"
#else
#define LW__ARGS_GOT ((const void *)0)
#define LW__DESCRIPTOR_ARGS LW__DESCRIPTOR("30b")
#endif

/* Publishes the descriptor, then forms the address of this CPU's word in %edi. The arguments are in (%esi). */
#define LW__SEQ_BEGIN_ARGS            \
    LW__ARGS_TAKE                     \
    LW__SEQ_TABLE("30", "31f", "32f") \
    LW__DESCRIPTOR_ARGS               \
    "movl (%%esi), %%edi\n\t"         \
    "movl %%eax, %%gs:8(%%edi)\n"     \
    "31:\t" LW__DELAY LW__SEQ_CPU("%%edi", "4(%%esi)", "%%edi", "34f") "addl 8(%%esi), %%edi\n\t" LW__DELAY

/* See "lock word" in percpu.h. */
#define LW__SEQ_TEST_LOCK     \
    "movl %%edi, %%eax\n\t"   \
    "andl $-65536, %%eax\n\t" \
    "cmpl $0, (%%eax)\n\t"    \
    "jne 34f\n\t" LW__DELAY

#define LW__SEQ_END_ARGS LW__SEQ_END("movl $1, 40(%%esi)\n\tjmp 32b")

__attribute__((noinline, cold, unused)) static bool lw__seq_add_wide_u64(char *q, uint64_t v, ptrdiff_t off, unsigned limit)
{
    struct lw__seq_args a = {off, limit, q, LW__ARGS_GOT, {(uint32_t)v, (uint32_t)(v >> 32)}, {0, 0}, {0, 0}, 0};
    /* The old value into edx:eax, the new one into ecx:ebx; cmpxchg8b stores it, for the two are still equal. */
    __asm__ volatile(LW__SEQ_BEGIN_ARGS "movl (%%edi), %%eax\n\t" LW__DELAY "movl 4(%%edi), %%edx\n\t"
                                        "movl 16(%%esi), %%ebx\n\t"
                                        "movl 20(%%esi), %%ecx\n\t"
                                        "addl %%eax, %%ebx\n\t"
                                        "adcl %%edx, %%ecx\n\t" LW__DELAY
                                        "cmpxchg8b (%%edi)\n" LW__SEQ_END_ARGS LW__ARGS_LEAVE
                     :
                     : LW__ARGS_IN(&a)
                     : LW__ARGS_LOST, "ebx", "ecx", "edx", "memory", "cc");
    return !a.no;
}

/* Additive, 64 bits. True: added. False: nothing happened. */
LW__INLINE bool lw__seq_add_u64(char *q, uint64_t v, ptrdiff_t off, unsigned limit)
{
    __asm__ goto(LW__SEQ_BEGIN("%l[no]") "movl (%%eax), %%ecx\n\t" LW__DELAY "movl %[upper], %%edx\n\t"
                                         "addl %[lower], %%ecx\n\t"
                                         "adcl $0, %%edx\n\t" /* by how much the upper half would change */
                                         "jnz %l[wide]\n\t" LW__DELAY "movl %%ecx, (%%eax)\n" LW__SEQ_END("jmp %l[no]")
                 :
                 : LW__SEQ_INPUTS, [lower] "g"((uint32_t)v), [upper] "g"((uint32_t)(v >> 32))
                 : "eax", "ecx", "edx", "memory", "cc"
                 : no, wide);
    return true;
wide:
    return lw__seq_add_wide_u64(q, v, off, limit);
no:
    return false;
}

/* Value operations. `old` receives the value before; false: nothing happened (aborted, locked, or no CPU number). */
#define LW__SEQ_VALUE(name, bits, body)                                                                               \
    LW__INLINE bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, uint##bits##_t expected, uint##bits##_t *old, \
                                             ptrdiff_t off, unsigned limit)                                           \
    {                                                                                                                 \
        struct lw__seq_args a = {off, limit, q, LW__ARGS_GOT, {v, 0}, {expected, 0}, {0, 0}, 0};                      \
        __asm__ volatile(LW__SEQ_BEGIN_ARGS LW__SEQ_TEST_LOCK body LW__SEQ_END_ARGS                                   \
                         "movl %%eax, 32(%%esi)\n\t" LW__ARGS_LEAVE                                                   \
                         :                                                                                            \
                         : LW__ARGS_IN(&a)                                                                            \
                         : LW__ARGS_LOST, "ecx", "edx", "memory", "cc");                                              \
        *old = (uint##bits##_t)a.old[0];                                                                              \
        return !a.no;                                                                                                 \
    }

#define LW__SEQ_VALUES(bits, load, store, c)                                                                              \
    LW__SEQ_VALUE(read, bits, load " (%%edi), %%eax\n")                                                                   \
    LW__SEQ_VALUE(write, bits, "movl 16(%%esi), %%ecx\n\t" store " " c ", (%%edi)\n")                                     \
    LW__SEQ_VALUE(xchg, bits, "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY store " " c ", (%%edi)\n") \
    LW__SEQ_VALUE(and, bits,                                                                                              \
                  "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "andl %%eax, %%ecx\n\t" store " " c    \
                  ", (%%edi)\n")                                                                                          \
    LW__SEQ_VALUE(or, bits,                                                                                               \
                  "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "orl %%eax, %%ecx\n\t" store " " c     \
                  ", (%%edi)\n")                                                                                          \
    LW__SEQ_VALUE(xor, bits,                                                                                              \
                  "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "xorl %%eax, %%ecx\n\t" store " " c    \
                  ", (%%edi)\n")                                                                                          \
    LW__SEQ_VALUE(fetch_add, bits,                                                                                        \
                  "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "addl %%eax, %%ecx\n\t" store " " c    \
                  ", (%%edi)\n")                                                                                          \
    /* Unequal: leaves without a store. Both sides are zero-extended to 32 bits. */                                       \
    LW__SEQ_VALUE(cmpxchg, bits,                                                                                          \
                  "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY                                        \
                  "cmpl %%eax, 24(%%esi)\n\tjne 32f\n\t" store " " c ", (%%edi)\n")

LW__SEQ_VALUES(8, "movzbl", "movb", "%%cl")
LW__SEQ_VALUES(16, "movzwl", "movw", "%%cx")
LW__SEQ_VALUES(32, "movl", "movl", "%%ecx")

/* Takes the first node off a list; as in arch/x86_64/rseq.h. */
LW__SEQ_VALUE(pop, 32,
              "movl (%%edi), %%eax\n\t" LW__DELAY "testl %%eax, %%eax\n\tjz 32f\n\t"
              "movl 16(%%esi), %%ecx\n\tmovl (%%eax, %%ecx), %%ecx\n\t" LW__DELAY "movl %%ecx, (%%edi)\n")

/* Those that tell where they took place; as in arch/x86_64/rseq.h. */
LW__SEQ_VALUE(push, 32,
              "movl (%%edi), %%ecx\n\t" LW__DELAY "movl 24(%%esi), %%edx\n\tmovl %%ecx, (%%edx)\n\t"
              "movl 16(%%esi), %%ecx\n\tmovl %%edi, %%eax\n\t" LW__DELAY "movl %%ecx, (%%edi)\n")
LW__SEQ_VALUE(pop_at, 32,
              "movl (%%edi), %%ecx\n\tmovl 16(%%esi), %%edx\n\tmovl %%ecx, (%%edx)\n\tmovl %%edi, %%eax\n\t" LW__DELAY
              "testl %%ecx, %%ecx\n\tjz 32f\n\tmovl (%%ecx), %%ecx\n\t" LW__DELAY "movl %%ecx, (%%edi)\n")

/* 64 bits: reading two halves is one read, because a write of this CPU's word in between aborts the sequence, and a held
 * lock word ends it before. */
#define LW__SEQ_VALUE64(name, body)                                                                            \
    LW__INLINE bool lw__seq_##name##_u64(char *q, uint64_t v, uint64_t expected, uint64_t *old, ptrdiff_t off, \
                                         unsigned limit)                                                       \
    {                                                                                                          \
        struct lw__seq_args a = {off,                                                                          \
                                 limit,                                                                        \
                                 q,                                                                            \
                                 LW__ARGS_GOT,                                                                 \
                                 {(uint32_t)v, (uint32_t)(v >> 32)},                                           \
                                 {(uint32_t)expected, (uint32_t)(expected >> 32)},                             \
                                 {0, 0},                                                                       \
                                 0};                                                                           \
        __asm__ volatile(LW__SEQ_BEGIN_ARGS LW__SEQ_TEST_LOCK                                                  \
                         "movl (%%edi), %%eax\n\t" LW__DELAY "movl 4(%%edi), %%edx\n\t"                        \
                         "movl %%eax, 32(%%esi)\n\t" /* the old value; a restart writes it again */            \
                         "movl %%edx, 36(%%esi)\n\t" body LW__SEQ_END_ARGS LW__ARGS_LEAVE                      \
                         :                                                                                     \
                         : LW__ARGS_IN(&a)                                                                     \
                         : LW__ARGS_LOST, "ebx", "ecx", "edx", "memory", "cc");                                \
        *old = (uint64_t)a.old[1] << 32 | a.old[0];                                                            \
        return !a.no;                                                                                          \
    }
/* edx:eax still equals the word, so cmpxchg8b stores ecx:ebx: one commit of 8 bytes. */
#define LW__STORE64 LW__DELAY "cmpxchg8b (%%edi)\n"
#define LW__NEW64 "movl 16(%%esi), %%ebx\n\tmovl 20(%%esi), %%ecx\n\t"
LW__SEQ_VALUE64(read, "\n")
LW__SEQ_VALUE64(write, LW__NEW64 LW__STORE64)
LW__SEQ_VALUE64(xchg, LW__NEW64 LW__STORE64)
LW__SEQ_VALUE64(and, LW__NEW64 "andl %%eax, %%ebx\n\tandl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(or, LW__NEW64 "orl %%eax, %%ebx\n\torl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(xor, LW__NEW64 "xorl %%eax, %%ebx\n\txorl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(fetch_add, LW__NEW64 "addl %%eax, %%ebx\n\tadcl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(add_at, LW__NEW64 "addl %%eax, %%ebx\n\tadcl %%edx, %%ecx\n\t"
                                  "movl %%edi, 32(%%esi)\n\tmovl $0, 36(%%esi)\n\t" LW__STORE64)
LW__SEQ_VALUE64(cmpxchg, "cmpl %%eax, 24(%%esi)\n\tjne 32f\n\tcmpl %%edx, 28(%%esi)\n\tjne 32f\n\t" LW__NEW64 LW__STORE64)

#endif
