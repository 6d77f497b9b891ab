"""What readers cost, how that grows with their number, and what their updaters wait: the two sides of one choice.

A reader is a form of operation ``readers_pair``; its updater is the same form of operation ``readers_grace``.  One
correction covers every comparison made here: each form with its own figure for one reader, and reader and updater of
each form with those of the default form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from linewright.analysis.contrast import Judged, difference_ns
from linewright.analysis.findings import asked
from linewright.analysis.saying import Clause, Sentence, join, number
from linewright.analysis.summary import Summary, grouped
from linewright.families import READERS, default_of, family_of
from linewright.schema import Cell, Estimate, Interval

SCALED = ("readers_pair", "readers_shape", "readers_floor", "readers_lookup")
"""Operations whose cost is compared with that of one reader alone."""
FLAT = 0.10
"""A reader whose cost with all readers is shown to be within this share of that of one alone scales."""


def concerns(cell: Cell) -> bool:
    """Whether a cell is one of readers or of their updaters."""
    return family_of(cell.operation) is READERS


def updater_of(cell: Cell) -> str:
    """How the updater of a cell waits; ``none`` where there is none."""
    return str(cell.params.get("updater", "synchronize" if cell.operation == "readers_grace" else "none"))


def readers_of(cell: Cell) -> int:
    """Threads that are readers: an updater is a thread too."""
    return cell.threads - (updater_of(cell) != "none")


def delay_of(cell: Cell) -> int:
    """Iterations of the work loop inside each section."""
    return int(cell.params.get("read_delay", 0))


def measured(summaries: Iterable[Summary]) -> list[Summary]:
    """Cells of this family that have a figure which may be used."""
    return [s for s in summaries if concerns(s.cell) and s.status == "ok" and s.issue is not None and not s.emulated]


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
    judged: Judged

    @property
    def flat(self) -> bool:
        """Shown to cost the same, within `FLAT`."""
        return self.judged.answer == "same"

    @property
    def grows(self) -> bool:
        """Shown to cost more."""
        return self.judged.slower


class Side(Struct, frozen=True, kw_only=True):
    """A reader beside its updater: both costs under the same conditions."""

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
    """One row for each form, delay, number of readers and way of updating that has an updater's figure."""
    usable = measured(summaries)

    def find(machine: str, operation: str, form: str, updater: str, readers: int, delay: int | None) -> Summary | None:
        fits = (
            s
            for s in usable
            if s.machine_id == machine
            and (s.cell.operation, s.cell.form) == (operation, form)
            and updater_of(s.cell) == updater
            and readers_of(s.cell) == readers
            and delay in (None, delay_of(s.cell))
        )
        return next(fits, None)

    rows: dict[tuple, None] = {}
    for s in usable:
        if updater_of(s.cell) != "none" and readers_of(s.cell) > 0:
            rows[(s.machine_id, s.cell.form, updater_of(s.cell), delay_of(s.cell), readers_of(s.cell))] = None
    return [
        Side(
            form=form, updater=updater, read_delay=delay, readers=readers,
            pair=find(machine, "readers_pair", form, "none", readers, delay),
            disturbed=find(machine, "readers_pair", form, updater, readers, delay),
            grace=find(machine, "readers_grace", form, updater, readers, delay),
            idle=find(machine, "readers_grace", form, updater, 0, None),
        )
        for machine, form, updater, delay, readers in rows
    ]  # fmt: skip


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
    """With more read-side critical sections than this between two updates `cheap_reader` costs less in all; the
    interval is that of the two intervals' ends."""


class _Rival(NamedTuple):
    """A form beside the default, both sides of the choice."""

    form: Side
    default: Side
    reader: Judged
    update: Judged


def _scaled(summaries: Iterable[Summary]) -> list[tuple[Summary, Summary]]:
    """Each form and delay with the most readers it was run with, and with one."""
    cells: dict[tuple, dict[int, Summary]] = {}
    for s in measured(summaries):
        if s.cell.operation in SCALED and updater_of(s.cell) == "none":
            key = (s.machine_id, s.cell.operation, s.cell.form, delay_of(s.cell), s.cell.params.get("instances"))
            cells.setdefault(key, {})[readers_of(s.cell)] = s
    return [(by[max(by)], by[1]) for by in cells.values() if 1 in by and max(by) > 1]


def _rivals(summaries: Iterable[Summary]) -> list[tuple[Side, Side]]:
    """Each form with both sides of the choice, and the default under the same conditions."""
    complete = (side for side in sides(summaries) if side.pair and side.grace)
    answers = []
    for members in grouped(complete, lambda side: (side.pair.machine_id, side.read_delay, side.readers)).values():
        name = default_of("readers_pair", [m.form for m in members])
        default = next(m for m in members if m.form == name)
        answers += [(m, default) for m in members if m.form != name and m.updater in (default.updater, "synchronize")]
    return answers


def _judged(summaries: Sequence[Summary]) -> tuple[list[Scaling], list[_Rival]]:
    """Every comparison about readers, corrected together."""
    scaled, rivals = _scaled(summaries), _rivals(summaries)
    pairs = [pair for form, default in rivals for pair in ((form.pair, default.pair), (form.grace, default.grace))]
    answers = iter(asked([*scaled, *pairs], "readers", lambda _: FLAT))
    return (
        [_scaling(most, alone, next(answers)) for most, alone in scaled],
        [_Rival(form, default, next(answers), next(answers)) for form, default in rivals],
    )


def scaling(summaries: Sequence[Summary]) -> list[Scaling]:
    """Every form and delay that was run by one reader and by several, without an updater."""
    return _judged(summaries)[0]


def _scaling(most: Summary, alone: Summary, judged: Judged) -> Scaling:
    c = judged.contrast
    return Scaling(
        form=most.cell.form, operation=most.cell.operation, read_delay=delay_of(most.cell),
        readers=readers_of(most.cell), alone_ns=alone.issue.median_ns, together_ns=most.issue.median_ns,
        ratio=Estimate(value=c.value, low=c.low, high=c.high) if c else None, judged=judged,
    )  # fmt: skip


def trades(summaries: Sequence[Summary]) -> list[Trade]:
    """A form and the default of which each is shown to be better on one side, under equal conditions."""
    return _trades(_judged(summaries)[1])


def _trades(rivals: Sequence[_Rival]) -> list[Trade]:
    answers = []
    for r in rivals:
        saved = difference_ns(r.reader.contrast, r.default.pair.issue.median_ns) if r.reader.contrast else None
        waited = difference_ns(r.update.contrast, r.default.grace.issue.median_ns) if r.update.contrast else None
        if r.reader.cheaper and r.update.slower:
            answers.append(_trade(r.form, r.default, _negative(saved), waited))
        elif r.reader.slower and r.update.cheaper:
            answers.append(_trade(r.default, r.form, saved, _negative(waited)))
    return answers


def _trade(cheap: Side, other: Side, saved: Interval, waited: Interval) -> Trade:
    return Trade(
        cheap_reader=cheap.form,
        cheap_update=other.form,
        updater=cheap.updater,
        read_delay=cheap.read_delay,
        readers=cheap.readers,
        saved_ns=saved,
        waited_ns=waited,
        sections_per_update=Estimate(
            value=waited.median_ns / saved.median_ns,
            low=waited.low_ns / saved.high_ns,
            high=waited.high_ns / saved.low_ns,
        ),
    )


def _negative(interval: Interval) -> Interval:
    return msgspec.structs.replace(
        interval, median_ns=-interval.median_ns, low_ns=-interval.high_ns, high_ns=-interval.low_ns
    )


def sentences(summaries: Sequence[Summary]) -> list[Sentence]:
    """Which readers scale and which do not, and what an updater waits for them."""
    every, rivals = _judged(summaries)
    answers = []
    rows = [r for r in every if r.operation == "readers_pair" and r.read_delay == 0]
    for readers in sorted({r.readers for r in rows}):
        own = [r for r in rows if r.readers == readers]
        flat, grows = [r.form for r in own if r.flat], [r for r in own if r.grows]
        clauses = []
        if flat:
            clauses.append(Clause(text=f"{join(flat)} cost each reader the same as alone, within {FLAT:.0%}"))
        if grows:
            parts = [f"{r.form} {r.ratio.value:.1f} times ({r.ratio.low:.1f} to {r.ratio.high:.1f})" for r in grows]
            clauses.append(
                Clause(text=f"more than alone: {join(parts)}", numbers={r.form: r.ratio.value for r in grows})
            )
        if clauses:
            answers.append(Sentence(lead=f"with {readers} readers", clauses=clauses, family=READERS.name))
    traded = [t for t in _trades(rivals) if t.updater == "synchronize"]
    shortest = min((t.read_delay for t in traded), default=0)
    ranked = sorted(traded, key=lambda t: (t.cheap_reader, t.sections_per_update.value))
    return answers + [_spoken(t) for t in ranked if t.read_delay == shortest]


def _spoken(t: Trade) -> Sentence:
    beside = f"beside {t.readers} busy reader{'s' if t.readers > 1 else ''}"
    text = (
        f"an updater of {t.cheap_reader} waits {number(t.waited_ns.median_ns)} ns longer than one of {t.cheap_update},"
        f" {beside}; its readers take {number(t.saved_ns.median_ns)} ns less: {break_even(t)}"
    )
    return Sentence(
        lead="", clauses=[Clause(text=text, numbers={"sections": t.sections_per_update.value})], family=READERS.name
    )


def break_even(t: Trade) -> str:
    """From how many read-side critical sections per update the cheaper reader pays."""
    low, high = (_rounded(x) for x in (t.sections_per_update.low, t.sections_per_update.high))
    return f"break-even at no more than {high} sections per update (interval {low} to {high})"


def _rounded(value: float) -> str:
    """A count with two significant digits: what its interval supports."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 1 else "1"
