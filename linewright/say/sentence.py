# SPDX-License-Identifier: MIT
"""Sentences as data: what is said, of which family, with its numbers; one function turns them into
text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

from msgspec import Struct

T = TypeVar("T")
Basis = Literal["cells", "settings", "functions", "lines", "costs", "run", "rule"]
"""What a sentence rests on: the cells of records, the settings of a trial, the functions of a
program, cache lines or costs of a fleet that it names; or, without names, ``run`` (what the
contexts or the command say of machine and run) or ``rule`` (how it is measured and decided,
whatever was measured)."""


class Clause(Struct, frozen=True, kw_only=True):
    """One claim."""

    text: str
    """Without capital and full stop."""
    numbers: dict[str, float] = {}
    """The figures that the text rounds, by name with their unit."""


class Sentence(Struct, frozen=True, kw_only=True):
    """Claims that hold in one situation."""

    lead: str
    """The situation, such as ``alone``; empty where the clauses say it themselves."""
    clauses: list[Clause]
    family: str = ""
    """Name of the family of operations that is spoken of; empty: the whole machine."""
    machine: str = ""
    """Which machine, where records of several are spoken of."""
    cells: tuple[str, ...] = ()
    """What it rests on by name, as `basis` says: ids of cells are those of ``show --why``."""
    basis: Basis = "cells"
    as_written: bool = False
    """It begins with a name, or ends with one, and is written as it is."""

    @property
    def text(self) -> str:
        """Its clauses, without the situation."""
        return "; ".join(clause.text for clause in self.clauses)


def sentence(
    text: str,
    family: str = "",
    cells: Iterable[str] = (),
    basis: Basis = "cells",
    lead: str = "",
    **numbers: float,
) -> Sentence:
    """A sentence of one clause, and what it rests on."""
    clause = Clause(text=text, numbers=numbers)
    return Sentence(
        lead=lead, clauses=[clause], family=family, cells=tuple(unique(cells)), basis=basis
    )


def sentence_as_written(text: str, cells: Iterable[str] = (), basis: Basis = "cells") -> Sentence:
    """A sentence that is written as it is, since it begins or ends with a name."""
    clauses = [Clause(text=text)]
    return Sentence(
        lead="", clauses=clauses, cells=tuple(unique(cells)), basis=basis, as_written=True
    )


def unique(values: Iterable[T]) -> list[T]:
    """Each value once, in order of appearance."""
    return list(dict.fromkeys(values))


def render(sentence: Sentence) -> str:
    """The sentence as a line of text: capital first, full stop last."""
    text = f"{sentence.lead}: {sentence.text}" if sentence.lead else sentence.text
    if sentence.as_written:
        return text
    text = text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")
    return f"{sentence.machine}: {text}" if sentence.machine else text


def render_all(sentences: Iterable[Sentence]) -> list[str]:
    """Every sentence as a line of text."""
    return [render(sentence) for sentence in sentences]
