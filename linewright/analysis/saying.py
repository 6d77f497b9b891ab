"""Sentences as data: what is said, of which family, with its numbers; one function turns them into text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from linewright.units import rounded


class Clause(Struct, frozen=True, kw_only=True):
    """One claim."""

    text: str
    """Without capital and full stop."""
    numbers: dict[str, float] = {}
    """The figures that the text rounds, by name with their unit."""


class Sentence(Struct, frozen=True, kw_only=True):
    """Claims that hold under one condition."""

    lead: str
    """The condition, such as ``alone``; empty where the clauses say it themselves."""
    clauses: list[Clause]
    family: str = ""
    """Name of the family of operations that is spoken of; empty: the whole machine."""
    machine: str = ""
    """Which machine, where records of several are spoken of."""


def said(text: str, family: str = "", **numbers: float) -> Sentence:
    """A sentence of one clause without a condition."""
    return Sentence(lead="", clauses=[Clause(text=text, numbers=numbers)], family=family)


def render(sentence: Sentence) -> str:
    """The sentence as a line of text: capital first, full stop last."""
    body = "; ".join(clause.text for clause in sentence.clauses)
    text = f"{sentence.lead}: {body}" if sentence.lead else body
    text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    return f"{sentence.machine}: {text}" if sentence.machine else text


def render_all(sentences: Sequence[Sentence]) -> list[str]:
    """Every sentence as a line of text."""
    return [render(sentence) for sentence in sentences]


def join(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""


def number(value: float) -> str:
    """A time in ns with three significant digits and no exponent."""
    if not math.isfinite(value):
        return "-"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return rounded(value, digits)


def at_most(share: float) -> str:
    """A bound in percent, rounded up: what differs by 4.04 % is not the same within 4.0 %."""
    points = 100 * share
    digits = 1 if points < 10 else 0
    return f"{_up(points, digits):.{digits}f} %"


def at_most_ns(ns: float) -> str:
    """The same of a time."""
    return f"{_up(ns, 1):.1f} ns"


def _up(value: float, digits: int) -> float:
    return math.ceil(value * 10**digits - 1e-6) / 10**digits
