"""One table per operation: each form under each contention and work length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from linewright.analysis.summary import Summary
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.marks import Marks
from linewright.schema import Interval
from linewright.units import ns_text

WIDE = 104
"""Terminal columns from which `_MORE` is shown too."""
NARROW_FORM = 20
"""Columns of a form's name on a narrow terminal."""
_CONTENDERS = {"none": 0, "placebo": 1, "same_line": 2}


class _Line(NamedTuple):
    """One line of a table."""

    form: str
    """The form's name, or nothing where the line above has it."""
    summary: Summary
    marks: str


def _contended(line: _Line) -> bool:
    return line.summary.cell.contender == "same_line"


def _percentile(name: str) -> Callable[[_Line], str]:
    return lambda line: ns_text(getattr(line.summary.batch, name) if line.summary.batch else None)


def _exposed(line: _Line) -> str:
    return ns_text(line.summary.exposed.median_ns) if line.summary.exposed else ""


def _exposed_width(line: _Line) -> str:
    """One window has no width: an interval without confidence is not printed as one of width zero."""
    exposed = line.summary.exposed
    return ns_text(half_width(exposed)) if exposed and exposed.confidence > 0 else ""


def _rate(line: _Line) -> str:
    return f"{line.summary.total_mops:.1f}" if line.summary.total_mops > 0 else "–"


def _fairness(line: _Line) -> str:
    summary = line.summary
    shown = _contended(line) and summary.equal_loops and summary.total_mops > 0
    return f"{summary.fairness:.2f}" if shown else ""


_FORM = Column("form", lambda line: line.form, text=True, fold_at=12)
_FIGURES = (
    Column(
        "contender",
        lambda line: line.summary.cell.contender,
        text=True,
        meaning="none; placebo, a second thread that never touches the line; same_line, one that does.",
    ),
    Column(
        "spacing",
        lambda line: str(line.summary.cell.contender_iters) if _contended(line) else "",
        meaning="iterations of a one-NOP loop between the contender's operations.",
    ),
    Column(
        "work",
        lambda line: str(line.summary.cell.work_iters),
        meaning="units of work between the timed thread's operations.",
    ),
    Column(
        "median",
        lambda line: ns_text(line.summary.issue.median_ns),
        meaning="issue interval: ns per operation with its work, the median of the launches.",
    ),
    Column("p95", _percentile("p95_ns"), meaning="95th percentile of the means of batches of operations."),
    Column("exposed", _exposed, meaning="median minus the same loop without the operation."),
    Column("±", _exposed_width),
)
_MORE = (
    Column("p99", _percentile("p99_ns")),
    Column("all Mop/s", _rate, meaning="operations of all threads together, in millions a second."),
    Column(
        "fair", _fairness, meaning="Jain's index of the threads' rates where all run the same loop: 1 is equal shares."
    ),
)
_MARKS = Column("", lambda line: line.marks, text=True)
COLUMNS = (_FORM, *_FIGURES, *_MORE, _MARKS)
"""Every column of these tables; some are left out on a narrow terminal."""


def _metric(name: str) -> Callable[[_Line], str]:
    return lambda line: ns_text(line.summary.metrics.get(name))


def _distance(line: _Line) -> str:
    apart = line.summary.metrics.get("calibrated_distance")
    return "" if apart is None else f"{apart:.1f}"


SIMULATED = (
    Column("draws 5 %", _metric("p05_ns"), meaning="5th percentile over draws of the simulated machine's constants."),
    Column("50 %", _metric("p50_ns")),
    Column("95 %", _metric("p95_ns"), meaning="95th percentile over these draws."),
    Column(
        "away",
        _distance,
        meaning="distance to the nearest cell that the constants were fitted to, in doublings of"
        " work, spacing or threads.",
    ),
)
"""Columns of simulated cells only."""


def is_simulated(summary: Summary) -> bool:
    """Whether a summary has percentiles over draws of a described machine's constants."""
    return "p05_ns" in summary.metrics


def print_operations(summaries: Sequence[Summary], console: Console, marks: Marks) -> bool:
    """Print a table for each operation that has figures; whether there was one."""
    printed = False
    for operation in dict.fromkeys(s.cell.operation for s in summaries):
        measured = [s for s in summaries if s.cell.operation == operation and s.has_figures]
        if measured:
            console.print(_table(operation, measured, console, marks))
            console.print()
            printed = True
    return printed


def _table(operation: str, summaries: Sequence[Summary], console: Console, marks: Marks) -> Table:
    """One operation's cells, form by form. In a wide pipe every line stands alone; elsewhere a form is named once."""
    wide = console.width >= WIDE
    merged = console.is_terminal or not wide
    widths = sorted({s.cell.width_bits for s in summaries})
    once = "round trip, two handoffs" if operation == "handoff" else "operation"
    title = f"{one_line(operation)}, {'/'.join(map(str, widths))} bit (ns per {once})"
    varied = _varied(summaries)
    lines: list[_Line] = []
    previous = ""
    for summary in sorted(summaries, key=_order(summaries)):
        form = _name(summary, varied, several_widths=len(widths) > 1)
        shown = "" if merged and form == previous else form if wide else _folded(form)
        previous = form
        lines.append(_Line(shown, summary, marks.of(summary)))
        marks.note_modes(summary)
    drawn = SIMULATED if any(is_simulated(s) for s in summaries) else ()
    columns = (_FORM, *_FIGURES, *drawn, *(_MORE if wide else ()), _MARKS)
    return table(title, columns, lines, style=lambda line: "" if line.summary.status == "ok" else "italic")


def _name(summary: Summary, varied: Sequence[str], several_widths: bool) -> str:
    """The form with whatever else tells its rows from those of the same form."""
    cell = summary.cell
    form = cell.form + (f" u{cell.width_bits}" if several_widths else "")
    if "policy" in cell.params:
        form += f" {cell.params['policy']}"
    return form + "".join(f" {key}={cell.params[key]}" for key in varied if key in cell.params)


def _varied(summaries: Sequence[Summary]) -> list[str]:
    """Parameters with several values in one table, which must be shown to tell its rows apart."""
    keys = sorted({key for s in summaries for key in s.cell.params} - {"policy"})
    return [key for key in keys if len({s.cell.params.get(key) for s in summaries}) > 1]


def _folded(form: str) -> str:
    """A long form on several lines, broken where its name has underscores."""
    lines = [""]
    for part in form.split("_"):
        joined = f"{lines[-1]}_{part}" if lines[-1] else part
        if len(joined) < NARROW_FORM:
            lines[-1] = joined
        else:
            lines[-1] += "_"
            lines.append(part)
    return "\n".join(lines)


def _order(summaries: Sequence[Summary]) -> Callable[[Summary], tuple]:
    """Forms as they come; within a form by parameters, contention and work."""
    forms = list(dict.fromkeys((s.cell.form, s.cell.width_bits) for s in summaries))

    def key(summary: Summary) -> tuple:
        cell = summary.cell
        params = [(name, isinstance(value, str), value) for name, value in sorted(cell.params.items())]
        contention = (_CONTENDERS.get(cell.contender, 9), cell.contender_iters, cell.threads, cell.work_iters)
        return (forms.index((cell.form, cell.width_bits)), params, *contention, cell.id)

    return key


def half_width(interval: Interval) -> float:
    """The larger distance in ns from the median to an end of the interval: what a ± may promise."""
    return max(interval.high_ns - interval.median_ns, interval.median_ns - interval.low_ns)
