/* No restartable sequences on this architecture: every sequence reports that nothing happened, and the fall-back does the operation.
 * Included by percpu.h. */
#ifndef LINEWRIGHT_ARCH_GENERIC_RSEQ_H
#define LINEWRIGHT_ARCH_GENERIC_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW_HAVE_RSEQ 0
#define LW_SYS_RSEQ 293 /* the system call; older kernel headers lack its name */
#define LW_RSEQ_SIG 0u
#define LW__RSEQ_LIMIT(nr) (nr)
#define LW__RSEQ_MOST_CPUS 0x7fffffffu
#define LW__RSEQ_LIMIT_GROWS 1 /* nothing counts on a CPU's first words */

static inline char *lw__thread_pointer(void)
{
    return (char *)0;
}

static inline ptrdiff_t lw__rt_offset(const void *rt, const void *p)
{
    (void)rt, (void)p;
    return 0;
}

static inline unsigned lw__rt_limit(const void *rt, const void *p)
{
    (void)rt, (void)p;
    return 0;
}

static inline unsigned lw__rt_value_limit(const void *rt, const void *p)
{
    (void)rt, (void)p;
    return 0;
}

#define LW__SEQ_ADD(name, bits)                                                                        \
    LW__INLINE bool lw__seq_##name##_u##bits(char *q, uint##bits##_t v, ptrdiff_t off, unsigned limit) \
    {                                                                                                  \
        (void)q, (void)v, (void)off, (void)limit;                                                      \
        return false;                                                                                  \
    }
LW__SEQ_ADD(add, 32)
LW__SEQ_ADD(add, 64)
LW__SEQ_ADD(add_lazy, 32)
LW__SEQ_ADD(add_lazy, 64)

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
    LW__SEQ_VALUE(fetch_add, bits) \
    LW__SEQ_VALUE(cmpxchg, bits)
LW__SEQ_VALUES(8)
LW__SEQ_VALUES(16)
LW__SEQ_VALUES(32)
LW__SEQ_VALUES(64)

#endif
