# SPDX-License-Identifier: MIT
"""Every cell of a machine in tables: operations, cache maintenance, readers and counters, then what
columns and flags mean, and the verdict; and why one cell has its figure: its launches, windows,
modes and controls, and what was discarded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from linewright import numbers, wings
from linewright.analysis import cache_fit, reader_cost
from linewright.analysis.cache_fit import Fit, Group, list_of, saved
from linewright.analysis.comparison import Comparison
from linewright.analysis.control import noise_group_of
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import ask
from linewright.analysis.reader_cost import ReaderSide, delay_of, readers_of, updater_of
from linewright.analysis.summary import Summary, grouped
from linewright.say.document import (
    Block,
    Column,
    Document,
    Of,
    Sentence,
    TextTable,
    document_of,
    sentence_as_written,
    table_of,
    topics_of,
    unique,
)
from linewright.say.machine_lines import describe, errors, lacking
from linewright.say.phrases import modes_text
from linewright.say.verdict import verdict_of
from linewright.say.words import WITHHELD, explain, in_english, in_words, unique_labels
from linewright.schema import Interval, Record


class FlagLetters:
    """Letters behind flagged figures, explained once below all tables."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}
        self._shown: list[Summary] = []

    def of(self, s: Summary) -> str:
        """The letters of a summary's flags, with ``?`` before them where its status is not ok."""
        self._shown.append(s)
        for flag in s.flags:
            self._letters.setdefault(flag, chr(ord("a") + len(self._letters) % 26))
        return "?" * (s.status != "ok") + "".join(self._letters[flag] for flag in s.flags)

    def explained(self) -> list[Sentence]:
        """What each letter used so far means."""
        text = "?  Too many windows were disturbed by other programs. The figure is not reliable. "
        text += "An idle machine, or real-time priority for root, helps."
        doubted = [s.id for s in self._shown if s.status != "ok"]
        said = [(text, doubted)] if doubted else []
        for flag, letter in self._letters.items():
            own = [s for s in self._shown if flag in s.flags]
            said.append((f"{letter}  {flag}: {explain(flag)}", [s.id for s in own]))
            if flag == "metastable":
                modes = ((s, modes_text(s.modes)) for s in own if s.metastable)
                said += [(f"     {in_words(s.cell)}: {text}", [s.id]) for s, text in modes]
        return [sentence_as_written(text, ids) for text, ids in said]


def cell_blocks(m: MachineAnswers) -> list[Block]:
    """Every cell of a machine in tables, then what columns and letters mean, and the verdict."""
    own, flags = m.summaries, FlagLetters()
    # Cache maintenance and readers have tables of their own: other columns tell their cells apart.
    common = [s for s in own if not cache_fit.concerns(s.cell) and not reader_cost.concerns(s.cell)]
    measured = grouped((s for s in common if s.has_figures), lambda s: s.cell.operation)
    operations = [_operation(operation, some, flags) for operation, some in measured.items()]
    tables = [*operations, *_cache(m), *_readers(own, flags), *_counters(own)]
    meanings = [
        sentence_as_written(f"{column.title}: {column.meaning}", basis="rule")
        for column in (_columns(own) if operations else [])
        if column.meaning
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


def _operation(operation: str, own: Sequence[Summary], flags: FlagLetters) -> TextTable:
    widths = sorted({s.cell.width_bits for s in own})
    params = sorted({key for s in own for key in s.cell.params})
    varied = [key for key in params if len({s.cell.params.get(key) for s in own}) > 1]
    forms = list(dict.fromkeys((s.cell.form, s.cell.width_bits) for s in own))

    def name(s: Summary) -> str:
        """The form with whatever else tells its rows from those of the same form."""
        params = dict(s.cell.params)
        parts = [s.cell.form] + [f"u{s.cell.width_bits}"] * (len(widths) > 1)
        parts += [str(params.pop("policy"))] if "policy" in params else []
        return " ".join([*parts, *(f"{k}={params[k]}" for k in varied if k in params)])

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
    "readers_pair": "readers that protect a read-side critical section; rwlock spins, rwsem sleeps",
    "readers_shape": "pairs shaped like SRCU's, by the form of their two per-CPU increments",
    "readers_floor": "the parts of a reader, and what it is compared with",
    "readers_lookup": "lookups of one object among many",
}
MOST_COUNTS = 4
"""Numbers of readers that get columns: the fewest, the most, and those between as far as there is
room."""


def _readers(summaries: Sequence[Summary], flags: FlagLetters) -> Iterator[TextTable]:
    """What readers cost over their number, and what their updater waits."""
    concerned = [s for s in summaries if reader_cost.concerns(s.cell)]
    cells = [s for s in concerned if s.issue is not None and s.windows]
    for operation in READER_TITLES:
        own = [s for s in cells if s.cell.operation == operation and updater_of(s.cell) == "none"]
        for delay, costs in sorted(grouped(own, lambda s: delay_of(s.cell)).items()):
            empty = [s for s in cells if s.cell.operation == "readers_none"]
            lookup = operation == "readers_lookup"
            baseline = [s for s in empty if (s.cell.form == "lookup_empty") == lookup]
            baseline = [s for s in baseline if delay_of(s.cell) == delay == 0]
            yield _costs(operation, [*baseline, *costs], costs, delay, flags)
    if sides := reader_cost.sides(cells):
        yield _beside_updaters(sides)


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
    ratios = {
        r.first.form: numbers.estimate(c.value, c.low, c.high)
        for r in ([] if delay else reader_cost.scaling(ask("readers", [*costs])))
        if (c := r.shown) and r.situation.param("read_delay", 0) == delay
    }
    by_form = {
        form: {readers_of(s.cell): s for s in own}
        for form, own in grouped(rows, lambda s: s.cell.form).items()
    }

    def cost(form: str, count: int) -> str:
        s = by_form[form].get(count)
        text = numbers.format_interval((s.exposed if delay else s.issue) if s else None)
        return text + "?" * (s is not None and s.status != "ok")

    def marks(form: str) -> str:
        letters = "".join(map(flags.of, by_form[form].values()))
        return "".join(unique(letters.replace("?", "")))

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
    keys = {key for _, found in cells.values() for key in found if key[1] != "counted_share"}
    share = lambda i: min(cells[i][1].get((of, "counted_share"), 1.0) for of in ("timed", "others"))
    scaled = sorted(i for i in cells if share(i) < MULTIPLEXED)

    def value(i: str, key: CounterKey) -> str:
        found = cells[i][1]
        return f"{found[key]:.4g}" if key in found else numbers.ABSENT

    columns: list[Column[str]] = [
        Column("", lambda i: labels[i] + "*" * (i in scaled), text=True, folds=True)
    ]
    for key in sorted(keys, key=lambda key: (key[0] != "timed", key[1] == "ghz", key[1])):
        heading = "GHz" if key[1] == "ghz" else key[1]
        heading += ", others" * (key[0] == "others")
        columns.append(Column(heading, lambda i, key=key: value(i, key), folds=True))
    note = "*  The counters took turns with others; these figures are scaled up from their share."
    notes = [sentence_as_written(note, scaled)] if scaled else []
    return [table_of("counters, per operation", columns, cells, notes=notes)]


# ---- one cell ----------------------------------------------------------------------------------

MOST_LAUNCHES = 40
"""Launches that get a line each; of more, the first and the last."""


def _median(values: Sequence[float]) -> str:
    return numbers.cost(float(np.median(values)) if len(values) else None)


_LAUNCHES: tuple[Column[Record], ...] = (
    Column("launch", lambda r: str(r.launch), folds=True),
    Column("status", lambda r: r.status, text=True),
    Column("windows", lambda r: str(len(r.window_ns))),
    Column("least", lambda r: numbers.cost(min(r.window_ns, default=None))),
    Column("median", lambda r: _median(r.window_ns)),
    Column("most", lambda r: numbers.cost(max(r.window_ns, default=None))),
    Column("baseline loop", lambda r: _median(r.baseline_ns)),
    Column("switched", lambda r: str(r.discarded.switched)),
    Column("stolen", lambda r: str(r.discarded.stolen)),
    Column("long batch", lambda r: str(r.discarded.long_batch)),
    Column("ended by", lambda r: r.stop or numbers.ABSENT, text=True),
)


def cell_document(summary: Summary, records: Sequence[Record], m: MachineAnswers) -> Document:
    """Everything that is known of one cell of a machine, whose other cells control it."""
    begun = {c.context_id: c.started_utc for c in m.contexts}
    shown = sorted(records, key=lambda r: (begun[r.context_id], r.launch))
    more = len(shown) - MOST_LAUNCHES
    if more > 0:
        shown[MOST_LAUNCHES // 2 : -MOST_LAUNCHES // 2] = []
    texts = [
        *([f"{more} more launches between these."] if more > 0 else []),
        *_windows(records),
        *(line for lines in wings.brought("cell_lines") for line in lines(summary)),
        *_modes(summary),
    ]
    flags = [f"{flag}: {explain(flag)}" for flag in summary.flags]
    of_cell = lambda texts: [sentence_as_written(text, [summary]) for text in texts]
    launches = table_of(
        "each launch: ns of its windows, and those discarded",
        _LAUNCHES,
        shown,
        styles=["" if r.status == "ok" else "bad" for r in shown],
        notes=[*of_cell(texts), *_control(summary, m), *of_cell(flags)],
    )
    return document_of(
        headline=of_cell([in_words(summary.cell)]),
        facts=[*of_cell([summary.id, *_figures(summary)]), *_answers(summary, m)],
        tables=[launches],
    )


def _figures(s: Summary) -> Iterator[str]:
    """The issue interval, or of a metastable cell its modes (its median is what no
    launch took), and the exposed cost."""
    launches = numbers.count(s.launches, "launch", "launches")
    if not (s.issue and s.has_figures):
        yield f"No figure: {s.status}. {s.reason}"
    elif s.metastable:
        yield f"No single figure: {modes_text(s.modes)} of {launches}, work included."
    else:
        sure = f", {100 * s.issue.confidence:.0f} % interval" if s.issue.confidence > 0 else ""
        issue = numbers.format_interval(s.issue, "ns")
        yield f"Issue interval, work included: {issue}{sure}, {launches}."
    if s.exposed:
        yield f"Exposed cost: {numbers.format_interval(s.exposed, 'ns')}."
    elif s.withheld:
        yield f"{WITHHELD.capitalize()} ({in_english(s.withheld)})."


def _answers(s: Summary, m: MachineAnswers) -> Iterator[Sentence]:
    """What comparisons with the default form say of a cell, or of the others where it is the
    default."""
    for f in m.findings:
        if f.side.id == s.id and f.rows:
            others = "; ".join(f"{row.first.form} {_answer_text(row)}" for row in f.rows)
            text = f"It is the default for {f.operation}, which others are compared with: {others}."
            yield sentence_as_written(text, [f])
        for row in f.rows:
            if row.first.id == s.id:
                text = f"Against {f.default}, the default for {f.operation}: {_answer_text(row)}."
                yield sentence_as_written(text, (f.side, row.first))


def _answer_text(c: Comparison) -> str:
    """The answer, or the reason why there is none but the width of the interval."""
    if c.answer == "undecided" and c.why != "wide":
        return f"undecided ({in_english(c.why)})"
    return c.words()


def _windows(records: Sequence[Record]) -> Iterator[str]:
    kept = [ns for r in records for ns in r.window_ns]
    lost = sum(r.discarded.total for r in records)
    why = ": switched, a thread was off its CPU; stolen, the hypervisor took the CPU; long batch, "
    why += "one stood out"
    yield f"{len(kept)} windows were kept and {lost} discarded{why if lost else ''}."
    if kept:
        p = [numbers.cost(float(v)) for v in np.percentile(kept, [0, 25, 50, 75, 100])]
        yield (
            f"All windows: least {p[0]}, quarter {p[1]}, middle {p[2]}, three quarters {p[3]}, "
            f"most {p[4]} ns."
        )


def _modes(s: Summary) -> Iterator[str]:
    for name, modes in (("launches", s.modes), ("lines", s.line_modes)):
        if len(modes) > 1:
            yield f"The {name} fall into separate modes: {modes_text(modes, surely=True)}."


def _control(s: Summary, m: MachineAnswers) -> list[Sentence]:
    floor = m.floors.get(noise_group_of(s.cell))
    if floor is None:
        return []
    size = numbers.within(floor.size, floor.scale)
    text = (
        f"Control: identical machine code differed by up to {size} in this situation "
        f"({numbers.count(floor.pairs, 'pair')}): what exceeds chance widens every comparison."
    )
    return [sentence_as_written(text, [floor])]
