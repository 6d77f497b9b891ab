# SPDX-License-Identifier: MIT
"""Every cell of a machine in tables: operations, cache maintenance, readers and counters, then what
columns and flags mean, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from linewright import numbers, wings
from linewright.analysis import cache_fit, reader_cost
from linewright.analysis.cache_fit import Fit, Group, list_of, saved
from linewright.analysis.comparison import Comparison
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import ask
from linewright.analysis.reader_cost import ReaderSide, delay_of, readers_of, updater_of
from linewright.analysis.summary import Summary, grouped
from linewright.say.document import (
    Block,
    Column,
    Of,
    Sentence,
    TextTable,
    legend,
    sentence_as_written,
    table_of,
    topics_of,
)
from linewright.say.machine_lines import describe, errors, lacking
from linewright.say.phrases import modes_text
from linewright.say.verdict import verdict_of
from linewright.say.words import explain, in_words, unique_labels
from linewright.schema import Interval


class FlagLetters:
    """Letters behind flagged figures, explained once below all tables."""

    def __init__(self) -> None:
        self._letters: dict[str, tuple[str, list[str]]] = {}
        self._modes: list[Sentence] = []
        self._doubted: list[str] = []

    def of(self, s: Summary) -> str:
        """The letters of a summary's flags, with ``?`` before them where its status is not ok."""
        for flag in s.flags:
            letter = chr(ord("a") + len(self._letters) % 26)
            self._letters.setdefault(flag, (letter, []))[1].append(s.id)
        if s.metastable:
            text = f"     {in_words(s.cell)}: {modes_text(s.modes)}"
            self._modes.append(sentence_as_written(text, [s.id]))
        self._doubted += [] if s.status == "ok" else [s.id]
        letters = "".join(self._letters[flag][0] for flag in s.flags)
        return ("" if s.status == "ok" else "?") + letters

    def explained(self) -> list[Sentence]:
        """What each letter used so far means."""
        text = "?  Too many windows were disturbed by other programs. The figure is not reliable. "
        text += "An idle machine, or real-time priority for root, helps."
        lines = [sentence_as_written(text, self._doubted)] if self._doubted else []
        for flag, (letter, ids) in self._letters.items():
            lines.append(sentence_as_written(f"{letter}  {flag}: {explain(flag)}", ids))
            lines += self._modes if flag == "metastable" else []
        return lines


def cell_blocks(m: MachineAnswers) -> list[Block]:
    """Every cell of a machine in tables, then what columns and letters mean, and the verdict."""
    own, flags = m.summaries, FlagLetters()
    # Cache maintenance and readers have tables of their own: other columns tell their cells apart.
    common = [s for s in own if not cache_fit.concerns(s.cell) and not reader_cost.concerns(s.cell)]
    operations = _operations(common, flags)
    tables = [*operations, *_cache(m), *_readers(own, flags), *_counters(own)]
    meanings = [
        sentence_as_written(line, basis="rule")
        for line in (legend(_columns(own)) if operations else [])
    ]
    machine, *topics = topics_of(
        {
            "machine": describe(m.contexts),
            "lacking": [*lacking(own), *errors(own)],
            "signs": [*meanings, *flags.explained()],
            "verdict": verdict_of(m),
        },
        "cells",
    )
    return [machine, *(replace(one, audience="cells") for one in tables), *topics]


# ---- operations --------------------------------------------------------------------------------


def _percentile(name: str) -> Callable[[Summary], str]:
    return lambda s: numbers.figure(getattr(s.batch, name) if s.batch else None)


def _half_width(found: Interval | None) -> str:
    """The larger distance from the median to an end of the interval, which is what a ± may promise;
    nothing without an interval, since one window has no width."""
    if found is None or found.confidence <= 0:
        return ""
    return numbers.figure(max(found.high_ns - found.median_ns, found.median_ns - found.low_ns))


def _fairness(s: Summary) -> str:
    shown = s.cell.situation.contended and s.equal_loops and s.total_mops > 0
    return f"{s.fairness:.2f}" if shown else ""


_FIGURES: tuple[Column[Summary], ...] = (
    Column(
        "contender",
        lambda s: s.cell.contender,
        text=True,
        meaning="none; placebo, a second thread that never touches the line; same_line, one that "
        "does.",
    ),
    Column(
        "spacing",
        lambda s: str(s.cell.contender_iters) if s.cell.situation.contended else "",
        meaning="iterations of a one-NOP loop between the contender's operations.",
    ),
    Column(
        "work",
        lambda s: str(s.cell.work_iters),
        meaning="units of work between the timed thread's operations.",
    ),
    Column(
        "median",
        lambda s: numbers.figure(s.issue.median_ns),
        meaning="issue interval: ns per operation with its work, the median of the launches.",
    ),
    Column(
        "p95",
        _percentile("p95_ns"),
        meaning="95th percentile of the means of batches of operations.",
    ),
    Column(
        "exposed",
        lambda s: numbers.figure(s.exposed.median_ns) if s.exposed else "",
        meaning="median minus the same loop without the operation.",
    ),
    Column("±", lambda s: _half_width(s.exposed)),
)
_MORE: tuple[Column[Summary], ...] = (
    Column("p99", _percentile("p99_ns"), spare=True),
    Column(
        "all Mop/s",
        lambda s: f"{s.total_mops:.1f}" if s.total_mops > 0 else numbers.ABSENT,
        spare=True,
        meaning="operations of all threads together, in millions a second.",
    ),
    Column(
        "fair",
        _fairness,
        spare=True,
        meaning="Jain's index of the threads' rates where all run the same loop: 1 is equal "
        "shares.",
    ),
)


def _columns(summaries: Sequence[Summary]) -> list[Column[Summary]]:
    """The columns of cells, with those of wings that one of these has a figure for."""
    of_wings = [column for columns in wings.brought("cell_columns") for column in columns]
    shown = [column for column in of_wings if any(map(column.value, summaries))]
    return [*_FIGURES, *shown, *_MORE]


def _operations(summaries: Sequence[Summary], flags: FlagLetters) -> list[TextTable]:
    """A table for each operation that has figures: each form under each contention and work
    length."""
    measured = [s for s in summaries if s.has_figures]
    return [
        _operation(operation, own, flags)
        for operation, own in grouped(measured, lambda s: s.cell.operation).items()
    ]


def _operation(operation: str, own: Sequence[Summary], flags: FlagLetters) -> TextTable:
    widths = sorted({s.cell.width_bits for s in own})
    params = sorted({key for s in own for key in s.cell.params})
    varied = [key for key in params if len({s.cell.params.get(key) for s in own}) > 1]
    forms = list(dict.fromkeys((s.cell.form, s.cell.width_bits) for s in own))

    def name(s: Summary) -> str:
        """The form with whatever else tells its rows from those of the same form."""
        cell = s.cell
        parts = [cell.form] + [f"u{cell.width_bits}"] * (len(widths) > 1)
        parts += [str(cell.params["policy"])] if "policy" in cell.params else []
        parts += [f"{k}={cell.params[k]}" for k in varied if k in cell.params and k != "policy"]
        return " ".join(parts)

    def order(s: Summary) -> tuple:
        cell = s.cell
        values = [(k, isinstance(v, str), v) for k, v in sorted(cell.params.items())]
        place = forms.index((cell.form, cell.width_bits))
        return (place, values, cell.situation.rank, cell.work_iters, cell.id)

    rows = sorted(own, key=order)
    columns = [
        Column("form", name, text=True, folds=True),
        *_columns(own),
        Column("", flags.of, text=True),
    ]
    once = "round trip, two handoffs" if operation == "handoff" else "operation"
    title = f"{operation}, {'/'.join(map(str, widths))} bit (ns per {once})"
    styles = ["" if s.status == "ok" else "doubted" for s in rows]
    return table_of(title, columns, rows, styles=styles)


# ---- cache maintenance -------------------------------------------------------------------------

STATES = {
    "dirty_beyond": "dirty, beyond the caches",
    "dirty_l1": "dirty, in the first cache",
    "dirty_l2": "dirty, in the second cache",
}
"""States of lines in words; others are words."""


def _of_group(group: Callable[[Of], Group]) -> tuple[Column[Of], ...]:
    state = lambda row: group(row).state
    return (
        Column("instruction", lambda row: group(row).form, text=True),
        Column("lines are", lambda row: STATES.get(state(row), state(row)), "", True, True),
        Column("offset", lambda row: str(group(row).align_bytes)),
    )


TERMS: tuple[Column[Fit], ...] = (
    *_of_group(lambda fit: fit.group),
    Column("ns per line", lambda fit: numbers.format_interval(fit.per_line)),
    Column("ns per entry", lambda fit: numbers.format_interval(fit.per_entry)),
    Column("ns per wait", lambda fit: numbers.format_interval(fit.per_wait)),
    Column("lists", lambda fit: str(fit.cells)),
    Column("misses by", lambda fit: f"{fit.worst_percent:.0f} %"),
)
_SAVINGS: tuple[Column[Comparison], ...] = (
    *_of_group(lambda saving: list_of(saving.second)[0]),
    Column("entry", lambda saving: str(list_of(saving.second)[1]), "bytes"),
    Column("entries", lambda saving: str(list_of(saving.second)[2])),
    Column("each", lambda saving: numbers.figure(saving.second.ns.median_ns / 1e3), "µs"),
    Column("once", lambda saving: numbers.figure(saving.first.ns.median_ns / 1e3), "µs"),
    Column("saved", lambda saving: numbers.format_interval(saved(saving)), "%"),
)


def _cache(m: MachineAnswers) -> list[TextTable]:
    """Cost terms of each instruction, and savings over entry size."""
    fitted = "cache maintenance, fitted: ns per line, per entry and per wait"
    saving = "one wait for the whole list against one wait after each entry"
    tables = ((fitted, TERMS, m.cache_fits), (saving, _SAVINGS, m.select("waits")))
    return [
        table_of(title, [c for c in columns if any(c.value(row) != "0" for row in rows)], rows)
        for title, columns, rows in tables
        if rows
    ]


# ---- readers -----------------------------------------------------------------------------------

READER_TITLES = {
    "readers_pair": "readers that protect a read-side critical section",
    "readers_shape": "pairs shaped like SRCU's, by the form of their two per-CPU increments",
    "readers_floor": "the parts of a reader, and what it is compared with",
    "readers_lookup": "lookups of one object among many",
}
MOST_COUNTS = 4
"""Numbers of readers that get columns: the fewest, the most, and those between as far as there is
room."""


def _readers(summaries: Sequence[Summary], flags: FlagLetters) -> list[TextTable]:
    """What readers cost over their number, and what their updater waits."""
    cells = [
        s for s in summaries if reader_cost.concerns(s.cell) and s.issue is not None and s.windows
    ]
    tables = []
    for operation in READER_TITLES:
        own = [s for s in cells if s.cell.operation == operation and updater_of(s.cell) == "none"]
        for delay, costs in sorted(grouped(own, lambda s: delay_of(s.cell)).items()):
            lookup = operation == "readers_lookup"
            baseline = [
                s
                for s in cells
                if s.cell.operation == "readers_none"
                and delay_of(s.cell) == delay == 0
                and (s.cell.form == "lookup_empty") == lookup
            ]
            tables.append(_costs(operation, [*baseline, *costs], costs, delay, flags))
    sides = reader_cost.sides(cells)
    return [*tables, *([_beside_updaters(sides)] if sides else [])]


def _costs(
    operation: str,
    rows: Sequence[Summary],
    costs: Sequence[Summary],
    delay: int,
    flags: FlagLetters,
) -> TextTable:
    """Each thread's ns per critical section; with a delay inside, minus the same loop without the
    reader."""
    counts = sorted({readers_of(s.cell) for s in costs})
    counts = counts if len(counts) <= MOST_COUNTS else [*counts[: MOST_COUNTS - 1], counts[-1]]
    scaling = [] if delay else reader_cost.scaling(ask("readers", [*costs]))
    ratios = {
        r.first.form: numbers.estimate(c.value, c.low, c.high)
        for r in scaling
        if (c := r.shown) and r.situation.param("read_delay", 0) == delay
    }
    by_form = {
        form: {readers_of(s.cell): s for s in own}
        for form, own in grouped(rows, lambda s: s.cell.form).items()
    }

    def cost(form: str, count: int) -> str:
        s = by_form[form].get(count)
        if s is None:
            return numbers.ABSENT
        return numbers.format_interval(s.exposed if delay else s.issue) + (
            "?" if s.status != "ok" else ""
        )

    def marks(form: str) -> str:
        return "".join(
            dict.fromkeys("".join(map(flags.of, by_form[form].values())).replace("?", ""))
        )

    columns: list[Column[str]] = [
        Column("form", str, text=True, folds=True),
        *(Column(numbers.count(n, "reader"), lambda form, n=n: cost(form, n)) for n in counts),
    ]
    if len(counts) > 1:
        columns.append(Column("ratio, most to fewest", lambda form: ratios.get(form, "")))
    columns.append(Column("", marks, text=True))
    what = f"ns above the baseline loop, {delay} units of work inside" if delay else "ns"
    return table_of(f"{READER_TITLES[operation]} ({what})", columns, by_form)


def _beside_updaters(sides: Sequence[ReaderSide]) -> TextTable:
    """Reader cost and grace-period cost, side by side."""

    def issue(name: str) -> Callable[[ReaderSide], str]:
        return lambda side: numbers.format_cost_interval(
            s.issue if (s := getattr(side, name)) else None
        )

    expedited = any(side.updater != "synchronize" for side in sides)
    columns: list[Column[ReaderSide]] = [
        Column("form", lambda side: side.form + f" {side.updater}" * expedited, "", True, True),
        Column("delay", lambda side: str(side.read_delay)),
        Column("readers", lambda side: str(side.readers)),
        Column("reader", issue("pair")),
        Column("beside updates", issue("disturbed")),
        Column("update alone", issue("idle")),
        Column("beside readers", issue("grace")),
    ]
    title = "reader cost and grace-period cost (ns; read-side critical sections with their delay)"
    return table_of(title, columns, sorted(sides, key=lambda s: (s.read_delay, s.readers)))


# ---- counters ----------------------------------------------------------------------------------

_METRIC = re.compile(r"(timed|others)_(?:([a-z0-9_]+)_per_op|(ghz|counted_share))")
MULTIPLEXED = 0.99
"""Share of the time below which counters took turns and their figures are scaled up."""

CounterKey = tuple[str, str]
"""Group of threads and event."""


def counted(metrics: Mapping[str, float]) -> dict[CounterKey, float]:
    """Counters among a cell's metrics, by group of threads and event (``ghz`` and ``counted_share``
    besides)."""
    found = ((_METRIC.fullmatch(name), value) for name, value in metrics.items())
    return {(match[1], match[2] or match[3]): value for match, value in found if match}


def _counters(summaries: Iterable[Summary]) -> list[TextTable]:
    """Events per operation of the timed thread and of its contenders, where any cell was
    counted."""
    cells = {s.id: (s.cell, found) for s in summaries if (found := counted(s.metrics))}
    if not cells:
        return []
    labels = unique_labels([cell for cell, _ in cells.values()])
    events = sorted(
        {key for _, found in cells.values() for key in found if key[1] != "counted_share"},
        key=lambda key: (key[0] != "timed", key[1] == "ghz", key[1]),
    )
    scaled = {
        i
        for i, (_, found) in cells.items()
        if min(found.get((of, "counted_share"), 1.0) for of in ("timed", "others")) < MULTIPLEXED
    }

    def value(i: str, key: CounterKey) -> str:
        found = cells[i][1]
        return f"{found[key]:.4g}" if key in found else numbers.ABSENT

    columns: list[Column[str]] = [
        Column("", lambda i: labels[i] + "*" * (i in scaled), text=True, folds=True)
    ]
    for key in events:
        heading = "GHz" if key[1] == "ghz" else key[1]
        heading += ", others" if key[0] == "others" else ""
        columns.append(Column(heading, lambda i, key=key: value(i, key), folds=True))
    note = "*  The counters took turns with others; these figures are scaled up from their share."
    notes = [sentence_as_written(note, sorted(scaled))] if scaled else []
    return [table_of("counters, per operation", columns, cells, notes=notes)]
