"""Sentences as data: what is said, of which family, with its numbers; one function turns them into
text."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


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
    cells: tuple[str, ...] = ()
    """Ids of the cells whose answer it says, for ``show --why``, or names of the settings of a
    trial; none where it speaks of the whole run."""
    verbatim: bool = False
    """It begins with a name, or ends with one, and is written as it is."""


def said(text: str, family: str = "", cells: tuple[str, ...] = (), **numbers: float) -> Sentence:
    """A sentence of one clause without a condition, and the cells that it rests on."""
    clause = Clause(text=text, numbers=numbers)
    return Sentence(lead="", clauses=[clause], family=family, cells=cells)


def verbatim(text: str, cells: tuple[str, ...] = ()) -> Sentence:
    """A sentence that is written as it is, since it begins or ends with a name."""
    return Sentence(lead="", clauses=[Clause(text=text)], cells=cells, verbatim=True)


def render(sentence: Sentence) -> str:
    """The sentence as a line of text: capital first, full stop last."""
    body = "; ".join(clause.text for clause in sentence.clauses)
    text = f"{sentence.lead}: {body}" if sentence.lead else body
    if sentence.verbatim:
        return text
    text = text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")
    return f"{sentence.machine}: {text}" if sentence.machine else text


def render_all(sentences: Sequence[Sentence]) -> list[str]:
    """Every sentence as a line of text."""
    return [render(sentence) for sentence in sentences]
