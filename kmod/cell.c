// SPDX-License-Identifier: GPL-2.0-only
/* Reads a cell from its text, one key=value a line, and refuses what cannot be run, saying why. */
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "linewright.h"

#define LONGEST_NAME 64

/* A number of the cell, with what it may be. */
struct number {
	const char *key;
	size_t at; /* in struct lwk_cell */
	u32 low;
	u32 high;
	u32 standard;
};

#define NUMBER(key, low, high, standard) \
	{ #key, offsetof(struct lwk_cell, key), low, high, standard }

static const struct number numbers[] = {
	NUMBER(threads, 1, LWK_MAX_THREADS, 1),
	NUMBER(lines, 1, LWK_MAX_LINES, 1),
	NUMBER(first_line, 0, LWK_MAX_LINES - 1, 0),
	NUMBER(slots, 1, LWK_MAX_SLOTS, 1),
	NUMBER(instances, 1, LWK_MAX_INSTANCES, 64),
	NUMBER(windows, 1, LWK_MAX_WINDOWS, 1),
	NUMBER(window_us, 10, 1000000, 2000),
	NUMBER(limit_ms, 1, LWK_MAX_LIMIT_MS, 10000),
	NUMBER(contender_iters, 0, LWK_MAX_UNITS, 0),
	NUMBER(work, 0, LWK_MAX_UNITS, 0),
	NUMBER(delay, 0, LWK_MAX_UNITS, 0),
	NUMBER(entries, 1, LWK_MAX_ENTRIES, 1),
	NUMBER(entry_bytes, 1, LWK_MAX_ENTRY_BYTES, 4096),
};

/* A word of the cell; its values count from 0. */
struct word {
	const char *key;
	size_t at;
	const char *values[4];
};

static const struct word words[] = {
	{ "contender", offsetof(struct lwk_cell, contender), { "none", "placebo", "same_line" } },
	{ "updater", offsetof(struct lwk_cell, updater),
		{ "none", "synchronize", "expedited", "replace" } },
	{ "direction", offsetof(struct lwk_cell, direction),
		{ "to_device", "from_device", "bidirectional" } },
	{ "wait", offsetof(struct lwk_cell, wait), { "each", "once" } },
	{ "state", offsetof(struct lwk_cell, state), { "clean", "dirty" } },
};

/* What is known of the form until all lines are read. */
struct wanted {
	char operation[LONGEST_NAME];
	char form[LONGEST_NAME];
	u32 width;
	u32 verify;
};

/* Says what is wrong, and is it. */
#define REFUSE(text, ...)                            \
	({                                           \
		lwk_say(text, "error " __VA_ARGS__); \
		lwk_say(text, "\n");                 \
		-EINVAL;                             \
	})

static int parse_number(
	struct lwk_text *text, const char *key, const char *value, u32 low, u32 high, u32 *result)
{
	if (kstrtou32(value, 10, result) || *result < low || *result > high)
		return REFUSE(text, "%s=%.40s: allowed: a whole number from %u to %u", key, value,
			low, high);
	return 0;
}

static int parse_word(
	struct lwk_text *text, const struct word *word, const char *value, u32 *result)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(word->values) && word->values[i]; i++) {
		if (!strcmp(word->values[i], value)) {
			*result = i;
			return 0;
		}
	}
	return REFUSE(text, "%s=%.40s: no such word", word->key, value);
}

static int parse_cpus(struct lwk_text *text, struct lwk_cell *cell, char *value)
{
	char *one;

	cell->cpu_count = 0;
	while ((one = strsep(&value, ","))) {
		u32 cpu, i;

		if (cell->cpu_count == LWK_MAX_THREADS)
			return REFUSE(text, "cpus: more than %u", LWK_MAX_THREADS);
		if (kstrtou32(one, 10, &cpu) || cpu >= nr_cpu_ids || !cpu_online(cpu))
			return REFUSE(text, "cpus: %.40s is absent or offline", one);
		for (i = 0; i < cell->cpu_count; i++)
			if (cell->cpus[i] == cpu)
				return REFUSE(text, "cpus: %u is named twice", cpu);
		cell->cpus[cell->cpu_count++] = cpu;
	}
	return 0;
}

static int parse_name(struct lwk_text *text, const char *key, const char *value, char *name)
{
	if (strscpy(name, value, LONGEST_NAME) < 1)
		return REFUSE(
			text, "%s: allowed: a name of 1 to %d characters", key, LONGEST_NAME - 1);
	return 0;
}

static int parse_line(struct lwk_text *text, struct lwk_cell *cell, struct wanted *wanted,
	const char *key, char *value)
{
	unsigned int i;

	if (!strcmp(key, "operation"))
		return parse_name(text, key, value, wanted->operation);
	if (!strcmp(key, "form"))
		return parse_name(text, key, value, wanted->form);
	if (!strcmp(key, "width"))
		return parse_number(text, key, value, 8, 128, &wanted->width);
	if (!strcmp(key, "verify"))
		return parse_number(text, key, value, 0, 1, &wanted->verify);
	if (!strcmp(key, "cpus"))
		return parse_cpus(text, cell, value);
	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!strcmp(key, numbers[i].key))
			return parse_number(text, key, value, numbers[i].low, numbers[i].high,
				(u32 *)((char *)cell + numbers[i].at));
	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(key, words[i].key))
			return parse_word(
				text, &words[i], value, (u32 *)((char *)cell + words[i].at));
	return REFUSE(text, "no key %.40s", key);
}

/* Whether the parts of the cell go together. */
static int check_cell(struct lwk_text *text, const struct lwk_cell *cell)
{
	const struct lwk_form *form = cell->form;

	if (cell->cpu_count != cell->threads)
		return REFUSE(text, "%u threads, but %u CPUs", cell->threads, cell->cpu_count);
	if (cell->contender == LWK_NONE && cell->threads > 1)
		return REFUSE(text, "%u threads without a contender", cell->threads);
	if (cell->contender != LWK_NONE && cell->threads == 1)
		return REFUSE(text, "a contender without a second thread");
	if (cell->slots & (cell->slots - 1))
		return REFUSE(text, "slots=%u: allowed: a power of two", cell->slots);
	if (cell->instances & (cell->instances - 1))
		return REFUSE(text, "instances=%u: allowed: a power of two", cell->instances);
	if (cell->contender == LWK_SAME_LINE && form->racy)
		return REFUSE(text, "form %s loses counts between threads", form->name);
	if (cell->updater != LWK_NO_UPDATER && !form->grace[cell->updater])
		return REFUSE(text, "form %s has no such updater", form->name);
	if (cell->grace ? cell->updater == LWK_NO_UPDATER
			: cell->updater != LWK_NO_UPDATER && cell->threads < 2)
		return REFUSE(
			text, "readers_grace wants an updater, and readers beside one a thread");
	if (cell->verify && !form->verify && !form->family->verifies)
		return REFUSE(text, "form %s promises a reader nothing", form->name);
	if ((u64)cell->entries * cell->entry_bytes > LWK_MAX_LIST_BYTES)
		return REFUSE(text, "entries and entry_bytes: a list has at most %lu bytes",
			LWK_MAX_LIST_BYTES);
	if (form->family->windows && cell->threads > 1)
		return REFUSE(text, "form %s runs alone", form->name);
	return 0;
}

static int find_form(struct lwk_text *text, struct lwk_cell *cell, const struct wanted *wanted)
{
	const char *missing;

	cell->form = lwk_find_form(wanted->operation, wanted->form, wanted->width);
	if (!cell->form)
		return REFUSE(text, "no form %s of %s at %u bits", wanted->form, wanted->operation,
			wanted->width);
	missing = cell->form->missing ? cell->form->missing() : NULL;
	if (missing)
		return REFUSE(text, "%s", missing);
	cell->grace = !strcmp(wanted->operation, "readers_grace");
	cell->verify = wanted->verify;
	return 0;
}

/* Fills the cell from `request`, which is cut up. Returns 0, or -EINVAL with the reason in `text`. */
int lwk_parse_cell(struct lwk_cell *cell, char *request, struct lwk_text *text)
{
	struct wanted wanted = { .width = 64 };
	unsigned int i;
	char *line;
	int error;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		*(u32 *)((char *)cell + numbers[i].at) = numbers[i].standard;
	while ((line = strsep(&request, "\n"))) {
		char *value = line, *key = strsep(&value, "=");

		if (!*key && !value)
			continue;
		if (!value)
			return REFUSE(text, "%.40s: expected key=value", key);
		error = parse_line(text, cell, &wanted, key, value);
		if (error)
			return error;
	}
	error = find_form(text, cell, &wanted);
	return error ?: check_cell(text, cell);
}
