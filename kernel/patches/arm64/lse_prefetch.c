// SPDX-License-Identifier: GPL-2.0-only
/*
 * The boot option lse_prefetch=on|off, as a CPU feature that decides what the alternatives of LSE
 * atomics become.
 */
#define pr_fmt(fmt) "lse_prefetch: " fmt

#include <linux/cache.h>
#include <linux/init.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/sysreg.h>

#include "lse_prefetch_option.h"

static bool chosen __ro_after_init;

static int __init choose(char *word)
{
	if (word && !strcmp(word, "on")) {
		chosen = true;
	} else if (word && !strcmp(word, "off")) {
		chosen = false;
	} else {
		pr_err("'%s' is neither on nor off: ignored\n", word ?: "");
		return -EINVAL;
	}
	return 0;
}
early_param("lse_prefetch", choose);

static int __init say(void)
{
	if (chosen && !cpus_have_cap(ARM64_HAS_LSE_ATOMICS))
		pr_notice("no effect: this system has no LSE atomics\n");
	return 0;
}
core_initcall(say);

/*
 * The forms with a prefetch are LSE forms: a system without LSE keeps its LL/SC loops, which
 * prefetch anyway.
 */
bool has_lse_prefetch(const struct arm64_cpu_capabilities *entry, int scope)
{
	u64 isar0;

	if (scope == SCOPE_LOCAL_CPU)
		isar0 = read_cpuid(ID_AA64ISAR0_EL1);
	else
		isar0 = read_sanitised_ftr_reg(SYS_ID_AA64ISAR0_EL1);
	return chosen && cpuid_feature_extract_unsigned_field(isar0,
				 ID_AA64ISAR0_EL1_ATOMIC_SHIFT) >= ID_AA64ISAR0_EL1_ATOMIC_IMP;
}
