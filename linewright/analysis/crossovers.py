# SPDX-License-Identifier: MIT
"""Where one form overtakes the default along an axis: between two points at each of which they are
shown to differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from msgspec import Struct

from linewright.analysis.comparison import Comparison
from linewright.analysis.findings import Finding
from linewright.schema import Situation

AXES = ("work_iters", "contender_iters")


class Crossover(Struct, frozen=True, kw_only=True):
    """Between `below` and `above` on `axis`, the cheaper of a form and the default changes; both
    ends are shown."""

    machine_id: str
    operation: str
    situation: Situation
    """What is fixed: without the axis."""
    axis: str
    """``work_iters`` or ``contender_iters``."""
    below: int
    above: int
    cheaper_below: str
    cheaper_above: str
    margin_below_ns: float
    margin_above_ns: float
    ids: tuple[str, ...]
    """Of the default and the form at both points."""


def crossovers(findings: Sequence[Finding]) -> list[Crossover]:
    """Every such change.  It rests on the corrected comparisons of `findings` and makes none of its
    own."""
    return [c for axis in AXES for sweep in _sweeps(findings, axis) for c in _along(sweep, axis)]


def _sweeps(findings: Iterable[Finding], axis: str) -> list[list[tuple[Finding, Comparison]]]:
    """Rows of one form and default that differ in `axis` only."""
    answer: dict[tuple, list[tuple[Finding, Comparison]]] = {}
    for f in findings:
        if axis == "contender_iters" and not f.situation.contended:
            continue
        for row in f.rows:
            fixed = f.situation.without(axis)
            key = (f.machine_id, f.operation, fixed, f.default, row.first.form)
            answer.setdefault(key, []).append((f, row))
    along = lambda pair: getattr(pair[0].situation, axis)
    return [sorted(sweep, key=along) for sweep in answer.values()]


def _margin(c: Comparison) -> float:
    return abs(c.first.ns.median_ns - c.second.ns.median_ns)


def _along(sweep: Sequence[tuple[Finding, Comparison]], axis: str) -> list[Crossover]:
    answers: list[Crossover] = []
    decided = [(f, row) for f, row in sweep if row.differs]
    for (f0, row0), (f1, row1) in itertools.pairwise(decided):
        if row0.answer == row1.answer:
            continue
        answers.append(
            Crossover(
                machine_id=f0.machine_id,
                operation=f0.operation,
                axis=axis,
                situation=f0.situation.without(axis),
                below=getattr(f0.situation, axis),
                above=getattr(f1.situation, axis),
                cheaper_below=row0.cheapest.form,
                cheaper_above=row1.cheapest.form,
                margin_below_ns=_margin(row0),
                margin_above_ns=_margin(row1),
                ids=(row0.second.id, row0.first.id, row1.second.id, row1.first.id),
            )
        )
    return answers
