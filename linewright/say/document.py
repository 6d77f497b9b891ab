# SPDX-License-Identifier: MIT
"""The one document that every command shows: a list of blocks (sentences, tables, bars)
whose words and figures are ready, with no layout and no statistics; and sentences as data, which
one function turns into text.

A room with answers makes it by `document_of`, with sentences from `sentence` and tables from
`table_of`, where each column has heading, unit, value and meaning in one place:

    document_of(
        headline=[sentence("two lines travel between threads", basis="lines", cells=["0x7f00"])],
        tables=[table_of("The lines", columns, lines)],
        topics=[Topic(name="fix", title="What to do", lines=[...], data=fixes)],
        limits=[sentence_as_written("blind to: loads", basis="rule")],
    )

A screen, a page, linear text and JSON each show blocks of that list: they pick by a block's name
and its audience, leave out what has the highest rank, and word nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from linewright import numbers
from linewright.errors import one_line
from linewright.forms import listed

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
    cells: Iterable[Any] = (),
    basis: Basis = "cells",
    lead: str = "",
    **numbers: float,
) -> Sentence:
    """A sentence of one clause, and what it rests on: names, or what has an ``id`` or ``ids``."""
    clauses, ids = [Clause(text=text, numbers=numbers)], names_of(cells)
    return Sentence(lead=lead, clauses=clauses, family=family, cells=ids, basis=basis)


def sentence_as_written(text: str, cells: Iterable[Any] = (), basis: Basis = "cells") -> Sentence:
    """A sentence that is written as it is, since it begins or ends with a name."""
    return replace(sentence(text, cells=cells, basis=basis), as_written=True)


def of_run(texts: Iterable[str]) -> list[Sentence]:
    """Sentences that rest on what the contexts or the command say, written as they are."""
    return [sentence_as_written(text, basis="run") for text in texts]


def names_of(things: Iterable[Any]) -> tuple[str, ...]:
    """The names of these, each once: they are names, or have an ``id`` or ``ids``."""
    names = ([x] if isinstance(x, str) else x.ids if hasattr(x, "ids") else [x.id] for x in things)
    return tuple(unique(itertools.chain.from_iterable(names)))


def unique(values: Iterable[T]) -> list[T]:
    """Each value once, in order of appearance."""
    return list(dict.fromkeys(values))


def render(sentence: Sentence) -> str:
    """The sentence as a line of text: capital first, full stop last."""
    text = f"{sentence.lead}: {sentence.text}" if sentence.lead else sentence.text
    if sentence.as_written:
        return text
    text = capital(text) + ("" if text.endswith((".", "…")) else ".")
    return f"{sentence.machine}: {text}" if sentence.machine else text


def capital(text: str) -> str:
    """A text with a capital first; the name of a form stays as it is written in code."""
    first = re.split("[ ,:;]", text, maxsplit=1)[0]
    return text if "_" in first or listed(first) else text[:1].upper() + text[1:]


def render_all(sentences: Iterable[Sentence]) -> list[str]:
    """Every sentence as a line of text."""
    return [render(sentence) for sentence in sentences]


TOPICS = {
    "facts": "What else tells the subject, the weightiest first.",
    "run": "Plan, timed CPU, launches, time spent.",
    "warning": "Figures mean something else than usual: emulated, simulated, published.",
    "headline": "The answer: what an operation costs, what changed, what was found.",
    "uses": "What to write in code, the most valuable first; none where nothing is decided.",
    "settings": "What to set LINEWRIGHT_ATOMICS to, or why there is nothing to set.",
    "missing": "Parts of the tables that no record holds, each with the plan that gives it.",
    "undecided": "What was compared without an answer, and what would decide it.",
    "limits": "What is withheld, not believed, or holds only here; the most important first.",
}
"""The topics that every reader is shown, in the order of the document, and what each says."""
LIMITS = ("missing", "undecided", "limits")
"""Those of them that a machine's screen shows below its tables."""
Audience = Literal["everyone", "short", "evidence", "cells", "page"]
"""Whom a block is for: every reader, those who are not shown every cell, or one who asks for the
evidence (`advise`), for every cell (``show --all``) or for a page."""
ASKED = 10_000
"""The least rank of what is shown to those alone who ask for everything."""


GIVES_WAY: dict[str, tuple[tuple[int, int], ...]] = {
    "limits": ((1, 9000), (3, ASKED)),
    "prices": ((3, 2000), (6, 4000), (9, 8000)),
    "matrix": ((1, 1000), (5, 7000)),
    "uses": ((1, 3000), (3, 6000), (4, ASKED)),
}
"""What gives way on a machine's screen: from which place on, the weightiest first, sentences or
rows have which rank; blank lines have 5000."""


def rank_at(place: int, name: str) -> int:
    """The rank of a machine's sentence or row by its place: of neighbours the last goes first."""
    return max((rank + place for first, rank in GIVES_WAY[name] if place >= first), default=0)


class Topic(Struct, frozen=True, kw_only=True, tag_field="block", tag="sentences"):
    """Sentences on one topic, the weightiest first: what has room for fewer keeps the first.  Each
    names the cells that it rests on."""

    name: str
    """One of `TOPICS`, or of the maker's own for evidence."""
    title: str = ""
    audience: Audience = "evidence"
    ranks: list[int] = []
    """For each sentence when it gives way where there is no room for all: the highest first, 0
    never; without any all stay."""
    lines: list[Sentence]
    data: Any = None
    """The same for programs, where they need more than the sentences' numbers."""

    def kept(self, most: int) -> Topic:
        """Without the sentences of a higher rank."""
        if not self.ranks:
            return self
        pairs = zip(self.lines, self.ranks, strict=True)
        return replace(self, ranks=[], lines=[line for line, rank in pairs if rank <= most])


class TableCell(Struct, frozen=True, kw_only=True):
    """A cell of a table with more than its text."""

    text: str
    value: float | None = None
    """The plain value, in the column's unit, that the text rounds."""
    modes: tuple[float, ...] = ()
    """Of a metastable cell the values that the text rounds: no launch costs what lies between."""
    low: float | None = None
    """Ends of its interval; None where there is none."""
    high: float | None = None
    shorter: tuple[str, ...] = ()
    """Texts for less room, each shorter than the one before."""
    note: str = ""
    """What a letter behind the text stands for; the line below the table names it."""
    sign: str = ""
    """The sign in the text that the table's legend explains."""

    def at(self, level: int) -> str:
        """The text, or for less room the one that is as many steps shorter."""
        return (self.text, *self.shorter)[min(level, len(self.shorter))]


def text_of(cell: str | TableCell) -> str:
    return cell if isinstance(cell, str) else cell.text


class TextTable(Struct, frozen=True, kw_only=True, tag_field="block", tag="table"):
    """A table whose cells are text, and what is said of it."""

    name: str = ""
    """What programs, and screens that show some tables only, know it by."""
    title: str
    headings: list[str]
    """Each with its unit."""
    short_headings: list[str] = []
    """The same for less room, where any is shorter."""
    left: list[bool]
    """For each column whether it is text, which stands left and may be folded."""
    rows: list[list[str | TableCell]]
    styles: list[str] = []
    """For each row how it is marked where colours are: ``good``, ``bad``, ``alarm`` or nothing."""
    folds: tuple[int, ...] = (0,)
    """The columns whose texts may be folded where there is no room."""
    spare: tuple[int, ...] = ()
    """The columns that are left out where there is little room."""
    what: str = "row"
    """What a row is, for the line that counts those left out."""
    legend: list[tuple[str, str]] = []
    """Signs of the cells and their meanings; one without a sign is always said. `LETTERS` stands
    where the letters of notes are explained."""
    spoken: list[Sentence] = []
    """What the rows say without columns and signs, for readers of linear text."""
    notes: list[Sentence] = []
    """Below it."""
    spans: list[tuple[float, float, float] | None] = []
    """For each row the interval of a ratio that a page draws: its low end, middle and high end."""
    closed: bool = False
    """A page shows its rows only when they are asked for."""
    audience: Audience = "everyone"
    ranks: list[int] = []
    """For each row when it gives way, as of a `Topic`; without any its place, so that the first
    stays."""

    def kept(self, most: int) -> TextTable:
        """Without the rows of a higher rank."""
        ranks = self.ranks or range(len(self.rows))
        kept = [n for n, rank in enumerate(ranks) if rank <= most]
        styles = [self.styles[n] for n in kept] if self.styles else []
        return replace(self, rows=[self.rows[n] for n in kept], styles=styles, ranks=[], spans=[])


LETTERS = "a"


class Axis(Struct, frozen=True, kw_only=True):
    """What a chart measures along one of its directions."""

    name: str
    """The field of the rows that it shows."""
    title: str
    """With its unit."""
    log: bool = False
    interval: bool = False
    """Whether rows have the ends of its interval: ``NAME_low`` and ``NAME_high``."""
    places: list[str] = []
    """Of an axis of words these, in their order."""
    ends: tuple[float, float] | None = None
    """Of a scale of colours the smallest and the largest value."""


class Bars(TextTable, frozen=True, kw_only=True, tag_field="block", tag="bars"):
    """A table of which some columns are drawn as bars too, on one logarithmic scale."""

    axis: Axis
    """What the values are."""
    bars: list[tuple[int, str]]
    """The columns whose cells' values are drawn, by place, each with what it is of, in words."""
    beyond: float
    """Values above this are none of the scale's: their bars end in an arrow."""

    def values_of(self, row: Sequence[str | TableCell]) -> list[float]:
        """What the bars of a row show."""
        cells = [c for place, _ in self.bars if isinstance(c := row[place], TableCell)]
        return [v for c in cells for v in c.modes or (c.value,) if v and v > 0]


class Selection(Struct, frozen=True, kw_only=True):
    """A choice above charts among the values that a field of their rows has; the first holds at
    first. Of the signal ``shade`` the values are names of fields."""

    signal: str
    """The field."""
    label: str
    options: list[tuple[str, str]]
    """(value, text)."""


class Chart(Struct, frozen=True, kw_only=True):
    """Rows that are drawn, and how; each is of a form (``form``, its colour) and of a machine
    (``series``), and may have a mark of doubt (``mark``)."""

    name: str
    title: str
    spoken: str
    """What it shows, for those who do not see it."""
    kind: Literal["points", "scatter", "lines", "tiles"]
    """``points``: figures across, names down; ``scatter``: figures on both axes; ``lines``: figures
    over places; ``tiles``: colours by names."""
    x: Axis
    y: Axis
    rows: list[dict[str, Any]]
    tips: Sequence[tuple[str, str]]
    """(field, title) of what is said of a row; a field that ends in ``:q`` is a number."""
    choices: list[Selection] = []
    strokes: Axis | None = None
    """What lines are told apart by beside their form; machines for None."""
    fitted: str = ""
    """The field that lines follow, where it is not that of the points."""
    facet: Axis | None = None
    """What tiles stand apart by."""
    shades: list[Axis] = []
    """What the colours of tiles may be; of several the reader picks one."""
    legend: str = ""
    """What these colours mean."""
    broad: bool = False
    """Takes a page's whole width."""


class Explorer(Struct, frozen=True, kw_only=True):
    """Cells of which a reader picks the operation, the figure, and what it is shown along."""

    name: str = "explore"
    figures: list[Axis]
    axes: list[Axis]
    operations: list[tuple[str, str, str]]
    """Each as rows name it, in words, and its family."""
    rows: list[dict[str, Any]]
    """For each cell its figures by name with the ends of their intervals, and ``at``: for each axis
    on which it stands the place, and what is held there."""


Block = Topic | TextTable | Bars


class Section(Struct, frozen=True, kw_only=True):
    """A part of a page: what it shows and how that is read, then charts, bars and tables."""

    id: str
    title: str
    lead: Sentence
    choices: list[Selection] = []
    """What the reader picks for all of its charts."""
    blocks: list[TextTable | Bars | Chart | Explorer] = []
    notes: list[Sentence] = []


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


class Cost(Struct, frozen=True, kw_only=True):
    """One cost of a machine, under a name that other machines' documents have too."""

    name: str
    cell: TableCell


class Document(Struct, frozen=True, kw_only=True):
    """All that is said of one subject: a machine, a comparison, a trial or a search.  Whatever a
    command's JSON holds beside it, it is ``document`` there."""

    linewright_document: int = 3
    machine_id: str = ""
    arch: str = ""
    target: str = ""
    title: str = ""
    """Of a machine the CPU's name, of a page its heading; nothing is concluded from it."""
    tone: Literal["", "good", "doubt", "bad"] = ""
    """How the first line of the headline is marked where colours are."""
    coarse: bool = False
    """Fewer launches than a claim needs: the run was cut short, or asked for little time."""
    blocks: list[Block] = []
    decision: Decision | None = None
    """What to set for a process, for programs; the topic ``settings`` says it."""
    costs: list[Cost] = []
    """What several machines may be compared by."""

    def of(self, name: str) -> list[Sentence]:
        """The sentences on one topic, the weightiest first."""
        found = (b for b in self.blocks if isinstance(b, Topic) and b.name == name)
        return [line for block in found for line in block.lines]

    @property
    def tables(self) -> list[TextTable]:
        return [block for block in self.blocks if isinstance(block, TextTable)]

    def table(self, name: str) -> TextTable | None:
        """The table of a name."""
        return next((table for table in self.tables if table.name == name), None)

    @property
    def evidence(self) -> list[Topic]:
        """What is shown to those who ask for it."""
        return [b for b in self.blocks if isinstance(b, Topic) and b.audience == "evidence"]

    @property
    def ranks(self) -> list[int]:
        """Of everything that may give way."""
        every = [block.ranks for block in self.blocks]
        every += [range(len(table.rows)) for table in self.tables if not table.ranks]
        return [rank for ranks in every for rank in ranks if rank]

    def kept(self, most: int) -> Document:
        """Without the sentences and rows of a higher rank."""
        return replace(self, blocks=[block.kept(most) for block in self.blocks])


def document_of(
    tables: Iterable[TextTable] = (), topics: Sequence[Topic] = (), **parts: Any
) -> Document:
    """A document: sentences by their topic of `TOPICS`, the tables behind what is to be done, then
    the topics of evidence; `parts`: the other fields of a `Document` too."""
    blocks = topics_of({name: [*parts.pop(name, ())] for name in TOPICS}, "everyone")
    first = sum(block.name in _BEFORE_TABLES for block in blocks)
    return Document(blocks=[*blocks[:first], *tables, *blocks[first:], *topics], **parts)


_BEFORE_TABLES = ("facts", "run", "warning", "headline", "uses", "settings")


def topics_of(said: Mapping[str, list[Sentence]], audience: Audience) -> list[Topic]:
    """Topics without titles; none where there is nothing to say."""
    return [Topic(name=n, lines=lines, audience=audience) for n, lines in said.items() if lines]


def topic(name: str, title: str, lines: list[Sentence], data: Any) -> Topic | None:
    """A topic; None where there is nothing to say."""
    return Topic(name=name, title=title, lines=lines, data=data) if lines else None


Of = TypeVar("Of")


class Column(Struct, Generic[Of], frozen=True):
    """One column of a table whose rows are of type `Of`."""

    heading: str
    value: Callable[[Of], str | TableCell]
    unit: str = ""
    """Shown behind the heading."""
    text: bool = False
    """Text stands at the left and figures at the right."""
    folds: bool = False
    """Whether its texts may be folded where there is no room."""
    spare: bool = False
    """Left out where there is little room."""
    meaning: str = ""
    """One sentence for the legend below the tables; empty where the heading says all."""

    @property
    def title(self) -> str:
        return f"{self.heading} {self.unit}".strip()


Kind = TypeVar("Kind", bound=TextTable)


def table_of(
    title: str,
    columns: Sequence[Column[Of]],
    rows: Iterable[Of],
    kind: type[Kind] = TextTable,
    **more: Any,
) -> Kind:
    """The rows in these columns; `more`: the other fields of a `TextTable` or of its `kind`."""
    return kind(
        title=title,
        headings=[column.title for column in columns],
        left=[column.text for column in columns],
        rows=[[column.value(row) for column in columns] for row in rows],
        folds=tuple(n for n, column in enumerate(columns) if column.folds),
        spare=tuple(n for n, column in enumerate(columns) if column.spare),
        **more,
    )


class CommonCost(NamedTuple):
    """One cost on every machine; None where it was not measured."""

    name: str
    costs: tuple[TableCell | None, ...]

    @property
    def ratio(self) -> str:
        """What the second machine takes of the first one's time, ``1.5 to 1.8 times more``, from
        the ends of both intervals since their launches are independent; empty where these overlap,
        or one has none."""
        first, second = self.costs[:2]
        if not all(cost and cost.low and cost.low > 0 for cost in (first, second)):
            return ""
        low, high = second.low / first.high, second.high / first.low
        return "" if low <= 1 <= high else numbers.times(low, high)


def numbered(documents: Sequence[Document]) -> list[Document]:
    """The documents, with `` #2`` behind the name of each machine that is not the only one of its
    name, by its place."""
    names = [one_line(document.title) for document in documents]
    return [
        replace(one, title=f"{name} #{number}" if names.count(name) > 1 else name)
        for number, (one, name) in enumerate(zip(documents, names, strict=True), 1)
    ]


def common_costs(documents: Sequence[Document]) -> list[CommonCost]:
    """Costs that at least two machines have, in the order of the first machine's document."""
    known = [{cost.name: cost.cell for cost in document.costs} for document in documents]
    names = unique(itertools.chain.from_iterable(known))
    rows = (CommonCost(name, tuple(costs.get(name) for costs in known)) for name in names)
    return [row for row in rows if sum(cost is not None for cost in row.costs) > 1]


def common_words(row: CommonCost, documents: Sequence[Document]) -> str:
    """A common cost as a line without columns."""
    pairs = zip(documents, row.costs, strict=True)
    costs = "; ".join(f"{document.title} {cost.text}" for document, cost in pairs if cost)
    shown = len(documents) == 2 and row.ratio
    return f"{row.name}, nanoseconds: {costs}." + (f" The second takes {shown}." if shown else "")
