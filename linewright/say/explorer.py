# SPDX-License-Identifier: MIT
"""Every figure of every cell along every axis in which cells differ: what a reader of the page may
ask for in one chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linewright.forms import BASELINES, FAMILIES, family_of
from linewright.say.cell_rows import DrawnCell
from linewright.say.document import Axis, Explorer, unique
from linewright.say.phrases import DISTANCES
from linewright.say.report_words import AXES
from linewright.say.words import in_english
from linewright.schema import Cell

FIGURES = (
    Axis(name="ns", title="time with its work, ns per operation", log=True, interval=True),
    Axis(name="exposed", title="exposed cost, ns per operation", interval=True),
    Axis(name="p99", title="99th percentile of batch means, ns", log=True),
    Axis(name="rate", title="all threads together, operations per µs", log=True),
    Axis(name="jain", title="fairness: Jain's index of the threads' rates"),
)
"""What may be asked for, each a field of a cell's figures."""
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
    by_operation: dict[str, list[str]] = {}
    for cell, _ in cells:
        by_operation.setdefault(cell.operation, []).append(cell.form)
    places: dict[str, int] = {}
    for forms in map(unique, by_operation.values()):
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
    by_operation: dict[str, list[DrawnCell]] = {}
    for cell, row in cells:
        if cell.operation not in BASELINES:
            by_operation.setdefault(cell.operation, []).append((cell, row))
    # In the order in which families are spoken of.
    place = lambda operation: FAMILIES.index(family_of(operation))
    by_operation = {name: by_operation[name] for name in sorted(by_operation, key=place)}
    points = [p for own in by_operation.values() for p in _points(own)]
    if not points:
        return None
    ranks: dict[str, dict[str, Any]] = {}
    for _, places in points:
        for axis, ((rank, words), _) in places.items():
            ranks.setdefault(axis, {}).setdefault(words, rank)
    order = [*AXES, *sorted(ranks.keys() - AXES.keys())]
    return Explorer(
        figures=[f for f in FIGURES if any(row[f.name] is not None for row, _ in points)],
        axes=[
            Axis(
                name=axis,
                title=AXES.get(axis, in_english(axis)),
                places=sorted(ranks[axis], key=ranks[axis].__getitem__),
            )
            for axis in order
            if axis in ranks
        ],
        operations=[(o, in_english(o), family_of(o).title) for o in by_operation],
        rows=[
            row | {"at": {a: (w, held) for a, ((_, w), held) in at.items()}} for row, at in points
        ],
    )


def _points(
    cells: Sequence[DrawnCell],
) -> list[tuple[dict[str, Any], dict[str, tuple[AxisPlace, str]]]]:
    """Of one operation's cells what is drawn, and on each axis the place with what is held."""
    varied = _varied([cell for cell, _ in cells])
    taken: set[tuple[str, ...]] = set()
    points = []
    for cell, row in cells:
        at = {}
        for axis, place in _places(cell, row).items():
            held = _held(cell, axis, varied)
            key = (row["series"], cell.form, axis, place[1], held)
            if key not in taken:
                taken.add(key)
                at[axis] = (place, held)
        points.append(({name: row[name] for name in _DRAWN}, at))
    return points


_ENDS = [f"{f.name}{end}" for f in FIGURES if f.interval for end in ("_low", "_high")]
_SAID = ("series", "operation", "form", "mark", "remark", "launches")
_DRAWN = (*_SAID, *(f.name for f in FIGURES), *_ENDS)


def _varied(cells: Sequence[Cell]) -> set[str]:
    """Axes whose places differ among an operation's cells and are named in what is held."""
    params = {key for cell in cells for key in cell.params}
    seen = {key: {cell.params.get(key) for cell in cells} for key in params}
    seen["width"] = {cell.width_bits for cell in cells}
    seen["order"] = set() if _one_each(cells) else {cell.order for cell in cells}
    return {name for name, values in seen.items() if len(values) > 1}


def _one_each(cells: Sequence[Cell]) -> bool:
    """Whether each form has one order."""
    orders: Mapping[str, str] = {cell.form: cell.order for cell in cells}
    return all(orders[cell.form] == cell.order for cell in cells)


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
