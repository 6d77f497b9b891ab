# SPDX-License-Identifier: MIT
"""The sections of a page: prices, matrix, explorer, core to core, readers and cache maintenance,
each where the records have something for it, with every chart worded."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from linewright import numbers
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import grouped
from linewright.forms import ONE_LINE
from linewright.say.cell_rows import ENDS, DrawnCell, explorer, per_part
from linewright.say.cell_tables import STATES, TERMS
from linewright.say.document import (
    Axis,
    Bars,
    Basis,
    Chart,
    Column,
    Document,
    Section,
    Selection,
    TextTable,
    sentence_as_written,
    table_of,
    unique,
)
from linewright.say.family_sentences import WAITS, list_figures, saving_figures
from linewright.say.phrases import DISTANCES
from linewright.say.words import in_english
from linewright.schema import Cell

Datum = dict[str, Any]
"""What is drawn of one cell, by name."""


class PageMachine(Struct, frozen=True, kw_only=True):
    """Everything that is drawn with one mark: a machine's records, or one of several runs on it."""

    label: str
    kind: str
    """``measured``, ``simulated``, ``published`` or ``emulated``: where the figures come from."""
    answers: MachineAnswers
    document: Document
    """What `linewright show` says of it, and for the page what was found (``findings``), what a
    careful reader would ask about (``doubts``), and what was measured on (``context``)."""
    drawn: list[DrawnCell]
    """Each with the label as its ``series``."""
    cells: list[Datum]
    """A row for each cell, by column."""
    plans: list[str]


def sections(machines: Sequence[PageMachine]) -> list[Section]:
    """Every section that the records have something for, in their order."""
    made = (make(machines) for make in (_prices, _matrix, _explorer, _handoff, _readers, _cache))
    return [section for section in made if section is not None]


def _section(
    id: str,
    title: str,
    lead: str,
    blocks: Iterable[Any],
    choices: Iterable[Selection] = (),
    basis: Basis = "rule",
) -> Section | None:
    """A section with its heading, and what it shows and how it is read; None without blocks, and a
    choice of one is none."""
    shown = [choice for choice in choices if len(choice.options) > 1]
    said = sentence_as_written(lead, basis=basis)
    made = Section(id=id, title=title, lead=said, choices=shown, blocks=[*blocks])
    return made if made.blocks else None


def _cells(machines: Sequence[PageMachine], operations: Collection[str]) -> list[DrawnCell]:
    return [c for machine in machines for c in machine.drawn if c[0].operation in operations]


def _apart(machines: Sequence[PageMachine], name: str, label: str, title: str) -> dict[str, str]:
    """Name and title of the chart of one machine; of the only one `title`."""
    if len(machines) == 1:
        return {"name": name, "title": title}
    place = [machine.label for machine in machines].index(label)
    return {"name": f"{name}-{place}", "title": label}


def _by_machine(
    machines: Sequence[PageMachine], rows: list[Datum], draw: Callable[[str, list[Datum]], Chart]
) -> list[Chart]:
    """A chart for each machine that has rows."""
    own = {m.label: [row for row in rows if row["series"] == m.label] for m in machines}
    return [draw(label, mine) for label, mine in own.items() if mine]


CELL_TIP = (
    ("series", "machine"),
    ("form", "form"),
    ("contention", "contention"),
    ("work", "units of work"),
)


def _figure(name: str, title: str) -> tuple[tuple[str, str], ...]:
    """Fields of a tooltip for a figure with the ends of its interval."""
    return (f"{name}:q", title), (f"{name}_low:q", "from"), (f"{name}_high:q", "to")


NS_TIP = (*_figure("ns", "ns, median"), ("launches", "launches"), ("remark", "note"))

# ---- prices ------------------------------------------------------------------------------------


def _prices(machines: Sequence[PageMachine]) -> Section | None:
    """The price list of each machine's screen, as bars."""
    tables = [
        (m.label, t)
        for m in machines
        if isinstance(t := m.document.table("prices"), Bars) and any(map(t.values_of, t.rows))
    ]
    names = {str(row[0]) for _, table in tables for row in table.rows}
    both = any(len(table.bars) > 1 for _, table in tables)
    beside = ", and with a second CPU that does the same" * both
    # An atomic add to a line that is written by others hides nothing.
    plain = " Own words take plain adds, part of whose cost a store buffer hides."
    plain *= any(name.startswith("count: own words") for name in names)
    return _section(
        "prices",
        "Price list",
        f"What each remedy costs, in ns per operation: alone{beside}. Ratios are to one shared "
        f"atomic word in the same situation. The scale is logarithmic.{plain}",
        [
            replace(table, **_apart(machines, "prices", label, "What each remedy costs"))
            for label, table in tables
        ],
        basis="run",
    )


# ---- the matrix --------------------------------------------------------------------------------

METRICS = (
    Axis(name="ns", title="median, ns", log=True),
    Axis(name="p99", title="99th percentile of batch means, ns", log=True),
    Axis(name="exposed", title="exposed cost, ns", log=True),
    Axis(name="rate", title="all threads together, operations per µs", log=True),
)
FREE = 0.1
"""ns from which on a cost has the colour of the cheapest."""


def _matrix(machines: Sequence[PageMachine]) -> Section | None:
    """Form, contention and work as a heat map, the same colours for every machine."""
    cells = _cells(machines, ONE_LINE.operations)
    rows = [_matrix_row(cell, row) for cell, row in cells]
    rows.sort(key=lambda row: ONE_LINE.operations.index(row["operation"]))
    shades = []
    for metric in METRICS:
        values = [max(FREE, v) for row in rows if (v := row[metric.name]) is not None]
        if values:
            low = min(values)
            shades.append(replace(metric, ends=(low, max(*values, 2 * low))))
    choice = Selection(signal="shade", label="Show", options=[(s.name, s.title) for s in shades])

    def draw(label: str, own: list[Datum]) -> Chart:
        far = len({row["where"] for row in own if row["class"] not in ("alone", "placebo")}) > 1
        own = [row | {"class": row["class"] + row["where"] * far} for row in own]
        names = unique(row["label"] for row in own)
        return Chart(
            **_apart(machines, "matrix", label, "Form × contention × work"),
            spoken=f"Heat map of {len(names)} forms by contention and units of work; colour is "
            f"{', '.join(s.title for s in shades)}, to choose from.",
            kind="tiles",
            x=Axis(name="work", title=""),
            y=Axis(name="label", title="", places=names),
            facet=Axis(
                name="class",
                title="contention; below: units of work between operations",
                places=unique(row["class"] for row in sorted(own, key=lambda r: r["rank"])),
            ),
            shades=shades,
            legend="cheap to expensive (for the rate: slow to fast), logarithmic",
            choices=[choice],
            rows=own,
            tips=[
                *CELL_TIP,
                ("ns:q", "median ns"),
                ("p99:q", "p99 ns"),
                ("exposed:q", "exposed ns"),
                ("rate:q", "all threads, per µs"),
                ("remark", "note"),
            ],
            broad=True,
        )

    placebo = " A placebo is a second thread that spins and never touches the line."
    placebo *= any(cell.contender == "placebo" for cell, _ in cells)
    return _section(
        "matrix",
        "The matrix",
        f"Every form at every contention and work length that was measured.{placebo}{_marks(rows)}",
        _by_machine(machines, rows, draw),
        [choice],
        basis="run",
    )


MARKS = {
    "~": "~ marks metastable cells, whose launches fall into separate modes.",
    "?": "? marks unreliable cells.",
}
"""By the sign beside a figure what it says."""


def _marks(rows: Iterable[Datum]) -> str:
    """What the signs beside these figures say."""
    marks = {row["mark"] for row in rows}
    return "".join(f" {text}" for mark, text in MARKS.items() if mark in marks)


def _matrix_row(cell: Cell, row: Datum) -> Datum:
    width = "" if cell.width_bits in (64, 32) else f" u{cell.width_bits}"
    return row | {
        "label": f"{cell.operation} · {cell.form}{width}",
        "class": cell.situation.without("work_iters", "work", "placement").short(),
        "where": cell.situation.where,
        "rank": cell.situation.rank,
    }


# ---- the explorer ------------------------------------------------------------------------------


def _explorer(machines: Sequence[PageMachine]) -> Section | None:
    asked = explorer(cell for machine in machines for cell in machine.drawn)
    units = unique(numbers.figure(m.answers.contexts[0].unit_ns) for m in machines)
    return _section(
        "explore",
        "Any figure along any axis",
        "Choose an operation, a figure, and what it is shown along; everything else is held. One "
        f"unit of work takes {' or '.join(units)} ns. Whiskers are intervals."
        f"{_marks(asked.rows if asked else ())} The table below the chart has its figures.",
        [asked] if asked else [],
        basis="run",
    )


# ---- core to core ------------------------------------------------------------------------------

MEANING = {
    "cmpxchg_blind": "compare-and-swap until it succeeds",
    "load_cmpxchg": "load until it is one's turn, then compare-and-swap",
    "store_load": "load until it is one's turn, then store",
}
FEWEST_FOR_MAP = 3
"""CPUs from which a square map says more than a row of points."""
MOST_BESIDE = 18
"""CPUs up to which a map leaves room for a chart beside it."""
HANDOFF_TIP = (
    ("series", "machine"),
    ("form", "definition"),
    ("pair", "cores"),
    ("place", "apart"),
    *_figure("ns", "ns a handoff"),
    ("remark", "note"),
)


def _handoff(machines: Sequence[PageMachine]) -> Section | None:
    """What it takes to hand a line over: a map of the pairs, and all of them by distance."""
    cells = [row for _, row in _cells(machines, ["handoff"]) if len(row["cpus"]) == 2]
    rows = [_handoff_row(row) for row in cells if row["ns"] is not None and not row["work"]]
    forms = unique(row["form"] for row in rows)
    choice = Selection(
        signal="form", label="A handoff is", options=[(f, MEANING.get(f, f)) for f in forms]
    )

    def draw(label: str, own: list[Datum]) -> Chart:
        ways = ((row, *map(str, cpus)) for row in own for cpus in (row["cpus"], row["cpus"][::-1]))
        both = [row | {"from": a, "to": b} for row, a, b in ways]
        cpus = list(map(str, sorted({cpu for row in own for cpu in row["cpus"]})))
        return Chart(
            **_apart(machines, "handoff-map", label, "Every pair of cores"),
            spoken=f"Map of {len(cpus)} by {len(cpus)} CPUs; colour is the time of a handoff.",
            kind="tiles",
            x=Axis(name="from", title="CPU", places=cpus),
            y=Axis(name="to", title="", places=cpus),
            shades=[Axis(name="ns", title="ns a handoff")],
            legend="ns a handoff",
            choices=[choice],
            rows=both,
            tips=HANDOFF_TIP,
            broad=len(cpus) > MOST_BESIDE,
        )

    maps = [c for c in _by_machine(machines, rows, draw) if len(c.x.places) >= FEWEST_FOR_MAP]
    order = [*DISTANCES.values()]
    far = lambda row: order.index(row["place"]) if row["place"] in order else len(order)
    by_distance = Chart(
        name="handoff",
        title="By distance and definition",
        spoken=f"Time of a handoff for {len(rows)} pairs and definitions, by how far the cores are "
        "apart.",
        kind="points",
        x=Axis(name="ns", title="ns a handoff"),
        y=Axis(name="place", title="", places=unique(r["place"] for r in sorted(rows, key=far))),
        rows=rows,
        tips=HANDOFF_TIP,
    )
    return _section(
        "handoff",
        "Core to core",
        "One line handed back and forth between two cores. A figure is one handoff, half a round "
        "trip. Published figures mean one of these definitions and rarely say which.",
        [*maps, by_distance] if rows else [],
        [choice] if maps else [],
    )


def _handoff_row(row: Datum) -> Datum:
    """With the time of one handoff, of which a round trip has two."""
    distance = DISTANCES.get(row["apart"], row["apart"] or "unknown")
    return row | per_part(row, 2) | {"pair": "CPU {} ↔ {}".format(*row["cpus"]), "place": distance}


# ---- readers -----------------------------------------------------------------------------------

PAIR, GRACE = "readers_pair", "readers_grace"
GROUPS: Mapping[str, str] = {
    PAIR: "Enter and leave",
    "readers_lookup": "Find an object, hold it, let it go",
    "readers_shape": "The two increments of a pair, by form",
    "readers_floor": "What a reader is made of",
    GRACE: "Wait for readers",
}


def _readers(machines: Sequence[PageMachine]) -> Section | None:
    """What readers cost, beside what that makes grace periods cost."""
    rows = [_reader_row(c, row) for c, row in _cells(machines, GROUPS) if (row["ns"] or 0) > 0]
    shown = unique(row["point"] for row in rows if row["operation"] != GRACE) or [""]
    choice = Selection(signal="point", label="Readers", options=[(text, text) for text in shown])
    groups = [
        _reader_group(operation, own, choice)
        for operation in GROUPS
        if (own := [row for row in rows if row["operation"] == operation])
    ]
    return _section(
        "readers",
        "Readers and grace periods",
        "What a read-side critical section costs its reader, and what an updater pays to wait for "
        "readers. Cheap readers have expensive grace periods: the choice is between the two. The "
        "form rwlock spins, rwsem sleeps.",
        [*_reader_against_wait(rows), *groups],
        [choice],
    )


def _reader_group(operation: str, rows: list[Datum], choice: Selection) -> Chart:
    """Each form; of waits each beside the readers that it waits for."""
    waits = operation == GRACE
    named = [row | {"named": f"{row['form']}, {row['point']}"} for row in rows]
    name = "named" if waits else "form"
    return Chart(
        name=operation.replace("_", "-"),
        title=GROUPS[operation],
        spoken=f"Time of {in_english(operation)} by form, with intervals; logarithmic.",
        kind="points",
        x=Axis(name="ns", title="ns", log=True),
        y=Axis(name=name, title="", places=unique(row[name] for row in named)),
        choices=[] if waits else [choice],
        rows=named,
        tips=(*CELL_TIP, ("which", "parameters"), *NS_TIP),
    )


def _reader_row(cell: Cell, row: Datum) -> Datum:
    """With who is there: readers, how long they stay inside, and how an updater waits beside
    them."""
    usual = ("updater", "read_delay", "instances")
    which = ", ".join(f"{k} {cell.params[k]}" for k in sorted(cell.params) if k not in usual)
    many = {0: "no reader", 1: "one reader"}.get(row["readers"], f"{row['readers']} readers")
    inside = f"{row['delay']} units of work inside" if row["delay"] else ""
    updater = f"updater: {row['updater']}" if row["updater"] != "none" else ""
    point = ", ".join(filter(None, (many, inside, updater, in_english(which))))
    return row | {"which": which, "point": point}


def _reader_against_wait(rows: list[Datum]) -> list[Chart]:
    """Each form as one point: its reader alone on one axis, its grace period on the other; nothing
    where fewer than two have both."""
    joined = _joined(rows)
    made = Chart(
        name="readers-both",
        title="Reader against grace period",
        spoken="Each form as a point: reader cost across, grace-period cost upwards; both "
        "logarithmic.",
        kind="scatter",
        x=Axis(name="pair", title="ns that a reader pays for enter and leave", log=True),
        y=Axis(name="grace", title="ns of a grace period", log=True),
        rows=joined,
        tips=(
            ("series", "machine"),
            ("name", "form"),
            *_figure("pair", "ns enter and leave"),
            *_figure("grace", "ns a grace period"),
            ("waited", "measured with"),
        ),
        broad=True,
    )
    return [made] if len(joined) > 1 else []


def _joined(rows: list[Datum]) -> list[Datum]:
    """A row for each form that has both figures: its reader's, and its updater's beside readers
    where there are any."""
    one = (PAIR, 1, 0, "none")
    who = operator.itemgetter("operation", "readers", "delay", "updater")
    pairs = {(row["series"], row["form"]): row for row in reversed(rows) if who(row) == one}
    updates = (row for row in rows if row["operation"] == GRACE)
    waits = grouped(updates, operator.itemgetter("series", "form", "updater"))
    return [
        {
            "series": label,
            "form": form,
            "name": form + ("" if updater == "synchronize" else f", {updater}"),
            **{f"pair{end}": pair[f"ns{end}"] for end in ENDS},
            **{f"grace{end}": wait[f"ns{end}"] for end in ENDS},
            "waited": wait["point"],
        }
        for (label, form, updater), own in waits.items()
        for wait in [max(own, key=lambda row: min(row["readers"], 1))]
        if (pair := pairs.get((label, form)))
    ]


# ---- cache maintenance -------------------------------------------------------------------------


def _cache(machines: Sequence[PageMachine]) -> Section | None:
    """Time per line over entry size, what one wait saves, and the terms fitted to it."""
    rows = [row for m in machines for row in list_figures(m.drawn, m.answers)]
    savings = _longest([row for m in machines for row in saving_figures(m.label, m.answers)])
    if len({row["bytes"] for row in rows}) < 2:
        return None
    found = unique(row["state"] for row in rows)
    states = [state for state in unique((*STATES, *found)) if state in found]
    choice = Selection(
        signal="state", label="Lines are", options=[(s, STATES.get(s, s)) for s in states]
    )
    forms = ", ".join(unique(row["form"] for row in rows))
    tips = [("series", "machine"), ("form", "instruction"), ("size", "an entry")]
    tips.append(("entries", "entries"))
    per_line = Chart(
        name="cache-line",
        title="Time per line",
        spoken=f"Time of cache maintenance per line over entry size, for {forms}, with one wait "
        "for the list and with one wait after each entry.",
        kind="lines",
        y=Axis(name="ns", title="ns per line", log=True),
        strokes=Axis(name="wait", title="", places=[*WAITS.values()]),
        fitted="fitted",
        tips=[
            *tips,
            ("wait", "wait"),
            ("lines", "lines"),
            *_figure("ns", "ns a line"),
            ("fitted:q", "fitted"),
        ],
        **_over_sizes(_longest(rows), choice),
    )
    saved = Chart(
        name="cache-saved",
        title="What one wait saves",
        spoken="Share of the time that one wait for the list saves against one wait after each "
        f"entry, over entry size, for {forms}.",
        kind="lines",
        y=Axis(name="saved", title="% of the time saved"),
        tips=[
            *tips,
            *_figure("saved", "% saved"),
            ("each:q", "µs, a wait each"),
            ("once:q", "µs, one wait"),
        ],
        **_over_sizes(savings, choice),
    )
    return _section(
        "cache",
        "Cache maintenance",
        "Writing back or invalidating a list of entries. Points are measured passes, lines are the "
        "fit: a term per line, per entry and per wait. Where the two kinds of wait meet, one wait "
        "for the list saves nothing.",
        [per_line, *[saved] * bool(savings), *_fits(machines)],
        [choice],
    )


def _fits(machines: Sequence[PageMachine]) -> list[TextTable]:
    """The fitted terms of every machine, as `show --all` has them for each."""
    fits = [(fit, m) for m in machines for fit in m.answers.cache_fits]
    columns = [Column(c.title, lambda row, c=c: c.value(row[0]), text=c.text) for c in TERMS]
    machine = [Column("machine", lambda row: row[1].label, text=True)] * (len(machines) > 1)
    title = "The fit: what a line, an entry and a wait cost"
    return [table_of(title, [*machine, *columns], fits)] if fits else []


def _longest(rows: list[Datum]) -> list[Datum]:
    """Aligned lists; of those that differ in their number of entries alone, the longest."""
    kind = operator.itemgetter("series", "form", "state", "align", "bytes", "wait")
    most = {k: max(row["entries"] for row in own) for k, own in grouped(rows, kind).items()}
    return [row for row in rows if row["align"] == 0 and row["entries"] == most[kind(row)]]


def _over_sizes(rows: list[Datum], choice: Selection) -> dict[str, Any]:
    """Rows by the size of an entry, and the axis for that."""
    sizes = sorted({row["bytes"] for row in rows})
    words = {size: _size_words(size) for size in sizes}
    return {
        "x": Axis(name="size", title="size of an entry", places=[*words.values()]),
        "choices": [choice],
        "rows": [row | {"size": words[row["bytes"]]} for row in rows],
    }


def _size_words(size: int) -> str:
    if size % 1024 or not size:
        return f"{size} B"
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size >> 10} KiB"
