/* SPDX-License-Identifier: GPL-2.0-only */
/* One wait for a scatter list on RISC-V: what the kernel calls behind a list, and operations without their wait. */
#ifndef _LINUX_DMA_ONE_WAIT_H
#define _LINUX_DMA_ONE_WAIT_H

#include <linux/types.h>

#ifdef CONFIG_DMA_ONE_WAIT
/* Everything that was issued by this CPU is complete behind it. */
void arch_sync_dma_flush(void);

/* Issues an operation that arch_sync_dma_flush() will wait for; false where there is none or the option is off. */
bool dma_one_wait_issue(
	void (*operation)(phys_addr_t paddr, size_t size), phys_addr_t paddr, size_t size);
#endif

#endif
