# SPDX-License-Identifier: MIT
"""One machine with all that analysis makes of its records, each computed once: what a document is
said from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from msgspec import Struct

from linewright import architectures
from linewright.analysis import cache_fit, setting_choice
from linewright.analysis.bytes_apart import ApartAnswers, bytes_apart
from linewright.analysis.cache_fit import Fit
from linewright.analysis.comparison import (
    FEWEST_LAUNCHES,
    MOST_LAUNCHES,
    Comparison,
    Judgement,
    launches_needed,
)
from linewright.analysis.control import Floor, NoiseGroup, WorkLoop, floors, work_loop
from linewright.analysis.findings import Crossover, Finding, crossovers, findings
from linewright.analysis.loading import by_id
from linewright.analysis.near_far import CoreClass, near_far
from linewright.analysis.questions import ask
from linewright.analysis.setting_choice import Choice
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.families import ONE_LINE, family_of
from linewright.policy import Policy
from linewright.schema import Context


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
        return architectures.of(self.arch).forms_differ

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
        return setting_choice.default_choice(self.context.features if self.context else [])

    @cached_property
    def findings(self) -> list[Finding]:
        return [] if self.emulated else findings(self.summaries)

    @cached_property
    def width_bits(self) -> int:
        """The width that most cells on one line have."""
        widths = [
            s.cell.width_bits for s in self.summaries if s.cell.operation in ONE_LINE.operations
        ]
        return max(set(widths), key=widths.count) if widths else 64

    @cached_property
    def one_line(self) -> list[Summary]:
        """The cells on one line of that width."""
        return [
            s
            for s in self.summaries
            if s.cell.operation in ONE_LINE.operations and s.cell.width_bits == self.width_bits
        ]

    @cached_property
    def of_width(self) -> list[Finding]:
        """The findings of that width."""
        return [f for f in self.findings if f.situation.width_bits == self.width_bits]

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
