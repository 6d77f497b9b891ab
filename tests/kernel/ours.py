# SPDX-License-Identifier: MIT
"""The small kernels that several tests share: one build for each series and architecture."""

from __future__ import annotations

from pathlib import Path

import small

PATCHES = {
    ("6.1", "arm64"): (
        "arm64_lse_prefetch",
        "arm64_percpu_form",
        "dma_one_wait",
        "srcu_fast_updown",
    ),
    ("6.12", "arm64"): (
        "arm64_lse_prefetch",
        "arm64_percpu_form",
        "dma_one_wait",
        "srcu_fast_updown",
    ),
    ("7.3", "arm64"): ("arm64_lse_prefetch", "srcu_fast_updown"),
    ("6.12", "x86_64"): ("srcu_fast_updown",),
    ("6.1", "x86_64"): ("srcu_fast_updown",),
    ("6.12", "i386"): ("atomic64_first",),
    ("6.1", "i386"): ("atomic64_first",),
    ("6.12", "riscv"): ("dma_one_wait",),
    ("7.3", "riscv"): ("dma_one_wait",),
}
FRAGMENTS = {
    "arm64": ("dma", "iommu", "torture", "kunit"),
    "riscv": ("dma",),
    "x86_64": ("lockdep", "kasan", "dma", "torture", "kunit"),
}
"""On x86-64 with everything that finds mistakes; what counts instructions runs on the others."""
RACES = ("kcsan", "dma")
"""In place of those on x86-64: KASAN and KCSAN do not go together."""


def kernel(
    series: str, arch: str, without: str = "", fragments: tuple[str, ...] | None = None
) -> Path:
    """The kernel's folder; run_arm64.Unavailable with what is missing. `without` leaves one patch
    out of the same configuration, for a comparison with the kernel as it is without that patch."""
    if fragments is None:
        fragments = FRAGMENTS.get(arch, ())
    names = [name for name in PATCHES.get((series, arch), ()) if name != without]
    words = [word for name in names for word in ("--patch", name)]
    words += [word for name in fragments for word in ("--fragment", name)]
    return small.built(series, arch, *words)
