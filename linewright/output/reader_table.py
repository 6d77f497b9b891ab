"""Tables of plan `readers`: what readers cost over their number, and what their updater waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from linewright.analysis import reader_cost
from linewright.analysis.reader_cost import delay_of, readers_of, updater_of
from linewright.analysis.summary import Summary
from linewright.output.columns import Column, print_table, table
from linewright.schema import Interval
from linewright.units import ns_text

TITLES = {
    "readers_pair": "readers that protect a read-side critical section",
    "readers_shape": "pairs shaped like SRCU's, by the form of their two per-CPU increments",
    "readers_floor": "the parts of a reader, and what it is compared with",
    "readers_lookup": "lookups of one object among many",
}
MOST_COUNTS = 4
"""Numbers of readers that get columns: the fewest, the most, and those between as far as there is room."""

Mark = Callable[[Summary], str]


class _Cost(NamedTuple):
    """One form's line: its figures by the number of readers."""

    form: str
    by_count: dict[int, Summary]
    ratio: str
    marks: str


def print_readers(summaries: Sequence[Summary], console: Console, mark: Mark) -> None:
    """Print the tables of the readers among the summaries; nothing when there are none."""
    cells = [s for s in summaries if reader_cost.concerns(s.cell) and s.issue is not None and s.windows > 0]
    for operation, title in TITLES.items():
        own = [s for s in cells if s.cell.operation == operation and updater_of(s.cell) == "none"]
        for delay in sorted({delay_of(s.cell) for s in own}):
            baseline = [s for s in cells if s.cell.operation == "readers_none" and delay_of(s.cell) == delay]
            print_table(_costs(title, [s for s in own if delay_of(s.cell) == delay], baseline, delay, mark), console)
    print_table(_beside_updaters(reader_cost.sides(cells)), console)


def _interval(interval: Interval | None) -> str:
    if not interval:
        return "-"
    return f"{ns_text(interval.median_ns)} [{ns_text(interval.low_ns)}, {ns_text(interval.high_ns)}]"


def _counts(cells: Sequence[Summary]) -> list[int]:
    found = sorted({readers_of(s.cell) for s in cells})
    return found if len(found) <= MOST_COUNTS else [*found[: MOST_COUNTS - 1], found[-1]]


def _costs(title: str, cells: Sequence[Summary], baseline: Sequence[Summary], delay: int, mark: Mark) -> Table:
    """Each thread's ns per critical section; with a delay inside, minus the same loop without the reader."""
    counts = _counts(cells)
    what = f"ns above the baseline loop, {delay} units of work inside" if delay else "ns"
    columns = [Column("form", lambda line: line.form, text=True, fold_at=12)]
    columns += [_column(n, bool(delay)) for n in counts]
    if len(counts) > 1:
        columns.append(Column("ratio, most to fewest", lambda line: line.ratio))
    columns.append(Column("", lambda line: line.marks, text=True))
    return table(f"{title} ({what})", columns, _cost_lines(cells, baseline, delay, mark))


def _column(count: int, delayed: bool) -> Column[_Cost]:
    def value(line: _Cost) -> str:
        s = line.by_count.get(count)
        return _interval(s.exposed if delayed else s.issue) + ("?" if s.status != "ok" else "") if s else "-"

    return Column(f"{count} reader{'s' if count > 1 else ''}", value)


def _cost_lines(cells: Sequence[Summary], baseline: Sequence[Summary], delay: int, mark: Mark) -> list[_Cost]:
    lookup = bool(cells) and cells[0].cell.operation == "readers_lookup"
    by_form: dict[str, dict[int, Summary]] = {}
    for s in [*baseline, *cells]:
        if s.cell.operation != "readers_none" or (not delay and (s.cell.form == "lookup_empty") == lookup):
            by_form.setdefault(s.cell.form, {})[readers_of(s.cell)] = s
    ratios = {r.form: r.ratio for r in reader_cost.scaling([*cells]) if r.read_delay == delay}
    lines = []
    for form, by_count in by_form.items():
        ratio = ratios.get(form)
        text = f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio and not delay else ""
        marks = "".join(dict.fromkeys("".join(mark(s) for s in by_count.values())))
        lines.append(_Cost(form, by_count, text, marks.replace("?", "")))
    return lines


def _beside_updaters(sides: Sequence[reader_cost.Side]) -> Table:
    """Reader cost and grace-period cost, side by side."""
    expedited = any(side.updater != "synchronize" for side in sides)
    columns = (
        Column("form", lambda side: side.form + (f" {side.updater}" if expedited else ""), text=True, fold_at=12),
        Column("delay", lambda side: str(side.read_delay)),
        Column("readers", lambda side: str(side.readers)),
        Column("reader", lambda side: _issue(side.pair)),
        Column("reader during updates", lambda side: _issue(side.disturbed)),
        Column("update, no reader", lambda side: _issue(side.idle)),
        Column("update beside them", lambda side: _issue(side.grace)),
    )
    title = "reader cost and grace-period cost (ns; read-side critical sections with their delay)"
    return table(title, columns, sorted(sides, key=lambda side: (side.read_delay, side.readers)))


def _issue(summary: Summary | None) -> str:
    return _interval(summary.issue if summary else None)
