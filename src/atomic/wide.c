/* SPDX-License-Identifier: MIT */
/* Wide atomics: asks the CPU once what it has, and holds the ways out of line that every later call avoids. */
#include <stdio.h>
#include <stdlib.h>

#include <linewright/wide.h>

#if defined(__aarch64__)
#include <linewright/arch/cpu.h>
#include <sys/auxv.h>
#elif defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <string.h>
#endif

uint32_t lw_wide_caps;

/* What lw_wide_use() allows of it. */
static uint32_t allowed = ~0u;

#if defined(__aarch64__)

/* Without LSE2, LDP may be two loads. */
static uint32_t ask_cpu(void)
{
    unsigned long hwcap = getauxval(AT_HWCAP);

    return LW_WIDE_CAS | (hwcap & LW_HWCAP_LSE ? LW_WIDE_LSE : 0) | (hwcap & LW_HWCAP_LSE2 ? LW_WIDE_VECTOR : 0);
}

#elif defined(__x86_64__)

/* AVX makes an aligned 16-byte move atomic where the vendor says so: Intel (SDM volume 3, "Guaranteed Atomic Operations", no
 * condition on the memory's type), AMD (APM volume 2, 7.3.2, for cacheable memory), Zhaoxin (GCC PR 104688, for write-back
 * memory), whose parts call themselves Shanghai, or Centaur with a family above 6; Centaur's family 6 is VIA's. libatomic
 * has the same list. */
static bool vendor_says_atomic(const char *vendor, unsigned int family)
{
    return !strcmp(vendor, "GenuineIntel") || !strcmp(vendor, "AuthenticAMD") || !strcmp(vendor, "  Shanghai  ") ||
           (!strcmp(vendor, "CentaurHauls") && family > 6);
}

static uint32_t ask_cpu(void)
{
    unsigned int a, b, c, d, highest;
    unsigned int vendor[4] = {0}; /* twelve characters and a NUL */

    if (!__get_cpuid(0, &highest, &vendor[0], &vendor[2], &vendor[1]) || !__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    return (c & bit_CMPXCHG16B ? LW_WIDE_CAS : 0) |
           (c & bit_AVX && vendor_says_atomic((const char *)vendor, a >> 8 & 15) ? LW_WIDE_VECTOR : 0);
}

#elif defined(__i386__)

static uint32_t ask_cpu(void)
{
    unsigned int a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    return (d & bit_CMPXCHG8B ? LW_WIDE_CAS : 0) | (d & bit_SSE2 ? LW_WIDE_VECTOR : 0);
}

#else

static uint32_t ask_cpu(void)
{
    return LW_WIDE_CAS;
}

#endif

/* Relaxed: any thread that finds 0 computes the same word, and nothing is published by it. */
uint32_t lw_wide_detect(void)
{
    uint32_t caps = __atomic_load_n(&lw_wide_caps, __ATOMIC_RELAXED);

    if (caps)
        return caps;
    caps = (ask_cpu() & allowed) | LW_WIDE_READY;
    __atomic_store_n(&lw_wide_caps, caps, __ATOMIC_RELAXED);
    return caps;
}

uint32_t lw_wide_use(uint32_t caps)
{
    allowed = caps;
    __atomic_store_n(&lw_wide_caps, 0, __ATOMIC_RELAXED);
    return lw_wide_detect();
}

/* Before constructors without a priority of their own. */
__attribute__((constructor(101))) static void at_start(void)
{
    lw_wide_detect();
}

void lw_wide_misaligned(const void *p, unsigned bytes)
{
    fprintf(stderr, "linewright: operand of an atomic operation at %p is not aligned to %u bytes; declare it lw_u%u\n", p,
            bytes, bytes * 8);
    abort();
}

void lw_wide_refuse(const char *operation, const char *lacks)
{
    fprintf(stderr, "linewright: %s: this CPU lacks %s\n", operation, lacks);
    abort();
}

#if defined(LW_WIDE_I386)

/* x87 moves eight bytes at once on every CPU that has CMPXCHG8B, and writes nothing where it reads. */
uint64_t lw_wide_read_u64(const lw_u64 *p)
{
    return lw_wide_detect() & LW_WIDE_VECTOR ? lw_movq_read_u64(p) : lw_fxam_fild_read_u64(p);
}

void lw_wide_write_u64(lw_u64 *p, uint64_t v)
{
    if (lw_wide_detect() & LW_WIDE_VECTOR)
        lw_movq_write_u64(p, v);
    else
        lw_fxam_fistp_write_u64(p, v);
}

#elif defined(LW_WIDE_X86_64) || defined(LW_WIDE_ARM64)

/* The strongest order, since it serves all three. */
lw_u128 lw_wide_read_u128(const lw_u128 *p)
{
    if (!(lw_wide_detect() & LW_WIDE_VECTOR))
        lw_wide_refuse("lw_read_u128",
                       "a 16-byte load that does not write (x86-64: AVX of a vendor that documents it; arm64: FEAT_LSE2);"
                       " use lw_read_u128_any or lw_read_u128_rw");
#ifdef LW_WIDE_ARM64
    return lw_ldar_ldp_dmb_read_u128(p);
#else
    return lw_movdqa_read_u128(p);
#endif
}

#endif
