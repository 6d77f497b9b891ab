/* SPDX-License-Identifier: MIT */
/* arm64 cache-maintenance forms that EL0 may execute: one line each, and the barriers that order them. */
#ifndef LINEWRIGHT_ARCH_ARM64_CACHE_H
#define LINEWRIGHT_ARCH_ARM64_CACHE_H

#include <stdint.h>

/*
 * Written as SYS so that no assembler option is needed.  Each is ordered with the same thread's loads and
 * stores to that line, with everything else only by DMB or DSB, and is complete after a DSB (Arm ARM,
 * "Ordering and completion of data and instruction cache instructions").
 */

/* Clean to the point of coherency: a dirty line is written where every agent sees it; the copy stays. */
static inline void lw_dc_cvac(const void *line)
{
    __asm__ __volatile__("sys #3, c7, c10, #1, %[line]" : : [line] "r"(line) : "memory");
}

/* Clean and invalidate to the point of coherency.  DC IVAC, which would discard, is EL1's. */
static inline void lw_dc_civac(const void *line)
{
    __asm__ __volatile__("sys #3, c7, c14, #1, %[line]" : : [line] "r"(line) : "memory");
}

/* Clean to the point of persistence (FEAT_DPB). */
static inline void lw_dc_cvap(const void *line)
{
    __asm__ __volatile__("sys #3, c7, c12, #1, %[line]" : : [line] "r"(line) : "memory");
}

/* Clean to the point of deep persistence (FEAT_DPB2): survives what the point of persistence need not. */
static inline void lw_dc_cvadp(const void *line)
{
    __asm__ __volatile__("sys #3, c7, c13, #1, %[line]" : : [line] "r"(line) : "memory");
}

/*
 * Completes all earlier accesses and maintenance of this thread before anything later starts.  SY, not ISH:
 * an agent without coherency can sit outside the inner-shareable domain.  A DMB would order, not complete.
 */
static inline void lw_dsb_sy(void)
{
    __asm__ __volatile__("dsb sy" : : : "memory");
}

/* Orders earlier loads and stores before later maintenance, without waiting for completion. */
static inline void lw_dmb_sy(void)
{
    __asm__ __volatile__("dmb sy" : : : "memory");
}

/* Cache geometry as this thread may rely on it (the kernel emulates the read where cores differ). */
static inline uint64_t lw_mrs_ctr_el0(void)
{
    uint64_t ctr;

    __asm__("mrs %[ctr], ctr_el0" : [ctr] "=r"(ctr));
    return ctr;
}

/* The instructions by number, for code that is specialised for one of them (the number is a constant there). */
enum lw_cache_insn { LW_INSN_NONE, LW_INSN_DC_CVAC, LW_INSN_DC_CIVAC, LW_INSN_DC_CVAP, LW_INSN_DC_CVADP, LW_INSN_COUNT };
#define LW_CACHE_INSNS(X)                \
    X(DC_CVAC, "dc_cvac", lw_dc_cvac)    \
    X(DC_CIVAC, "dc_civac", lw_dc_civac) \
    X(DC_CVAP, "dc_cvap", lw_dc_cvap)    \
    X(DC_CVADP, "dc_cvadp", lw_dc_cvadp)

/* Bits, by the numbers above, of the instructions that may stand for each operation. */
#define LW_CACHE_INVALIDATORS (1u << LW_INSN_DC_CIVAC)
#define LW_CACHE_PERSISTERS (1u << LW_INSN_DC_CVAP | 1u << LW_INSN_DC_CVADP)
#define LW_CACHE_CLEANERS (LW_CACHE_INVALIDATORS | LW_CACHE_PERSISTERS | 1u << LW_INSN_DC_CVAC)

/* Does this instruction need the full fence on both sides, whatever it is used for? */
static inline int lw_cache_insn_is_strict(enum lw_cache_insn insn)
{
    (void)insn;
    return 0;
}

/* Younger stores (a doorbell, the next record) come after all maintenance issued before. */
#define LW_CACHE_WAIT_STORES "dsb sy"
static inline void lw_cache_arch_wait_stores(void)
{
    lw_dsb_sy();
}

/* Younger loads and stores come after all maintenance issued before. */
#define LW_CACHE_WAIT_ALL "dsb sy"
static inline void lw_cache_arch_wait_all(void)
{
    lw_dsb_sy();
}

/* Maintenance issued after comes after older loads and stores: the load that said "the device is done". */
#define LW_CACHE_ORDER "dmb sy"
static inline void lw_cache_arch_order(void)
{
    lw_dmb_sy();
}

#endif
