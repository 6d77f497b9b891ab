/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One wait for a scatter list: an architecture's cache operations without their wait, and the wait. Included by
 * dma-map-ops.h behind the declarations of the operations that do wait.
 */
#ifndef _LINUX_DMA_ONE_WAIT_H
#define _LINUX_DMA_ONE_WAIT_H

#include <linux/dma-direction.h>
#include <linux/types.h>

#ifdef CONFIG_DMA_ONE_WAIT
extern bool dma_one_wait;

/*
 * As arch_sync_dma_for_device() and arch_sync_dma_for_cpu(), but nothing is complete before arch_sync_dma_wait() has
 * returned: no device may be started and no CPU may read the lines until then.
 */
void arch_sync_dma_for_device_nowait(phys_addr_t paddr, size_t size, enum dma_data_direction dir);
void arch_sync_dma_for_cpu_nowait(phys_addr_t paddr, size_t size, enum dma_data_direction dir);
void arch_sync_dma_wait(void);

/* Whether lists of this device are to be waited for once on their way to it. */
static inline bool dma_one_wait_for_device(struct device *dev)
{
	return READ_ONCE(dma_one_wait) && !dev_is_dma_coherent(dev);
}
#else
static inline void arch_sync_dma_for_device_nowait(
	phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
}
static inline void arch_sync_dma_for_cpu_nowait(
	phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
}
static inline void arch_sync_dma_wait(void)
{
}
static inline bool dma_one_wait_for_device(struct device *dev)
{
	return false;
}
#endif

/* The same on their way back, where there is something to be done. */
static inline bool dma_one_wait_for_cpu(struct device *dev, enum dma_data_direction dir)
{
	return dma_one_wait_for_device(dev) && dir != DMA_TO_DEVICE;
}

static inline void arch_sync_dma_lines_for_device(
	bool one_wait, phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
	if (one_wait)
		arch_sync_dma_for_device_nowait(paddr, size, dir);
	else
		arch_sync_dma_for_device(paddr, size, dir);
}

static inline void arch_sync_dma_lines_for_cpu(
	bool one_wait, phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
	if (one_wait)
		arch_sync_dma_for_cpu_nowait(paddr, size, dir);
	else
		arch_sync_dma_for_cpu(paddr, size, dir);
}

#endif
