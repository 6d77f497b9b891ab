// SPDX-License-Identifier: GPL-2.0-only
/* All forms by name, and whether this CPU has what each of them needs. */
#include <linux/cpufeature.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "linewright.h"

const char *lwk_missing_none(void)
{
	return NULL;
}

#if defined(CONFIG_ARM64)
const char *lwk_missing_lse(void)
{
	return cpu_have_named_feature(ATOMICS) ? NULL : "this CPU has no LSE atomics";
}
#endif

#if defined(CONFIG_X86)
const char *lwk_missing_cx8(void)
{
	return boot_cpu_has(X86_FEATURE_CX8) ? NULL : "this CPU has no CMPXCHG8B";
}

const char *lwk_missing_prefetchw(void)
{
	return boot_cpu_has(X86_FEATURE_3DNOWPREFETCH) ? NULL : "this CPU has no PREFETCHW";
}

const char *lwk_missing_clwb(void)
{
	return boot_cpu_has(X86_FEATURE_CLWB) ? NULL : "this CPU has no CLWB";
}

const char *lwk_missing_clflushopt(void)
{
	return boot_cpu_has(X86_FEATURE_CLFLUSHOPT) ? NULL : "this CPU has no CLFLUSHOPT";
}

const char *lwk_missing_clflush(void)
{
	return boot_cpu_has(X86_FEATURE_CLFLUSH) ? NULL : "this CPU has no CLFLUSH";
}
#endif

static const struct {
	const struct lwk_form *forms;
	const unsigned int *count;
} tables[] = {
	{ lwk_rmw_forms, &lwk_rmw_count },
	{ lwk_percpu_forms, &lwk_percpu_count },
	{ lwk_readers_forms, &lwk_readers_count },
	{ lwk_lookups_forms, &lwk_lookups_count },
	{ lwk_dma_forms, &lwk_dma_count },
};

/* The form of an operation, NULL when there is none; operation readers_grace is the updater of a readers_pair. */
const struct lwk_form *lwk_find_form(const char *operation, const char *name, unsigned int width)
{
	unsigned int table, i;

	if (!strcmp(operation, "readers_grace"))
		operation = "readers_pair";
	for (table = 0; table < ARRAY_SIZE(tables); table++) {
		for (i = 0; i < *tables[table].count; i++) {
			const struct lwk_form *form = &tables[table].forms[i];

			if (form->width == width && !strcmp(form->name, name) &&
				!strcmp(form->operation, operation))
				return form;
		}
	}
	return NULL;
}

static void list_form(struct lwk_text *text, const struct lwk_form *form)
{
	const char *missing = form->missing ? form->missing() : NULL;

	lwk_say(text,
		"form operation=%s name=%s width=%u order=%s family=%s counts=%d racy=%d sleeps=%d synchronize=%d expedited=%d replace=%d missing=%s\n",
		form->operation, form->name, form->width, form->order, form->family->name,
		form->counts, form->made.racy, form->sleeps, !!form->grace[LWK_SYNCHRONIZE],
		!!form->grace[LWK_EXPEDITED], !!form->grace[LWK_REPLACE], missing ?: "");
}

void lwk_list_forms(struct lwk_text *text)
{
	unsigned int table, i;

	for (table = 0; table < ARRAY_SIZE(tables); table++)
		for (i = 0; i < *tables[table].count; i++)
			list_form(text, &tables[table].forms[i]);
}
