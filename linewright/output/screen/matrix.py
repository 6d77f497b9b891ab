"""The matrix of the screen: operation × {alone, among work, second CPU on the line}, with the best other form."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.table import Table

from linewright.analysis.saying import at_most
from linewright.analysis.screen_data import Condition, Entry, Row, Screen
from linewright.output.columns import Column, table, table_width
from linewright.output.screen import words


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


class Letters:
    """Forms that cells name by a letter, which the legend explains."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._letters.setdefault(name, chr(ord("a") + len(self._letters)))

    def legend(self) -> str:
        return ", ".join(f"{letter}: {name}" for name, letter in self._letters.items())


def _name(entry: Entry) -> str:
    return words.form_name(entry.versus.form, entry.default.form if entry.default else "")


def only_name(screen: Screen) -> str:
    """The one name of all alternatives, which the heading then bears; empty where they differ.

    An alternative that is another row's form, such as the loop that reads first, does not count.
    """
    rows = {entry.default.form for row in screen.rows for entry in row.entries.values() if entry.default}
    found = [entry for row in screen.rows for entry in row.entries.values() if entry.versus]
    names = {_name(entry) for entry in found if entry.versus.form not in rows and entry.versus.low is not None}
    return names.pop() if len(names) == 1 else ""


def matrix(screen: Screen, width: int) -> tuple[Table, list[str]]:
    """The table and the lines of its legend.  What the width has no room for goes in this order: the range of contended
    figures, spaces inside intervals, the intervals of what is undecided.  A figure is never cut."""
    shared = only_name(screen)
    for level in _LEVELS:
        letters = Letters()
        columns: list[Column[Row]] = [Column(f"ns, {screen.width_bits} bit", lambda row: row.name, text=True)]
        for condition in _shown(screen):
            columns += _columns(condition, shared, letters, level)
        columns = [column for column in columns if any(column.value(row) for row in screen.rows)]
        if table_width(columns, screen.rows) <= width + 1:
            break
    return table("", columns, screen.rows), _legend(screen, letters)


def _shown(screen: Screen) -> list[Condition]:
    """The conditions under which some operation has a figure; the limits say why one has none."""
    return [
        condition
        for condition in screen.conditions
        if any(entry.default for row in screen.rows if (entry := row.entries.get(condition.key)))
    ]


def _columns(condition: Condition, shared: str, letters: Letters, level: _Level) -> list[Column[Row]]:
    columns = [Column(_heading(condition), _figure_of(condition.key))]
    if condition.key == "contended" and level.ranges:
        columns.append(Column("range", _range_of(condition.key)))
    heading = shared or ("best other" if level.spaced else "other")
    columns.append(Column(heading, _versus_of(condition.key, shared, letters, level), text=True))
    return columns


def _heading(condition: Condition) -> str:
    if condition.key == "alone":
        return "alone"
    if condition.key == "work":
        return f"in {condition.work_iters} work"
    return "2nd CPU" if condition.threads <= 2 else f"{condition.threads} CPUs"


def _figure_of(key: str) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        entry = row.entries.get(key)
        if entry is None:
            return ""
        return words.figure(entry.default) if entry.default else entry.why or "–"

    return value


def _range_of(key: str) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        entry = row.entries.get(key)
        return words.span(entry.default) if entry and entry.default and not entry.default.modes_ns else ""

    return value


def _versus_of(key: str, shared: str, letters: Letters, level: _Level) -> Callable[[Row], str]:
    return lambda row: _versus(row.entries[key], shared, letters, level) if key in row.entries else ""


def _versus(entry: Entry, shared: str, letters: Letters, level: _Level) -> str:
    """``=``, ``? -14 to +9 %``, ``-52 to -48 % a`` or ``more``; empty where no other form was measured."""
    versus = entry.versus
    if versus is None:
        return ""
    if versus.answer == "same":
        return "="
    if versus.answer == "slower":
        return "more"
    change = words.change(versus)
    if not level.spaced:
        change = change.replace(" to ", "..").replace(" %", "%").replace(" ns", "ns")
    if not change or (versus.answer == "undecided" and not level.open):
        return "?"
    text = f"? {change}" if versus.answer == "undecided" else change
    return text if _name(entry) == shared else f"{text} {letters.of(_name(entry))}"


def _legend(screen: Screen, letters: Letters) -> list[str]:
    """What the signs mean, and the run's own controls; only what the table shows."""
    entries = [entry for row in screen.rows for entry in row.entries.values()]
    answers = {entry.versus.answer for entry in entries if entry.versus}
    parts = []
    if "same" in answers:
        parts.append("= same within " + ", ".join(f"{words.same_within(c)} {_short(c)}" for c in _shown(screen)))
    if "undecided" in answers:
        parts.append("? undecided")
    if "slower" in answers:
        parts.append("more: all others cost more")
    if letters.legend():
        parts.append(letters.legend())
    if any(entry.default and entry.default.metastable for entry in entries):
        parts.append("~ several modes")
    parts += [
        f"in {c.work_iters} work: ns {'added to' if c.scale == 'ns' else 'with'} {c.work_iters} units of it"
        for c in _shown(screen)
        if c.key == "work"
    ]
    if not _floors(screen) and _loop(screen):
        parts.append(_loop(screen))
    lines = ["; ".join(parts)] if parts else []
    return [*lines, control_line(screen)] if _floors(screen) else lines


def control_line(screen: Screen) -> str:
    """The run's own controls in a sentence: its noise floor and its loop of work; empty where neither was measured."""
    text = "; ".join(filter(None, [_floors(screen), _loop(screen)]))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _floors(screen: Screen) -> str:
    known = [f"{words.floor(c)} {_short(c)}" for c in _shown(screen) if c.pairs]
    return f"noise floor: {', '.join(known)}" if known else ""


def _loop(screen: Screen) -> str:
    known = [c for c in _shown(screen) if c.bent is not None and c.spread is not None]
    return "".join(f"work linear to {at_most(c.bent)}, steady to {at_most(c.spread)}" for c in known[:1])


def _short(condition: Condition) -> str:
    return {"alone": "alone", "work": "among work", "contended": "contended"}[condition.key]
