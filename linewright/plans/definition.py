"""What a built-in plan is made of: its parameters, what it is built from, and the function that builds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from linewright.errors import UserError
from linewright.schema import Cell, Plan
from linewright.target.probe import Form, Topology


@dataclass(frozen=True)
class Parameter:
    """A parameter of a plan, set with ``--set name=value``. `kind` is one of ``count``, ``counts``, ``ms``, ``word``,
    ``words``.

    ``counts`` and ``words`` take lists separated by commas; `low` and `high` bound numbers, `choices` words.
    """

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
        if self.choices:
            return ("a list of " if self.kind == "words" else "one of ") + ", ".join(self.choices)
        number = "a number" if self.kind == "ms" else "a whole number"
        return f"{'a list, each ' if self.kind == 'counts' else ''}{number} from {self.low:g} to {self.high:.10g}"

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
        if self.kind in ("word", "words"):
            if text not in self.choices:
                raise self._refuse(text)
            return text
        pattern = r"[0-9]{1,12}" if self.kind != "ms" else r"[0-9]{1,9}(\.[0-9]{1,9})?"
        if not re.fullmatch(pattern, text, re.ASCII) or not self.low <= float(text) <= self.high:
            raise self._refuse(text)
        return float(text) if self.kind == "ms" else int(text)

    def _refuse(self, text: str) -> UserError:
        return UserError(f"bad value {text!r}", f"--set {self.name}", f"allowed: {self.allowed}")


@dataclass(frozen=True)
class Inputs:
    """What a plan is built for: the machine, the parameters, the budget, and `keep`, which drops unwanted cells.

    `keep` raises UserError when it would leave nothing.
    """

    forms: Sequence[Form]
    topology: Topology
    values: dict[str, Any]
    budget_s: float
    keep: Callable[[list[Cell]], list[Cell]]

    def plan(self, name: str, cells: Iterable[Cell], **more: Any) -> Plan:
        """The plan of the wanted cells, with the launches and windows of the parameters unless `more` has others."""
        usual = {
            key: self.values[key] for key in ("launches", "window_ms", "contended_window_ms") if key in self.values
        }
        return Plan(
            linewright_plan=2, name=name, cells=self.keep(list(cells)), budget_s=self.budget_s, **(usual | more)
        )


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
    by_name = {parameter.name: parameter for parameter in plan.parameters}
    values: dict[str, Any] = {name: parameter.default for name, parameter in by_name.items()}
    given: set[str] = set()
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in by_name:
            raise UserError(f"no parameter {pair!r}", "--set", f"plan {plan.name} has {'=, '.join(by_name)}=")
        if key in given:
            raise UserError(f"{key} given twice", "--set", "each parameter once")
        given.add(key)
        values[key] = by_name[key].parse(text)
    return values
