// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cache operations of RISC-V without their wait, and the wait. Zicbom's operations have none: the fence of the register write
 * that starts the device orders them. A vendor's own may have one, and then it also gives them without it.
 */
#include <linux/dma-map-ops.h>

#include <asm/dma-noncoherent.h>

void arch_sync_dma_for_device_nowait(phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
	if (noncoherent_cache_ops.wback_nowait)
		noncoherent_cache_ops.wback_nowait(paddr, size);
	else
		arch_sync_dma_for_device(paddr, size, dir);
}

void arch_sync_dma_for_cpu_nowait(phys_addr_t paddr, size_t size, enum dma_data_direction dir)
{
	if (dir == DMA_TO_DEVICE)
		return;
	if (noncoherent_cache_ops.inv_nowait)
		noncoherent_cache_ops.inv_nowait(paddr, size);
	else
		arch_sync_dma_for_cpu(paddr, size, dir);
}

void arch_sync_dma_wait(void)
{
	if (noncoherent_cache_ops.wait)
		noncoherent_cache_ops.wait();
}
