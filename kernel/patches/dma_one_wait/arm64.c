// SPDX-License-Identifier: GPL-2.0-only
/* Cache operations of arm64 without their wait, and the wait: for lists that are waited for once. */
#include <linux/dma-map-ops.h>
#include <linux/io.h>

#include <asm/alternative.h>
#include <asm/barrier.h>
#include <asm/cpufeature.h>

/* Bytes of the smallest data cache line of all CPUs: CTR_EL0.DminLine counts words of four bytes, as a power of two. */
static unsigned long line_bytes(void)
{
	static unsigned long bytes;

	if (unlikely(!bytes))
		bytes = 4ul << ((read_sanitised_ftr_reg(SYS_CTR_EL0) >> 16) & 15);
	return bytes;
}

/* Some CPUs have an erratum by which only an operation that invalidates as well cleans. */
static __always_inline void clean(unsigned long at)
{
	asm volatile(ALTERNATIVE("dc cvac, %0", "dc civac, %0", ARM64_WORKAROUND_CLEAN_CACHE)
		:
		: "r"(at)
		: "memory");
}

static __always_inline void clean_and_invalidate(unsigned long at)
{
	asm volatile("dc civac, %0" : : "r"(at) : "memory");
}

static __always_inline void invalidate(unsigned long at)
{
	asm volatile("dc ivac, %0" : : "r"(at) : "memory");
}

/* What a device will read or write is cleaned whatever the direction: no later write-back may overwrite what it writes. */
void arch_sync_dma_for_device_nowait(phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
	unsigned long line = line_bytes();
	unsigned long start = (unsigned long)phys_to_virt(paddr);
	unsigned long end = start + size;
	unsigned long at;

	for (at = start & -line; at < end; at += line)
		clean(at);
}

/* Lines that also hold what the device does not own are written back, never thrown away. */
void arch_sync_dma_for_cpu_nowait(phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
	unsigned long line = line_bytes();
	unsigned long start = (unsigned long)phys_to_virt(paddr);
	unsigned long end = start + size;
	unsigned long at, whole = end & -line;

	if (dir == DMA_TO_DEVICE)
		return;
	if (start & (line - 1))
		clean_and_invalidate(start & -line);
	if (end & (line - 1))
		clean_and_invalidate(whole);
	for (at = (start + line - 1) & -line; at < whole; at += line)
		invalidate(at);
}

/* The whole system: what is not coherent may be outside of any shareable domain. */
void arch_sync_dma_wait(void)
{
	dsb(sy);
}
