/* SPDX-License-Identifier: MIT */
/* No restartable sequences on this architecture: every sequence reports that nothing happened, and the fall-back does the
 * operation. Included by percpu.h. */
#ifndef LINEWRIGHT_ARCH_GENERIC_RSEQ_H
#define LINEWRIGHT_ARCH_GENERIC_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW_HAVE_RSEQ 0
#define LW_SYS_RSEQ 293 /* the system call; older kernel headers lack its name */
#define LW_RSEQ_SIG 0u
#define LW__RSEQ_LIMIT(nr) (nr)
#define LW__RSEQ_CPUS(limit) (limit)
#define LW__RSEQ_MOST_CPUS 0x7fffffffu

static inline char *lw__thread_pointer(void)
{
    return (char *)0;
}

LW__INLINE struct lw__rt_view lw__rt_read(const void *rt, size_t at)
{
    struct lw__rt_view none = {0, 0};
    (void)rt, (void)at;
    return none;
}

#define LW__SEQ_ADD(name, bits)                                                                        \
    LW__INLINE bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, ptrdiff_t off, unsigned limit) \
    {                                                                                                  \
        (void)q, (void)v, (void)off, (void)limit;                                                      \
        return false;                                                                                  \
    }
LW__SEQ_ADD(add, 32)
LW__SEQ_ADD(add, 64)

#define LW__SEQ_VALUE(name, bits)                                                                                     \
    LW__INLINE bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, uint##bits##_t expected, uint##bits##_t *old, \
                                             ptrdiff_t off, unsigned limit)                                           \
    {                                                                                                                 \
        (void)q, (void)v, (void)expected, (void)old, (void)off, (void)limit;                                          \
        return false;                                                                                                 \
    }
#define LW__SEQ_VALUES(bits)       \
    LW__SEQ_VALUE(read, bits)      \
    LW__SEQ_VALUE(write, bits)     \
    LW__SEQ_VALUE(xchg, bits)      \
    LW__SEQ_VALUE(and, bits)       \
    LW__SEQ_VALUE(or, bits)        \
    LW__SEQ_VALUE(xor, bits)       \
    LW__SEQ_VALUE(pop, bits)       \
    LW__SEQ_VALUE(pop_at, bits)    \
    LW__SEQ_VALUE(push, bits)      \
    LW__SEQ_VALUE(add_at, bits)    \
    LW__SEQ_VALUE(fetch_add, bits) \
    LW__SEQ_VALUE(cmpxchg, bits)
LW__SEQ_VALUES(8)
LW__SEQ_VALUES(16)
LW__SEQ_VALUES(32)
LW__SEQ_VALUES(64)

#endif
