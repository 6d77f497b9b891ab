"""What advice is made of: one machine with what analysis makes of it, and the records that the page consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct

from linewright import architectures
from linewright.advice import choice
from linewright.advice.choice import Choice
from linewright.analysis.findings import Finding, findings
from linewright.analysis.near_far import CoreClass, near_far
from linewright.analysis.summary import Summary
from linewright.families import family_of
from linewright.schema import Context
from linewright.units import ns_text

VERSION = 2
"""Of the JSON of `linewright advise --json`."""


class Topic(Struct, frozen=True, kw_only=True):
    """One part of the page: `lines` for people, `data` for programs, both saying the same."""

    name: str
    title: str
    lines: list[str]
    data: Any


class Setting(Struct, frozen=True, kw_only=True):
    """What to set for a process."""

    variable: str
    value: str
    """By the grammar of policy.h; ``default`` when no setting is supported."""
    supported: bool
    why: str
    """As `Choice.why`, or ``emulated``, ``architecture`` (one form for each operation there), ``not_measured``."""
    sentence: str


class Advice(Struct, frozen=True, kw_only=True):
    """All that one machine's records support."""

    linewright_advice: int
    machine_id: str
    cpu_model: str
    """Reported so that machines can be told apart; nothing is concluded from it."""
    arch: str
    target: str
    setting: Setting
    choices: list[Choice]
    sections: list[Topic]


@dataclass(frozen=True)
class Machine:
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
        return self.context is not None and self.context.target.startswith("simulated")

    @property
    def published(self) -> bool:
        """Whether the records are of published percentiles: no launches of ours, and no intervals."""
        return any(s.published for s in self.summaries)

    @cached_property
    def default(self) -> str:
        return choice.default_choice(self.context.features if self.context else [])

    @cached_property
    def findings(self) -> list[Finding]:
        return [] if self.emulated else findings(self.summaries)

    @cached_property
    def classes(self) -> list[CoreClass]:
        """Where arm64's LSE instructions seem to be performed, by core."""
        return near_far({c.context_id: c for c in self.contexts}, self.summaries)

    def of_family(self, name: str) -> list[Finding]:
        """Findings of one family of operations."""
        return [f for f in self.findings if family_of(f.operation).name == name]

    @cached_property
    def choices(self) -> list[Choice]:
        return choice.choices(self.findings, self.default) if self.forms_differ else []

    @cached_property
    def core_types(self) -> list[choice.CoreType]:
        return choice.core_types(self.findings, self.contexts, self.default) if self.choices else []

    @property
    def measure(self) -> str:
        """The command that measures this machine's plan again with enough launches."""
        plan = self.context.plan if self.context else "quick"
        simulated = self.context.target.partition("simulated:")[2] if self.context else ""
        on = f" --on model:{simulated}" if simulated else ""
        return f"linewright measure{on} --plan {plan} --set launches=8"

    def time_of(self, work_iters: int) -> str:
        """Units of work as a time, where the machine's own figure is known."""
        length = self.context.unit_ns if self.context else 0.0
        return f" (about {ns_text(work_iters * length)} ns)" if length > 0 and work_iters else ""
