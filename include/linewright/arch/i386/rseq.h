/* Restartable sequences for 32-bit x86: per-CPU steps that either commit on the CPU they read, or did not happen.
 *
 * The shape is that of arch/x86_64/rseq.h; what differs:
 * - A descriptor's address is not relative to the instruction pointer here. Position-independent code forms it from the
 *   address of the global offset table, which the compiler has in a register anyway.
 * - 64 bits must commit with ONE instruction: an add/adc pair could be cut in two. With SSE2 that is a movq store, without
 *   it cmpxchg8b, unlocked: within the watch nobody else on this CPU can come between.
 * - Six registers: value operations keep their operands in a record and use fixed registers.
 */
#ifndef LINEWRIGHT_ARCH_I386_RSEQ_H
#define LINEWRIGHT_ARCH_I386_RSEQ_H

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

/* Where the descriptor's address comes from. */
#ifdef __PIC__
extern const char lw__got[] __asm__("_GLOBAL_OFFSET_TABLE_") __attribute__((visibility("hidden")));
#define LW__GOT ((const void *)lw__got)
#define LW__DESCRIPTOR "leal 30b@GOTOFF(%[got]), %%eax\n\t"
#define LW__DESCRIPTOR_ARGS "movl 12(%%esi), %%eax\n\tleal 30b@GOTOFF(%%eax), %%eax\n\t"
#else
#define LW__GOT ((const void *)0)
#define LW__DESCRIPTOR "movl $30b, %%eax\n\t"
#define LW__DESCRIPTOR_ARGS "movl $30b, %%eax\n\t"
#endif

/* What offsets of thread-local areas count from. */
static inline char *lw__thread_pointer(void)
{
    char *tp;
    __asm__("movl %%gs:0, %0" : "=r"(tp));
    return tp;
}

/* One load that may be hoisted out of loops: the fields of lw_percpu_rt are final before any per-CPU pointer exists, and
 * naming such a pointer as an input keeps the load behind its allocation. */
static inline ptrdiff_t lw__rt_offset(const void *rt, const void *p)
{
    ptrdiff_t offset;
    __asm__("movl (%1), %0" : "=r"(offset) : "r"(rt), "g"(p));
    return offset;
}

static inline unsigned lw__rt_nr(const void *rt, const void *p)
{
    unsigned nr;
    __asm__("movl 4(%1), %0" : "=r"(nr) : "r"(rt), "g"(p));
    return nr;
}

#define LW__SEQ_TABLE \
    ".pushsection __rseq_cs, \"aw?\", @progbits\n\t" \
    ".balign 32\n" \
    "30:\t.long 0, 0, 31f, 0, 32f - 31f, 0, 34f, 0\n\t" \
    ".popsection\n\t"

#define LW__SEQ_END(abort) \
    "32:\n\t" \
    ".pushsection .text.lw_rseq_abort, \"ax?\", @progbits\n\t" \
    ".byte 0x0f, 0xb9, 0x3d\n\t" \
    ".long 0x53053053\n" \
    "34:\t" abort "\n\t" \
    ".popsection\n"

/* Announce, then the address of this CPU's word in %eax. */
#define LW__SEQ_BEGIN(out) \
    LW__SEQ_TABLE LW__DESCRIPTOR \
    "movl %%eax, %%gs:8(%[off])\n" \
    "31:\t" LW__DELAY \
    "movl %%gs:4(%[off]), %%eax\n\t" LW__DELAY \
    "cmpl %[nr], %%eax\n\t" \
    "jae " out "\n\t" \
    "shll $16, %%eax\n\t" \
    "addl %[q], %%eax\n\t" LW__DELAY

/* Additive. True: added. False: nothing happened. */
static inline bool lw__seq_add_u32(char *q, uint32_t v, ptrdiff_t off, unsigned nr)
{
    __asm__ goto(LW__SEQ_BEGIN("%l[no]") "addl %[v], (%%eax)\n" LW__SEQ_END("jmp %l[no]")
                 :
                 : [off] "r"(off), [nr] "g"(nr), [q] "r"(q), [v] "ri"(v), [got] "r"(LW__GOT)
                 : "eax", "memory", "cc"
                 : no);
    return true;
no:
    return false;
}

/* Operands of the sequences with fixed registers; the offsets below are those of this record. */
struct lw__seq_args {
    ptrdiff_t off; /* 0 */
    unsigned nr; /* 4 */
    char *q; /* 8 */
    const void *got; /* 12 */
    uint32_t v[2]; /* 16, 20 */
    uint32_t expected[2]; /* 24, 28 */
    uint32_t old[2]; /* 32, 36 */
    uint32_t no; /* 40 */
};

/* Announce, then the address of this CPU's word in %edi. The arguments are in (%esi). */
#define LW__SEQ_BEGIN_ARGS \
    LW__SEQ_TABLE LW__DESCRIPTOR_ARGS \
    "movl (%%esi), %%edi\n\t" \
    "movl %%eax, %%gs:8(%%edi)\n" \
    "31:\t" LW__DELAY \
    "movl %%gs:4(%%edi), %%edi\n\t" LW__DELAY \
    "cmpl 4(%%esi), %%edi\n\t" \
    "jae 34f\n\t" \
    "shll $16, %%edi\n\t" \
    "addl 8(%%esi), %%edi\n\t" LW__DELAY

/* See "lock word" in percpu.h. */
#define LW__SEQ_TEST_LOCK \
    "movl %%edi, %%eax\n\t" \
    "andl $-65536, %%eax\n\t" \
    "cmpl $0, (%%eax)\n\t" \
    "jne 34f\n\t" LW__DELAY

#define LW__SEQ_END_ARGS LW__SEQ_END("movl $1, 40(%%esi)\n\tjmp 32b")

#ifdef __SSE2__
static inline bool lw__seq_add_u64(char *q, uint64_t v, ptrdiff_t off, unsigned nr)
{
    typedef long long lw__v2 __attribute__((vector_size(16)));
    lw__v2 add = {(long long)v, 0};
    __asm__ goto(LW__SEQ_BEGIN("%l[no]") "movq (%%eax), %%xmm0\n\t" LW__DELAY "paddq %[v], %%xmm0\n\t"
                 "movq %%xmm0, (%%eax)\n" LW__SEQ_END("jmp %l[no]")
                 :
                 : [off] "r"(off), [nr] "g"(nr), [q] "r"(q), [got] "r"(LW__GOT),
                   [v] "x"(add)
                 : "eax", "xmm0", "memory", "cc"
                 : no);
    return true;
no:
    return false;
}
#else
static inline bool lw__seq_add_u64(char *q, uint64_t v, ptrdiff_t off, unsigned nr)
{
    struct lw__seq_args a = {off, nr, q, LW__GOT, {(uint32_t)v, (uint32_t)(v >> 32)}, {0, 0}, {0, 0}, 0};
    /* The old value into edx:eax, the new one into ecx:ebx; cmpxchg8b stores it, for the two are still equal. */
    __asm__ volatile(LW__SEQ_BEGIN_ARGS
                     "movl (%%edi), %%eax\n\t" LW__DELAY
                     "movl 4(%%edi), %%edx\n\t"
                     "movl 16(%%esi), %%ebx\n\t"
                     "movl 20(%%esi), %%ecx\n\t"
                     "addl %%eax, %%ebx\n\t"
                     "adcl %%edx, %%ecx\n\t" LW__DELAY
                     "cmpxchg8b (%%edi)\n" LW__SEQ_END_ARGS
                     :
                     : "S"(&a)
                     : "eax", "ebx", "ecx", "edx", "edi", "memory", "cc");
    return !a.no;
}
#endif

/* Value operations. `old` receives the value before; false: nothing happened (aborted, locked, or no CPU number). */
#define LW__SEQ_VALUE(name, bits, body) \
    static inline bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, uint##bits##_t expected, uint##bits##_t *old, \
                                                ptrdiff_t off, unsigned nr) \
    { \
        struct lw__seq_args a = {off, nr, q, LW__GOT, {v, 0}, {expected, 0}, {0, 0}, 0}; \
        __asm__ volatile(LW__SEQ_BEGIN_ARGS LW__SEQ_TEST_LOCK body LW__SEQ_END_ARGS \
                         "movl %%eax, 32(%%esi)\n" \
                         : \
                         : "S"(&a) \
                         : "eax", "ecx", "edx", "edi", "memory", "cc"); \
        *old = (uint##bits##_t)a.old[0]; \
        return !a.no; \
    }

#define LW__SEQ_VALUES(bits, load, store, c) \
    LW__SEQ_VALUE(read, bits, load " (%%edi), %%eax\n") \
    LW__SEQ_VALUE(write, bits, "movl 16(%%esi), %%ecx\n\t" store " " c ", (%%edi)\n") \
    LW__SEQ_VALUE(xchg, bits, "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY store " " c ", (%%edi)\n") \
    LW__SEQ_VALUE(and, bits, "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "andl %%eax, %%ecx\n\t" \
                             store " " c ", (%%edi)\n") \
    LW__SEQ_VALUE(or, bits, "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "orl %%eax, %%ecx\n\t" \
                            store " " c ", (%%edi)\n") \
    LW__SEQ_VALUE(fetch_add, bits, "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY "addl %%eax, %%ecx\n\t" \
                                   store " " c ", (%%edi)\n") \
    /* Unequal: leaves without a store. Both sides are zero-extended to 32 bits. */ \
    LW__SEQ_VALUE(cmpxchg, bits, "movl 16(%%esi), %%ecx\n\t" load " (%%edi), %%eax\n\t" LW__DELAY \
                                 "cmpl %%eax, 24(%%esi)\n\tjne 32f\n\t" store " " c ", (%%edi)\n")

LW__SEQ_VALUES(8, "movzbl", "movb", "%%cl")
LW__SEQ_VALUES(16, "movzwl", "movw", "%%cx")
LW__SEQ_VALUES(32, "movl", "movl", "%%ecx")

/* 64 bits: reading two halves is one read, for whoever writes this CPU's word in between ends the sequence, and a locked
 * word ends it before. */
#define LW__SEQ_VALUE64(name, body) \
    static inline bool lw__seq_##name##_u64(char *q, uint64_t v, uint64_t expected, uint64_t *old, ptrdiff_t off, unsigned nr) \
    { \
        struct lw__seq_args a = {off, nr, q, LW__GOT, {(uint32_t)v, (uint32_t)(v >> 32)}, \
                                 {(uint32_t)expected, (uint32_t)(expected >> 32)}, {0, 0}, 0}; \
        __asm__ volatile(LW__SEQ_BEGIN_ARGS LW__SEQ_TEST_LOCK \
                         "movl (%%edi), %%eax\n\t" LW__DELAY \
                         "movl 4(%%edi), %%edx\n\t" \
                         "movl %%eax, 32(%%esi)\n\t" /* the old value; a restart writes it again */ \
                         "movl %%edx, 36(%%esi)\n\t" body LW__SEQ_END_ARGS \
                         : \
                         : "S"(&a) \
                         : "eax", "ebx", "ecx", "edx", "edi", "memory", "cc"); \
        *old = (uint64_t)a.old[1] << 32 | a.old[0]; \
        return !a.no; \
    }
/* edx:eax still equals the word, so cmpxchg8b stores ecx:ebx: one commit of 8 bytes. */
#define LW__STORE64 LW__DELAY "cmpxchg8b (%%edi)\n"
#define LW__NEW64 "movl 16(%%esi), %%ebx\n\tmovl 20(%%esi), %%ecx\n\t"
LW__SEQ_VALUE64(read, "\n")
LW__SEQ_VALUE64(write, LW__NEW64 LW__STORE64)
LW__SEQ_VALUE64(xchg, LW__NEW64 LW__STORE64)
LW__SEQ_VALUE64(and, LW__NEW64 "andl %%eax, %%ebx\n\tandl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(or, LW__NEW64 "orl %%eax, %%ebx\n\torl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(fetch_add, LW__NEW64 "addl %%eax, %%ebx\n\tadcl %%edx, %%ecx\n\t" LW__STORE64)
LW__SEQ_VALUE64(cmpxchg, "cmpl %%eax, 24(%%esi)\n\tjne 32f\n\tcmpl %%edx, 28(%%esi)\n\tjne 32f\n\t" LW__NEW64 LW__STORE64)

#endif
