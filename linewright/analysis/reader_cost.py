"""What readers cost, how that grows with their number, and what their updaters wait: the two sides of one choice.

A reader is a form of operation ``readers_pair``; its updater is the same form of operation ``readers_grace``.  Cells that differ
in nothing but the form are compared; a figure that decides anything comes from intervals that separate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from linewright.analysis.intervals import Estimate, contrast
from linewright.analysis.summary import Summary
from linewright.analysis.verdict import apart, join, lone_launch, number
from linewright.schema import Cell, Interval

SECTIONS = ("readers_pair", "readers_shape", "readers_floor", "readers_lookup")
FLAT = 1.10
"""A reader whose cost with all readers lies below this many times that of one alone, interval included, scales."""


def concerns(cell: Cell) -> bool:
    """Whether a cell is one of readers or of their updaters."""
    return cell.operation.startswith("readers_")


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
    """One form with the most readers against one reader alone."""

    form: str
    operation: str
    read_delay: int
    readers: int
    alone_ns: float
    together_ns: float
    ratio: Estimate | None
    """Each thread's cost together over that alone."""
    judged: bool
    """Enough launches to say anything."""

    @property
    def flat(self) -> bool:
        return self.judged and self.ratio is not None and self.ratio.high < FLAT

    @property
    def grows(self) -> bool:
        return self.judged and self.ratio is not None and self.ratio.low > 1


def scaling(summaries: Iterable[Summary]) -> list[Scaling]:
    """Every form and delay that was run by one reader and by several, without an updater."""
    cells: dict[tuple, dict[int, Summary]] = {}
    for s in measured(summaries):
        if s.cell.operation in SECTIONS and updater_of(s.cell) == "none":
            key = (s.machine_id, s.cell.operation, s.cell.form, delay_of(s.cell), s.cell.params.get("instances"))
            cells.setdefault(key, {})[readers_of(s.cell)] = s
    answers = []
    for (_, operation, form, delay, _), by_count in cells.items():
        most = max(by_count)
        if 1 in by_count and most > 1:
            alone, together = by_count[1], by_count[most]
            found = contrast(together.unit_ns, alone.unit_ns)
            answers.append(
                Scaling(
                    form=form,
                    operation=operation,
                    read_delay=delay,
                    readers=most,
                    alone_ns=alone.issue.median_ns,
                    together_ns=together.issue.median_ns,
                    ratio=found.ratio if found else None,
                    judged=not lone_launch(alone, together),
                )
            )
    return answers


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
            s for s in usable
            if s.machine_id == machine and (s.cell.operation, s.cell.form) == (operation, form) and updater_of(s.cell) == updater
            and readers_of(s.cell) == readers and delay in (None, delay_of(s.cell))
        )  # fmt: skip
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
    """Per section, by `cheap_reader`."""
    waited_ns: Interval
    """Per update, more than `cheap_update`."""
    sections_per_update: Estimate
    """With more sections than this between two updates `cheap_reader` costs less in all; the interval is that of the two
    intervals' ends."""


def trades(summaries: Iterable[Summary]) -> list[Trade]:
    """Pairs of readers of which each is certainly better on one side, under equal conditions."""
    groups: dict[tuple, list[Side]] = {}
    for side in sides(summaries):
        if side.pair and side.grace:
            groups.setdefault((side.pair.machine_id, side.read_delay, side.readers), []).append(side)
    answers = []
    for (_, delay, readers), members in groups.items():
        for cheap in members:
            for other in members:
                saved, waited = _more(other.pair, cheap.pair), _more(cheap.grace, other.grace)
                if saved and waited and (other.updater == cheap.updater or other.form != cheap.form):
                    answers.append(
                        Trade(
                            cheap_reader=cheap.form,
                            cheap_update=other.form,
                            updater=cheap.updater,
                            read_delay=delay,
                            readers=readers,
                            saved_ns=saved,
                            waited_ns=waited,
                            sections_per_update=Estimate(
                                value=waited.median_ns / saved.median_ns,
                                low=waited.low_ns / saved.high_ns,
                                high=waited.high_ns / saved.low_ns,
                            ),
                        )
                    )
    return answers


def _more(dear: Summary, cheap: Summary) -> Interval | None:
    """What one costs more than the other; None unless their intervals separate and the difference's excludes nothing."""
    if dear.issue.median_ns <= cheap.issue.median_ns or not apart(dear.issue, cheap.issue) or lone_launch(dear, cheap):
        return None
    found = contrast(dear.unit_ns, cheap.unit_ns)
    return found.difference if found and found.difference.low_ns > 0 else None


def sentences(summaries: Sequence[Summary]) -> list[str]:
    """The verdict on readers: the cheapest alone, those that scale and those that do not, and what waiting for it takes."""
    pairs = [
        s
        for s in measured(summaries)
        if s.cell.operation == "readers_pair" and updater_of(s.cell) == "none" and delay_of(s.cell) == 0
    ]
    answers = []
    alone = sorted((s for s in pairs if s.cell.threads == 1), key=lambda s: s.issue.median_ns)
    if len(alone) > 1:
        best = [s for s in alone if s is alone[0] or not apart(s.issue, alone[0].issue)]
        beaten = next((s for s in alone if apart(s.issue, alone[0].issue)), None)
        what = f"{join([s.cell.form for s in best])}{' (alike within noise)' if len(best) > 1 else ''}"
        against = f", {beaten.cell.form} {number(beaten.issue.median_ns)} ns" if beaten else ""
        answers.append(
            f"One reader alone: cheapest is {what}, {number(alone[0].issue.median_ns)} ns for entering and leaving{against}."
        )
    rows = list(scaling(pairs))
    if rows:
        flat, dearer = (
            [r.form for r in rows if r.flat],
            [f"{r.form} {r.ratio.value:.1f} times" for r in rows if r.grows and not r.flat],
        )
        parts = ([f"{join(flat)} cost each reader the same as alone"] if flat else []) + (
            [f"dearer: {join(dearer)}"] if dearer else []
        )
        if parts:
            answers.append(f"With {max(r.readers for r in rows)} readers: {'; '.join(parts)}.")
    best_forms = [s.cell.form for s in alone[:1]]
    for side in sides(summaries):
        if side.form in best_forms and side.grace and side.read_delay == 0:
            answers.append(
                f"What it takes instead: an updater of {side.form} ({side.updater}) waits {number(side.grace.issue.median_ns)} ns"
                f" beside {side.readers} busy reader{'s' if side.readers > 1 else ''}."
            )
            break
    return answers
