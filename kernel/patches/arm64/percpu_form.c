// SPDX-License-Identifier: GPL-2.0-only
/*
 * The boot option percpu_form=store|load|prefetch, as CPU features that decide what the
 * alternatives of this_cpu_add() become.
 */
#define pr_fmt(fmt) "percpu_form: " fmt

#include <linux/cache.h>
#include <linux/init.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/sysreg.h>

#include "percpu_form_option.h"

static const char *const words[] = { "store", "load", "prefetch" };
enum form {
	STORE,
	LOAD,
	PREFETCH,
	AS_IT_WAS
};

static enum form chosen __ro_after_init = AS_IT_WAS;

static int __init choose(char *word)
{
	int found = word ? match_string(words, ARRAY_SIZE(words), word) : -EINVAL;

	if (found < 0) {
		pr_err("'%s' is none of store, load, prefetch: ignored\n", word ?: "");
		return -EINVAL;
	}
	chosen = found;
	return 0;
}
early_param("percpu_form", choose);

static int __init say(void)
{
	if (chosen != AS_IT_WAS && !cpus_have_cap(ARM64_HAS_LSE_ATOMICS))
		pr_notice("no effect: this system has no LSE atomics\n");
	return 0;
}
core_initcall(say);

/* All are LSE forms: a system without LSE keeps its LL/SC loops. */
static bool chosen_with_lse(enum form wanted, int scope)
{
	u64 isar0;

	if (scope == SCOPE_LOCAL_CPU)
		isar0 = read_cpuid(ID_AA64ISAR0_EL1);
	else
		isar0 = read_sanitised_ftr_reg(SYS_ID_AA64ISAR0_EL1);
	return chosen == wanted &&
	       cpuid_feature_extract_unsigned_field(isar0, ID_AA64ISAR0_EL1_ATOMIC_SHIFT) >=
		       ID_AA64ISAR0_EL1_ATOMIC_IMP;
}

bool has_percpu_store(const struct arm64_cpu_capabilities *entry, int scope)
{
	return chosen_with_lse(STORE, scope);
}

bool has_percpu_load(const struct arm64_cpu_capabilities *entry, int scope)
{
	return chosen_with_lse(LOAD, scope);
}

bool has_percpu_prefetch(const struct arm64_cpu_capabilities *entry, int scope)
{
	return chosen_with_lse(PREFETCH, scope);
}
