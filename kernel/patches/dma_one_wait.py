# SPDX-License-Identifier: GPL-2.0-only
"""One wait for a scatter list of a device without coherency, in place of one behind every entry.

What: mapping, unmapping and syncing of a list issues the cache operations of all its entries, then
waits once. Bounce buffers are copied out behind that wait; lists behind an IOMMU are treated alike,
but that 6.1 waits for each entry where it maps one through bounce buffers there.

Why: a wait (DSB SY on arm64) drains what was issued before it, so a list of many small entries pays
one drain an entry.

Switch: CONFIG_DMA_ONE_WAIT compiles it in; dma_one_wait=1 on the command line, or
/sys/module/kernel/parameters/dma_one_wait at any time, switches it on. Off by default.

Kernels: 6.1 and 6.12, arm64; 6.12 and 7.3, riscv. RISC-V's own instructions (Zicbom) are followed
by no wait in any kernel, so only T-Head's, which are, gain one. In 7.3 the option is for the boot
alone, and lists in bounce buffers are waited for entry by entry, as that kernel does on arm64.

A backport on arm64. Upstream: batched there from 7.1 at the earliest (version 3 of the series was
posted on 28 February 2026, when 7.0 took no more; 7.3.4: arch_sync_dma_flush() of
arch/arm64/include/asm/cache.h), not in 6.1 or 6.12; not for RISC-V, which in 7.3.4 does not select
ARCH_HAS_BATCHED_DMA_SYNC."""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from dataclasses import replace

from lwkernel.edits import Edit

ARCHES = {"6.1": ("arm64",), "6.12": ("arm64", "riscv"), "7.3": ("riscv",)}
CONFIG = ("CONFIG_DMA_ONE_WAIT=y",)

FILES = {
    "arch/arm64/mm/dma-one-wait.c": {"6.1": "dma_one_wait/arm64.c", "6.12": "dma_one_wait/arm64.c"},
    "arch/riscv/mm/dma-one-wait.c": {
        "6.12": "dma_one_wait/riscv.c",
        "7.3": "dma_one_wait/riscv_flush.c",
    },
    "include/linux/dma-one-wait.h": {
        "6.1": "dma_one_wait/dma-one-wait.h",
        "6.12": "dma_one_wait/dma-one-wait.h",
        "7.3": "dma_one_wait/dma-one-wait-flush.h",
    },
}

DIRECT = "kernel/dma/direct.c"
IOMMU = "drivers/iommu/dma-iommu.c"


def option(series: str, depends: str, select: str = "") -> Edit:
    """The configuration option; its architectures differ between series."""
    text = f"""\
config DMA_ONE_WAIT
	bool "One wait for a scatter list of a device without coherency"
	depends on {depends}
{select}	help
	  Mapping, unmapping and syncing of a scatter list issues the cache
	  operations of all its entries, then waits once. Switched on by
	  dma_one_wait=1 on the kernel's command line.

"""
    return Edit(
        path="kernel/dma/Kconfig", before=r"^config DMA_API_DEBUG$", series=(series,), text=text
    )


WAIT = "\tif (one_wait)\n\t\tarch_sync_dma_wait();"


def list_end(path: str, function: str, before: str = r"^}$") -> Edit:
    """The wait behind a list."""
    return Edit(path=path, inside=rf"^(static )?(void|int) {function}\(", before=before, text=WAIT)


def whole_list(
    path: str, function: str, condition: str, call: str, series: tuple[str, ...] = ()
) -> Edit:
    """At the head of a function: a list that meets the condition is left to our own."""
    text = f"\n\tif ({condition}) {{\n\t\t{call};\n\t\treturn;\n\t}}"
    return Edit(
        path=path,
        inside=rf"^(static )?void {function}\(",
        after=r"^\tint i;$",
        series=series,
        text=text,
    )


def mapped_list(
    path: str, function: str, variables: str, mapped: str, lines: str
) -> tuple[Edit, ...]:
    """Mapping of a list: the entries are mapped without their cache operations, these follow each
    without its wait.

    `variables` is the declaration behind which ours stands, `mapped` the line behind the mapping of
    an entry, and `lines` what of the entry is cleaned. One wait ends the list, also where an entry
    fails."""
    inside = rf"^(static )?int {function}\("
    switch = (
        "\tconst bool one_wait = dma_one_wait_for_device(dev) &&\n\t\t\t      !(attrs & "
        "DMA_ATTR_SKIP_CPU_SYNC);"
    )
    attributes = "dir, one_wait ? attrs |\n\t\t\t\tDMA_ATTR_SKIP_CPU_SYNC : attrs);"
    clean = f"\t\tif (one_wait)\n\t\t\tarch_sync_dma_for_device_nowait({lines});"
    return (
        Edit(path=path, inside=inside, after=variables, text=switch),
        Edit(path=path, inside=inside, replace=r"\bdir, attrs\);", text=attributes),
        Edit(path=path, inside=inside, before=mapped, text=clean),
        list_end(path, function, r"^\treturn nents;$"),
        Edit(path=path, inside=inside, after=r"^out_unmap:$", text=WAIT),
    )


# What tells a list with bounce buffers from one without, behind an IOMMU.
BOUNCED = {"6.1": "dev_use_swiotlb(dev)", "6.12": "sg_dma_is_swiotlb(sgl)"}

# Whether memory is a bounce buffer, and whether an entry is an address on the bus.
NAMES = {
    "6.1": {"IS_BOUNCED": "is_swiotlb_buffer", "IS_BUS_ADDRESS": "sg_is_dma_bus_address"},
    "6.12": {"IS_BOUNCED": "swiotlb_find_pool", "IS_BUS_ADDRESS": "sg_dma_is_bus_address"},
}


def bounced_lists(direction: str) -> tuple[Edit, ...]:
    """Syncing of lists with bounce buffers behind an IOMMU."""
    head = (
        "dma_one_wait_for_cpu(dev, dir)" if direction == "cpu" else "dma_one_wait_for_device(dev)"
    )
    call = f"iommu_dma_list_for_{direction}(dev, sgl, nelems, dir)"
    return tuple(
        whole_list(
            IOMMU, f"iommu_dma_sync_sg_for_{direction}", f"{head} && {condition}", call, (series,)
        )
        for series, condition in BOUNCED.items()
    )


SWITCH = (
    option("6.1", "ARM64"),
    option("6.12", "ARM64 || RISCV_NONSTANDARD_CACHE_OPS"),
    option("7.3", "RISCV_NONSTANDARD_CACHE_OPS", "\tselect ARCH_HAS_BATCHED_DMA_SYNC\n"),
    Edit(
        path="include/linux/dma-map-ops.h",
        before=r"^void \*arch_dma_set_uncached\(",
        text="#include <linux/dma-one-wait.h>\n",
    ),
    Edit(
        path="arch/arm64/mm/Makefile",
        series=("6.1", "6.12"),
        after=r"^obj-\$\(CONFIG_HUGETLB_PAGE\)",
        text="obj-$(CONFIG_DMA_ONE_WAIT)\t+= dma-one-wait.o",
    ),
    Edit(
        path="arch/riscv/mm/Makefile",
        after=r"^obj-\$\(CONFIG_RISCV_DMA_NONCOHERENT\)",
        series=("6.12", "7.3"),
        text="obj-$(CONFIG_DMA_ONE_WAIT) += dma-one-wait.o",
    ),
)

# Kernels that wait behind every entry: their lists are gone through by code of ours.
LISTS = (
    # ---- kernel/dma/direct.c ----
    Edit(
        path=DIRECT,
        before=r"^void dma_direct_sync_sg_for_device\(",
        text="""\
#ifdef CONFIG_DMA_ONE_WAIT
/* Off until it is asked for: dma_one_wait=1. */
bool dma_one_wait __read_mostly;
core_param(dma_one_wait, dma_one_wait, bool, 0644);
#endif

/*
 * Hands all entries of a list to the CPU: every invalidation is issued, then one wait,
 * and behind it what devices wrote to bounce buffers is copied out.
 */
static void dma_direct_list_for_cpu(struct device *dev,
		struct scatterlist *sgl, int nents, enum dma_data_direction dir)
{
	bool bounced = false;
	struct scatterlist *sg;
	int i;

	for_each_sg(sgl, sg, nents, i) {
		phys_addr_t paddr = dma_to_phys(dev, sg_dma_address(sg));

		if (IS_BUS_ADDRESS(sg))
			continue;
		arch_sync_dma_for_cpu_nowait(paddr, sg->length, dir);
		if (IS_BOUNCED(dev, paddr))
			bounced = true;
	}
	arch_sync_dma_wait();
	if (!bounced)
		return;
	for_each_sg(sgl, sg, nents, i) {
		phys_addr_t paddr = dma_to_phys(dev, sg_dma_address(sg));

		if (!IS_BUS_ADDRESS(sg) && IS_BOUNCED(dev, paddr))
			swiotlb_sync_single_for_cpu(dev, paddr, sg->length,
						    dir);
	}
}
""",
    ),
    Edit(
        path=DIRECT,
        inside=r"^void dma_direct_sync_sg_for_device\(",
        after=r"^\tint i;$",
        text="\tconst bool one_wait = dma_one_wait_for_device(dev);",
    ),
    Edit(
        path=DIRECT,
        inside=r"^void dma_direct_sync_sg_for_device\(",
        replace=r"\barch_sync_dma_for_device\(",
        text="arch_sync_dma_lines_for_device(one_wait, ",
    ),
    list_end(DIRECT, "dma_direct_sync_sg_for_device"),
    whole_list(
        DIRECT,
        "dma_direct_sync_sg_for_cpu",
        "dma_one_wait_for_cpu(dev, dir)",
        "dma_direct_list_for_cpu(dev, sgl, nents, dir)",
    ),
    Edit(
        path=DIRECT,
        inside=r"^void dma_direct_unmap_sg\(",
        after=r"^\tint i;$",
        times=1,
        text="""
	if (dma_one_wait_for_cpu(dev, dir) && !(attrs & DMA_ATTR_SKIP_CPU_SYNC)) {
		dma_direct_list_for_cpu(dev, sgl, nents, dir);
		attrs |= DMA_ATTR_SKIP_CPU_SYNC;
	}
""",
    ),
    *mapped_list(
        DIRECT,
        "dma_direct_map_sg",
        r"^\tstruct scatterlist \*sg;$",
        r"^\t\tsg_dma_len\(sg\) = sg->length;$",
        "dma_to_phys(dev,\n\t\t\t\tsg->dma_address), sg->length, dir",
    ),
    # ---- drivers/iommu/dma-iommu.c: lists without bounce buffers ----
    Edit(
        path=IOMMU,
        inside=r"^(static )?void iommu_dma_sync_sg_for_cpu\(",
        replace=r"\barch_sync_dma_for_cpu\(sg_phys",
        text=r"arch_sync_dma_lines_for_cpu(one_wait, sg_phys",
    ),
    list_end(IOMMU, "iommu_dma_sync_sg_for_cpu"),
    Edit(
        path=IOMMU,
        inside=r"^(static )?void iommu_dma_sync_sg_for_device\(",
        replace=r"\barch_sync_dma_for_device\(sg_phys",
        text=r"arch_sync_dma_lines_for_device(one_wait, sg_phys",
    ),
    list_end(IOMMU, "iommu_dma_sync_sg_for_device"),
    # ---- and with them ----
    *bounced_lists("cpu"),
    *bounced_lists("device"),
    Edit(
        path=IOMMU,
        inside=r"^(static )?void iommu_dma_sync_sg_for_cpu\(",
        after=r"^\tint i;$",
        text="\tconst bool one_wait = dma_one_wait_for_cpu(dev, dir);",
    ),
    Edit(
        path=IOMMU,
        inside=r"^(static )?void iommu_dma_sync_sg_for_device\(",
        after=r"^\tint i;$",
        text="\tconst bool one_wait = dma_one_wait_for_device(dev);",
    ),
    Edit(
        path=IOMMU,
        before=r"^(static )?void iommu_dma_sync_sg_for_cpu\(",
        text="""\
/* The memory of an entry that may be in a bounce buffer. */
static phys_addr_t iommu_dma_entry(struct device *dev, struct scatterlist *sg)
{
	return iommu_iova_to_phys(iommu_get_dma_domain(dev), sg_dma_address(sg));
}

/*
 * Every invalidation of a list, one wait, and then what devices wrote to bounce buffers
 * is copied out.
 */
static void iommu_dma_list_for_cpu(struct device *dev, struct scatterlist *sgl,
		int nelems, enum dma_data_direction dir)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(sgl, sg, nelems, i)
		arch_sync_dma_for_cpu_nowait(iommu_dma_entry(dev, sg),
					     sg->length, dir);
	arch_sync_dma_wait();
	for_each_sg(sgl, sg, nelems, i) {
		phys_addr_t phys = iommu_dma_entry(dev, sg);

		if (IS_BOUNCED(dev, phys))
			swiotlb_sync_single_for_cpu(dev, phys, sg->length, dir);
	}
}

/* What the CPU wrote is copied into bounce buffers and cleaned, entry by entry; then one wait. */
static void iommu_dma_list_for_device(struct device *dev,
		struct scatterlist *sgl, int nelems, enum dma_data_direction dir)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(sgl, sg, nelems, i) {
		phys_addr_t phys = iommu_dma_entry(dev, sg);

		if (IS_BOUNCED(dev, phys))
			swiotlb_sync_single_for_device(dev, phys, sg->length,
						       dir);
		arch_sync_dma_for_device_nowait(phys, sg->length, dir);
	}
	arch_sync_dma_wait();
}
""",
    ),
    Edit(
        path=IOMMU,
        inside=r"^static void iommu_dma_unmap_sg_swiotlb\(",
        after=r"^\tint i;$",
        text="""
	if (dma_one_wait_for_cpu(dev, dir) && !(attrs & DMA_ATTR_SKIP_CPU_SYNC)) {
		iommu_dma_list_for_cpu(dev, sg, nents, dir);
		attrs |= DMA_ATTR_SKIP_CPU_SYNC;
	}""",
    ),
    # 6.1 zeroes all of a bounce buffer that it maps with DMA_ATTR_SKIP_CPU_SYNC: what the device is
    # to read is in there already.
    *(
        replace(edit, series=("6.12",))
        for edit in mapped_list(
            IOMMU,
            "iommu_dma_map_sg_swiotlb",
            r"^\tint i;$",
            r"^\t\tsg_dma_len\(s\) = s->length;$",
            "iommu_dma_entry(dev, s),\n\t\t\t\t\ts->length, dir",
        )
    ),
)

THEAD = (
    # ---- T-Head's operations without their wait ----
    Edit(
        path="arch/riscv/include/asm/dma-noncoherent.h",
        series=("6.12", "7.3"),
        after=r"^\tvoid \(\*wback_inv\)\(phys_addr_t paddr, size_t size\);$",
        text="""\
#ifdef CONFIG_DMA_ONE_WAIT
	/* The same without their wait, and the wait: all or none. */
	void (*wback_nowait)(phys_addr_t paddr, size_t size);
	void (*inv_nowait)(phys_addr_t paddr, size_t size);
	void (*wait)(void);
#endif""",
    ),
    Edit(
        path="arch/riscv/errata/thead/errata.c",
        series=("6.12", "7.3"),
        before=r"^static const struct riscv_nonstd_cache_ops thead_errata_cmo_ops = \{$",
        text="""\
#ifdef CONFIG_DMA_ONE_WAIT
#define THEAD_LINES(insn, paddr, size)						\\
do {										\\
	unsigned long line = riscv_cbom_block_size;				\\
	register unsigned long at asm("a0") = (paddr) & ~(line - 1);		\\
										\\
	for (; at < (paddr) + (size); at += line)				\\
		asm volatile(insn : : "r" (at) : "memory");			\\
} while (0)

static void thead_errata_cache_wback_nowait(phys_addr_t paddr, size_t size)
{
	THEAD_LINES(THEAD_CLEAN_A0, paddr, size);
}

static void thead_errata_cache_inv_nowait(phys_addr_t paddr, size_t size)
{
	THEAD_LINES(THEAD_INVAL_A0, paddr, size);
}

static void thead_errata_cache_wait(void)
{
	asm volatile(THEAD_SYNC_S : : : "memory");
}
#endif
""",
    ),
    Edit(
        path="arch/riscv/errata/thead/errata.c",
        series=("6.12", "7.3"),
        after=r"^\t\.wback_inv = &thead_errata_cache_wback_inv,$",
        text="""\
#ifdef CONFIG_DMA_ONE_WAIT
	.wback_nowait = &thead_errata_cache_wback_nowait,
	.inv_nowait = &thead_errata_cache_inv_nowait,
	.wait = &thead_errata_cache_wait,
#endif""",
    ),
)


def named(edit: Edit) -> tuple[Edit, ...]:
    """An edit of kernels that wait behind every entry, for each with that kernel's names."""
    edits = []
    for series in edit.series or NAMES:
        text = edit.text
        for name, own in NAMES[series].items():
            text = text.replace(name, own)
        edits.append(replace(edit, series=(series,), text=text))
    return tuple(edits)


def issued(function: str, operation: str) -> Edit:
    """A vendor's operation without its wait, in a kernel that waits for it behind the list."""
    text = f"""\
#ifdef CONFIG_DMA_ONE_WAIT
	if (dma_one_wait_issue(noncoherent_cache_ops.{operation}, paddr, size))
		return;
#endif"""
    return Edit(
        path="arch/riscv/mm/dma-noncoherent.c",
        inside=rf"^static inline void {function}\(",
        after=r"^#ifdef CONFIG_RISCV_NONSTANDARD_CACHE_OPS$",
        series=("7.3",),
        text=text,
    )


EDITS = (
    *SWITCH,
    *(own for edit in LISTS for own in named(edit)),
    *THEAD,
    issued("arch_dma_cache_wback", "wback_nowait"),
    issued("arch_dma_cache_inv", "inv_nowait"),
)
