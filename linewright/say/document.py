"""The one document that every command shows: figures and sentences as frozen records, no text
layout and no statistics."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from linewright.analysis.matrix import MatrixColumn, Row
from linewright.analysis.price_list import Price
from linewright.analysis.setting_choice import Choice
from linewright.say.sentence import Sentence
from linewright.schema import Cell

DrawnCell = tuple[Cell, dict[str, Any]]
"""A cell, and what charts draw of it by name: words, figures and marks (`cell_figures`)."""


class TextTable(Struct, frozen=True, kw_only=True):
    """A table whose cells are text, and what is said of it."""

    title: str
    headings: list[str]
    left: list[bool]
    """For each column whether it is text, which stands left and may be folded."""
    rows: list[list[str]]
    styles: list[str] = []
    """For each row how it is marked where colours are: ``good``, ``bad``, ``alarm`` or nothing."""
    folds: tuple[int, ...] = (0,)
    """The columns whose texts may be folded where there is no room."""
    spare: tuple[int, ...] = ()
    """The columns that are left out where there is little room."""
    what: str = "row"
    """What a row is, for the line that counts those left out."""
    notes: list[Sentence] = []
    """Below it."""
    spans: list[tuple[float, float, float] | None] = []
    """For each row the interval of a ratio that a page draws: its low end, middle and high end."""
    closed: bool = False
    """A page shows its rows only when they are asked for."""


class Topic(Struct, frozen=True, kw_only=True):
    """One part of the evidence: `lines` for people, `data` for programs, both saying the same."""

    name: str
    title: str
    lines: list[Sentence]
    data: Any


def topic(name: str, title: str, lines: list[Sentence], data: Any) -> Topic | None:
    """A topic; None where there is nothing to say."""
    return Topic(name=name, title=title, lines=lines, data=data) if lines else None


class Decision(Struct, frozen=True, kw_only=True):
    """What to set for a process."""

    variable: str
    value: str
    """By the grammar of policy.h; ``default`` when no setting is supported."""
    supported: bool
    why: str
    """As `Choice.why`, or ``emulated``, ``architecture`` (one form for each operation there),
    ``not_measured``."""
    sentence: Sentence


class Document(Struct, frozen=True, kw_only=True):
    """All that is said of one subject: a machine, a comparison, a trial or a search.  It is made by
    the rooms that have the answers, and linewright/show renders it as a screen, a page or JSON:
    whatever a command's JSON holds beside it, it is ``document`` there."""

    linewright_document: int = 2
    machine_id: str = ""
    arch: str = ""
    target: str = ""
    title: str = ""
    """Of a machine the CPU's name, of a page its heading; nothing is concluded from it."""
    facts: list[Sentence] = []
    """What else tells the subject, the weightiest first."""
    run: list[Sentence] = []
    """Plan, timed CPU, launches, time spent."""
    coarse: bool = False
    """Fewer launches than a claim needs: the run was cut short, or asked for little time."""
    warning: Sentence | None = None
    """Set where figures mean something else than usual: emulated, simulated, published
    percentiles."""
    headline: list[Sentence] = []
    """The answer: what an operation costs, what changed, which setting is better, what was
    found."""
    uses: list[Sentence] = []
    """What to write in code, the most valuable first; empty where nothing is decided."""
    settings: list[Sentence] = []
    """What to set LINEWRIGHT_ATOMICS to, or why there is nothing to set."""
    tone: Literal["", "good", "doubt", "bad"] = ""
    """How the first line of the headline is marked where colours are."""
    undecided: list[Sentence] = []
    """What was compared without an answer, and what would decide it."""
    limits: list[Sentence] = []
    """What is withheld, not believed, or holds only here; the most important first."""
    width_bits: int = 64
    columns: list[MatrixColumn] = []
    rows: list[Row] = []
    prices: list[Price] = []
    missing: list[Sentence] = []
    """Parts of the matrix or price list that no record holds, each with the plan that gives it."""
    cells: list[DrawnCell] = []
    """Every cell with figures, where charts of them were asked for."""
    tables: list[TextTable] = []
    """Other figures than those of operations and prices, as text."""
    decision: Decision | None = None
    """What to set for a process, for programs; `settings` says it."""
    choices: list[Choice] = []
    """The same by class of operations."""
    topics: list[Topic] = []
    """The evidence, where it was asked for."""
