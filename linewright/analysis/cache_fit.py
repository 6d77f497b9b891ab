# SPDX-License-Identifier: MIT
"""What cache maintenance over lists costs per line, per entry and per wait, and what one wait for
the whole list saves; and whether a kernel waits once for a whole scatter list or behind each entry.

The time of a pass over a list is taken to be

    lines · a + entries · b + waits · c        (waits = entries, or 1)

for each instruction, line state and alignment.  The terms are fitted by least squares of the
*relative* errors, since passes span five orders of magnitude; the intervals are Student's t from
the residuals, so they widen where the three terms do not describe the machine, and `worst_percent`
says by how much the worst cell misses.

The time of a mapping operation less that of the same call for a coherent device is what its
maintenance costs.  It is compared with explicit passes over the same entries with one wait and with
a wait behind each: where the two passes separate, a maintenance time whose whole interval lies
below the middle of them has one wait, and one whose interval lies above has many."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from linewright.analysis.comparison import FEWEST_LAUNCHES, Comparison, Side
from linewright.analysis.intervals import CONFIDENCE, t_quantile
from linewright.analysis.summary import Summary, grouped
from linewright.forms import CACHE, DMA
from linewright.schema import Cell, Estimate

TRAPPED_NS = 200.0
"""Per line on clean lines: more than any processor takes, as much as a system call does."""


class Group(Struct, frozen=True, order=True):
    """What one fit is for."""

    form: str
    state: str
    align_bytes: int


class Fit(Struct, frozen=True, kw_only=True):
    """The terms, ns, with intervals."""

    group: Group
    per_line: Estimate
    per_entry: Estimate
    per_wait: Estimate
    cells: int
    ids: tuple[str, ...]
    """Of these cells."""
    worst_percent: float
    """Largest relative miss of a measured pass."""

    def pass_ns(self, lines: float, entries: float, waits: float) -> float:
        terms = (lines, self.per_line), (entries, self.per_entry), (waits, self.per_wait)
        return sum(count * each.value for count, each in terms)


def concerns(cell: Cell) -> bool:
    """Whether a cell is a pass of cache maintenance."""
    return cell.operation in CACHE.operations and "entry_bytes" in cell.params


def list_of(of: Cell | Side) -> tuple[Group, int, int]:
    """Which list a pass is over: what its fit is for, the bytes of an entry, and the entries."""
    param = of.situation.param
    group = Group(of.form, str(param("state", "dirty_beyond")), int(param("align_bytes")))
    return group, int(param("entry_bytes")), int(param("entries"))


def group_of(cell: Cell) -> Group:
    return list_of(cell)[0]


def terms_of(cell: Cell, line_bytes: int) -> tuple[int, int, int]:
    """Lines, entries and waits of one pass."""
    size, entries = int(cell.params["entry_bytes"]), int(cell.params["entries"])
    align = int(cell.params.get("align_bytes", 0)) % line_bytes
    lines = -(-(align + size) // line_bytes)
    return lines * entries, entries, entries if cell.params["wait"] == "each" else 1


def usable(summaries: Iterable[Summary]) -> list[Summary]:
    """Passes with a figure to rely on."""
    measured = (s for s in summaries if concerns(s.cell) and s.status == "ok" and s.issue)
    return [s for s in measured if s.issue.median_ns > 0]


def fits(summaries: Iterable[Summary], line_bytes: int) -> list[Fit]:
    """One fit for each instruction, state and alignment that was measured at enough points."""
    groups = grouped(usable(summaries), lambda s: group_of(s.cell))
    found = (_fit(group, members, line_bytes) for group, members in sorted(groups.items()))
    return [fit for fit in found if fit is not None]


def _fit(group: Group, members: Sequence[Summary], line_bytes: int) -> Fit | None:
    terms = np.array([terms_of(s.cell, line_bytes) for s in members], dtype=float)
    times = np.array([s.issue.median_ns for s in members])
    free = len(members) - terms.shape[1]
    scaled = terms / times[:, None]
    if free < 1 or np.linalg.matrix_rank(scaled) < terms.shape[1]:
        return None
    values, *_ = np.linalg.lstsq(scaled, np.ones(len(members)), rcond=None)
    misses = scaled @ values - 1
    variance = float(misses @ misses) / free
    errors = np.sqrt(np.maximum(np.diag(np.linalg.pinv(scaled.T @ scaled)) * variance, 0))
    reach = t_quantile(free, (1 + CONFIDENCE) / 2) * errors
    line, entry, wait = (
        Estimate(value=float(v), low=float(v - r), high=float(v + r))
        for v, r in zip(values, reach, strict=True)
    )
    return Fit(
        group=group, per_line=line, per_entry=entry, per_wait=wait, cells=len(members),
        ids=tuple(s.id for s in members), worst_percent=float(np.max(np.abs(misses))) * 100,
    )  # fmt: skip


def on_dirty_lines(found: Iterable[Fit]) -> list[Fit]:
    """The fits for lines that lie dirty beyond the caches, at their usual alignment."""
    return [f for f in found if f.group.state == "dirty_beyond" and f.group.align_bytes == 0]


def longest_lists(summaries: Iterable[Summary]) -> list[Summary]:
    """Each instruction's pass over the same list of dirty lines, of the largest entries that all of
    them have, with one wait: its time is that of the lines."""
    lists: dict[tuple[int, int], dict[str, Summary]] = {}
    for s in usable(summaries):
        group, params = group_of(s.cell), s.cell.params
        if (group.state, group.align_bytes, params["wait"]) == ("dirty_beyond", 0, "once"):
            size = int(params["entry_bytes"]), int(params["entries"])
            lists.setdefault(size, {})[group.form] = s
    most = max(map(len, lists.values()), default=0)
    shared = [size for size, own in lists.items() if len(own) == most]
    return list(lists[max(shared)].values()) if shared else []


class CheapestInstruction(NamedTuple):
    """The cheapest of several instructions of cache maintenance on dirty lines, and what is shown
    of the others: their passes over one list are compared, operation against operation."""

    best: Fit
    slower: list[Fit]
    same: list[tuple[Fit, float]]
    """Each with what the difference is shown to be below, as a share."""
    undecided: list[Fit]

    @property
    def ids(self) -> list[str]:
        others = [*self.slower, *(f for f, _ in self.same), *self.undecided]
        return [i for f in (self.best, *others) for i in f.ids]


def cheapest_instruction(
    fits: Iterable[Fit], known: Sequence[Comparison]
) -> CheapestInstruction | None:
    """Which instruction writes dirty lines back in the least time; None of fewer than two."""
    ranked = sorted(on_dirty_lines(fits), key=lambda f: f.per_line.value)
    if len(ranked) < 2:
        return None
    best, *others = ranked
    found = CheapestInstruction(best, [], [], [])
    for f in others:
        ids = {*best.ids, *f.ids}
        pair = next((a for a in known if ids.issuperset(a.ids)), None)
        first = pair is not None and pair.first.form == best.group.form
        if pair and (pair.cheaper if first else pair.slower):
            found.slower.append(f)
        elif pair and pair.answer == "same":
            found.same.append((f, pair.within))
        else:
            found.undecided.append(f)
    return found


def trapped(found: Iterable[Fit]) -> list[Fit]:
    """Fits in which lines without anything to write back take as long as a system call."""
    idle = (f for f in found if f.group.state in ("absent", "clean"))
    return [f for f in idle if f.per_line.low > TRAPPED_NS]


def saved(saving: Comparison) -> Estimate | None:
    """Percent of the time with a wait behind each entry; None with fewer launches than a claim
    needs."""
    c = saving.contrast
    if c is None or not c.enough(FEWEST_LAUNCHES):
        return None
    value, low, high = (100 * (1 - end) for end in (c.value, c.high, c.low))
    return Estimate(value=value, low=low, high=high)


def matters(saving: Comparison) -> bool:
    """Shown to be more than negligible."""
    percent = saved(saving)
    return percent is not None and percent.low > 100 * saving.same


def negligible(saving: Comparison) -> bool:
    """Shown to be no more than negligible, or to be none."""
    percent = saved(saving)
    return percent is not None and percent.high <= 100 * saving.same


class OneWait(NamedTuple):
    """What one wait for the whole list is worth with one instruction on dirty lines."""

    form: str
    ids: list[str]
    """Of all its lists."""
    answer: Literal["cheaper", "same", "undecided"]
    clearest: Comparison | None
    """Where most is shown to be saved; of what is undecided the widest interval, and nothing where
    launches are too few."""
    vanishes_at: int | None
    """Smallest entry size in bytes from which on nothing that matters is saved."""


def one_wait(every: Sequence[Comparison]) -> list[OneWait]:
    """The answer of each instruction over all sizes of entries."""
    groups = grouped(every, lambda s: list_of(s.second)[0])
    return [
        OneWait(
            group.form, [i for s in own for i in reversed(s.ids)], *_worth(own), vanishes_at(own)
        )
        for group, own in sorted(groups.items())
        if group.state == "dirty_beyond" and group.align_bytes == 0
    ]


def _worth(own: Sequence[Comparison]) -> tuple[str, Comparison | None]:
    if gains := [s for s in own if matters(s)]:
        return "cheaper", max(gains, key=lambda s: saved(s).low)
    if all(map(negligible, own)):
        return "same", None
    if not all(map(saved, own)):
        return "undecided", None
    return "undecided", max(own, key=lambda s: s.contrast.high - s.contrast.low)


def vanishes_at(of_group: Sequence[Comparison]) -> int | None:
    """Smallest entry size from which on every measured list is shown to gain nothing that matters;
    None without one."""
    by_size = grouped(of_group, lambda s: list_of(s.second)[1])
    nothing = lambda size: all(map(negligible, by_size[size]))
    return min(itertools.takewhile(nothing, sorted(by_size, reverse=True)), default=None)


INSTRUCTIONS = {"to_device": "clean", "from_device": "clean_invalidate"}
"""The operation of the explicit pass that stands for what the kernel does in a direction."""


def _passes(members: Iterable[Summary], mapping: Summary) -> dict[str, Summary]:
    """The explicit passes over a mapping's list, by their wait."""
    lists = lambda s: [s.cell.params.get(name) for name in ("entry_bytes", "entries", "state")]
    wanted = INSTRUCTIONS.get(str(mapping.cell.params.get("direction")), "")
    same = (s for s in members if s.cell.operation == wanted and lists(s) == lists(mapping))
    return {str(s.cell.params.get("wait")): s for s in same if s.issue is not None}


def mapping_waits(members: Sequence[Summary]) -> dict[str, str]:
    """What the lists of each operation say together: ``once``, ``each``, or nothing where they do
    not tell or contradict each other; empty where none was measured."""
    mappings = [s for s in members if s.cell.operation in DMA.operations and s.exposed is not None]
    answers = {}
    for operation, own in sorted(grouped(mappings, lambda s: s.cell.operation).items()):
        found = {mapping_wait(members, s) for s in own} - {""}
        answers[operation] = found.pop() if len(found) == 1 else ""
    return answers


def mapping_ids(members: Sequence[Summary], operation: str) -> list[str]:
    """The cells that the answer of one operation rests on: its lists, and the explicit passes."""
    own = [s for s in members if s.cell.operation == operation and s.exposed is not None]
    return [p.id for s in own for p in (s, *_passes(members, s).values())]


def longest_mapping(members: Iterable[Summary]) -> Summary | None:
    """The mapping of the most entries, whose time is what maintenance costs."""
    mappings = (s for s in members if s.cell.operation in DMA.operations and s.exposed is not None)
    return max(mappings, key=lambda s: int(s.cell.params.get("entries", 0)), default=None)


def devices_see_caches(members: Iterable[Summary]) -> bool:
    """Whether the architecture is one whose devices see the caches."""
    return any(s.cell.form in ("clwb", "clflushopt", "clflush") for s in members)


def mapping_wait(members: Sequence[Summary], mapping: Summary) -> str:
    """``once``, ``each``, or nothing where the list does not tell."""
    passes = _passes(members, mapping)
    took = mapping.exposed
    if took is None or set(passes) != {"each", "once"}:
        return ""
    once, each = passes["once"].issue, passes["each"].issue
    if once.high_ns >= each.low_ns:
        return ""
    if took.high_ns < (once.low_ns + each.low_ns) / 2:
        return "once"
    return "each" if took.low_ns > (once.high_ns + each.high_ns) / 2 else ""
