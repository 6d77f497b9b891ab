// SPDX-License-Identifier: GPL-2.0-only
/* Events that are counted for the timed thread while a window is open; those that this machine cannot count are named. */
#include <linux/err.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/sched.h>

#include "linewright.h"

static bool count_events = true;
module_param_named(counters, count_events, bool, 0400);
MODULE_PARM_DESC(counters,
	"count events of the timed thread (1); 0: the kernel runs as without performance counters");

static const struct {
	const char *name;
	u32 type;
	u64 config;
} events[LWK_EVENTS] = {
	{ "task_clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ "cache_references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES },
};

/* An event of a thread, which counts from now on; an error where the kernel refuses it, or counters are switched off. */
static struct perf_event *opened(unsigned int event, struct task_struct *task)
{
	struct perf_event_attr wanted = {
		.size = sizeof(wanted),
		.type = events[event].type,
		.config = events[event].config,
	};

	if (!count_events)
		return ERR_PTR(-ENOENT);
	return perf_event_create_kernel_counter(&wanted, -1, task, NULL, NULL);
}

bool lwk_counters_on(void)
{
	return count_events;
}

void lwk_counters_open(struct lwk_counters *counters, struct task_struct *task)
{
	unsigned int i;

	for (i = 0; i < LWK_EVENTS; i++)
		counters->event[i] = opened(i, task);
}

static struct lwk_count count_of(struct perf_event *event)
{
	struct lwk_count count = {};

	if (!IS_ERR_OR_NULL(event))
		count.value = perf_event_read_value(event, &count.enabled, &count.running);
	return count;
}

void lwk_counters_begin(struct lwk_counters *counters)
{
	unsigned int i;

	for (i = 0; i < LWK_EVENTS; i++)
		counters->count[i] = count_of(counters->event[i]);
}

void lwk_counters_end(struct lwk_counters *counters)
{
	unsigned int i;

	for (i = 0; i < LWK_EVENTS; i++) {
		struct lwk_count *count = &counters->count[i], end = count_of(counters->event[i]);

		count->value = end.value - count->value;
		count->enabled = end.enabled - count->enabled;
		count->running = end.running - count->running;
	}
}

void lwk_counters_close(struct lwk_counters *counters)
{
	unsigned int i;

	for (i = 0; i < LWK_EVENTS; i++) {
		if (!IS_ERR_OR_NULL(counters->event[i]))
			perf_event_release_kernel(counters->event[i]);
		counters->event[i] = NULL;
	}
}

/* An event that took turns with others on one of the CPU's counters has seen a part only, and is left out. */
void lwk_say_counters(const struct lwk_counters *counters, struct lwk_text *text)
{
	unsigned int i;

	lwk_say(text, "counted");
	for (i = 0; i < LWK_EVENTS; i++) {
		const struct lwk_count *count = &counters->count[i];

		if (count->running && count->running == count->enabled)
			lwk_say(text, " %s=%llu", events[i].name, count->value);
	}
	lwk_say(text, "\n");
}

/* The events that this kernel and its CPU count, by trying each; `lacking` those that they do not. */
void lwk_list_counters(struct lwk_text *text, bool lacking)
{
	const char *separator = "";
	unsigned int i;

	for (i = 0; i < LWK_EVENTS; i++) {
		struct perf_event *event = opened(i, current);

		if (IS_ERR(event) == lacking) {
			lwk_say(text, "%s%s", separator, events[i].name);
			separator = ",";
		}
		if (!IS_ERR(event))
			perf_event_release_kernel(event);
	}
}
