# SPDX-License-Identifier: MIT
"""Plan `cache`: maintenance of a list of entries by instruction, with a wait behind each entry or
one for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word, words
from linewright.plans.grid import common
from linewright.schema import Cell, Plan

OPERATIONS = ("clean", "clean_invalidate")
DMA = {
    "dma_map": "to_device",
    "dma_unmap": "from_device",
    "dma_sync_for_device": "to_device",
    "dma_sync_for_cpu": "from_device",
}
"""The kernel's operations over a scatter list, with the direction in which each of them maintains
caches."""
STATES = ("absent", "clean", "dirty_l1", "dirty_l2", "dirty_beyond")
TOTAL_BYTES = {"dirty_l1": 8 << 10, "dirty_l2": 256 << 10}
"""How much a list holds for its lines to be where the state says; others take `total_kib`."""

MAP, UNMAP = ("clwb", "dc_cvac"), ("clflushopt", "dc_civac")
"""Forms of the published experiment: for the device a clean, for the CPU an invalidation."""

SIZES = [64, 512, 4096, 32768, 262144, 2097152]

PARAMETERS = (
    word("experiment", "grid published", "the grid, or the published layout"),
    Parameter(
        "forms", "words", None, "instructions; every available one but clflush",
        choices=("clwb", "clflushopt", "clflush", "dc_cvac", "dc_civac", "dc_cvap", "dc_cvadp"),
    ),
    Parameter("sizes", "counts", SIZES, "entry sizes, bytes", 1, 1 << 26),
    Parameter(
        "total_kib", "count", 10240,
        "size of the lists that no cache near the core need hold, KiB", 1, 1 << 19,
    ),
    words("states", STATES, "what the lines are before a pass"),
    Parameter(
        "align", "counts", [0, 8],
        "where in a line entries begin, bytes; others than 0 for the smallest sizes", 0, 2047,
    ),
    Parameter("most_entries", "count", 8192, "entries of a list, at most", 1, 1_000_000),
    Parameter("iterations", "count", 200, "passes of each published cell", 8, 100_000),
    *usual(launches=5),
    Parameter("window_ms", "ms", 2.0, "length of a window, preparation included", 0.01, 10_000),
)  # fmt: skip
PUBLISHED = (4096, 2560)
"""Entry size and entries of the published list."""
DMA_SIZES = (4096, 65536, 2 << 20)
"""Entry sizes where a wait per entry shows, hardly shows and does not, on a list of `total_kib`."""


def build(inputs: Inputs) -> Plan:
    """The grid, or the two published cells with and without one wait."""
    published = inputs.values["experiment"] == "published"
    windows = max(6, inputs.values["iterations"] // 4) if published else 3
    forms = inputs.forms_of(OPERATIONS)
    if any(form.operation in DMA for form in inputs.forms):
        lists = [PUBLISHED] if published else list(_lists(inputs.values))
        cells = _dma(inputs.forms, lists)
    elif any(form.available for form in forms):
        lists = [PUBLISHED] if published else _fitting(inputs.values)
        cells = _published(forms) if published else _grid(forms, inputs.values)
    else:
        known = "x86-64, i386 and arm64 have them"
        raise UserError("no cache-maintenance instruction here", "--plan cache", known)
    if not lists:
        what = "no entry of these sizes fits into a list"
        allowed = (
            "dirty_l1 to 8 KiB, dirty_l2 to 256 KiB, others to total_kib; the kernel's from 4 KiB"
        )
        raise UserError(what, "--set sizes, states and total_kib", allowed)
    return inputs.plan("cache", cells, min_windows=windows, max_windows=windows * 8)


def _published(forms: list[Form]) -> Iterator[Cell]:
    """10 MiB in 2560 entries of 4 KiB: map (for the device) and unmap (for the CPU), a wait behind
    each entry and one for all.

    Mapped lines are dirty; lines that come back from a device were cleaned before, and nothing
    stored to them since."""
    for names, state in ((MAP, "dirty_beyond"), (UNMAP, "clean")):
        for form in forms:
            if form.name in names:
                yield from _both_waits(form, *PUBLISHED, state)


def _grid(forms: list[Form], values: dict[str, Any]) -> Iterator[Cell]:
    wanted = values["forms"] or [
        form.name for form in forms if form.available and form.name != "clflush"
    ]
    sizes = sorted(values["sizes"])
    aligned = values["align"] if "dirty_beyond" in values["states"] else ()
    for form in (form for form in forms if form.name in wanted):
        for state, size in _fitting(values):
            for entries in _counts(state, size, values):
                yield from _both_waits(form, size, entries, state)
        for align in filter(None, aligned):
            for size in sizes[:3]:
                for entries in _counts("dirty_beyond", size, values)[:1]:
                    yield from _both_waits(form, size, entries, "dirty_beyond", align)


def _lists(values: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Entry size and entries of the lists that the kernel maps: as many as `total_kib` holds, and a
    quarter of that."""
    sizes = [size for size in values["sizes"] if 4096 <= size <= 4 << 20]
    for size in sizes if values["sizes"] != SIZES else DMA_SIZES:
        for entries in _counts("dirty_beyond", size, values):
            yield size, entries


def _fitting(values: dict[str, Any]) -> list[tuple[str, int]]:
    """States and entry sizes of which a list holds one entry or more."""
    return [
        (t, n) for t in values["states"] for n in sorted(values["sizes"]) if _counts(t, n, values)
    ]


def _dma(forms: Sequence[Form], lists: Sequence[tuple[int, int]]) -> Iterator[Cell]:
    """The kernel's mappings of each list, and over the same lists the explicit instructions with a
    wait behind each entry and one.

    What the kernel hands to a device is dirty before; what it takes back was not stored to.
    """
    for size, entries in lists:
        for form in forms:
            directions = DMA | {"clean_invalidate": "from_device"}
            from_device = directions.get(form.operation) == "from_device"
            state = "clean" if from_device else "dirty_beyond"
            if form.operation in DMA:
                params = {"entry_bytes": size, "entries": entries, "state": state}
                params |= {"direction": DMA[form.operation]}
                yield Cell(**common(form), lines=1, params=params)
            elif form.operation in OPERATIONS:
                yield from _both_waits(form, size, entries, state)


def _counts(state: str, size: int, values: dict[str, Any]) -> list[int]:
    """How many entries: as many as the state's total holds, and for the regression a quarter of
    that."""
    total = TOTAL_BYTES.get(state, values["total_kib"] << 10)
    if size > total:
        return []
    most = min(total // size, values["most_entries"])
    return [most] if state != "dirty_beyond" or most < 8 else [most, most // 4]


def _both_waits(form: Form, size: int, entries: int, state: str, align: int = 0) -> Iterator[Cell]:
    params = {"entry_bytes": size, "entries": entries, "state": state, "align_bytes": align}
    for wait in ("each", "once"):
        yield Cell(**common(form), lines=1, params={"wait": wait, **params})


SUMMARY = (
    "cache maintenance over lists: instruction, wait per entry or once, entry size, count, line "
    "state, alignment"
)
PLAN = BuiltIn("cache", SUMMARY, PARAMETERS, build, budget_s=120.0)
