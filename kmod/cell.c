// SPDX-License-Identifier: GPL-2.0-only
/* Reads cells and windows from their text, one key=value a line, and refuses what cannot be run, saying why. */
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "linewright.h"

#define LONGEST_NAME 64

/* A number, with what it may be. */
struct number {
	const char *key;
	size_t at; /* in struct lwk_cell or struct lwk_request */
	u32 low;
	u32 high;
	u32 standard;
};

#define CELL(key, low, high, standard) { #key, offsetof(struct lwk_cell, key), low, high, standard }
#define WINDOW(key, low, high, standard) \
	{ #key, offsetof(struct lwk_request, key), low, high, standard }

static const struct number cell_numbers[] = {
	CELL(threads, 1, LWK_MAX_THREADS, 1),
	CELL(lines, 1, LWK_MAX_LINES, 1),
	CELL(slots, 1, LWK_MAX_SLOTS, 1),
	CELL(instances, 1, LWK_MAX_INSTANCES, 64),
	CELL(contender_iters, 0, LWK_MAX_UNITS, 0),
	CELL(work, 0, LWK_MAX_UNITS, 0),
	CELL(delay, 0, LWK_MAX_UNITS, 0),
	CELL(entries, 1, LWK_MAX_ENTRIES, 1),
	CELL(entry_bytes, 1, LWK_MAX_ENTRY_BYTES, 4096),
};

static const struct number window_numbers[] = {
	WINDOW(line, 0, LWK_MAX_LINES - 1, 0),
	WINDOW(window_us, 10, 10000000, 2000),
	WINDOW(limit_ms, 1, LWK_MAX_LIMIT_MS, 10000),
	WINDOW(batch, 0, 1u << 20, 0),
	WINDOW(batch_ns, 1000, 1000000, 15000),
	WINDOW(baseline, 0, 1, 0),
};

/* A word of the cell; its values count from 0. */
struct word {
	const char *key;
	size_t at;
	const char *values[4];
};

static const struct word words[] = {
	{ "contender", offsetof(struct lwk_cell, contender), { "none", "placebo", "same_line" } },
	{ "work_kind", offsetof(struct lwk_cell, work_kind), { "chain", "memory" } },
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

/* A key of a table of numbers, into the struct that `at` is. -ENOENT: no number of that name. */
static int parse_numbers(struct lwk_text *text, const struct number *numbers, unsigned int count,
	void *at, const char *key, const char *value)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!strcmp(key, numbers[i].key))
			return parse_number(text, key, value, numbers[i].low, numbers[i].high,
				(u32 *)((char *)at + numbers[i].at));
	return -ENOENT;
}

static void set_standard(const struct number *numbers, unsigned int count, void *at)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		*(u32 *)((char *)at + numbers[i].at) = numbers[i].standard;
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
	int error;

	if (!strcmp(key, "operation"))
		return parse_name(text, key, value, wanted->operation);
	if (!strcmp(key, "form"))
		return parse_name(text, key, value, wanted->form);
	if (!strcmp(key, "width"))
		return parse_number(text, key, value, 8, 128, &wanted->width);
	if (!strcmp(key, "verify"))
		return parse_number(text, key, value, 0, 1, &wanted->verify);
	error = parse_numbers(text, cell_numbers, ARRAY_SIZE(cell_numbers), cell, key, value);
	if (error != -ENOENT)
		return error;
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

	if (cell->contender == LWK_NONE && cell->threads > 1)
		return REFUSE(text, "%u threads without a contender", cell->threads);
	if (cell->contender != LWK_NONE && cell->threads == 1)
		return REFUSE(text, "a contender without a second thread");
	if (cell->slots & (cell->slots - 1))
		return REFUSE(text, "slots=%u: allowed: a power of two", cell->slots);
	if (cell->instances & (cell->instances - 1))
		return REFUSE(text, "instances=%u: allowed: a power of two", cell->instances);
	if (cell->contender == LWK_SAME_LINE && form->made.racy)
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
	if (form->family->window && cell->threads > 1)
		return REFUSE(text, "form %s runs alone", form->name);
	if (form->keeps_off && (u64)cell->delay * cell->threads > LWK_MAX_UNITS_OFF)
		return REFUSE(text,
			"delay=%u: form %s keeps %s off, one thread behind the other: allowed: up to %u",
			cell->delay, form->name, form->keeps_off,
			LWK_MAX_UNITS_OFF / cell->threads);
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

/* The next key of a request, which is cut up, and its value. False: there is none; a line without a value has a NULL one. */
static bool next_line(char **request, char **key, char **value)
{
	do {
		*value = strsep(request, "\n");
		if (!*value)
			return false;
		*key = strsep(value, "=");
	} while (!**key && !*value);
	return true;
}

/* Fills the cell from `request`, which is cut up. Returns 0, or -EINVAL with the reason in `text`. */
int lwk_parse_cell(struct lwk_cell *cell, char *request, struct lwk_text *text)
{
	struct wanted wanted = { .width = 64 };
	char *key, *value;
	int error;

	set_standard(cell_numbers, ARRAY_SIZE(cell_numbers), cell);
	while (next_line(&request, &key, &value)) {
		if (!value)
			return REFUSE(text, "%.40s: expected key=value", key);
		error = parse_line(text, cell, &wanted, key, value);
		if (error)
			return error;
	}
	error = find_form(text, cell, &wanted);
	return error ?: check_cell(text, cell);
}

static int parse_cpus(struct lwk_text *text, struct lwk_request *window, char *value)
{
	char *one;

	window->cpu_count = 0;
	while ((one = strsep(&value, ","))) {
		u32 cpu, i;

		if (window->cpu_count == LWK_MAX_THREADS)
			return REFUSE(text, "cpus: more than %u", LWK_MAX_THREADS);
		if (kstrtou32(one, 10, &cpu) || cpu >= nr_cpu_ids || !cpu_online(cpu))
			return REFUSE(text, "cpus: %.40s is absent or offline", one);
		for (i = 0; i < window->cpu_count; i++)
			if (window->cpus[i] == cpu)
				return REFUSE(text, "cpus: %u is named twice", cpu);
		window->cpus[window->cpu_count++] = cpu;
	}
	return 0;
}

/* Fills the window that is asked of a prepared cell. Returns 0, or -EINVAL with the reason in `text`. */
int lwk_parse_window(struct lwk_run *run, char *request, struct lwk_text *text)
{
	struct lwk_request *window = &run->request;
	char *key, *value;
	int error;

	memset(window, 0, sizeof(*window));
	set_standard(window_numbers, ARRAY_SIZE(window_numbers), window);
	while (next_line(&request, &key, &value)) {
		if (!value)
			return REFUSE(text, "%.40s: expected key=value", key);
		error = strcmp(key, "cpus")
				? parse_numbers(text, window_numbers, ARRAY_SIZE(window_numbers),
					  window, key, value)
				: parse_cpus(text, window, value);
		if (error == -ENOENT)
			return REFUSE(text, "no key %.40s", key);
		if (error)
			return error;
	}
	if (window->cpu_count != run->cell.threads)
		return REFUSE(
			text, "%u threads, but %u CPUs", run->cell.threads, window->cpu_count);
	if (window->line >= run->cell.lines)
		return REFUSE(text, "line=%u: the cell has %u", window->line, run->cell.lines);
	return 0;
}
