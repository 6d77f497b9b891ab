"""Whether a kernel waits once for a whole scatter list or behind each entry, told from the same list by explicit
instructions.

The time of a mapping operation less that of the same call for a coherent device is what its maintenance costs.  It is
compared with explicit passes over the same entries with one wait and with a wait behind each: where the two passes
separate, a maintenance time whose whole interval lies below the middle of them has one wait, and one whose interval
lies above has many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linewright.analysis.saying import Sentence, join, number, said
from linewright.analysis.summary import Summary
from linewright.families import DMA

INSTRUCTIONS = {"to_device": "clean", "from_device": "clean_invalidate"}
"""The operation of the explicit pass that stands for what the kernel does in a direction."""


def _point(summary: Summary) -> tuple[object, object, object]:
    params = summary.cell.params
    return params.get("entry_bytes"), params.get("entries"), params.get("state")


def _passes(members: Iterable[Summary], mapping: Summary) -> dict[str, Summary]:
    """The explicit passes over a mapping's list, by their wait."""
    wanted = INSTRUCTIONS.get(str(mapping.cell.params.get("direction")), "")
    return {
        str(s.cell.params.get("wait")): s
        for s in members
        if s.cell.operation == wanted and s.issue is not None and _point(s) == _point(mapping)
    }


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


def sentences(members: Sequence[Summary]) -> list[Sentence]:
    """For each operation what its lists tell, and the time of the longest list of small entries."""
    mappings = [s for s in members if s.cell.operation in DMA.operations and s.exposed is not None]
    if not mappings:
        return []
    if any(s.cell.form in ("clwb", "clflushopt", "clflush") for s in members):
        return [said("this kernel maintains no caches for DMA: devices of this architecture see them", DMA.name)]
    answers = []
    for found, words in (("once", "waits once per list"), ("each", "waits behind each entry"), ("", "undecided")):
        named = sorted({s.cell.operation for s in mappings if _of_operation(members, mappings, s) == found})
        if named and found:
            answers.append(said(f"this kernel {words} in {join(named)}", DMA.name))
        elif named:
            answers.append(said(f"whether this kernel waits once per list in {join(named)} is undecided", DMA.name))
    longest = max(mappings, key=lambda s: int(s.cell.params.get("entries", 0)))
    params = longest.cell.params
    answers.append(
        said(
            f"a list of {params.get('entries')} entries of {params.get('entry_bytes')} bytes costs "
            f"{number(longest.exposed.median_ns)} ns more in {longest.cell.operation} than for a coherent device",
            DMA.name,
            ns=longest.exposed.median_ns,
        )
    )
    return answers


def _of_operation(members: Sequence[Summary], mappings: Sequence[Summary], one: Summary) -> str:
    """What the lists of one operation say together; contradictions are undecided."""
    found = {waits(members, s) for s in mappings if s.cell.operation == one.cell.operation} - {""}
    return found.pop() if len(found) == 1 else ""
