"""What readers cost, how that grows with their number, and what their updaters wait: the two sides
of one choice.

A reader is a form of operation ``readers_pair``; its updater is the same form of operation
``readers_grace``.  One correction covers every comparison made here: each form with its own figure
for one reader, and reader and updater of each form with those of the default form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from linewright.analysis.contrast import difference_ns
from linewright.analysis.findings import compare_pairs
from linewright.analysis.hypothesis_tests import Judgement
from linewright.analysis.summary import Summary, grouped
from linewright.families import READERS, default_of, family_of
from linewright.schema import Cell, Estimate, Interval

SCALED = ("readers_pair", "readers_shape", "readers_floor", "readers_lookup")
"""Operations whose cost is compared with that of one reader alone."""
FLAT = 0.10
"""A reader whose cost with all readers is shown to be within this share of that of one alone
scales."""


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


def delay_of(cell: Cell) -> int:
    """Iterations of the work loop inside each section."""
    return int(cell.params.get("read_delay", 0))


def measured(summaries: Iterable[Summary]) -> list[Summary]:
    """Cells of this family that have a figure which may be used."""
    return [s for s in summaries if concerns(s.cell) and s.usable]


class Scaling(Struct, frozen=True, kw_only=True):
    """One form with the most readers it was run with against one reader alone."""

    form: str
    operation: str
    read_delay: int
    readers: int
    alone_ns: float
    together_ns: float
    ratio: Estimate | None
    """Each thread's cost together over that alone."""
    judgement: Judgement
    ids: tuple[str, str]
    """Of both cells, that of one reader first."""

    @property
    def flat(self) -> bool:
        """Shown to cost the same, within `FLAT`."""
        return self.judgement.answer == "same"

    @property
    def grows(self) -> bool:
        """Shown to cost more."""
        return self.judgement.slower


class Side(Struct, frozen=True, kw_only=True):
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


def sides(summaries: Iterable[Summary]) -> list[Side]:
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
        Side(
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


class Trade(Struct, frozen=True, kw_only=True):
    """A reader that is cheaper to enter than another, and an updater that waits longer for it."""

    cheap_reader: str
    cheap_update: str
    updater: str
    """How the updater of `cheap_reader` waits."""
    read_delay: int
    readers: int
    saved_ns: Interval
    """Per read-side critical section, by `cheap_reader`."""
    waited_ns: Interval
    """Per update, more than `cheap_update`."""
    sections_per_update: Estimate
    """With more read-side critical sections than this between two updates `cheap_reader` costs less
    in all; the interval is that of the two intervals' ends."""
    ids: tuple[str, ...]
    """Of the reader and the updater of each of the two."""


def _scaled(summaries: Iterable[Summary]) -> list[tuple[Summary, Summary]]:
    """Each form and delay with the most readers it was run with, and with one."""
    cells: dict[tuple, dict[int, Summary]] = {}
    for s in measured(summaries):
        if s.cell.operation in SCALED and updater_of(s.cell) == "none":
            where = delay_of(s.cell), s.cell.params.get("instances")
            key = s.machine_id, s.cell.operation, s.cell.form, *where
            cells.setdefault(key, {})[readers_of(s.cell)] = s
    return [(by[max(by)], by[1]) for by in cells.values() if 1 in by and max(by) > 1]


def _rivals(summaries: Iterable[Summary]) -> list[tuple[Side, Side]]:
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


def both_sides(summaries: Sequence[Summary]) -> tuple[list[Scaling], list[Trade]]:
    """How every form and delay scales that was run by one reader and by several, without an
    updater; and a form and the default of which each is shown to be better on one side, in equal
    situations. One correction covers both."""
    scaled, rivals = _scaled(summaries), _rivals(summaries)
    pairs = [(getattr(a, side), getattr(b, side)) for a, b in rivals for side in ("pair", "grace")]
    answers = iter(compare_pairs([*scaled, *pairs], "readers", lambda _: FLAT))
    scalings = [_scaling(most, alone, next(answers)) for most, alone in scaled]
    trades = [_trade(form, default, next(answers), next(answers)) for form, default in rivals]
    return scalings, [trade for trade in trades if trade]


class ReaderAnswers(NamedTuple):
    """What is shown of a machine's readers without a delay, and of their updaters."""

    flat: dict[int, list[Scaling]]
    """By the number of readers the forms that cost each the same as alone."""
    grows: dict[int, list[Scaling]]
    """And those that cost more."""
    trades: list[Trade]
    """At the shortest delay, of updaters that wait the usual way, by form and by what pays
    soonest."""

    @property
    def counts(self) -> list[int]:
        """The numbers of readers of which something is shown."""
        return sorted({*self.flat, *self.grows})


def reader_answers(summaries: Sequence[Summary]) -> ReaderAnswers:
    """What may be said of readers, from one family of comparisons."""
    every, trades = both_sides(summaries)
    rows = [r for r in every if r.operation == "readers_pair" and r.read_delay == 0]
    usual = [t for t in trades if t.updater == "synchronize"]
    shortest = min((t.read_delay for t in usual), default=0)
    return ReaderAnswers(
        flat=grouped((r for r in rows if r.flat), lambda r: r.readers),
        grows=grouped((r for r in rows if r.grows), lambda r: r.readers),
        trades=sorted(
            (t for t in usual if t.read_delay == shortest),
            key=lambda t: (t.cheap_reader, t.sections_per_update.value),
        ),
    )


def scaling(summaries: Sequence[Summary]) -> list[Scaling]:
    """The first part of `both_sides`."""
    return both_sides(summaries)[0]


def _scaling(most: Summary, alone: Summary, judgement: Judgement) -> Scaling:
    c = judgement.contrast
    return Scaling(
        form=most.cell.form,
        operation=most.cell.operation,
        read_delay=delay_of(most.cell),
        readers=readers_of(most.cell),
        alone_ns=alone.issue.median_ns,
        together_ns=most.issue.median_ns,
        ratio=Estimate(value=c.value, low=c.low, high=c.high) if c else None,
        judgement=judgement,
        ids=(alone.id, most.id),
    )


def _trade(form: Side, default: Side, reader: Judgement, update: Judgement) -> Trade | None:
    """What one of two forms saves its readers and costs its updaters; None where neither form is
    shown to be better on one side and worse on the other."""
    if not ((reader.cheaper and update.slower) or (reader.slower and update.cheaper)):
        return None
    saved = _negative(difference_ns(reader.contrast, default.pair.issue.median_ns))
    waited = difference_ns(update.contrast, default.grace.issue.median_ns)
    if reader.slower:
        form, default, saved, waited = default, form, _negative(saved), _negative(waited)
    return Trade(
        cheap_reader=form.form,
        cheap_update=default.form,
        updater=form.updater,
        read_delay=form.read_delay,
        readers=form.readers,
        saved_ns=saved,
        waited_ns=waited,
        sections_per_update=Estimate(
            value=waited.median_ns / saved.median_ns,
            low=waited.low_ns / saved.high_ns,
            high=waited.high_ns / saved.low_ns,
        ),
        ids=tuple(s.id for side in (form, default) for s in (side.pair, side.grace)),
    )


def _negative(interval: Interval) -> Interval:
    return msgspec.structs.replace(
        interval, median_ns=-interval.median_ns, low_ns=-interval.high_ns, high_ns=-interval.low_ns
    )
