// SPDX-License-Identifier: GPL-2.0-only
/* The DMA interface over scatter lists on a device of the module's own, and the same lists by explicit instructions. */
#include <linux/cacheflush.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(cache.h)

#include "loop.h"

/* Two devices that never do any DMA: one without coherency, and one with, whose list walk is the baseline. */
static struct platform_device *made[2];

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

/* The same, or a PCI device in the place of the first; NULL where that has gone. Under devices_lock, which a window of this family holds. */
static struct device *devices[2];
static DEFINE_MUTEX(devices_lock);
static bool leaving; /* a device is waited for: windows end */

struct list {
	struct sg_table table;
	bool has_table;
	unsigned int order;
	struct page **pages;
};

/* Whether this kernel maintains caches for a device without coherency, and whether the device is behind an IOMMU. */
const char *lwk_dma_kind(void)
{
	bool there, iommu;

	mutex_lock(&devices_lock);
	there = devices[PLAIN];
	iommu = there && iommu_get_domain_for_dev(devices[PLAIN]);
	mutex_unlock(&devices_lock);
	if (!there)
		return "gone";
#if defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE)
	return iommu ? "noncoherent,iommu" : "noncoherent";
#else
	return iommu ? "coherent,iommu" : "coherent";
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

/* Entries are as long as the module allows; without this a device's are promised to 64 KiB only, and CONFIG_DMA_API_DEBUG says so. */
static void allow_long_entries(struct device *device)
{
	dma_set_max_seg_size(device, LWK_MAX_ENTRY_BYTES);
}

static void set_coherent(struct device *device, bool coherent)
{
#if defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE)
#if defined(LWK_DEVICE_FLAGS)
	dev_assign_dma_coherent(device, coherent);
#else
	device->dma_coherent = coherent;
#endif
#endif
}

/*
 * A PCI device that no other driver has, in the place of the module's own: its lists go through the IOMMU that it is behind. It is
 * never told to do anything.
 */
#if defined(CONFIG_PCI)
static char *dma_pci;
module_param(dma_pci, charp, 0400);
MODULE_PARM_DESC(dma_pci,
	"PCI device without a driver whose lists are mapped, VENDOR:DEVICE in hexadecimal");

static struct pci_device_id pci_ids[2];
/* As the borrowed device was, and is again when it is left. */
static bool was_coherent;
static unsigned int segment_bytes;

static int take_pci(struct pci_dev *pci, const struct pci_device_id *id)
{
	int error = dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(64));

	if (error)
		return error;
	mutex_lock(&devices_lock);
	if (devices[PLAIN]) {
		error = -EBUSY;
	} else {
		was_coherent = dev_is_dma_coherent(&pci->dev);
		segment_bytes = dma_get_max_seg_size(&pci->dev);
		set_coherent(&pci->dev, false);
		allow_long_entries(&pci->dev);
		devices[PLAIN] = get_device(&pci->dev);
	}
	mutex_unlock(&devices_lock);
	return error;
}

/* Waits for a window that may be using the device, which ends behind its present list. Lists are mapped inside windows only: nothing of it is left behind. */
static void leave_pci(struct pci_dev *pci)
{
	WRITE_ONCE(leaving, true); /* pairs with the READ_ONCE() in pass_over() */
	mutex_lock(&devices_lock);
	devices[PLAIN] = NULL;
	set_coherent(&pci->dev, was_coherent);
	dma_set_max_seg_size(&pci->dev, segment_bytes);
	WRITE_ONCE(leaving, false);
	mutex_unlock(&devices_lock);
	put_device(&pci->dev);
}

static struct pci_driver pci_driver = {
	.name = "linewright",
	.id_table = pci_ids,
	.probe = take_pci,
	.remove = leave_pci,
};

static int borrow_pci(void)
{
	unsigned int vendor, device;
	int error;

	if (!dma_pci)
		return 0;
	if (sscanf(dma_pci, "%x:%x", &vendor, &device) != 2)
		return -EINVAL;
	pci_ids[0] = (struct pci_device_id){ PCI_DEVICE(vendor, device) };
	error = pci_register_driver(&pci_driver);
	if (!error && !devices[PLAIN]) {
		pci_unregister_driver(&pci_driver);
		error = -ENODEV;
	}
	return error;
}

static void return_pci(void)
{
	if (dma_pci)
		pci_unregister_driver(&pci_driver);
}
#else
static int borrow_pci(void)
{
	return 0;
}

static void return_pci(void)
{
}
#endif

int lwk_dma_init(void)
{
	static const char *const names[] = { "linewright-dma", "linewright-dma-coherent" };
	int i, error;

	for (i = 0; i < 2; i++) {
		struct platform_device *device = new_device(names[i]);

		if (IS_ERR(device)) {
			if (i)
				platform_device_unregister(made[0]);
			return PTR_ERR(device);
		}
		made[i] = device;
		set_coherent(&device->dev, i == COHERENT);
		allow_long_entries(&device->dev);
	}
	error = borrow_pci();
	if (error) {
		platform_device_unregister(made[COHERENT]);
		platform_device_unregister(made[PLAIN]);
		return error;
	}
	if (!devices[PLAIN])
		devices[PLAIN] = &made[PLAIN]->dev;
	devices[COHERENT] = &made[COHERENT]->dev;
	return 0;
}

void lwk_dma_exit(void)
{
	return_pci();
	platform_device_unregister(made[COHERENT]);
	platform_device_unregister(made[PLAIN]);
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

static u64 bytes(const struct lwk_cell *cell)
{
	return (u64)cell->entries * (PAGE_SIZE << get_order(cell->entry_bytes));
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
		list->pages[i] = alloc_pages(LWK_GFP, list->order);
		if (!list->pages[i])
			return -ENOMEM;
		sg_set_page(sg, list->pages[i], cell->entry_bytes, 0);
		if (lwk_killed())
			return -EINTR;
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

/* ---- verification: what a device finds in a list, and what it leaves there ---- */

/* Lines that the CPU has stored to in a device's place go to memory, where a device would have put them. */
static void write_back(char *at, size_t bytes)
{
#if defined(CONFIG_ARM64)
	unsigned int line = cache_line_size();
	size_t offset;

	for (offset = 0; offset < bytes; offset += line)
		lw_dc_civac(at + offset);
	lw_dc_civac(at + bytes - 1);
	lw_cache_arch_wait_all();
#endif
}

/* The memory behind an address that was given to a device: the entry's own, or a bounce buffer. */
static char *behind(struct device *device, dma_addr_t address)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(device);

	return phys_to_virt(
		domain ? iommu_iova_to_phys(domain, address) : dma_to_phys(device, address));
}

/* Goes over a list as its device does, by pages: stores `value` to every byte, or counts the pages where it is not in all. */
static unsigned long as_device(
	struct lwk_run *run, struct device *device, int mapped, u8 value, bool store)
{
	struct list *list = run->memory;
	struct scatterlist *sg;
	unsigned long wrong = 0;
	int i;

	for_each_sg(list->table.sgl, sg, mapped, i) {
		unsigned int at, bytes;

		for (at = 0; at < sg_dma_len(sg); at += bytes) {
			dma_addr_t address = sg_dma_address(sg) + at;
			char *memory = behind(device, address);

			bytes = min_t(unsigned int, sg_dma_len(sg) - at,
				PAGE_SIZE - offset_in_page(address));
			if (!store) {
				wrong += !!memchr_inv(memory, value, bytes);
				continue;
			}
			memset(memory, value, bytes);
			write_back(memory, bytes);
		}
	}
	return wrong;
}

/* The same as the CPU sees the list. */
static unsigned long as_cpu(struct lwk_run *run, u8 value, bool store)
{
	struct list *list = run->memory;
	unsigned long wrong = 0;
	unsigned int i;

	for (i = 0; i < run->cell.entries; i++) {
		void *memory = page_address(list->pages[i]);

		if (store)
			memset(memory, value, run->cell.entry_bytes);
		else
			wrong += !!memchr_inv(memory, value, run->cell.entry_bytes);
	}
	return wrong;
}

/* A mapping's life in which CPU and device each find what the other has stored; it adds to run->wrong where one does not. */
static void verified_life(struct lwk_run *run, struct device *device)
{
	enum dma_data_direction direction = directions[run->cell.direction];
	struct scatterlist *sgl = ((struct list *)run->memory)->table.sgl;
	bool to = direction != DMA_FROM_DEVICE, from = direction != DMA_TO_DEVICE;
	int mapped;

	as_cpu(run, 0x11, true);
	mapped = dma_map_sg(device, sgl, run->cell.entries, direction);
	if (!mapped) {
		run->error = -EIO;
		return;
	}
	if (to)
		run->wrong += as_device(run, device, mapped, 0x11, false);
	if (from)
		as_device(run, device, mapped, 0x22, true);
	dma_sync_sg_for_cpu(device, sgl, run->cell.entries, direction);
	run->wrong += as_cpu(run, from ? 0x22 : 0x11, false);
	if (to)
		as_cpu(run, 0x33, true);
	dma_sync_sg_for_device(device, sgl, run->cell.entries, direction);
	if (to)
		run->wrong += as_device(run, device, mapped, 0x33, false);
	if (from)
		as_device(run, device, mapped, 0x44, true);
	dma_unmap_sg(device, sgl, run->cell.entries, direction);
	run->wrong += as_cpu(run, from ? 0x44 : 0x33, false);
}

/* ---- windows ---- */

struct detail {
	enum dma_step step;
	void (*pass)(struct lwk_run *run);
};

static u64 once_ns(struct lwk_run *run, int device)
{
	const struct detail *detail = run->cell.form->detail;
	u64 start = lwk_now_ns();

	if (run->cell.verify) {
		verified_life(run, devices[device]);
		return lwk_now_ns() - start;
	}
	if (!detail->pass)
		return life_ns(run, devices[device], detail->step);
	if (device == COHERENT)
		return 0;
	make_state(run, 1);
	start = lwk_now_ns();
	detail->pass(run);
	return lwk_now_ns() - start;
}

/* As many passes as fit into the window; its baseline is the same passes on the device with coherency. */
static void pass_over(struct lwk_run *run)
{
	struct lwk_thread *thread = run->threads[0];
	int device = run->request.baseline ? COHERENT : PLAIN;
	u64 start = lwk_now_ns();

	if (!devices[device]) {
		run->error = -ENODEV;
		return;
	}
	once_ns(run, device);
	run->batch = 1;
	thread->ns = 0;
	thread->ops = 0;
	do {
		u64 one = once_ns(run, device);

		lwk_note_batch(run, one);
		thread->ns += one;
		thread->ops++;
		cond_resched();
		/* A baseline that does nothing takes no time. */
		run->whole = !one || lwk_lasted(run, lwk_now_ns() - start);
		if (!run->whole && READ_ONCE(leaving))
			run->error = -ENODEV;
	} while (!run->whole && !lwk_over(run) && !run->error);
}

static void window(struct lwk_run *run)
{
	mutex_lock(&devices_lock);
	pass_over(run);
	mutex_unlock(&devices_lock);
}

static const struct lwk_family mapped_family = {
	.name = "dma",
	.bytes = bytes,
	.prepare = prepare,
	.finish = finish,
	.window = window,
	.verifies = true,
};

/* Explicit instructions map nothing. */
static const struct lwk_family explicit_family = {
	.name = "dma",
	.bytes = bytes,
	.prepare = prepare,
	.finish = finish,
	.window = window,
};

#define ROW(of, form_name, form_operation, form_missing, ...)                                   \
	{                                                                                       \
		.name = form_name, .operation = form_operation, .order = "relaxed", .width = 8, \
		.family = &of##_family, .missing = form_missing, .sleeps = true,                \
		.detail = &(const struct detail)                                                \
		{                                                                               \
			__VA_ARGS__                                                             \
		}                                                                               \
	}

const struct lwk_form lwk_dma_forms[] = {
	ROW(mapped, "dma_sg", "dma_map", NULL, .step = MAP),
	ROW(mapped, "dma_sg", "dma_unmap", NULL, .step = UNMAP),
	ROW(mapped, "dma_sg", "dma_sync_for_device", NULL, .step = FOR_DEVICE),
	ROW(mapped, "dma_sg", "dma_sync_for_cpu", NULL, .step = FOR_CPU),
#if defined(CONFIG_ARM64)
	ROW(explicit, "dc_cvac", "clean", NULL, .pass = pass_dc_cvac),
	ROW(explicit, "dc_civac", "clean_invalidate", NULL, .pass = pass_dc_civac),
#elif defined(CONFIG_X86)
	ROW(explicit, "clwb", "clean", lwk_missing_clwb, .pass = pass_clwb),
	ROW(explicit, "clflushopt", "clean_invalidate", lwk_missing_clflushopt,
		.pass = pass_clflushopt),
	ROW(explicit, "clflush", "clean_invalidate", lwk_missing_clflush, .pass = pass_clflush),
#endif
};

const unsigned int lwk_dma_count = ARRAY_SIZE(lwk_dma_forms);
