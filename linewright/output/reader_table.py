"""Tables of plan `readers`: the cost of a section over the number of readers, and beside it what an updater waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linewright.analysis import reader_cost
from linewright.analysis.reader_cost import delay_of, readers_of, updater_of
from linewright.analysis.summary import Summary
from linewright.schema import Interval
from linewright.units import ns_text

TITLES = {
    "readers_pair": "readers that protect a section",
    "readers_shape": "SRCU-shaped pairs, by form of their two per-CPU increments",
    "readers_floor": "what sections are made of and compared with",
    "readers_lookup": "lookups of an object among many",
}
MOST_COUNTS = 4
"""Numbers of readers that get columns: the fewest, the most, and those between as far as there is room."""

Mark = Callable[[Summary], str]


def print_readers(summaries: Sequence[Summary], console: Console, mark: Mark) -> None:
    """Everything that can be said of readers among the summaries; nothing when there are none."""
    cells = [s for s in summaries if reader_cost.concerns(s.cell) and s.issue is not None and s.windows > 0]
    for operation, title in TITLES.items():
        own = [s for s in cells if s.cell.operation == operation and updater_of(s.cell) == "none"]
        for delay in sorted({delay_of(s.cell) for s in own}):
            empty = [s for s in cells if s.cell.operation == "readers_none" and delay_of(s.cell) == delay]
            _print(_costs(title, [s for s in own if delay_of(s.cell) == delay], empty, delay, mark), console)
    _print(_beside_updaters(reader_cost.sides(cells)), console)


def _print(table: Table, console: Console) -> None:
    if table.row_count:
        console.print(table)
        console.print()


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=index > 0, overflow="fold")
    return table


def _interval(interval: Interval | None) -> str:
    return (
        f"{ns_text(interval.median_ns)} [{ns_text(interval.low_ns)}, {ns_text(interval.high_ns)}]" if interval else "-"
    )


def _counts(cells: Sequence[Summary]) -> list[int]:
    found = sorted({readers_of(s.cell) for s in cells})
    return found if len(found) <= MOST_COUNTS else [*found[: MOST_COUNTS - 1], found[-1]]


def _costs(title: str, cells: Sequence[Summary], empty: Sequence[Summary], delay: int, mark: Mark) -> Table:
    """Each thread's ns per section; with a delay in it, what is left when the same loop without the reader is taken off."""
    counts = _counts(cells)
    what = f"ns over the empty loop, {delay} iterations inside" if delay else "ns"
    columns = ["form", *(f"{n} reader{'s' if n > 1 else ''}" for n in counts)]
    table = _table(f"{title} ({what})", columns + (["times as dear"] if len(counts) > 1 else []) + [""])
    by_form: dict[str, dict[int, Summary]] = {}
    for s in [*empty, *cells]:
        lookup = cells and cells[0].cell.operation == "readers_lookup"
        if s.cell.operation != "readers_none" or (not delay and (s.cell.form == "lookup_empty") == lookup):
            by_form.setdefault(s.cell.form, {})[readers_of(s.cell)] = s
    ratios = {r.form: r.ratio for r in reader_cost.scaling([*cells]) if r.read_delay == delay}
    for form, by_count in by_form.items():
        figures = []
        for n in counts:
            s = by_count.get(n)
            figures.append(_interval(s.exposed if delay else s.issue) + ("?" if s.status != "ok" else "") if s else "-")
        ratio = ratios.get(form)
        if len(counts) > 1:
            figures.append(f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio and not delay else "")
        marks = "".join(dict.fromkeys("".join(mark(s) for s in by_count.values())))
        table.add_row(*map(Text, [form, *figures, marks.replace("?", "")]))
    return table


def _beside_updaters(sides: Sequence[reader_cost.Side]) -> Table:
    """Reader cost beside grace-period cost."""
    expedited = any(side.updater != "synchronize" for side in sides)
    title = "what it takes: the reader's cost beside the updater's (ns, sections with their delay)"
    columns = ("form", "delay", "readers", "reader", "reader during updates", "update, no reader", "update beside them")
    table = _table(title, columns)
    for side in sorted(sides, key=lambda side: (side.read_delay, side.readers)):
        form = side.form + (f" {side.updater}" if expedited else "")
        figures = [_interval(s.issue if s else None) for s in (side.pair, side.disturbed, side.idle, side.grace)]
        table.add_row(*map(Text, [form, str(side.read_delay), str(side.readers), *figures]))
    return table
