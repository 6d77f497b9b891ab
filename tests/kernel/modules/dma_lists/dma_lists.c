// SPDX-License-Identifier: GPL-2.0-only
/*
 * Says how RISC-V's cache operations are called for scatter lists of a device without coherency, and whether CPU and
 * device find what the other has stored; then refuses to stay loaded.
 *
 * It registers cache operations of its own (boot with rodata=off) that model a cache: what the CPU sees is the kernel's
 * memory, and what a device sees is a copy of it, by lines, which only the operations bring up to date. The operations
 * that do not wait are performed when they are waited for and not before, so a wait that is missing or comes too late
 * gives wrong contents.
 */
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include <asm/dma-noncoherent.h>

static bool model = true;
module_param(model, bool, 0);
MODULE_PARM_DESC(model, "Register the model; else lists go through the machine's own operations");

static bool halves = true;
module_param(halves, bool, 0);
MODULE_PARM_DESC(halves, "Register operations without their wait, too, where the kernel has them");

static bool forget;
module_param(forget, bool, 0);
MODULE_PARM_DESC(forget, "Waits do nothing: lists have to come out wrong");

#define LINE 64 /* bytes */
#define ENTRIES 33

enum kind {
	CLEAN,
	INVALIDATE,
	BOTH
};

/* ---- the model: one thread uses it, and no other device of the machine lacks coherency ---- */

/* Memory behind the cache, by page frame; filled with a byte that no test stores until a line is cleaned. */
static DEFINE_XARRAY(memory);
#define UNTOUCHED 0xee

struct operation {
	phys_addr_t paddr;
	size_t size;
	enum kind kind;
};

static struct operation issued[2 * ENTRIES];
static unsigned int issued_count;
static bool failed;

static struct {
	unsigned int each, nowait, waits;
} calls;

static u8 *behind_cache(phys_addr_t at)
{
	u8 *page = xa_load(&memory, at >> PAGE_SHIFT);

	if (!page) {
		page = (u8 *)__get_free_page(GFP_ATOMIC);
		if (!page)
			return NULL;
		memset(page, UNTOUCHED, PAGE_SIZE);
		if (xa_err(xa_store(&memory, at >> PAGE_SHIFT, page, GFP_ATOMIC))) {
			free_page((unsigned long)page);
			return NULL;
		}
	}
	return page + offset_in_page(at);
}

static void perform(phys_addr_t paddr, size_t size, enum kind kind)
{
	phys_addr_t at;

	for (at = paddr & -LINE; at < paddr + size; at += LINE) {
		void *cached = phys_to_virt(at);
		u8 *beyond = behind_cache(at);

		if (!beyond) {
			failed = true;
			return;
		}
		if (kind != INVALIDATE)
			memcpy(beyond, cached, LINE);
		if (kind != CLEAN)
			memcpy(cached, beyond, LINE);
	}
}

#define WAITING(name, kind)                              \
	static void name(phys_addr_t paddr, size_t size) \
	{                                                \
		calls.each++;                            \
		perform(paddr, size, kind);              \
	}

WAITING(clean, CLEAN)
WAITING(invalidate, INVALIDATE)
WAITING(clean_and_invalidate, BOTH)

#ifdef CONFIG_DMA_ONE_WAIT
static void issue(phys_addr_t paddr, size_t size, enum kind kind)
{
	calls.nowait++;
	if (issued_count == ARRAY_SIZE(issued))
		failed = true;
	else
		issued[issued_count++] = (struct operation){ paddr, size, kind };
}

static void clean_nowait(phys_addr_t paddr, size_t size)
{
	issue(paddr, size, CLEAN);
}

static void invalidate_nowait(phys_addr_t paddr, size_t size)
{
	issue(paddr, size, INVALIDATE);
}

static void wait(void)
{
	unsigned int i;

	calls.waits++;
	for (i = 0; i < issued_count && !forget; i++)
		perform(issued[i].paddr, issued[i].size, issued[i].kind);
	issued_count = 0;
}
#endif

static void __init register_model(void)
{
	struct riscv_nonstd_cache_ops ops = {
		.wback = clean,
		.inv = invalidate,
		.wback_inv = clean_and_invalidate,
	};

#ifdef CONFIG_DMA_ONE_WAIT
	if (halves) {
		ops.wback_nowait = clean_nowait;
		ops.inv_nowait = invalidate_nowait;
		ops.wait = wait;
	}
#endif
	riscv_noncoherent_register_cache_ops(&ops);
}

static void __init forget_model(void)
{
	static const struct riscv_nonstd_cache_ops none;
	unsigned long frame;
	void *page;

	riscv_noncoherent_register_cache_ops(&none);
	xa_for_each(&memory, frame, page) free_page((unsigned long)page);
	xa_destroy(&memory);
}

/* ---- lists ---- */

struct life {
	struct device *device;
	enum dma_data_direction direction;
	unsigned int entries, bytes, offset;
	struct sg_table table;
	struct page *pages[ENTRIES];
	unsigned int wrong, unfinished;
};

static void free_list(struct life *life)
{
	unsigned int i;

	for (i = 0; i < life->entries; i++)
		if (life->pages[i])
			__free_pages(life->pages[i], get_order(life->offset + life->bytes));
	sg_free_table(&life->table);
}

static int make_list(struct life *life)
{
	struct scatterlist *sg;
	unsigned int i;

	if (sg_alloc_table(&life->table, life->entries, GFP_KERNEL))
		return -ENOMEM;
	for_each_sg(life->table.sgl, sg, life->entries, i) {
		life->pages[i] = alloc_pages(GFP_KERNEL, get_order(life->offset + life->bytes));
		if (!life->pages[i]) {
			free_list(life);
			return -ENOMEM;
		}
		sg_set_page(sg, life->pages[i], life->bytes, life->offset);
	}
	return 0;
}

/* As the device sees its list, by lines: stores `value` everywhere, or counts the bytes that are not `value`. */
static void as_device(struct life *life, u8 value, bool store)
{
	struct scatterlist *sg;
	unsigned int i, at;

	for_each_sg(life->table.sgl, sg, life->entries, i) {
		for (at = 0; at < sg_dma_len(sg); at++) {
			phys_addr_t paddr = dma_to_phys(life->device, sg_dma_address(sg) + at);
			bool copied = model && !dev_is_dma_coherent(life->device);
			u8 *byte = copied ? behind_cache(paddr) : phys_to_virt(paddr);

			if (!byte)
				failed = true;
			else if (store)
				*byte = value;
			else
				life->wrong += *byte != value;
		}
	}
}

/* The same as the CPU sees it. */
static void as_cpu(struct life *life, u8 value, bool store)
{
	unsigned int i;

	for (i = 0; i < life->entries; i++) {
		u8 *bytes = (u8 *)page_address(life->pages[i]) + life->offset;

		if (store)
			memset(bytes, value, life->bytes);
		else
			life->wrong += !!memchr_inv(bytes, value, life->bytes);
	}
}

enum step {
	MAP,
	FOR_CPU,
	FOR_DEVICE,
	UNMAP
};

/* One step; says how many operations it waited for one by one, how many it did not, and how many waits there were. */
static void take(struct life *life, enum step step)
{
	static const char *const names[] = { "map", "for_cpu", "for_device", "unmap" };
	struct scatterlist *sgl = life->table.sgl;

	memset(&calls, 0, sizeof(calls));
	switch (step) {
	case MAP:
		if (dma_map_sg(life->device, sgl, life->entries, life->direction) != life->entries)
			failed = true;
		break;
	case FOR_CPU:
		dma_sync_sg_for_cpu(life->device, sgl, life->entries, life->direction);
		break;
	case FOR_DEVICE:
		dma_sync_sg_for_device(life->device, sgl, life->entries, life->direction);
		break;
	case UNMAP:
		dma_unmap_sg(life->device, sgl, life->entries, life->direction);
	}
	life->unfinished += issued_count;
	issued_count = 0;
	pr_cont(" %s=%u/%u/%u", names[step], calls.each, calls.nowait, calls.waits);
}

/* A mapping from beginning to end, in which CPU and device each look for what the other has stored. */
static int live(struct life *life)
{
	bool to = life->direction != DMA_FROM_DEVICE, from = life->direction != DMA_TO_DEVICE;
	int error = make_list(life);

	if (error)
		return error;
	pr_info("dma_lists: coherent=%d direction=%d entries=%u bytes=%u offset=%u",
		dev_is_dma_coherent(life->device), life->direction, life->entries, life->bytes,
		life->offset);
	as_cpu(life, 0x11, true);
	take(life, MAP);
	if (failed)
		goto out;
	if (to)
		as_device(life, 0x11, false);
	if (from)
		as_device(life, 0x22, true);
	take(life, FOR_CPU);
	as_cpu(life, from ? 0x22 : 0x11, false);
	if (to)
		as_cpu(life, 0x33, true);
	take(life, FOR_DEVICE);
	if (to)
		as_device(life, 0x33, false);
	if (from)
		as_device(life, 0x44, true);
	take(life, UNMAP);
	as_cpu(life, from ? 0x44 : 0x33, false);
out:
	pr_cont(" wrong=%u unfinished=%u failed=%d\n", life->wrong, life->unfinished, failed);
	free_list(life);
	return failed ? -EIO : 0;
}

static int all_lists(struct device *device)
{
	static const unsigned int bytes[] = { 8, 64, 100, 4096, 20000 };
	static const unsigned int entries[] = { 1, ENTRIES };
	static const unsigned int offsets[] = { 0, 12 };
	unsigned int i;

	for (i = 0; i < 3 * ARRAY_SIZE(bytes) * ARRAY_SIZE(entries) * ARRAY_SIZE(offsets); i++) {
		struct life life = {
			.device = device,
			.direction = (const int[]){ DMA_TO_DEVICE, DMA_FROM_DEVICE,
				DMA_BIDIRECTIONAL }[i % 3],
			.bytes = bytes[i / 3 % ARRAY_SIZE(bytes)],
			.entries = entries[i / 3 / ARRAY_SIZE(bytes) % ARRAY_SIZE(entries)],
			.offset = offsets[i / 3 / ARRAY_SIZE(bytes) / ARRAY_SIZE(entries)],
		};
		int error = live(&life);

		if (error)
			return error;
	}
	return 0;
}

static int __init run(void)
{
	struct platform_device_info info = {
		.name = "dma-lists",
		.id = PLATFORM_DEVID_NONE,
		.dma_mask = DMA_BIT_MASK(64),
	};
	struct platform_device *made = platform_device_register_full(&info);
	int error;

	if (IS_ERR(made))
		return PTR_ERR(made);
	if (model)
		register_model();
	made->dev.dma_coherent = false;
	error = all_lists(&made->dev);
	made->dev.dma_coherent = true;
	if (!error)
		error = all_lists(&made->dev);
	if (model)
		forget_model();
	platform_device_unregister(made);
	return error ?: -EAGAIN;
}
module_init(run);

MODULE_DESCRIPTION("Cache operations for scatter lists");
MODULE_LICENSE("GPL");
