"""Where an operation is performed, found from the work sweep; and where one form overtakes another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from linewright.analysis.intervals import contrast, holm
from linewright.analysis.plausible import FLOORS
from linewright.analysis.summary import Summary

ALPHA = 0.05


class Crossover(Struct, frozen=True, kw_only=True):
    """Between `below` and `above` on `axis`, the cheaper of two forms changes; at both ends the intervals separate."""

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


def _series(summaries: Iterable[Summary], axis: str) -> dict[str, dict[str, list[Summary]]]:
    """Cells that differ in `axis` only, by everything else but the form, then by form."""
    answer: dict[str, dict[str, list[Summary]]] = {}
    for s in summaries:
        usable = s.status == "ok" and s.issue is not None and s.cell.form not in FLOORS and s.cell.operation != "none"
        if not usable or s.emulated or s.cell.contender == "placebo":
            continue
        if axis == "contender_iters" and s.cell.contender != "same_line":
            continue
        operation = "add" if s.cell.operation == "fetch_add" else s.cell.operation
        fixed = msgspec.structs.replace(s.cell, **{axis: 0}, form="any", operation=operation, order="relaxed").id
        answer.setdefault(fixed, {}).setdefault(s.cell.form, []).append(s)
    return answer


def _where(s: Summary, axis: str) -> str:
    parts = []
    if s.cell.contender == "same_line":
        parts.append("contended" if axis == "contender_iters" else f"contended every {s.cell.contender_iters} iterations")
    else:
        parts.append("alone")
    if axis != "work_iters" and s.cell.work_iters:
        parts.append(f"with {s.cell.work_iters} iterations of work")
    return ", ".join(parts)


def _sign(a: Summary, b: Summary, p: float | None) -> int:
    """-1 where `a` is cheaper, 1 where `b` is, 0 where that cannot be told."""
    if not (a.issue.high_ns < b.issue.low_ns or b.issue.high_ns < a.issue.low_ns):
        return 0
    if p is not None and p >= ALPHA or p is None and not (a.published and b.published):
        return 0
    return -1 if a.issue.median_ns < b.issue.median_ns else 1


def _pair(a: list[Summary], b: list[Summary], axis: str) -> list[Crossover]:
    at = {getattr(s.cell, axis): s for s in b}
    shared = [(x, at[x_at]) for x in sorted(a, key=lambda s: getattr(s.cell, axis)) if (x_at := getattr(x.cell, axis)) in at]
    contrasts = [contrast(x.unit_ns, y.unit_ns) for x, y in shared]
    corrected = iter(holm([c.p for c in contrasts if c]))
    signs = [_sign(x, y, next(corrected) if c else None) for (x, y), c in zip(shared, contrasts, strict=True)]
    answers, last = [], None
    for position, sign in enumerate(signs):
        if not sign:
            continue
        if last is not None and signs[last] != sign:
            (x0, y0), (x1, y1) = shared[last], shared[position]
            names = (x0.cell.form, y0.cell.form) if signs[last] < 0 else (y0.cell.form, x0.cell.form)
            answers.append(
                Crossover(
                    machine_id=x0.machine_id,
                    operation="add" if x0.cell.operation == "fetch_add" else x0.cell.operation,
                    where=_where(x0, axis),
                    axis=axis,
                    below=getattr(x0.cell, axis),
                    above=getattr(x1.cell, axis),
                    cheaper_below=names[0],
                    cheaper_above=names[1],
                    margin_below_ns=abs(x0.issue.median_ns - y0.issue.median_ns),
                    margin_above_ns=abs(x1.issue.median_ns - y1.issue.median_ns),
                )
            )
        last = position
    return answers


def crossovers(summaries: Sequence[Summary]) -> list[Crossover]:
    """Every change of the cheaper of two forms along work or the contender's pause, of one machine."""
    answers = []
    for axis in ("work_iters", "contender_iters"):
        for forms in _series(summaries, axis).values():
            names = sorted(forms)
            for i, first in enumerate(names):
                for second in names[i + 1 :]:
                    answers += _pair(forms[first], forms[second], axis)
    return answers
