# SPDX-License-Identifier: MIT
"""The matrix of a machine: what each operation on one line costs alone, with work and contended,
and the best other form there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from linewright.analysis.comparison import Comparison
from linewright.analysis.control import noise_group_of, pooled_interval
from linewright.analysis.findings import plainest
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import QUESTIONS, defaults
from linewright.analysis.summary import Summary, figure_of
from linewright.forms import made_of
from linewright.schema import Cell, Interval, Situation

ROWS: tuple[tuple[str, str], ...] = (
    ("read", ""),
    ("add", ""),
    ("fetch_add", ""),
    ("xchg", ""),
    ("cmpxchg", "read_first"),
    ("cmpxchg", "guess_first"),
)
"""Operations, and the loop of their forms where one operation has two rows."""


class Figure(Struct, frozen=True, kw_only=True):
    """One measured cost in ns per operation, with its interval."""

    ns: Interval
    id: str
    """The cell's canonical id, for ``show --why``."""
    form: str
    metastable: bool = False
    """The launches fall into modes: one number does not describe the cell."""
    modes_ns: tuple[float, ...] = ()
    """The modes' medians, of a metastable cell."""
    reliable: bool = True
    """False where too many windows were disturbed."""


class Entry(Struct, frozen=True, kw_only=True):
    """One cell of the matrix: an operation in one column."""

    default: Figure | None
    """The form that a compiler emits, which the others are compared with; None where it has no
    figure."""
    versus: Comparison | None = None
    """The cheapest form that is shown to cost less; where none is, the one that might save most;
    None without any."""
    why: str = ""
    """Why there is no figure: a status, a flag, ``not_measured``, ``withheld``,
    ``no_baseline_loop``."""


class MatrixColumn(Struct, frozen=True, kw_only=True):
    """One column of the matrix: where the operation is performed, and what may be said there."""

    key: Literal["alone", "work", "contended"]
    situation: Situation
    """Of all its cells, but for lines, width and parameters."""
    placement: str = ""
    """Topology class of the second CPU, such as ``same_l3``."""
    scale: Literal["ratio", "ns"]
    same: float
    """Below this difference, a share or ns, two costs are called the same."""
    floor: float = 0.0
    """What identical machine code differed by in this run; 0 where it is unknown."""
    pairs: int = 0
    """Pairs of forms with identical machine code that the floor rests on."""
    unit_ns: float = 0.0
    """How long one unit of work takes; 0 where it is unknown."""
    bent: float | None = None
    """Of work, how far the loop without an operation is from proportional to it in this run, as a
    share."""
    spread: float | None = None
    """And how far its windows are apart, from the 10th to the 90th percentile, as a share."""


class Row(Struct, frozen=True, kw_only=True):
    """One operation of the matrix."""

    operation: str
    loop: str
    """Of its forms, where one operation has two rows."""
    entries: dict[str, Entry]
    """By the key of the column."""


def column_key(s: Summary) -> str:
    """The column that a cell belongs to; empty for none."""
    if s.cell.contender == "same_line":
        return "" if s.cell.work_iters else "contended"
    return "" if s.cell.contender != "none" else "work" if s.cell.work_iters else "alone"


def columns_of(m: MachineAnswers) -> list[MatrixColumn]:
    """The three columns, each at the least work or spacing at which the add was measured that
    stands in the first: a published table has other forms at other points."""
    keyed = {key: [s for s in m.one_line if column_key(s) == key] for key in _KEYS}
    plain = defaults([s for s in keyed["alone"] if s.has_figures]).get("add")
    chosen = {
        key: [s for s in own if plain and s.cell.form == plain.cell.form] or own
        for key, own in keyed.items()
    }
    return [_column(key, own, m) for key, own in chosen.items() if own]


_KEYS = ("alone", "work", "contended")


def _column(key: str, own: Sequence[Summary], m: MachineAnswers) -> MatrixColumn:
    example = min(own, key=lambda s: (s.cell.threads, s.cell.work_iters, s.cell.contender_iters))
    exposed, cell = figure_of(example) == "exposed", example.cell
    floor = m.floors.get(noise_group_of(cell))
    loop = m.work_loop if cell.work_iters and cell.work == "chain" else None
    return MatrixColumn(
        key=key,
        situation=_column_of(cell),
        placement=example.placement_class,
        scale="ns" if exposed else "ratio",
        same=QUESTIONS["forms"].same.of(figure_of(example), key == "contended"),
        floor=floor.size if floor else 0.0,
        pairs=floor.pairs if floor else 0,
        unit_ns=m.context.unit_ns if m.context else 0.0,
        bent=loop.nonlinearity if loop else None,
        spread=loop.spread if loop else None,
    )


def _column_of(cell: Cell) -> Situation:
    return cell.situation.without("lines", "width_bits", "params", "placement", "work")


def figure(s: Summary, beside: Sequence[Summary] = ()) -> Figure:
    """A cell's figure: exposed where there is work around it, else its issue interval, no surer
    than the cells beside it allow."""
    exposed = figure_of(s) == "exposed"
    ns = s.exposed if exposed else s.issue
    if not exposed and s.issue and s.issue.confidence > 0:
        ns = pooled_interval(s, beside)
    modes = tuple(mode.median_ns for mode in s.modes) if s.metastable and not exposed else ()
    return Figure(
        ns=ns,
        id=s.id,
        form=s.cell.form,
        metastable=s.metastable,
        modes_ns=modes,
        reliable=s.status == "ok",
    )


def rows(m: MachineAnswers, columns: Sequence[MatrixColumn]) -> list[Row]:
    """The operations that were measured, each with its entry in every column."""
    answers = []
    for operation, loop in ROWS:
        own = [
            s
            for s in m.one_line
            if s.cell.operation == operation and made_of(s.cell.form).loop == loop
        ]
        if operation == "add" and not any(s.cell.form == "lock_add" for s in own):
            own += [s for s in m.one_line if s.cell.operation == "fetch_add"]
        if own:
            entries = {
                c.key: _entry(
                    [s for s in own if _column_of(s.cell) == c.situation], operation, loop, m
                )
                for c in columns
            }
            answers.append(Row(operation=operation, loop=loop, entries=entries))
    return answers


def _entry(own: Sequence[Summary], operation: str, loop: str, m: MachineAnswers) -> Entry:
    measured = [s for s in own if s.has_figures]
    if not measured:
        return Entry(default=None, why=own[0].status if own else "not_measured")
    usable = [s for s in measured if not s.distrust]
    if not usable:
        return Entry(default=None, why=measured[0].distrust)
    default = _default(usable, operation, loop)
    if figure_of(default) == "exposed" and default.exposed is None:
        return Entry(default=None, why="withheld" if default.withheld else "no_baseline_loop")
    return Entry(default=figure(default, m.one_line), versus=_versus(default, operation, m))


def _default(usable: Sequence[Summary], operation: str, loop: str) -> Summary:
    if loop == "guess_first":
        return min(usable, key=lambda s: made_of(s.cell.form).prefetch != "")
    return defaults(usable).get(operation, usable[0])


def _versus(default: Summary, operation: str, m: MachineAnswers) -> Comparison | None:
    """The alternative that saves most, or that might."""
    found = [
        row
        for f in m.of_width
        if f.operation == operation and f.default_id == default.id
        for row in f.rows
        if made_of(row.first.form).loop == made_of(default.cell.form).loop
    ] + [
        a
        for a in m.select("operations")
        if a.second.id == default.id and a.first.operation == a.second.operation
    ]
    known = [c for c in found if c.contrast is not None]
    if not known:
        return found[0] if found else None
    cheaper = {c.first.form: c for c in known if c.cheaper}
    if cheaper:
        first = min(cheaper.values(), key=lambda c: c.contrast.value).first.form
        return cheaper[plainest(first, cheaper)]
    return min([c for c in known if not c.slower] or known, key=lambda c: c.contrast.low)
