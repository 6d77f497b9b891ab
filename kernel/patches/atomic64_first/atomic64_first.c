// SPDX-License-Identifier: GPL-2.0-only
/* Chooses at boot how operations of atomic64_t on 32-bit x86 first touch their line. */
#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <asm/cpufeature.h>

/* Whether a word names a choice: 0 for the first, 1 for the second, -EINVAL with a message for anything else. */
static int __init choice(
	const char *option, const char *word, const char *first, const char *second)
{
	if (word && !strcmp(word, first))
		return 0;
	if (word && !strcmp(word, second))
		return 1;
	pr_warn("%s=%s: allowed: %s, %s\n", option, word ?: "", first, second);
	return -EINVAL;
}

/* The first access of a read-modify-write: a plain read of both halves, or a locked one that asks for the line at once. */
static int __init atomic64_first(char *word)
{
	int own = choice("atomic64_first", word, "read", "own");

	if (own < 0)
		return own;
	if (own != ATOMIC64_FIRST_IS_OWN)
		setup_force_cpu_cap(X86_FEATURE_ATOMIC64_OTHER);
	pr_info("atomic64_t: read-modify-writes begin with %s\n",
		own ? "a locked read" : "a plain read");
	return 0;
}
early_param("atomic64_first", atomic64_first);

/* atomic64_read(): one locked instruction, or both halves plainly and then a locked compare that they belong together. */
static int __init atomic64_read_kind(char *word)
{
	int shared = choice("atomic64_read", word, "own", "shared");

	if (shared < 0)
		return shared;
	if (shared)
		setup_force_cpu_cap(X86_FEATURE_ATOMIC64_SHARED);
	pr_info("atomic64_t: reads begin with %s\n", shared ? "a plain read" : "a locked read");
	return 0;
}
early_param("atomic64_read", atomic64_read_kind);
