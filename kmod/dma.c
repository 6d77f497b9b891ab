// SPDX-License-Identifier: GPL-2.0-only
/* The DMA interface over scatter lists on a device of the module's own, and the same lists by explicit instructions. */
#include <linux/cacheflush.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(cache.h)

#include "loop.h"

/* Two devices that never do any DMA: one without coherency, and one with, whose list walk is the baseline. */
static struct platform_device *devices[2];

enum {
	PLAIN,
	COHERENT
};
enum dma_step {
	MAP,
	UNMAP,
	FOR_DEVICE,
	FOR_CPU,
	STEPS
};

static const enum dma_data_direction directions[] = { DMA_TO_DEVICE, DMA_FROM_DEVICE,
	DMA_BIDIRECTIONAL };

struct list {
	struct sg_table table;
	bool has_table;
	unsigned int order;
	struct page **pages;
};

/* Whether this kernel maintains caches for a device without coherency. */
const char *lwk_dma_kind(void)
{
#if defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE)
	return "noncoherent";
#else
	return "coherent";
#endif
}

static struct platform_device *new_device(const char *name)
{
	struct platform_device_info info = {
		.name = name,
		.id = PLATFORM_DEVID_NONE,
		.dma_mask = DMA_BIT_MASK(64),
	};

	return platform_device_register_full(&info);
}

int lwk_dma_init(void)
{
	static const char *const names[] = { "linewright-dma", "linewright-dma-coherent" };
	int i;

	for (i = 0; i < 2; i++) {
		struct platform_device *device = new_device(names[i]);

		if (IS_ERR(device)) {
			if (i)
				platform_device_unregister(devices[0]);
			return PTR_ERR(device);
		}
		devices[i] = device;
	}
#if defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE)
	devices[PLAIN]->dev.dma_coherent = false;
	devices[COHERENT]->dev.dma_coherent = true;
#endif
	return 0;
}

void lwk_dma_exit(void)
{
	platform_device_unregister(devices[COHERENT]);
	platform_device_unregister(devices[PLAIN]);
}

/* ---- lists ---- */

static void finish(struct lwk_run *run)
{
	struct list *list = run->memory;
	unsigned int i;

	if (!list)
		return;
	for (i = 0; list->pages && i < run->cell.entries; i++)
		if (list->pages[i])
			__free_pages(list->pages[i], list->order);
	kvfree(list->pages);
	if (list->has_table)
		sg_free_table(&list->table);
	kfree(list);
}

static int prepare(struct lwk_run *run)
{
	struct list *list = kzalloc(sizeof(*list), GFP_KERNEL);
	const struct lwk_cell *cell = &run->cell;
	struct scatterlist *sg;
	unsigned int i;
	int error;

	if (!list)
		return -ENOMEM;
	run->memory = list;
	list->order = get_order(cell->entry_bytes);
	list->pages = kvcalloc(cell->entries, sizeof(*list->pages), GFP_KERNEL);
	if (!list->pages)
		return -ENOMEM;
	error = sg_alloc_table(&list->table, cell->entries, GFP_KERNEL);
	if (error)
		return error;
	list->has_table = true;
	for_each_sg(list->table.sgl, sg, cell->entries, i) {
		list->pages[i] = alloc_pages(GFP_KERNEL | __GFP_NOWARN, list->order);
		if (!list->pages[i])
			return -ENOMEM;
		sg_set_page(sg, list->pages[i], cell->entry_bytes, 0);
	}
	return 0;
}

/* Stores to every byte, or leaves the lines as the last pass left them. */
static void make_state(struct lwk_run *run, u8 value)
{
	struct list *list = run->memory;
	unsigned int i;

	if (run->cell.state != LWK_DIRTY)
		return;
	for (i = 0; i < run->cell.entries; i++) {
		memset(page_address(list->pages[i]), value, run->cell.entry_bytes);
		cond_resched();
	}
}

/* ---- the four operations of the DMA interface ---- */

/* One step of a mapping's life on a device, in ns; the list is mapped before UNMAP and the two syncs, and after MAP and those. */
static u64 step_ns(struct lwk_run *run, struct device *device, enum dma_step step)
{
	struct list *list = run->memory;
	struct scatterlist *sgl = list->table.sgl;
	enum dma_data_direction direction = directions[run->cell.direction];
	unsigned int entries = run->cell.entries;
	u64 start = lwk_now_ns();

	switch (step) {
	case MAP:
		if (!dma_map_sg(device, sgl, entries, direction))
			run->error = -EIO;
		break;
	case UNMAP:
		dma_unmap_sg(device, sgl, entries, direction);
		break;
	case FOR_DEVICE:
		dma_sync_sg_for_device(device, sgl, entries, direction);
		break;
	default:
		dma_sync_sg_for_cpu(device, sgl, entries, direction);
	}
	return lwk_now_ns() - start;
}

/* A mapping's life in order: map, for the CPU, for the device, unmap. Returns the time of the step that is asked for. */
static u64 life_ns(struct lwk_run *run, struct device *device, enum dma_step step)
{
	static const enum dma_step order[STEPS] = { MAP, FOR_CPU, FOR_DEVICE, UNMAP };
	u64 asked = 0;
	int i;

	for (i = 0; i < STEPS && !run->error; i++) {
		bool needed = order[i] == MAP || order[i] == UNMAP || order[i] == step;
		u64 ns;

		if (!needed)
			continue;
		if (order[i] == step)
			make_state(run, i);
		ns = step_ns(run, device, order[i]);
		if (order[i] == step)
			asked = ns;
	}
	return asked;
}

/* ---- explicit instructions over the same lists ---- */

static __always_inline void pass(struct lwk_run *run, void (*insn)(const void *), bool strict)
{
	struct list *list = run->memory;
	unsigned int i, offset, line = cache_line_size();

	if (strict)
		lw_cache_arch_order();
	for (i = 0; i < run->cell.entries; i++) {
		char *at = page_address(list->pages[i]);

		for (offset = 0; offset < run->cell.entry_bytes; offset += line)
			insn(at + offset);
		if (run->cell.wait == LWK_WAIT_EACH)
			lw_cache_arch_wait_all();
	}
	if (run->cell.wait == LWK_WAIT_ONCE)
		lw_cache_arch_wait_all();
}

#define PASS(name, strict)                                    \
	static noinline void pass_##name(struct lwk_run *run) \
	{                                                     \
		pass(run, lw_##name, strict);                 \
	}

#if defined(CONFIG_ARM64)
PASS(dc_cvac, false)
PASS(dc_civac, false)
#elif defined(CONFIG_X86)
PASS(clwb, false)
PASS(clflushopt, false)
PASS(clflush, true)
#endif

/* ---- windows ---- */

struct detail {
	enum dma_step step;
	void (*pass)(struct lwk_run *run);
};

static u64 once_ns(struct lwk_run *run, int device)
{
	const struct detail *detail = run->cell.form->detail;
	u64 start;

	if (!detail->pass)
		return life_ns(run, &devices[device]->dev, detail->step);
	if (device == COHERENT)
		return 0;
	make_state(run, 1);
	start = lwk_now_ns();
	detail->pass(run);
	return lwk_now_ns() - start;
}

/* A window is as many passes as fit; its baseline the same passes on the device with coherency, in turns with them. */
static void windows(struct lwk_run *run)
{
	unsigned int i;

	once_ns(run, PLAIN);
	for (i = 0; i < run->cell.windows && !lwk_over(run) && !run->error && !run->text->full;
		i++) {
		u64 start = lwk_now_ns(), ns = 0, baseline = 0, longest = 0, passes = 0;
		unsigned long switches = current->nvcsw + current->nivcsw;

		do {
			u64 one = once_ns(run, PLAIN);

			ns += one;
			longest = max(longest, one);
			baseline += once_ns(run, COHERENT);
			passes++;
			cond_resched();
		} while (lwk_now_ns() - start < 1000ull * run->cell.window_us && !lwk_over(run) &&
			 !run->error);
		lwk_say(run->text,
			"window line=0 ns=%llu ops=%llu batch=1 longest_ns=%llu switches=%lu baseline_ns=%llu baseline_ops=%llu threads=%llu\n",
			ns, passes, longest, current->nvcsw + current->nivcsw - switches, baseline,
			passes, passes);
	}
}

static const struct lwk_family family = {
	.name = "dma",
	.prepare = prepare,
	.finish = finish,
	.windows = windows,
};

#define ROW(form_name, form_operation, form_missing, ...)                                       \
	{                                                                                       \
		.name = form_name, .operation = form_operation, .order = "relaxed", .width = 8, \
		.family = &family, .missing = form_missing, .sleeps = true,                     \
		.detail = &(const struct detail)                                                \
		{                                                                               \
			__VA_ARGS__                                                             \
		}                                                                               \
	}

const struct lwk_form lwk_dma_forms[] = {
	ROW("dma_sg", "dma_map", NULL, .step = MAP),
	ROW("dma_sg", "dma_unmap", NULL, .step = UNMAP),
	ROW("dma_sg", "dma_sync_for_device", NULL, .step = FOR_DEVICE),
	ROW("dma_sg", "dma_sync_for_cpu", NULL, .step = FOR_CPU),
#if defined(CONFIG_ARM64)
	ROW("dc_cvac", "clean", NULL, .pass = pass_dc_cvac),
	ROW("dc_civac", "clean_invalidate", NULL, .pass = pass_dc_civac),
#elif defined(CONFIG_X86)
	ROW("clwb", "clean", lwk_missing_clwb, .pass = pass_clwb),
	ROW("clflushopt", "clean_invalidate", lwk_missing_clflushopt, .pass = pass_clflushopt),
	ROW("clflush", "clean_invalidate", lwk_missing_clflush, .pass = pass_clflush),
#endif
};

const unsigned int lwk_dma_count = ARRAY_SIZE(lwk_dma_forms);
