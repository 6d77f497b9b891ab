// SPDX-License-Identifier: GPL-2.0-only
/*
 * RISC-V's part of a kernel that itself waits once for a list: operations of a vendor without their wait, and the wait. Zicbom's
 * operations have none: the fence of the register write that starts the device orders them.
 */
#include <linux/dma-map-ops.h>
#include <linux/init.h>
#include <linux/moduleparam.h>

#include <asm/dma-noncoherent.h>

/* Off until it is asked for: dma_one_wait=1. Never changed later: what was issued without a wait has to be waited for. */
static bool dma_one_wait __ro_after_init;
core_param(dma_one_wait, dma_one_wait, bool, 0444);

bool dma_one_wait_issue(
	void (*operation)(phys_addr_t paddr, size_t size), phys_addr_t paddr, size_t size)
{
	if (!dma_one_wait || !operation)
		return false;
	operation(paddr, size);
	return true;
}

void arch_sync_dma_flush(void)
{
	if (dma_one_wait && noncoherent_cache_ops.wait)
		noncoherent_cache_ops.wait();
}
