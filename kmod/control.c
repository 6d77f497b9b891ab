// SPDX-License-Identifier: GPL-2.0-only
/* How firmware has set the CPU's control register of near and far atomics, where it may be read and is asked for. */
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/smp.h>

#include "linewright.h"

#if defined(CONFIG_ARM64)
#include <asm/cputype.h>
#include <asm/sysreg.h>
#include <asm/virt.h>

static bool cpuectlr;
module_param(cpuectlr, bool, 0400);
MODULE_PARM_DESC(cpuectlr,
	"read CPUECTLR_EL1 of Neoverse N1, N2, V1 and V2; where an emulator or an outer hypervisor has it not, this ends in an oops");

#define CPUECTLR_EL1 sys_reg(3, 0, 15, 1, 4)

/* Parts of Arm's whose manuals have that register, with the bits of atomics in one place. */
static const u32 parts[] = { 0xd0c, 0xd40, 0xd49, 0xd4f };

/* Bits 29 to 33: what is performed near that would be far, and whether loads always are. */
static const char *const bits[] = { "ld_near", "rel_near", "st_near", "acq_near", "ld_force_near" };
#define FIRST_BIT 29

static bool has_register(void)
{
	u32 midr = read_cpuid_id();
	int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (midr >> 24 == 'A' && ((midr >> 4) & 0xfff) == parts[i])
			return true;
	return false;
}

static void read_register(void *value)
{
	*(u64 *)value = has_register() ? read_sysreg_s(CPUECTLR_EL1) : 0;
}

/* Below a hypervisor the register is the hypervisor's to show, and Linux has no way to try it. */
static const char *refusal(void)
{
	if (!cpuectlr)
		return "not_asked_for";
	if (!is_kernel_in_hyp_mode())
		return "below_a_hypervisor";
	return has_register() ? NULL : "another_part";
}

void lwk_say_control(struct lwk_text *text)
{
	const char *refused = refusal();
	u64 first = 0, other;
	int cpu, i, differs = 0;

	if (refused) {
		lwk_say(text, " cpuectlr=%s", refused);
		return;
	}
	read_register(&first);
	for_each_online_cpu(cpu) {
		if (!smp_call_function_single(cpu, read_register, &other, 1))
			differs |= other != first;
	}
	lwk_say(text, " cpuectlr=%s0x%llx", differs ? "differs," : "", first);
	for (i = 0; i < ARRAY_SIZE(bits); i++)
		lwk_say(text, ",%s:%llu", bits[i], first >> (FIRST_BIT + i) & 1);
}
#else
void lwk_say_control(struct lwk_text *text)
{
}
#endif
