# SPDX-License-Identifier: MIT
"""What readers cost, how that grows with their number, and what their updaters wait: the two sides
of one choice.

A reader is a form of operation ``readers_pair``; its updater is the same form of operation
``readers_grace``.  One correction covers every comparison made here: each form with its own figure
for one reader, and reader and updater of each form with those of the default form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from linewright.analysis.comparison import Comparison
from linewright.analysis.summary import Summary, grouped
from linewright.forms import READERS, default_of, family_of
from linewright.schema import Cell, Estimate

SCALED = ("readers_pair", "readers_shape", "readers_floor", "readers_lookup")
"""Operations whose cost is compared with that of one reader alone."""


def concerns(cell: Cell) -> bool:
    """Whether a cell is one of readers or of their updaters."""
    return family_of(cell.operation) is READERS


def updater_of(cell: Cell) -> str:
    """How the updater of a cell waits; ``none`` where there is none."""
    return str(
        cell.params.get("updater", "synchronize" if cell.operation == "readers_grace" else "none")
    )


def readers_of(cell: Cell) -> int:
    """Threads that are readers: an updater is a thread too."""
    return cell.threads - (updater_of(cell) != "none")


def delay_of(of: Cell | Comparison) -> int:
    """Iterations of the work loop inside each section."""
    return int(of.situation.param("read_delay", 0))


def measured(summaries: Iterable[Summary]) -> list[Summary]:
    """Cells of this family that have a figure which may be used."""
    return [s for s in summaries if concerns(s.cell) and s.trusted]


class ReaderSide(Struct, frozen=True, kw_only=True):
    """A reader beside its updater: both costs in the same situation."""

    form: str
    updater: str
    read_delay: int
    readers: int
    pair: Summary | None
    """The reader without an updater."""
    disturbed: Summary | None
    """The reader while the updater runs without pause."""
    grace: Summary | None
    """The updater while the readers run without pause."""
    idle: Summary | None
    """The updater alone."""


def sides(summaries: Iterable[Summary]) -> list[ReaderSide]:
    """One row for each form, delay, number of readers and way of updating that has an updater's
    figure."""
    known: dict[tuple, Summary] = {}
    rows: dict[tuple, None] = {}
    for s in measured(summaries):
        where = s.machine_id, s.cell.form, updater_of(s.cell), readers_of(s.cell)
        known.setdefault((s.cell.operation, *where, delay_of(s.cell)), s)
        known.setdefault((s.cell.operation, *where), s)
        if updater_of(s.cell) != "none" and readers_of(s.cell) > 0:
            rows[*where, delay_of(s.cell)] = None
    return [
        ReaderSide(
            form=form,
            updater=updater,
            read_delay=delay,
            readers=readers,
            pair=known.get(("readers_pair", machine, form, "none", readers, delay)),
            disturbed=known.get(("readers_pair", machine, form, updater, readers, delay)),
            grace=known.get(("readers_grace", machine, form, updater, readers, delay)),
            idle=known.get(("readers_grace", machine, form, updater, 0)),
        )
        for machine, form, updater, readers, delay in rows
    ]


def _scaled(summaries: Iterable[Summary]) -> list[tuple[Summary, Summary]]:
    """Each form and delay with the most readers it was run with, and with one."""
    cells: dict[tuple, dict[int, Summary]] = {}
    for s in measured(summaries):
        if s.cell.operation in SCALED and updater_of(s.cell) == "none":
            where = delay_of(s.cell), s.cell.params.get("instances")
            key = s.machine_id, s.cell.operation, s.cell.form, *where
            cells.setdefault(key, {})[readers_of(s.cell)] = s
    return [(by[max(by)], by[1]) for by in cells.values() if 1 in by and max(by) > 1]


def _rivals(summaries: Iterable[Summary]) -> list[tuple[ReaderSide, ReaderSide]]:
    """Each form with both sides of the choice, and the default in the same situation."""
    complete = (side for side in sides(summaries) if side.pair and side.grace)
    answers = []
    for members in grouped(
        complete, lambda side: (side.pair.machine_id, side.read_delay, side.readers)
    ).values():
        name = default_of("readers_pair", [m.form for m in members])
        default = next(m for m in members if m.form == name)
        alike = (default.updater, "synchronize")
        answers += [(m, default) for m in members if m.form != name and m.updater in alike]
    return answers


def pairs(summaries: Sequence[Summary]) -> list[tuple[Summary, Summary]]:
    """What is compared: each form and delay with the most readers over one reader, without an
    updater; and in equal situations reader and updater of each form over those of the default."""
    rivals = _rivals(summaries)
    return _scaled(summaries) + [
        (getattr(a, side), getattr(b, side)) for a, b in rivals for side in ("pair", "grace")
    ]


def scaling(found: Iterable[Comparison]) -> list[Comparison]:
    """Of the comparisons of readers those with one reader alone."""
    return [c for c in found if c.first.form == c.second.form]


Trade = tuple[Comparison, Comparison]
"""Readers and updaters of a form and the default, of which each is shown to be better on one side:
of the two one is cheaper to enter, and its updater waits longer."""


def updater_of_trade(trade: Trade) -> str:
    """How the updater of the cheaper reader waits."""
    reader, update = trade
    side = update.first if reader.cheaper else update.second
    return str(side.situation.param("updater", "synchronize"))


def sections_per_update(trade: Trade) -> Estimate:
    """With more read-side critical sections than this between two updates the cheaper reader costs
    less in all; the interval is that of the two intervals' ends."""
    saved, waited = (c.size for c in trade)
    return Estimate(
        value=waited.median_ns / saved.median_ns,
        low=waited.low_ns / saved.high_ns,
        high=waited.high_ns / saved.low_ns,
    )


def trades(found: Iterable[Comparison]) -> list[Trade]:
    """Of the comparisons of readers and updaters with the default's those that go both ways."""
    rivals = [c for c in found if c.first.form != c.second.form]
    both = zip(rivals[::2], rivals[1::2], strict=True)
    return [t for t in both if {c.answer for c in t} == {"cheaper", "slower"}]


class ReaderAnswers(NamedTuple):
    """What is shown of a machine's readers without a delay, and of their updaters."""

    flat: dict[int, list[Comparison]]
    """By the number of readers the forms that cost each the same as alone."""
    grows: dict[int, list[Comparison]]
    """And those that cost more."""
    trades: list[Trade]
    """At the shortest delay, of updaters that wait the usual way, by form and by what pays
    soonest."""

    @property
    def counts(self) -> list[int]:
        """The numbers of readers of which something is shown."""
        return sorted({*self.flat, *self.grows})


def reader_answers(found: Sequence[Comparison]) -> ReaderAnswers:
    """What may be said of readers, from one family of comparisons."""
    rows = [c for c in scaling(found) if c.operation == "readers_pair" and not delay_of(c)]
    every = trades(found)
    usual = [t for t in every if updater_of_trade(t) == "synchronize"]
    shortest = min((delay_of(update) for _, update in usual), default=0)
    readers = lambda c: c.first.situation.threads
    return ReaderAnswers(
        flat=grouped((c for c in rows if c.answer == "same"), readers),
        grows=grouped((c for c in rows if c.slower), readers),
        trades=sorted(
            (t for t in usual if delay_of(t[1]) == shortest),
            key=lambda t: (t[0].cheapest.form, sections_per_update(t).value),
        ),
    )
