# SPDX-License-Identifier: MIT
"""Every cell as one row: for programs flat, with units in the column names; for charts its names,
figures and marks, each made once; and its figures along every axis in which cells differ: what a
reader of the page may ask for in one chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from linewright.analysis import reader_cost
from linewright.analysis.questions import ORDERS
from linewright.analysis.summary import Summary, grouped
from linewright.forms import BASELINE_LOOPS, FAMILIES, family_of
from linewright.numbers import cpu_text
from linewright.say.document import Axis, Explorer, unique
from linewright.say.phrases import DISTANCES, doubt_mark, modes_text
from linewright.say.words import in_english
from linewright.schema import Cell, Interval, Quantiles

_CELL = ("operation", "form", "width_bits", "order", "contender", "contender_iters", "work_iters")
_CELL += ("placement",)
_COSTS = ("issue", "exposed", "completion")
_ENDS_NS = ("median_ns", "low_ns", "high_ns")
_PERCENTILES = ("p50_ns", "p95_ns", "p99_ns", "max_ns")
_RATES = ("total_mops", "fairness", "lines_spread")


def of_cells(summaries: Iterable[Summary]) -> list[dict[str, object]]:
    """One row per cell and machine; an absent figure is None."""
    return [_row(s) for s in summaries]


def _row(s: Summary) -> dict[str, object]:
    cell, known = s.cell, s.has_figures
    figures = (
        *((name, getattr(s, name) if known else None, _ENDS_NS) for name in _COSTS),
        ("batch", s.batch, _PERCENTILES),
        ("small_batch", s.small, _PERCENTILES),
    )
    return {
        "machine_id": s.machine_id,
        "id": s.id,
        **{name: getattr(cell, name) for name in _CELL},
        "placement_class": s.placement_class,
        "lines": cell.lines,
        "threads": cell.threads,
        "params": " ".join(f"{key}={cell.params[key]}" for key in sorted(cell.params)),
        **{name: getattr(s, name) for name in ("status", "reason", "launches")},
        "clusters": s.clusters or None,
        "launch_span_s": s.launch_span_s,
        "promise": s.promise,
        **{
            f"{name}_{part}": _part(found, part) for name, found, parts in figures for part in parts
        },
        **{name: getattr(s, name) if known else None for name in _RATES},
        "windows": s.windows,
        "discarded_windows": s.discarded,
        "stop": s.stop,
        "cpus": cpu_text(s.cpus),
        "modes_ns": " ".join(f"{mode.median_ns:.6g}:{mode.share:.6g}" for mode in s.modes),
        "thread_ns": " ".join(f"{ns:.6g}" for ns in s.thread_ns),
        "thread_ticks": " ".join(f"{ticks:.6g}" for ticks in s.thread_ticks),
        "metrics": " ".join(f"{name}={value:.6g}" for name, value in s.metrics.items()),
        "flags": " ".join(s.flags),
    }


def _part(found: Interval | Quantiles | None, part: str) -> float | None:
    """A figure's median, or an end of its interval where it has one, or a percentile."""
    end = part in ("low_ns", "high_ns") and found is not None and not found.confidence > 0
    return None if found is None or end else getattr(found, part)


DrawnCell = tuple[Cell, dict[str, Any]]
"""A cell, and what charts draw of it by name: words, figures and marks."""
LARGEST = 1e300
"""Twice or ten times as much is still a number."""


def cell_figures(summaries: Iterable[Summary]) -> list[DrawnCell]:
    """Every cell that has figures; JSON values only."""
    return [(s.cell, _drawn(s)) for s in summaries if s.has_figures]


def _drawn(s: Summary) -> dict[str, Any]:
    cell = s.cell
    return {
        "operation": cell.operation,
        "form": cell.form,
        "order_place": ORDERS.index(cell.order) if cell.order in ORDERS else len(ORDERS),
        "contention": cell.situation.sharers,
        "work": cell.work_iters,
        "apart": s.placement_class,
        "cpus": s.cpus,
        "status": s.status,
        **interval("ns", s.issue),
        **interval("exposed", s.exposed),
        "p99": rounded(s.batch.p99_ns if s.batch else None),
        "rate": rounded(s.total_mops) if s.total_mops > 0 else None,
        "jain": rounded(s.fairness) if s.equal_loops else None,
        "mark": doubt_mark(s),
        "remark": _remark(s),
        "launches": s.launches,
    } | ({name: of(cell) for name, of in _READERS.items()} if reader_cost.concerns(cell) else {})


_READERS = {
    "readers": reader_cost.readers_of,
    "updater": reader_cost.updater_of,
    "delay": reader_cost.delay_of,
}
"""Of a cell with readers how many there are, who updates, and how long they stay."""


def rounded(value: float | None) -> float | None:
    """Five significant digits, and nothing for what is no number (JSON knows no NaN) or too large
    to reckon with."""
    return None if value is None or not abs(value) < LARGEST else float(f"{value:.5g}")


def interval(name: str, value: Interval | None) -> dict[str, float | None]:
    """``NAME``, ``NAME_low`` and ``NAME_high``; bounds of no confidence are left out."""
    low, high = (value.low_ns, value.high_ns) if value and value.confidence > 0 else (None, None)
    middle = value.median_ns if value else None
    return {f"{name}{end}": rounded(ns) for end, ns in zip(ENDS, (middle, low, high), strict=True)}


def per_part(row: dict[str, Any], parts: float) -> dict[str, float | None]:
    """The time of a drawn cell and the ends of its interval, for one of `parts` equal parts."""
    times = {name: row[name] for name in (f"ns{end}" for end in ENDS)}
    return {name: None if ns is None else rounded(ns / parts) for name, ns in times.items()}


ENDS = ("", "_low", "_high")
"""What stands behind a figure's name: of its middle, and of the ends of its interval."""


def _remark(s: Summary) -> str:
    """What a tooltip adds: groups of launches, status, flags."""
    said = [f"metastable: {modes_text(s.modes)}"] if s.metastable else []
    said += [f"{s.status}: {s.reason}"] if s.status != "ok" else []
    return "; ".join(said + [in_english(flag) for flag in s.flags if flag != "metastable"])


# ---- any figure along any axis ------------------------------------------------------------------

FIGURES = (
    Axis(name="ns", title="time with its work, ns per operation", log=True, interval=True),
    Axis(name="exposed", title="exposed cost, ns per operation", interval=True),
    Axis(name="p99", title="99th percentile of batch means, ns", log=True),
    Axis(name="rate", title="all threads together, operations per µs", log=True),
    Axis(name="jain", title="fairness: Jain's index of the threads' rates"),
)
"""What may be asked for, each a field of a cell's figures."""
AXES = {
    "who": "who uses the word",
    "work": "units of work between operations",
    "threads": "threads",
    "spacing": "contender spacing, iterations",
    "distance": "how far the CPUs are apart",
    "width": "bits of the operand",
    "order": "memory order",
    "write_percent": "% of writes",
    "entry_bytes": "bytes of an entry",
}
"""What cells differ in, as an axis; a parameter's own name stands for others."""
_SHARERS = ("contender", "contender_iters", "threads", "placement")
_OWN = {
    "who": _SHARERS,
    "threads": _SHARERS,
    "spacing": ("contender_iters",),
    "distance": ("placement",),
    "work": ("work", "work_iters"),
}
"""By axis the fields of a situation that it stands for."""
WELL_APART = 8
"""As many of the page's colours do; the others only where an operation has more forms."""
AxisPlace = tuple[Any, str]
"""Where a cell stands on an axis: what sorts it, and its words."""


def colour_places(cells: Iterable[DrawnCell]) -> dict[str, int]:
    """Which colour each form has, by number: the same wherever it is drawn, another than those of
    the forms that one chart may show beside it, which are those of its operation, and of those that
    remain the one that fewest forms have."""
    places: dict[str, int] = {}
    for own in grouped(cells, lambda drawn: drawn[0].operation).values():
        forms = unique(cell.form for cell, _ in own)
        for form in forms:
            if form not in places:
                taken = {places[other] for other in forms if other in places}
                free = [n for n in range(max(WELL_APART, len(forms))) if n not in taken]
                uses = Counter(places.values())
                places[form] = min(free, key=lambda n: (uses[n], n))
    return places


def explorer(cells: Iterable[DrawnCell]) -> Explorer | None:
    """The cells with their places on each axis; None without any. Of cells that no axis tells apart
    the first counts."""
    asked = [drawn for drawn in cells if drawn[0].operation not in BASELINE_LOOPS]
    by_operation = grouped(asked, lambda drawn: drawn[0].operation)
    # In the order in which families are spoken of.
    operations = sorted(by_operation, key=lambda name: FAMILIES.index(family_of(name)))
    ranks: dict[str, dict[str, Any]] = {}
    rows = [row for operation in operations for row in _points(by_operation[operation], ranks)]
    if not rows:
        return None
    return Explorer(
        figures=[f for f in FIGURES if any(row[f.name] is not None for row in rows)],
        axes=[
            Axis(
                name=axis,
                title=AXES.get(axis, in_english(axis)),
                places=sorted(ranks[axis], key=ranks[axis].__getitem__),
            )
            for axis in [*AXES, *sorted(ranks.keys() - AXES.keys())]
            if axis in ranks
        ],
        operations=[(o, in_english(o), family_of(o).title) for o in operations],
        rows=rows,
    )


def _points(
    cells: Sequence[DrawnCell], ranks: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Of one operation's cells what is drawn, and on each axis the place with what is held; `ranks`
    gets what sorts the places of each axis."""
    varied = _varied([cell for cell, _ in cells])
    taken: set[tuple[str, ...]] = set()
    for cell, row in cells:
        at = {}
        for axis, (rank, words) in _places(cell, row).items():
            held = _held(cell, axis, varied)
            key = (row["series"], cell.form, axis, words, held)
            if key not in taken:
                taken.add(key)
                at[axis] = (words, held)
                ranks.setdefault(axis, {}).setdefault(words, rank)
        yield {name: row[name] for name in _DRAWN} | {"at": at}


_ENDS = [f"{f.name}{end}" for f in FIGURES if f.interval for end in ("_low", "_high")]
_SAID = ("series", "operation", "form", "mark", "remark", "launches")
_DRAWN = (*_SAID, *(f.name for f in FIGURES), *_ENDS)


def _varied(cells: Sequence[Cell]) -> set[str]:
    """Axes whose places differ among an operation's cells and are named in what is held: orders
    where a form has several."""
    params = {key for cell in cells for key in cell.params}
    varied = {key for key in params if len({cell.params.get(key) for cell in cells}) > 1}
    varied |= {"width"} if len({cell.width_bits for cell in cells}) > 1 else set()
    orders = {(cell.form, cell.order) for cell in cells}
    return varied | ({"order"} if len(orders) > len({form for form, _ in orders}) else set())


def _places(cell: Cell, row: dict[str, Any]) -> dict[str, AxisPlace]:
    of = cell.situation
    places: dict[str, AxisPlace] = {
        "who": (of.rank, of.sharers),
        "work": (cell.work_iters, str(cell.work_iters)),
        "width": (cell.width_bits, str(cell.width_bits)),
        "order": (row["order_place"], in_english(cell.order)),
    }
    if of.contender != "placebo" and not of.contender_iters:
        places["threads"] = (cell.threads, str(cell.threads))
    if of.contended:
        places["spacing"] = (of.contender_iters, str(of.contender_iters))
        if row["apart"] in DISTANCES:
            rank = list(DISTANCES).index(row["apart"])
            places["distance"] = (rank, DISTANCES[row["apart"]])
    for name, value in cell.params.items():
        number = value if isinstance(value, int) else -1
        places[name] = ((number, str(value)), str(value))
    return places


def _held(cell: Cell, axis: str, varied: set[str]) -> str:
    """What is the same along an axis, in words: all that tells a cell but its form."""
    of = cell.situation.without(*_OWN.get(axis, ()))
    parts = [] if axis in ("who", "threads") else [of.sharers]
    parts += [] if axis == "work" else [of.around]
    parts += [f"{cell.width_bits} bit"] if "width" in varied - {axis} else []
    parts += [in_english(cell.order)] if "order" in varied - {axis} else []
    told = (key for key in sorted(cell.params) if key in varied - {axis})
    return ", ".join([*parts, *(f"{in_english(key)} {cell.params[key]}" for key in told)])
