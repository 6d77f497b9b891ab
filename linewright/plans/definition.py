# SPDX-License-Identifier: MIT
"""What a built-in plan is made of: its parameters, what it is built from, and the function that
builds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from linewright import units
from linewright.errors import UserError
from linewright.forms import Form
from linewright.schema import Cell, Plan
from linewright.target import Topology

WITH_UNIT = {"duration": units.duration_s, "fraction": units.fraction}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a plan or command, set with ``--set name=value``. `kind` is one of ``count``,
    ``counts``, ``ms``, ``word``, ``words``, ``text``, and ``duration`` (s) and ``fraction``, which
    are written with a unit or as percent, the default too.

    ``counts`` and ``words`` take lists separated by commas; `low` and `high` bound numbers,
    `choices` words."""

    name: str
    kind: str
    default: Any
    help: str
    low: float = 0
    high: float = 100_000_000
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What may be written behind the ``=``."""
        if self.kind == "text":
            return "a text"
        if self.choices:
            return ("a list of " if self.kind == "words" else "one of ") + ", ".join(self.choices)
        number = "a number" if self.kind == "ms" else "a whole number"
        each = "a list, each " if self.kind == "counts" else ""
        return f"{each}{number} from {self.low:g} to {self.high:.12g}"

    def parse(self, text: str) -> Any:
        """The value of a text; UserError names what is allowed."""
        parts = text.split(",") if self.kind in ("counts", "words") else [text]
        values = [self._parse_one(part.strip()) for part in parts]
        if len(set(values)) != len(values):
            raise self._refuse(text)
        return values if self.kind in ("counts", "words") else values[0]

    def text(self, value: Any) -> str:
        """A value as it would be written on the command line."""
        if value is None:
            return "by machine"
        return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

    def _parse_one(self, text: str) -> Any:
        if self.kind in WITH_UNIT:
            return WITH_UNIT[self.kind](text, f"--set {self.name}")
        if self.kind in ("word", "words", "text"):
            if text not in self.choices and (self.choices or not text):
                raise self._refuse(text)
            return text
        pattern = r"[0-9]{1,12}" if self.kind != "ms" else r"[0-9]{1,9}(\.[0-9]{1,9})?"
        if not re.fullmatch(pattern, text, re.ASCII) or not self.low <= float(text) <= self.high:
            raise self._refuse(text)
        return float(text) if self.kind == "ms" else int(text)

    def _refuse(self, text: str) -> UserError:
        return UserError(f"bad value {text!r}", f"--set {self.name}", f"allowed: {self.allowed}")


def word(name: str, choices: str, help: str) -> Parameter:
    """A parameter that takes one of the `choices`, the first of them where nothing is said."""
    return Parameter(name, "word", choices.split()[0], help, choices=tuple(choices.split()))


def words(name: str, choices: Sequence[str], help: str) -> Parameter:
    """A parameter that takes several of the `choices`, all of them where nothing is said."""
    return Parameter(name, "words", list(choices), help, choices=tuple(choices))


_USUAL = {
    p.name: p
    for p in (
        Parameter("work", "counts", [0], "units of work between operations"),
        Parameter(
            "line_windows", "count", None,
            "fewest windows on each line; 3 on arm64, to tell near from far", 1, 1000,
        ),
        Parameter(
            "lines", "count", 8, "lines that uncontended cells visit in each launch", 1, 4096
        ),
        Parameter("contended_lines", "count", 8, "lines that contended cells visit", 1, 4096),
        Parameter(
            "threads", "count", 2,
            "threads of placebo and contended cells, the timed one included", 2, 4096,
        ),
        Parameter("launches", "count", 5, "processes that each cell is run in", 1, 1000),
        Parameter("window_ms", "ms", 2.0, "length of a window", 0.01, 10_000),
        Parameter("contended_window_ms", "ms", 10.0, "length of a contended window", 0.01, 10_000),
    )
}  # fmt: skip


def usual(**defaults: Any) -> tuple[Parameter, ...]:
    """Parameters that many plans have, with the defaults of one of them."""
    return tuple(replace(_USUAL[name], default=value) for name, value in defaults.items())


@dataclass(frozen=True)
class Inputs:
    """What a plan is built for: the machine, the parameters, the budget, and `keep`, which drops
    unwanted cells.

    `keep` raises UserError when it would leave nothing.
    """

    forms: Sequence[Form]
    topology: Topology
    values: dict[str, Any]
    budget_s: float
    keep: Callable[[list[Cell]], list[Cell]]

    def forms_of(self, operations: Sequence[str], *archs: str, word: bool = False) -> list[Form]:
        """Forms of these operations and of this architecture or `archs`, with `word` at its word's
        width; those that the CPU lacks stay, to be reported as such."""
        return [
            form
            for form in self.forms
            if form.operation in operations
            and form.arch in (self.topology.arch, *archs)
            and (not word or form.width_bits == self.topology.word_bits)
        ]

    def plan(self, name: str, cells: Iterable[Cell], **more: Any) -> Plan:
        """The plan of the wanted cells, with the launches and windows of the parameters unless
        `more` has others."""
        stated = {"launches", "window_ms", "contended_window_ms"} & self.values.keys()
        fields = {key: self.values[key] for key in stated} | {"budget_s": self.budget_s} | more
        return Plan(linewright_plan=2, name=name, cells=self.keep(list(cells)), **fields)


@dataclass(frozen=True)
class BuiltIn:
    """A plan that the command knows by name."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    build: Callable[[Inputs], Plan]
    budget_s: float


def settings(plan: BuiltIn, pairs: Sequence[str]) -> dict[str, Any]:
    """Values of every parameter of a plan: those of ``key=value`` pairs, else the defaults."""
    return values_of(plan.parameters, pairs, f"plan {plan.name}")


def values_of(parameters: Sequence[Parameter], pairs: Sequence[str], owner: str) -> dict[str, Any]:
    """The same of any list of parameters; `owner` is what refusals call that which has them."""
    by_name = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {
        name: p.parse(p.default) if p.kind in WITH_UNIT and p.default else p.default
        for name, p in by_name.items()
    }
    given: set[str] = set()
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in by_name:
            allowed = f"{owner} has {'=, '.join(by_name)}="
            raise UserError(f"no parameter {pair!r}", "--set", allowed)
        if key in given:
            raise UserError(f"{key} given twice", "--set", "each parameter once")
        given.add(key)
        values[key] = by_name[key].parse(text)
    return values
