# SPDX-License-Identifier: MIT
"""Whether a kernel waits once for a whole scatter list or behind each entry, told from the same
list by explicit instructions.

The time of a mapping operation less that of the same call for a coherent device is what its
maintenance costs.  It is compared with explicit passes over the same entries with one wait and with
a wait behind each: where the two passes separate, a maintenance time whose whole interval lies
below the middle of them has one wait, and one whose interval lies above has many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linewright.analysis.summary import Summary, grouped
from linewright.families import DMA

INSTRUCTIONS = {"to_device": "clean", "from_device": "clean_invalidate"}
"""The operation of the explicit pass that stands for what the kernel does in a direction."""


def _passes(members: Iterable[Summary], mapping: Summary) -> dict[str, Summary]:
    """The explicit passes over a mapping's list, by their wait."""
    lists = lambda s: [s.cell.params.get(name) for name in ("entry_bytes", "entries", "state")]
    wanted = INSTRUCTIONS.get(str(mapping.cell.params.get("direction")), "")
    same = (s for s in members if s.cell.operation == wanted and lists(s) == lists(mapping))
    return {str(s.cell.params.get("wait")): s for s in same if s.issue is not None}


def by_operation(members: Sequence[Summary]) -> dict[str, str]:
    """What the lists of each operation say together: ``once``, ``each``, or nothing where they do
    not tell or contradict each other; empty where none was measured."""
    mappings = [s for s in members if s.cell.operation in DMA.operations and s.exposed is not None]
    answers = {}
    for operation, own in sorted(grouped(mappings, lambda s: s.cell.operation).items()):
        found = {waits(members, s) for s in own} - {""}
        answers[operation] = found.pop() if len(found) == 1 else ""
    return answers


def ids(members: Sequence[Summary], operation: str) -> list[str]:
    """The cells that the answer of one operation rests on: its lists, and the explicit passes."""
    own = [s for s in members if s.cell.operation == operation and s.exposed is not None]
    return [p.id for s in own for p in (s, *_passes(members, s).values())]


def longest(members: Iterable[Summary]) -> Summary | None:
    """The mapping of the most entries, whose time is what maintenance costs."""
    mappings = (s for s in members if s.cell.operation in DMA.operations and s.exposed is not None)
    return max(mappings, key=lambda s: int(s.cell.params.get("entries", 0)), default=None)


def coherent(members: Iterable[Summary]) -> bool:
    """Whether the architecture is one whose devices see the caches."""
    return any(s.cell.form in ("clwb", "clflushopt", "clflush") for s in members)


def waits(members: Sequence[Summary], mapping: Summary) -> str:
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
