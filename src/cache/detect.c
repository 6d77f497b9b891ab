/* SPDX-License-Identifier: MIT */
/* Finds the machine's cache-maintenance instructions and line size: by feature bit, and by trial where the bit cannot be
 * trusted. */
#include "internal.h"

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

enum {
    LEAF1_EDX_CLFSH = 1 << 19,
    LEAF1_EDX_SSE2 = 1 << 26, /* MFENCE */
    LEAF7_EBX_CLFLUSHOPT = 1 << 23,
    LEAF7_EBX_CLWB = 1 << 24
};

/* CPUID is the processor's own word for what it executes, so nothing is tried here. */
uint32_t lw_cache_detect(void)
{
    unsigned int a, b, c, d, line, have = 0;
    enum lw_cache_insn clean, drop;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(d & LEAF1_EDX_CLFSH) || !(d & LEAF1_EDX_SSE2))
        return LW_BIT(LW_WORD_READY) | lw_word_geometry(64, 64);
    line = (b >> 8 & 0xff) * 8; /* CLFLUSH line size, in quadwords */
    clean = drop = LW_INSN_CLFLUSH;
    have |= LW_BIT(LW_INSN_CLFLUSH);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        if (b & LEAF7_EBX_CLFLUSHOPT) {
            clean = drop = LW_INSN_CLFLUSHOPT;
            have |= LW_BIT(LW_INSN_CLFLUSHOPT);
        }
        if (b & LEAF7_EBX_CLWB) {
            clean = LW_INSN_CLWB;
            have |= LW_BIT(LW_INSN_CLWB);
        }
    }
    return lw_word_of(clean, drop, clean, LW_INSN_NONE) | lw_word_geometry(line, line) | have << LW_WORD_HAVE;
}

#elif defined(__aarch64__)

#include "../common/trial.h"

#include <linewright/arch/cpu.h>

#include <sys/auxv.h>

static void try_base(void *line)
{
    lw_dc_cvac(line);
    lw_dc_civac(line);
}

static void try_cvap(void *line)
{
    lw_dc_cvap(line);
}

static void try_cvadp(void *line)
{
    lw_dc_cvadp(line);
}

/*
 * The feature words come from the kernel or an emulator, and emulators advertise DC CVAP but refuse it.  CVAC and CIVAC
 * have no bit at all; a system may refuse them to user programs.
 */
uint32_t lw_cache_detect(void)
{
    uint64_t ctr = lw_mrs_ctr_el0();
    uint32_t smallest = 4u << (ctr >> 16 & 15); /* DminLine, log2 of words */
    uint32_t writeback = (ctr >> 24 & 15) ? 4u << (ctr >> 24 & 15) : 2048; /* CWG; 0: up to 2 KiB */
    bool feature_p = getauxval(AT_HWCAP) & LW_HWCAP_DC_CVAP;
    bool feature_dp = getauxval(AT_HWCAP2) & LW_HWCAP2_DC_CVADP;
    char target[256] = {0};
    uint32_t word = lw_word_geometry(smallest, writeback), have = 0;
    bool p, dp;

    if (!lw__trial(try_base, target))
        return LW_BIT(LW_WORD_READY) | LW_BIT(LW_WORD_TRAPPED) | word;
    p = feature_p && lw__trial(try_cvap, target);
    dp = p && feature_dp && lw__trial(try_cvadp, target); /* FEAT_DPB2 implies FEAT_DPB */
    have = LW_BIT(LW_INSN_DC_CVAC) | LW_BIT(LW_INSN_DC_CIVAC) | (p ? LW_BIT(LW_INSN_DC_CVAP) : 0) |
           (dp ? LW_BIT(LW_INSN_DC_CVADP) : 0);
    if (p != feature_p || dp != feature_dp)
        word |= LW_BIT(LW_WORD_TRAPPED);
    return word | have << LW_WORD_HAVE |
           lw_word_of(LW_INSN_DC_CVAC, LW_INSN_DC_CIVAC, p ? LW_INSN_DC_CVAP : LW_INSN_NONE,
                      dp ? LW_INSN_DC_CVADP : LW_INSN_NONE);
}

#else

#include <unistd.h>

uint32_t lw_cache_detect(void)
{
    uint32_t line = 64;
#ifdef _SC_LEVEL1_DCACHE_LINESIZE
    long reported = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);

    if (reported >= 4 && reported <= 4096)
        line = (uint32_t)reported;
#endif
    return LW_BIT(LW_WORD_READY) | lw_word_geometry(line, line);
}

#endif
