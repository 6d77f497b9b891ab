"""Where one form overtakes the default along an axis: between two points at each of which they are shown to differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from linewright.analysis.findings import Against, Finding
from linewright.analysis.saying import number

AXES = ("work_iters", "contender_iters")


class Crossover(Struct, frozen=True, kw_only=True):
    """Between `below` and `above` on `axis`, the cheaper of a form and the default changes; both ends are shown."""

    machine_id: str
    operation: str
    where: str
    """The fixed conditions in words."""
    axis: str
    """``work_iters`` or ``contender_iters``."""
    below: int
    above: int
    cheaper_below: str
    cheaper_above: str
    margin_below_ns: float
    margin_above_ns: float


def crossing_text(c: Crossover, time: str = "") -> str:
    """One crossover in words; `time`: how long the work from which the other form is cheaper takes."""
    unit = "units of work" if c.axis == "work_iters" else "iterations between the contender's operations"
    return (
        f"{c.operation} {c.where}: {c.cheaper_below} is cheaper up to {c.below} {unit} (by {number(c.margin_below_ns)}"
        " ns),"
        f" {c.cheaper_above} from {c.above}{time} (by {number(c.margin_above_ns)} ns)"
    )


def _where(f: Finding, axis: str) -> str:
    contended = "contended" if axis == "contender_iters" else f"contended every {f.contender_iters} iterations"
    parts = [contended if f.contender == "same_line" else "alone"]
    if axis != "work_iters" and f.work_iters:
        parts.append(f"with {f.work_iters} units of work")
    return ", ".join(parts)


def crossovers(findings: Sequence[Finding]) -> list[Crossover]:
    """Every such change.  It rests on the corrected comparisons of `findings` and makes none of its own."""
    return [c for axis in AXES for sweep in _sweeps(findings, axis) for c in _along(sweep, axis)]


def _sweeps(findings: Iterable[Finding], axis: str) -> list[list[tuple[Finding, Against]]]:
    """Rows of one form and default that differ in `axis` only."""
    answer: dict[tuple, list[tuple[Finding, Against]]] = {}
    for f in findings:
        if axis == "contender_iters" and f.contender != "same_line":
            continue
        for row in f.rows:
            fixed = msgspec.structs.replace(f, **{axis: 0})
            key = (
                fixed.machine_id, fixed.operation, fixed.width_bits, fixed.contender, fixed.contender_iters,
                fixed.work_iters, fixed.placement, fixed.lines, fixed.threads, tuple(sorted(fixed.params.items())),
                f.default, row.form,
            )  # fmt: skip
            answer.setdefault(key, []).append((f, row))
    return [sorted(sweep, key=lambda pair: getattr(pair[0], axis)) for sweep in answer.values()]


def _margin(f: Finding, row: Against) -> float:
    return abs(row.ns.median_ns - f.default_ns.median_ns)


def _along(sweep: Sequence[tuple[Finding, Against]], axis: str) -> list[Crossover]:
    answers: list[Crossover] = []
    decided = [(f, row) for f, row in sweep if row.judged.answer == "different"]
    for (f0, row0), (f1, row1) in itertools.pairwise(decided):
        if row0.judged.cheaper == row1.judged.cheaper:
            continue
        below, above = (row0.form, f0.default) if row0.judged.cheaper else (f0.default, row0.form)
        answers.append(
            Crossover(
                machine_id=f0.machine_id, operation=f0.operation, where=_where(f0, axis), axis=axis,
                below=getattr(f0, axis), above=getattr(f1, axis), cheaper_below=below, cheaper_above=above,
                margin_below_ns=_margin(f0, row0), margin_above_ns=_margin(f1, row1),
            )
        )  # fmt: skip
    return answers
