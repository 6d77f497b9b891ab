"""The matrix of the screen: operation × {alone, with work, with a second CPU}, with the best
other form."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from linewright import numbers
from linewright.analysis.matrix import Entry, MatrixColumn, Row
from linewright.say import cost_words as words
from linewright.say.columns import Column, table_of
from linewright.say.document import Document, TextTable
from linewright.show.text_tables import table_width


class _Level(NamedTuple):
    """What a table shows besides its figures."""

    ranges: bool
    """The range of contended figures."""
    spaced: bool
    """Spaces inside intervals."""
    open: bool
    """The intervals of what is undecided."""


_LEVELS = (
    _Level(True, True, True),
    _Level(False, True, True),
    _Level(False, False, True),
    _Level(True, False, False),
    _Level(False, False, False),
)


def only_name(screen: Document) -> str:
    """The one name of all alternatives, which the heading then bears; empty where they differ.

    An alternative that is another row's form, such as the loop that reads first, does not count.
    """
    rows = {
        entry.default.form for row in screen.rows for entry in row.entries.values() if entry.default
    }
    found = [entry for row in screen.rows for entry in row.entries.values() if entry.versus]
    names = {
        words.other_form(entry)
        for entry in found
        if entry.versus.form not in rows and entry.versus.low is not None
    }
    return names.pop() if len(names) == 1 else ""


def matrix(screen: Document, width: int = 0) -> tuple[TextTable, list[str]]:
    """The table without empty columns, and the lines of its legend.  What `width`, unless it is 0,
    has no room for goes in this order: the range of contended figures, spaces inside intervals, the
    intervals of what is undecided.  A figure is never cut."""
    for level in _LEVELS:
        letters: dict[str, str] = {}
        columns = _columns(screen, letters, level)
        # All values, not the first that there is: each may name a form by a new letter.
        values = [[column.value(row) for row in screen.rows] for column in columns]
        columns = [column for column, own in zip(columns, values, strict=True) if any(own)]
        made = table_of("", columns, screen.rows)
        if not width or table_width(made) <= width + 1:
            break
    return made, _legend(screen, letters)


def _columns(screen: Document, letters: dict[str, str], level: _Level) -> list[Column[Row]]:
    def of(column: MatrixColumn, text: Callable[[Entry], str]) -> Callable[[Row], str]:
        key = column.key
        return lambda row: text(row.entries[key]) if key in row.entries else ""

    shared = only_name(screen)
    other = shared or ("best other" if level.spaced else "other")
    columns: list[Column[Row]] = [
        Column(f"ns, {screen.width_bits} bit", lambda row: row.name, text=True)
    ]
    for c in words.shown_columns(screen):
        columns.append(Column(words.heading(c), of(c, _figure)))
        if c.key == "contended" and level.ranges:
            columns.append(
                Column(
                    _confidence(screen, c),
                    of(c, lambda e: words.span(e.default) if e.default else ""),
                )
            )
        versus = of(c, lambda entry: _versus(entry, shared, letters, level))
        columns.append(Column(other, versus, text=True))
    return columns


def _figure(entry: Entry) -> str:
    return words.figure(entry.default) if entry.default else words.why_none(entry) or "–"


def _confidence(screen: Document, c: MatrixColumn) -> str:
    """What the intervals of a column hold: ``95 %``, and of a simulated machine ``90 %``."""
    entries = [row.entries[c.key] for row in screen.rows if c.key in row.entries]
    known = [e.default.ns.confidence for e in entries if e.default and e.default.ns.confidence > 0]
    return f"{100 * min(known, default=0.95):.0f} %"


def _versus(entry: Entry, shared: str, letters: dict[str, str], level: _Level) -> str:
    """``=``, ``? -14 to +9 %``, ``-52 to -48 % a`` or ``more``; empty where no other form was
    measured."""
    versus = entry.versus
    if versus is None:
        return ""
    if versus.answer == "same":
        return "="
    if versus.answer == "slower":
        return "more"
    change = numbers.change(versus.low, versus.high, versus.scale)
    if not level.spaced:
        change = change.replace(" to ", "..").replace(" %", "%").replace(" ns", "ns")
    if not change or (versus.answer == "undecided" and not level.open):
        return "?"
    text = f"? {change}" if versus.answer == "undecided" else change
    if words.other_form(entry) == shared:
        return text
    return f"{text} {letters.setdefault(words.other_form(entry), chr(ord('a') + len(letters)))}"


def _legend(screen: Document, letters: dict[str, str]) -> list[str]:
    """What the signs mean, and the run's own controls; only what the table shows."""
    entries = [entry for row in screen.rows for entry in row.entries.values()]
    answers = {entry.versus.answer for entry in entries if entry.versus}
    shown = words.shown_columns(screen)
    floors = any(c.pairs for c in shown)
    parts = []
    if "same" in answers:
        within = ", ".join(f"{words.same_within(c)} ({words.heading(c)})" for c in shown)
        parts.append(f"= same within {within}")
    if "undecided" in answers:
        parts.append("? undecided, corrected for all comparisons")
    if "slower" in answers:
        parts.append("more: all others cost more")
    if letters:
        parts.append(", ".join(f"{letter}: {name}" for name, letter in letters.items()))
    if any(entry.default and entry.default.metastable for entry in entries):
        parts.append("~ metastable")
    parts += [
        f"{words.heading(c)}: ns {'added to' if c.scale == 'ns' else 'with'} "
        f"{words.work_length(c)} of work"
        for c in shown
        if c.key == "work"
    ]
    parts += [] if floors else words.controls(screen)
    return list(filter(None, ["; ".join(parts), words.control_line(screen) * floors]))
