# SPDX-License-Identifier: MIT
"""Whether an arm64 LSE instruction behaves as if performed in the core or at the interconnect,
found by its cost alone.

Judged is a single LSE instruction against the same instruction behind PRFM, which asks for the line
first: where that makes it several times cheaper, the instruction alone behaves as if it were
performed at the interconnect.  Loops (LL/SC, compare-and-swap), per-CPU sequences, operations wider
than a register and everything on other architectures are never judged: what makes those expensive
is something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from linewright import architectures
from linewright.analysis.comparison import FEWEST_LAUNCHES, Comparison, compared, judge, side_of
from linewright.analysis.contrast import cost_ratio
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary, grouped, judged_near_or_far
from linewright.forms import made_of
from linewright.schema import Context

NEAR_CYCLES = 30
"""Back to back, an operation on a line that the core holds takes fewer core cycles than this (near
atomics on arm64 take 4 to 20); a trip to a home node takes more."""
FAR_TIMES = 2.0
"""An instruction that behaves as if performed at the interconnect costs at least this many times as
much as the prefetched one."""
PREFETCHES = ("prfm_strm", "prfm_keep")
"""What asks for the line in the reference, the first of them that was measured."""
FEWEST_WINDOWS = 3
"""Windows on one line, of both forms, before anything is said of that line: one window is no
interval."""
MIXED_SHARE = 0.1
"""Of a launch's decided lines, the share of each kind from which it has both; a core is said to do
both where more than half of its launches have: lines that are all slow in one launch and all fast
in the next tell of the launch, not of the lines."""


class LineClass(Struct, frozen=True):
    """One form on one line of one launch, in medians of that line's windows."""

    context_id: str
    line: int
    where: str
    """``near``, ``far``, ``all_far`` or ``undecided``."""
    ns: float


class CoreClass(Struct, frozen=True, kw_only=True):
    """Where one core behaves as if it performed one form."""

    machine_id: str
    comparison: Comparison
    """The form over the same instruction behind a prefetch."""
    where: str
    """``near``, ``far``, ``all_far`` (expensive even behind the prefetch), ``mixed`` (lines differ)
    or ``undecided``."""
    near: int
    far: int
    undecided: int
    """Lines of each kind, of those that were visited `FEWEST_WINDOWS` times."""
    lines: list[LineClass]


def place(low: float, middle: float, high: float, reference: float, cycle_ns: float) -> str:
    """The rule, from an interval of ns, what the prefetched form takes, and the length of a core
    cycle (0: unknown)."""
    bound = NEAR_CYCLES * cycle_ns
    if cycle_ns > 0 and reference > bound:
        return "all_far" if low > bound and high < FAR_TIMES * reference else "undecided"
    if low > FAR_TIMES * reference and middle > bound:
        return "far"
    near = high < FAR_TIMES * reference and (cycle_ns <= 0 or high < bound)
    return "near" if near else "undecided"


def near_far(contexts: Mapping[str, Context], summaries: Iterable[Summary]) -> list[CoreClass]:
    """The class per core and form, from uncontended cells back to back, in the order of first
    appearance."""
    cells: dict[tuple, Summary] = {}
    behind: dict[tuple, list[Summary]] = {}
    for s in summaries:
        told = judged_near_or_far(s.cell) and architectures.of(s.arch).far_atomics
        if told and s.usable and s.of_launches("issue_ns"):
            made, where = made_of(s.cell.form), (s.machine_id, _cpu(s), s.cell.width_bits)
            if made.prefetch:
                behind.setdefault((*where, made.base), []).append(s)
            else:
                cells.setdefault((*where, made.base), s)
    answers = []
    for key, s in cells.items():
        if key in behind:
            rank = lambda b: PREFETCHES.index(made_of(b.cell.form).prefetch)
            cycle_ns = max(contexts[i].cycle_ns for i in s.context_ids if i in contexts)
            answers.append(_core(s, min(behind[key], key=rank), cycle_ns))
    return answers


def _cpu(s: Summary) -> int:
    return s.cpus[0] if s.cpus else -1


def _core(s: Summary, beside: Summary, cycle_ns: float) -> CoreClass:
    references = beside.of_lines()
    lines = [
        LineClass(*key, place(*own[:3], reference[1], cycle_ns), own[1])
        for key, own in s.of_lines().items()
        if (reference := references.get(key)) and min(own[3], reference[3]) >= FEWEST_WINDOWS
    ]
    counts = Counter(c.where for c in lines)
    where, ratio, asked = "undecided", cost_ratio(s, beside), QUESTIONS["near"]
    judgement = judge(ratio, ratio and ratio.p, alpha=asked.alpha, same=asked.same.share)
    if ratio is not None and ratio.enough(FEWEST_LAUNCHES):
        own = s.of_launches("issue_ns")
        shared = [ns for launch, ns in beside.of_launches("issue_ns").items() if launch in own]
        usual = float(np.median(shared))
        where = place(ratio.low * usual, ratio.value * usual, ratio.high * usual, usual, cycle_ns)
    decided = (c for c in lines if c.where in ("near", "far"))
    launches = grouped(decided, lambda c: c.context_id).values()
    both = [_both_kinds([c.where for c in own]) for own in launches]
    if counts["near"] + counts["far"] >= 1 / MIXED_SHARE and any(both):
        where = "mixed" if sum(both) > len(both) / 2 else "undecided"
    elif counts["near"] and counts["far"]:
        where = "undecided"  # whole launches differ, which no line explains
    return CoreClass(
        machine_id=s.machine_id,
        comparison=compared(judgement, "near", side_of(s), side_of(beside)),
        where=where,
        near=counts["near"],
        far=counts["far"] + counts["all_far"],
        undecided=counts["undecided"],
        lines=lines,
    )


def _both_kinds(kinds: Sequence[str]) -> bool:
    """Whether the decided lines of one launch are of both kinds, neither being a rare exception."""
    fewer = min(kinds.count("near"), kinds.count("far"))
    return fewer > 0 and fewer >= MIXED_SHARE * len(kinds)


def with_nearness(summaries: Sequence[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries; those of uncontended cells back to back say where their form seems to be
    performed."""
    found = {
        (c.machine_id, side.cpu, side.form, side.situation.width_bits): c
        for c in near_far(contexts, summaries)
        for side in [c.comparison.first]
    }
    answers = []
    for s in summaries:
        core = found.get((s.machine_id, _cpu(s), s.cell.form, s.cell.width_bits))
        if core and judged_near_or_far(s.cell) and s.status == "ok":
            lines = {"near_lines": core.near, "far_lines": core.far}
            s = msgspec.structs.replace(s, nearness=core.where, **lines)
        answers.append(s)
    return answers
