"""The facts of cells that charts share: names of situations, rounded figures, marks of doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from linewright.analysis.summary import Summary
from linewright.say.cost_words import doubt_mark
from linewright.say.name_words import in_english
from linewright.say.phrases import modes_text
from linewright.schema import Cell, Interval
from linewright.show.report.material import Material, Series

LARGEST = 1e300
"""Twice or ten times as much is still a number."""


def rounded(value: float | None) -> float | None:
    """Five significant digits, and nothing for what is no number (JSON knows no NaN) or too large
    to reckon with."""
    if value is None or not abs(value) < LARGEST:
        return None
    return float(f"{value:.5g}")


def params_text(cell: Cell, without: Sequence[str] = ()) -> str:
    """A cell's parameters, less some."""
    return ", ".join(
        f"{key} {cell.params[key]}" for key in sorted(cell.params) if key not in without
    )


def remark(s: Summary) -> str:
    """What a tooltip adds: groups of launches, status, flags."""
    said = []
    if s.metastable:
        said.append(f"metastable: {modes_text(s.modes)}")
    if s.status != "ok":
        said.append(f"{s.status}: {s.reason}")
    said += [in_english(flag) for flag in s.flags if flag != "metastable"]
    return "; ".join(said)


def of_cell(s: Summary, series: Series) -> dict[str, Any]:
    """What every chart may want of one cell; JSON values only."""
    cell = s.cell
    return {
        "series": series.label,
        "operation": cell.operation,
        "form": cell.form,
        "contention": cell.situation.sharers,
        "work": cell.work_iters,
        "threads": cell.threads,
        **interval("ns", s.issue),
        "mark": doubt_mark(s),
        "remark": remark(s),
        "launches": s.launches,
    }


def shown(s: Summary) -> tuple[str, Interval]:
    """The figure that a cell is drawn with, and what it is: the exposed cost where there is work
    around the operation."""
    around = s.cell.situation.around
    if s.cell.work_iters and s.exposed is not None:
        return f"exposed, {around}", s.exposed
    return f"{around} included" if s.cell.work_iters else around, s.issue


def interval(name: str, value: Interval | None) -> dict[str, float | None]:
    """``NAME``, ``NAME_low`` and ``NAME_high``; bounds of no confidence are left out."""
    if value is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    sure = value.confidence > 0
    return {
        name: rounded(value.median_ns),
        f"{name}_low": rounded(value.low_ns if sure else None),
        f"{name}_high": rounded(value.high_ns if sure else None),
    }


def measured(series: Series, operations: Iterable[str]) -> list[Summary]:
    """Cells with figures, of certain operations."""
    wanted = set(operations)
    return [s for s in series.summaries if s.cell.operation in wanted and s.has_figures]


def cells(material: Material, operations: Iterable[str]) -> list[tuple[Summary, Series]]:
    """The same of every series, each cell with its series."""
    return [(s, series) for series in material.series for s in measured(series, operations)]


def once(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of appearance."""
    return list(dict.fromkeys(values))


def slug(text: str) -> str:
    """Text as part of an id or file name: letters, digits and dashes."""
    return (
        "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split())
        or "x"
    )


def forms_of(material: Material, operation: str) -> list[str]:
    """Every form of an operation in the whole report, so that a form keeps its colour from chart to
    chart."""
    wanted = SERVES.get(operation, (operation,))
    return once(
        s.cell.form
        for name in wanted
        for series in material.series
        for s in series.summaries
        if s.cell.operation == name
    )


SERVES = {"add": ("add", "fetch_add"), "fetch_add": ("add", "fetch_add")}
"""Operations whose forms share colours: where the value is not wanted, both kinds serve."""
