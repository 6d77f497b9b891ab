# SPDX-License-Identifier: MIT
"""The two tables of a machine in figures: the matrix, what each operation on one line costs alone,
with work and contended, and the best other form there; and the price list, what the remedies for
one shared atomic word cost, and how many times its price that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from linewright.analysis.comparison import Comparison, Side, compared, side_of
from linewright.analysis.contrast import Contrast
from linewright.analysis.control import (
    Floor,
    WorkLoop,
    contrast_of,
    noise_group_of,
    pool_components,
    pooled_interval,
)
from linewright.analysis.findings import plainest
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import COUNTER, PADDED, QUESTIONS, READERS, SHARED, defaults
from linewright.analysis.summary import Summary, figure_of, grouped
from linewright.forms import FLOORS, made_of
from linewright.schema import Cell, Situation

ROWS: tuple[tuple[str, str], ...] = (
    ("read", ""),
    ("add", ""),
    ("fetch_add", ""),
    ("xchg", ""),
    ("cmpxchg", "read_first"),
    ("cmpxchg", "guess_first"),
)
"""Operations, and the loop of their forms where one operation has two rows."""


class Entry(Struct, frozen=True, kw_only=True):
    """One cell of the matrix: an operation in one column."""

    default: Side | None
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
    scale: Literal["ratio", "ns"]
    same: float
    """Below this difference, a share or ns, two costs are called the same."""
    floor: Floor | None
    """What identical machine code differed by in this run; None where it is unknown."""
    loop: WorkLoop | None
    """Of work, how good a measure the loop without an operation is in this run."""
    unit_ns: float
    """How long one unit of work takes; 0 where it is unknown."""


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
    return MatrixColumn(
        key=key,
        situation=_column_of(cell),
        scale="ns" if exposed else "ratio",
        same=QUESTIONS["forms"].same.of(figure_of(example), key == "contended"),
        floor=m.floors.get(noise_group_of(cell)),
        loop=m.work_loop if cell.work_iters and cell.work == "chain" else None,
        unit_ns=m.context.unit_ns if m.context else 0.0,
    )


def _column_of(cell: Cell) -> Situation:
    return cell.situation.without("lines", "width_bits", "params", "placement", "work")


def _figure(s: Summary, beside: Sequence[Summary] = ()) -> Side:
    """A cell's figure: exposed where there is work around it, else its issue interval, no surer
    than the cells beside it allow."""
    side = side_of(s, figure_of(s))
    if figure_of(s) == "exposed":
        return replace(side, modes_ns=())
    known = s.issue is not None and s.issue.confidence > 0
    return replace(side, ns=pooled_interval(s, beside)) if known else side


def rows(m: MachineAnswers, columns: Sequence[MatrixColumn]) -> list[Row]:
    """The operations that were measured, each with its entry in every column."""
    answers, atomic = [], [s for s in m.one_line if s.cell.form not in FLOORS]
    for operation, loop in ROWS:
        named = (s for s in atomic if s.cell.operation == operation)
        own = [s for s in named if made_of(s.cell.form).loop == loop]
        if operation == "add" and not any(s.cell.form == "lock_add" for s in own):
            own += [s for s in atomic if s.cell.operation == "fetch_add"]
        if own:
            placed = grouped(own, lambda s: _column_of(s.cell))
            entries = {
                c.key: _entry(placed.get(c.situation, []), operation, loop, m) for c in columns
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
    default = defaults(usable).get(operation, usable[0])
    if loop == "guess_first":
        default = min(usable, key=lambda s: made_of(s.cell.form).prefetch != "")
    if figure_of(default) == "exposed" and default.exposed is None:
        return Entry(default=None, why="withheld" if default.withheld else "no_baseline_loop")
    return Entry(default=_figure(default, m.one_line), versus=_versus(default, operation, m))


def _versus(default: Summary, operation: str, m: MachineAnswers) -> Comparison | None:
    """The alternative that saves most, or that might."""
    own = [f for f in m.of_width if f.operation == operation and f.side.id == default.id]
    loop = made_of(default.cell.form).loop
    found = [row for f in own for row in f.rows if made_of(row.first.form).loop == loop]
    others = (c for c in m.select("operations") if c.second.id == default.id)
    found += [c for c in others if c.first.operation == c.second.operation]
    known = [c for c in found if c.contrast is not None]
    if not known:
        return found[0] if found else None
    cheaper = {c.first.form: c for c in known if c.cheaper}
    if cheaper:
        first = min(cheaper.values(), key=lambda c: c.contrast.value).first.form
        return cheaper[plainest(first, cheaper)]
    return min([c for c in known if not c.slower] or known, key=lambda c: c.contrast.low)


REFERENCE = "add"
"""What every other price is compared with: one shared atomic word."""
PRICES: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("count", "percpu_add", ("percpu_thread_local_add",), 4),
    ("count", "percpu_add", (COUNTER,), 1),
    ("count", "percpu_add", ("this_cpu_add",), 1),
    ("count", "percpu_add", ("preempt_this_cpu_add",), 3),
    ("count", "percpu_add", ("irq_this_cpu_add",), 3),
    ("count", "percpu_add", ("percpu_shared_lock_add",), 6),
    ("count", "percpu_add", ("percpu_shared_ldadd",), 6),
    ("count", "percpu_add", ("percpu_shared_llsc_add",), 7),
    ("count", "percpu_add", (SHARED,), 6),
    ("count", "percpu_add", PADDED[1:], 2),
    ("count", "percpu_add", PADDED[:1], 2),
    ("read", "readers_pair", ("rcu",), 1),
    ("read", "readers_pair", READERS[:1], 1),
    ("read", "readers_pair", ("srcu_fast_updown", "srcu_fast_updown_defined"), 7),
    ("read", "readers_pair", ("srcu_fast_updown_irqsave",), 7),
    ("read", "readers_pair", ("srcu",), 5),
    ("read", "readers_pair", ("srcu_nmisafe",), 9),
    ("read", "readers_pair", ("tasks_trace",), 8),
    ("read", "readers_pair", ("percpu_rwsem",), 7),
    ("read", "readers_pair", ("refcnt",), 8),
    ("read", "readers_pair", ("biased_rwlock",), 4),
    ("read", "readers_pair", READERS[1:], 2),
    ("read", "readers_pair", ("rwsem",), 8),
    ("lock", "readers_pair", ("mutex",), 3),
    ("lock", "readers_pair", ("spinlock",), 7),
    ("lock", "readers_pair", ("spinlock_irq",), 9),
    ("wait", "readers_grace", ("rcu",), 6),
    ("wait", "readers_grace", ("srcu_fast", "srcu"), 5),
    ("wait", "wait_hint", ("hint_pause",), 6),
    ("wait", "wait_hint", ("hint_isb",), 6),
    ("wait", "wait_woken", ("woken_pause",), 6),
    ("wait", "wait_woken", ("woken_isb",), 6),
    ("flush", "clean", ("clwb", "dc_cvac"), 3),
    ("flush", "clean_invalidate", ("clflushopt", "dc_civac"), 3),
)
"""Group, operation, the forms of which the first measured is shown, and the rank: where there is no
room for all, the highest ranks are left out first. Some forms are the kernel's alone."""
PARAMS: Mapping[str, Mapping[str, object]] = {
    "percpu_add": {"slots": 1},
    "readers_pair": {"read_delay": 0},
    "readers_grace": {"read_delay": 0, "updater": "synchronize"},
    "wait_hint": {},
    "wait_woken": {},
    "clean": {"entries": 1, "wait": "once", "state": "dirty_l1"},
    "clean_invalidate": {"entries": 1, "wait": "once", "state": "dirty_l1"},
}
"""Parameters that cells of the price list have; cells with others measure something else."""


class Price(Struct, frozen=True, kw_only=True):
    """One line of the price list: what a remedy costs."""

    group: str
    """What it is a way to do: ``count``, ``read``, ``lock``, ``wait``, ``flush``."""
    operation: str = ""
    form: str = ""
    """The first of its forms in `PRICES`, which names it."""
    alone: Side | None
    contended: Side | None
    """With a second CPU that does the same."""
    versus: Comparison | None
    """Over the locked add in the same situation: contended where both were measured so, else
    alone."""
    only_alone: bool = False
    """It is of the uncontended figures, although others of the list may be of the contended
    ones."""
    reference: bool = False
    """This is the locked add itself."""
    rank: int = 0
    """Where there is no room for all, the highest ranks are left out first."""

    @property
    def compared(self) -> bool:
        """Whether it has a ratio at all; a wait, which is no operation, has none."""
        return self.versus is not None

    @property
    def ratio(self) -> Contrast | None:
        """The ratio with its interval; None where there is none."""
        c = self.versus.shown if self.versus else None
        return c if c and c.over != "nothing" and 0 < c.low <= c.high < math.inf else None

    @property
    def few(self) -> bool:
        """Whether it rests on fewer launches than a claim needs."""
        return self.versus is not None and self.versus.few_launches


_Sides = Mapping[str, Summary | None]
"""The cells of a price, by ``alone`` and ``contended``."""


def prices(m: MachineAnswers) -> list[Price]:
    """The price of one atomic word, then those of the remedies that were measured."""
    usable = (s for s in m.summaries if s.has_figures and s.trusted and not s.cell.work_iters)
    plain = [s for s in usable if s.cell.contender_iters == 0 and s.cell.threads <= 2]
    adds = [s for s in plain if s.cell.operation in ("add", "fetch_add")]
    added = {key: defaults([s for s in adds if column_key(s) == key]).get("add") for key in _BOTH}
    priced = [
        (item, own)
        for item in PRICES
        if any((own := {key: _of(plain, item[1], item[2], key) for key in _BOTH}).values())
    ]
    if not priced:
        return []
    pairs = [_beside(group, own, added) for (group, *_), own in priced]
    ratios = _over_one_atomic([pair for pair in pairs if pair], m.select("operations"))
    answers = []
    if any(added.values()):
        answers.append(Price(group="count", operation=REFERENCE, reference=True,
                             versus=None, **_figures(added)))  # fmt: skip
    for ((group, operation, forms, rank), own), pair in zip(priced, pairs, strict=True):
        versus = ratios[pair[0].id, pair[1].id] if pair else None
        only_alone = pair is not None and pair[0] is own["alone"]
        answers.append(
            Price(
                group=group,
                operation=operation,
                form=forms[0],
                versus=versus,
                rank=rank,
                only_alone=only_alone,
                **_figures(own),
            )
        )
    return answers


def _over_one_atomic(
    pairs: Sequence[tuple[Summary, Summary]], known: Iterable[Comparison]
) -> dict[tuple[str, str], Comparison]:
    """Each price over that of the atomic add beside it, by both ids; nothing is claimed of it but
    its interval.

    A pair that a question compares has that comparison's interval, so that no figure stands
    twice in two values."""
    found = pool_components(
        [contrast_of(own, base, "issue") for own, base in pairs],
        [noise_group_of(own.cell) for own, _ in pairs],
    )
    shared, answers = {a.ids: a.shown for a in known}, {}
    for (own, base), pooled in zip(pairs, found, strict=True):
        c = shared.get((own.id, base.id), pooled)
        judgement = QUESTIONS["price"].judge(c, c and c.p)
        answers[own.id, base.id] = compared(judgement, "price", side_of(own), side_of(base))
    return answers


_BOTH = ("alone", "contended")


def _of(plain: Sequence[Summary], operation: str, forms: Sequence[str], key: str) -> Summary | None:
    wanted = PARAMS[operation].items()
    own = [s for s in plain if s.cell.operation == operation and column_key(s) == key]
    alike = [s for s in own if all(s.cell.params.get(name) == value for name, value in wanted)]
    return next((s for form in forms for s in alike if s.cell.form == form), None)


def _beside(group: str, own: _Sides, added: _Sides) -> tuple[Summary, Summary] | None:
    """A price and the atomic add in the same situation: contended where both were measured so,
    else alone.  A wait is no operation and has none."""
    if group == "wait":
        return None
    both = ((own[key], added[key]) for key in ("contended", "alone"))
    return next(((a, b) for a, b in both if a is not None and b is not None), None)


def _figures(own: _Sides) -> dict[str, Side | None]:
    return {key: _figure(s) if s else None for key, s in own.items()}
