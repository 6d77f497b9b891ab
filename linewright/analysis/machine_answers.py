# SPDX-License-Identifier: MIT
"""One machine with all that analysis makes of its records, each computed once: what a document is
said from; and what its figures support writing in code: other forms than the default, other
operations, and where a prefetch or a first guess gains nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal, NamedTuple

from msgspec import Struct

from linewright.analysis import cache_fit, setting_choice
from linewright.analysis.bytes_apart import ApartAnswers, bytes_apart, no_more
from linewright.analysis.cache_fit import Fit
from linewright.analysis.comparison import (
    FEWEST_LAUNCHES,
    MOST_LAUNCHES,
    Answer,
    Comparison,
    Judgement,
    launches_needed,
)
from linewright.analysis.control import (
    Floor,
    NoiseGroup,
    WorkLoop,
    floors,
    pooled_interval,
    work_loop,
)
from linewright.analysis.findings import Crossover, Finding, crossovers, findings
from linewright.analysis.loading import CoreClass, by_id, near_far
from linewright.analysis.questions import QUESTIONS, READERS, ask, defaults, hint_of
from linewright.analysis.reader_cost import delay_of, updater_of
from linewright.analysis.setting_choice import Choice
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.forms import ONE_LINE, family_of, made_of
from linewright.policy import Policy
from linewright.schema import Context, Interval, architecture_of


@dataclass(frozen=True)
class MachineAnswers:
    """One machine's records and what analysis makes of them, computed once."""

    contexts: Sequence[Context]
    summaries: Sequence[Summary]

    @property
    def context(self) -> Context | None:
        return self.contexts[0] if self.contexts else None

    @property
    def arch(self) -> str:
        return self.context.arch if self.context else "unknown"

    @property
    def forms_differ(self) -> bool:
        """Whether the library has several forms of an operation to choose from."""
        return architecture_of(self.arch).forms_differ

    @property
    def emulated(self) -> bool:
        return any(c.emulated for c in self.contexts)

    @property
    def simulated(self) -> bool:
        """Whether a model made the records."""
        return self.context is not None and bool(self.context.simulated)

    @property
    def drawn(self) -> bool:
        """Whether it has draws of the model's constants, so that no further launch decides
        anything."""
        return any(s.drawn for s in self.summaries)

    @property
    def edited(self) -> bool:
        """Whether the model's file was changed after it was calibrated."""
        return any("edited" in s.flags for s in self.summaries)

    @property
    def published(self) -> bool:
        """Whether the records are of published percentiles: no launches of ours, and no
        intervals."""
        return any(s.published for s in self.summaries)

    @cached_property
    def too_few_launches(self) -> list[Summary]:
        """The cells with figures where none had enough launches for a claim, else nothing; of
        published percentiles nothing."""
        measured = [s for s in self.summaries if s.has_figures]
        enough = any(s.drawn or s.launches >= FEWEST_LAUNCHES for s in self.summaries)
        return [] if self.published or enough else measured

    @cached_property
    def default(self) -> Policy:
        """What a compiler's code does at run time: load forms where the CPU has LSE, LL/SC where it
        has not."""
        return Policy("load" if self.context and "lse" in self.context.features else "llsc")

    @cached_property
    def findings(self) -> list[Finding]:
        return [] if self.emulated else findings(self.summaries)

    @cached_property
    def width_bits(self) -> int:
        """The width that most cells on one line have."""
        widths = [s.cell.width_bits for s in self._on_one_line]
        return max(set(widths), key=widths.count) if widths else 64

    @cached_property
    def one_line(self) -> list[Summary]:
        """The cells on one line of that width."""
        return [s for s in self._on_one_line if s.cell.width_bits == self.width_bits]

    @cached_property
    def _on_one_line(self) -> list[Summary]:
        return [s for s in self.summaries if s.cell.operation in ONE_LINE.operations]

    @cached_property
    def of_width(self) -> list[Finding]:
        """The findings of that width."""
        return [f for f in self.findings if f.situation.width_bits == self.width_bits]

    @cached_property
    def on_screen(self) -> list[Finding]:
        """Those on one line that have that width, and of other operations all."""
        other = lambda f: f.operation not in ONE_LINE.operations
        return [f for f in self.findings if other(f) or f.situation.width_bits == self.width_bits]

    @cached_property
    def crossovers(self) -> list[Crossover]:
        """Where one form overtakes the default."""
        return crossovers(self.findings)

    @property
    def line_bytes(self) -> int:
        return self.context.line_bytes if self.context else 64

    @cached_property
    def cache_fits(self) -> list[Fit]:
        return cache_fit.fits(self.summaries, self.line_bytes)

    @cached_property
    def _asked(self) -> dict[str, list[Comparison]]:
        return {}

    def select(
        self, question: str, operation: str = "", contended: bool | None = None
    ) -> list[Comparison]:
        """The comparisons of one question (`linewright.analysis.questions`), where given those of
        one operation, and with or without contention."""
        if question not in self._asked:
            self._asked[question] = ask(question, self.summaries)
        return [
            c
            for c in self._asked[question]
            if operation in ("", c.operation) and contended in (None, c.contended)
        ]

    @cached_property
    def bytes_apart(self) -> ApartAnswers:
        """How far apart two threads' words have to lie."""
        return bytes_apart(self.summaries, self.select("operations"))

    @cached_property
    def floors(self) -> dict[NoiseGroup, Floor]:
        return floors(self.summaries, self.arch)

    @cached_property
    def work_loop(self) -> WorkLoop | None:
        """The control of the loop around operations, where a cell has the work that it is of."""
        chain = any(s.cell.work_iters and s.cell.work == "chain" for s in self.summaries)
        return work_loop(self.contexts) if chain else None

    @cached_property
    def classes(self) -> list[CoreClass]:
        """Where arm64's LSE instructions seem to be performed, by core."""
        return near_far({c.context_id: c for c in self.contexts}, self.summaries)

    def of_family(self, name: str) -> list[Finding]:
        """Findings of one family of operations."""
        return [f for f in self.findings if family_of(f.operation).name == name]

    @cached_property
    def choices(self) -> list[Choice]:
        return setting_choice.choices(self.findings, self.default) if self.forms_differ else []

    @cached_property
    def setting(self) -> tuple[str, str]:
        """The value of LINEWRIGHT_ATOMICS that is supported, and why: as `Choice.why`, or
        ``emulated``, ``architecture`` (one form for each operation there), ``not_measured``."""
        if self.emulated:
            return "default", "emulated"
        if not self.forms_differ:
            return "default", "architecture"
        if not self.choices:
            return "default", "not_measured"
        return setting_choice.setting_of(self.choices), setting_choice.why_this_setting(
            self.choices
        )

    @cached_property
    def core_types(self) -> list[setting_choice.CoreType]:
        if not self.choices:
            return []
        return setting_choice.core_types(self.findings, self.contexts, self.default)

    @cached_property
    def unsettled_launches(self) -> int:
        """Launches that a supported setting rests on, where they are so few that they can miss a
        state of the machine; 0 where they are enough, and of a model, whose launches differ by
        their random numbers alone."""
        launches = setting_choice.launches_behind(self.choices)
        return 0 if self.simulated or launches >= setting_choice.SETTLED else launches

    @cached_property
    def launches_asked(self) -> int:
        """Launches that would probably decide what is open, and show a supported setting's other
        states: the one number that every sentence and command suggests."""
        rows: list[Judgement] = [r for f in self.findings for r in f.of("undecided")]
        rows += [j for c in self.choices for j in c.still_open]
        asked = [setting_choice.SETTLED if self.unsettled_launches else FEWEST_LAUNCHES]
        for judgement in rows:
            wanted = launches_needed(judgement)
            # What even the most would not decide is worth no more than a second look.
            asked.append(wanted if wanted <= MOST_LAUNCHES else 2 * judgement.contrast.launches)
        return min(max(asked), MOST_LAUNCHES)


def machines_with_answers(
    summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]
) -> Iterator[MachineAnswers]:
    """Each machine that the summaries are of, with its contexts, in the order of the records."""
    known = by_id(contexts)
    for machine, own in machines_of(summaries).items():
        yield MachineAnswers([c for c in known.values() if c.machine_id == machine], own)


FEW_PAIRS = 2
"""Pairs of cores above which a handoff is spoken of by the distance of the cores, not by pair."""


class Handoff(Struct, frozen=True):
    """One form over the pairs of cores of one distance."""

    form: str
    median_ns: float
    least_ns: float
    most_ns: float
    ids: tuple[str, ...]
    """A cell for each pair of cores."""

    @property
    def pairs(self) -> int:
        return len(self.ids)


def handoffs(cells: Sequence[Summary]) -> dict[str, list[Handoff]]:
    """Each distance, a placement class, with its handoffs, of which a round trip has two; nothing
    for few pairs."""
    if len({s.cell.placement for s in cells}) <= FEW_PAIRS:
        return {}
    usable = [s for s in cells if s.status == "ok" and s.issue and not s.cell.work_iters]
    return {
        distance: [
            Handoff(form, median(ns), min(ns), max(ns), tuple(s.id for s in own))
            for form, own in grouped(apart, lambda s: s.cell.form).items()
            for ns in [[s.issue.median_ns / 2 for s in own]]
        ]
        for distance, apart in grouped(usable, lambda s: s.placement_class).items()
    }


class FormAdvice(Struct, frozen=True):
    """A form against the default where it is shown to differ, and where else it is shown to differ
    the other way: a caller has one form for all."""

    operation: str
    """What the caller needs."""
    here: Comparison
    elsewhere: Comparison | None
    lost_rate: tuple[float, float] | None = None
    """As of `total_rate_loss`, here."""

    @property
    def ids(self) -> list[str]:
        """Of the default's cell and the form's, here and elsewhere."""
        both = [self.here] + [self.elsewhere] * bool(self.elsewhere)
        return [i for c in both for i in (c.second.id, c.first.id)]

    @property
    def loses(self) -> bool:
        """Whether it costs more elsewhere than it saves here."""
        return self.elsewhere is not None and 1 / self.elsewhere.times > self.here.times


class HintChoice(Struct, frozen=True):
    """A hint whose waiters go on sooner than by the usual one wherever it was measured, and whose
    waiters are shown to cost the holder no more, at every measured point."""

    hint: str
    woken: list[Comparison]
    """Round trips of two wake-ups, the least gain first."""
    held: list[Comparison]

    @property
    def ids(self) -> list[str]:
        return [i for c in (*self.woken, *self.held) for i in c.ids]


def hint_choice(m: MachineAnswers) -> HintChoice | None:
    """The hint whose least gain is the greatest; None where none is shown to be better. Each
    place of the threads that has wake-ups has a holder's sections, too."""
    found = []
    for hint, own in grouped(m.select("hints"), lambda c: hint_of(c.first.form)).items():
        woken = [c for c in own if c.operation == "wait_woken"]
        held = [c for c in own if c.operation == "wait_held"]
        places = {c.situation.placement for c in woken} <= {c.situation.placement for c in held}
        if woken and places and all(c.cheaper for c in woken) and all(map(no_more, held)):
            woken.sort(key=lambda c: -c.contrast.high)
            found.append(HintChoice(hint, woken, held))
    return min(found, key=lambda choice: choice.woken[0].contrast.high, default=None)


def add_cost(m: MachineAnswers) -> tuple[Summary | None, Summary | None, Interval | None]:
    """An atomic add alone, and with a second CPU at the least spacing; of the latter its pooled
    interval, unless it is metastable."""
    ok = [s for s in m.one_line if s.has_figures and s.status == "ok" and not m.emulated]
    plain = [s for s in ok if not s.cell.work_iters]
    alone = defaults([s for s in plain if s.cell.contender == "none"]).get("add")
    both = [s for s in plain if s.cell.contender == "same_line" and s.cell.threads == 2]
    nearest = min((s.cell.contender_iters for s in both), default=0)
    contended = defaults([s for s in both if s.cell.contender_iters == nearest]).get("add")
    one_figure = contended is not None and not contended.metastable
    return alone, contended, pooled_interval(contended, both) if one_figure else None


def cheaper_instead(m: MachineAnswers, names: tuple[str, str], alone: bool) -> FormAdvice | None:
    """Where the first of two forms, or operations, is shown to be cheaper than the second (an empty
    name: whatever stands for one atomic word): contended, or where `alone` allows without
    contention; and where else it is shown to cost more."""

    def named(c: Comparison) -> bool:
        forms = c.first.form, c.second.form
        operations = c.first.operation, c.second.operation
        return names in (forms, operations, (c.first.form, ""))

    own = list(filter(named, m.select("operations")))
    cheaper = (c for c in own if c.cheaper and (c.contended or alone))
    here = min(cheaper, key=lambda c: not c.contended, default=None)
    return here and FormAdvice(here.operation, here, _farthest(c for c in own if c.slower))


def updater_of_readers(m: MachineAnswers) -> Summary | None:
    """The updater that waits longest for the readers that are advised: a choice between two readers
    is one between two updaters too. None where it was not measured."""
    updaters = (
        s
        for s in m.summaries
        if (s.cell.operation, s.cell.form) == ("readers_grace", READERS[0])
        and updater_of(s.cell) == "synchronize"
        and not delay_of(s.cell)
    )
    measured = (s for s in updaters if s.status == "ok" and s.issue)
    return max(measured, key=lambda s: s.issue.median_ns, default=None)


def first_guess(m: MachineAnswers) -> FormAdvice | None:
    """A compare-and-swap loop that guesses first and costs more alone than one that reads first,
    and where the guess is cheaper."""
    for f, row in _back_to_back(m):
        guesses = made_of(row.first.form).loop == "guess_first"
        if guesses and row.slower and f.situation.contender == "none":
            return FormAdvice(f.operation, row, _elsewhere(m, f, row, "cheaper"))
    return None


def cheaper_forms(m: MachineAnswers) -> list[FormAdvice]:
    """Other forms that are shown to cost less than the default, alone or contended, those that save
    most first.

    A gain below the tolerance of question ``trade`` that costs more elsewhere is no advice and is
    left out."""
    best: dict[str, tuple[Finding, Comparison]] = {}
    for f in m.of_width:
        row = f.best if f.figure == "issue" and f.operation in ONE_LINE.operations else None
        if row and made_of(row.first.form).loop != "guess_first":
            known = best.get(row.first.form)
            if known is None or row.times > known[1].times:
                best[row.first.form] = (f, row)
    ranked = sorted(best.values(), key=lambda pair: -round(pair[1].times, 1))
    advised = [
        FormAdvice(f.operation, row, _elsewhere(m, f, row, "slower"), f.lost_rates.get(name))
        for f, row in ranked
        for name in [row.first.form]
    ]
    least = 1 + QUESTIONS["trade"].same.share
    return [a for a in advised if not a.loses or a.here.times >= least]


def _back_to_back(m: MachineAnswers) -> list[tuple[Finding, Comparison]]:
    return [(f, row) for f in m.of_width if f.figure == "issue" for row in f.rows]


def _elsewhere(
    m: MachineAnswers, here: Finding, row: Comparison, answer: Answer
) -> Comparison | None:
    """Where else the form differs most from the default, because there it is shown to be
    `answer`."""
    against = [
        r
        for f, r in _back_to_back(m)
        if f.operation == here.operation and f is not here
        if r.first.form == row.first.form and r.answer == answer
    ]
    return _farthest(against)


def _farthest(rows: Iterable[Comparison]) -> Comparison | None:
    """The row whose sides differ most."""
    return max(rows, key=lambda r: abs(math.log(r.times)), default=None)


class UselessPrefetch(Struct, frozen=True):
    """Prefetches in front of the default that are shown to gain nothing alone."""

    rows: list[Comparison]
    """At every point, alone and with a second CPU."""
    of_another: tuple[Comparison, Comparison] | None
    """Another form alone, which costs more than the default, and the same behind the prefetch,
    which does not."""

    @property
    def defaults(self) -> list[str]:
        return list(dict.fromkeys(r.second.form for r in self.rows))

    @property
    def ids(self) -> list[str]:
        cells = [i for r in self.rows for i in (r.second.id, r.first.id)]
        return cells + [r.first.id for r in self.of_another or ()]

    @property
    def within(self) -> float:
        """What the difference is shown to be below alone, as a share."""
        return max(r.within for r in self._with("none"))

    @property
    def contended(self) -> Comparison | None:
        """The answer with a second CPU, where it is plainest: of the same the widest bound, of what
        costs more the most, of the undecided the widest interval; None where forms differ, or
        without one."""
        both = self._with("same_line")
        answers = {r.answer for r in both}
        if answers == {"same"}:
            return max(both, key=lambda r: r.within)
        if slower := [r for r in both if r.slower]:
            return min(slower, key=lambda r: r.times)
        unclear = [r for r in both if r.answer == "undecided" and r.contrast]
        if not unclear or "cheaper" in answers:
            return None
        return max(unclear, key=lambda r: r.contrast.farthest)

    def _with(self, contender: str) -> list[Comparison]:
        return [r for r in self.rows if r.situation.contender == contender]


def useless_prefetch(m: MachineAnswers, prefetches: Sequence[str]) -> UselessPrefetch | None:
    """One of these prefetches in front of the default; None where it gains something alone, or was
    not measured."""
    every = [r for _, r in _back_to_back(m)]
    behind = [r for r in every if made_of(r.first.form).prefetch in prefetches]
    rows = [r for r in behind if made_of(r.first.form).base == r.second.form]
    alone = {r.answer for r in rows if r.situation.contender == "none"}
    if alone != {"same"}:
        return None
    return UselessPrefetch(rows, _gain_of_another(m, prefetches))


def _gain_of_another(
    m: MachineAnswers, prefetches: Sequence[str]
) -> tuple[Comparison, Comparison] | None:
    for f in m.of_width:
        if f.figure == "issue" and f.situation.contender == "none":
            rows = {r.first.form: r for r in f.rows}
            for form, r in rows.items():
                made = made_of(form)
                bare = rows.get(made.base) if made.prefetch in prefetches else None
                if bare and bare.slower and not r.slower:
                    return bare, r
    return None


def what_to_write(
    found: Sequence[Finding],
) -> tuple[
    Literal["better", "same", "default_best", "depends", "undecided"], list[str], Comparison | None
]:
    """What the findings of one need support writing: one form, those that are all as good, or of
    what is undecided the default; of a better form also where it saves most."""
    default = found[0].default
    rows = grouped((r for f in found for r in f.rows), lambda r: r.first.form)
    answers = {name: {r.answer for r in own} for name, own in rows.items()}
    better = [n for n in rows if "cheaper" in answers[n] <= {"cheaper", "same"}]
    same = [n for n in rows if answers[n] == {"same"}]
    if better:
        best = min(better, key=lambda n: sum(r.first.ns.median_ns for r in rows[n]))
        cheaper = [r for r in rows[best] if r.cheaper]
        return "better", [best], max(cheaper, key=lambda r: r.second.ns.median_ns)
    if len(same) == len(rows):
        return "same", [default, *rows], None
    if all("slower" in answers[n] or n in same for n in rows):
        return "default_best", [default, *same], None
    if any({"cheaper", "slower"} <= own for own in answers.values()):
        return "depends", [], None
    return "undecided", [default], None


class FarAdd(NamedTuple):
    """The forms of add that behave as if performed at the interconnect, back to back and alone."""

    finding: Finding
    forms: list[str]
    hidden_at: int
    """Units of work around each at which they cost the same as the default; 0 where none are
    shown."""
    hidden_ids: list[str]
    """Of the cells that show it."""


def far_add(m: MachineAnswers) -> FarAdd | None:
    """Where a form of add seems to be performed at the interconnect; None where none does."""
    far = {s.id for s in m.summaries if s.nearness in ("far", "all_far")}
    alone = [f for f in m.findings if f.operation == "add" and f.situation.contender == "none"]
    for f in alone:
        forms = [r.first.form for r in f.rows if r.first.id in far]
        hidden = [] if f.side.id in far else [_same_at(alone, form) for form in forms]
        forms += [f.default] * (f.side.id in far)
        if forms and not f.situation.work_iters:
            shown = [max(own) for own in hidden] if hidden and all(hidden) else []
            at = max((work for work, *_ in shown), default=0)
            return FarAdd(f, forms, at, [i for _, *ids in shown for i in ids])
    return None


def _same_at(alone: Sequence[Finding], form: str) -> list[tuple[int, str, str]]:
    """Lengths of work at which a form is shown to cost the same as the default, each with the ids
    of both cells."""
    return [
        (r.situation.work_iters, r.second.id, r.first.id)
        for f in alone
        for r in f.rows
        if r.first.form == form and r.answer == "same"
    ]
