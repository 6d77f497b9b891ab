"""The matrix of the screen: operation × {alone, among work, second CPU on the line}, with the best other form."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from linewright.analysis.screen_data import Condition, Entry, Row, Screen
from linewright.output.columns import Column, table
from linewright.output.screen import words

WIDE = 96
"""Columns from which the range of contended figures is shown, and forms are named in the cells."""
_NAMED = 20
"""Longest text of a cell that names its form; a longer name becomes a letter."""


class Letters:
    """Forms that cells name by a letter, which the legend explains."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._letters.setdefault(name, chr(ord("a") + len(self._letters)))

    def legend(self) -> str:
        return ", ".join(f"{letter} {name}" for name, letter in self._letters.items())


def only_name(screen: Screen) -> str:
    """The one name that all alternatives share, which the heading can then bear; empty where they differ."""
    names = {
        words.form_name(entry.versus.form, entry.default.form if entry.default else "")
        for row in screen.rows
        for entry in row.entries.values()
        if entry.versus
    }
    return names.pop() if len(names) == 1 else ""


def matrix(screen: Screen, width: int) -> tuple[Table, list[str]]:
    """The table and the lines of its legend."""
    letters = Letters()
    shared = only_name(screen)
    columns: list[Column[Row]] = [Column(f"ns, {screen.width_bits} bit", lambda row: row.name, text=True)]
    for condition in screen.conditions:
        columns += _columns(condition, shared, letters, width)
    made = table("", columns, screen.rows)
    made.title = None
    for column in made.columns:
        column.header_style = "bold"
    return made, _legend(screen, shared, letters)


def _columns(condition: Condition, shared: str, letters: Letters, width: int) -> list[Column[Row]]:
    columns = [Column(_heading(condition, width), _figure_of(condition.key))]
    if condition.key == "contended" and width >= WIDE:
        columns.append(Column("range", _range_of(condition.key)))
    columns.append(
        Column(shared or "best other form", _versus_of(condition.key, bool(shared), letters, width), text=True)
    )
    return columns


def _heading(condition: Condition, width: int) -> str:
    if condition.key == "alone":
        return "alone"
    if condition.key == "work":
        return f"{'adds to' if width >= WIDE else '+'} {condition.work_iters} work"
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
        return words.span(entry.default) if entry and entry.default else ""

    return value


def _versus_of(key: str, shared: bool, letters: Letters, width: int) -> Callable[[Row], str]:
    return lambda row: versus_text(row.entries[key], shared, letters, width) if key in row.entries else ""


def versus_text(entry: Entry, shared: bool, letters: Letters, width: int) -> str:
    """``=``, ``? -14 to +9 %``, ``-52 to -48 % STADD`` or ``best``; empty where no other form was measured."""
    versus = entry.versus
    if versus is None:
        return ""
    if versus.answer == "same":
        return "="
    if versus.answer == "slower":
        return "best"
    change = words.change(versus)
    if width < WIDE:
        change = change.replace(" to ", "..").replace(" %", "%").replace(" ns", "ns")
    text = f"? {change}".rstrip() if versus.answer == "undecided" else change
    if shared:
        return text
    name = words.form_name(versus.form, entry.default.form if entry.default else "")
    if width >= WIDE and len(f"{text} {name}") <= _NAMED:
        return f"{text} {name}"
    return f"{text} {letters.of(name)}"


def _legend(screen: Screen, shared: str, letters: Letters) -> list[str]:
    """What the signs mean, and the run's own noise floor; only what the table shows."""
    answers = {entry.versus.answer for row in screen.rows for entry in row.entries.values() if entry.versus}
    parts = []
    if "same" in answers:
        within = " / ".join(dict.fromkeys(words.same_within(c) for c in screen.conditions))
        parts.append(f"= {shared or 'no other form'} {'changes' if shared else 'differs'} less than {within}")
    if "undecided" in answers:
        parts.append("? undecided, interval shown")
    if "slower" in answers:
        parts.append("best: every other form costs more")
    if letters.legend():
        parts.append(letters.legend())
    if any(e.default and e.default.metastable for row in screen.rows for e in row.entries.values()):
        parts.append("~ several modes")
    lines = ["; ".join(parts)] if parts else []
    if noise := floor_line(screen):
        lines.append(noise)
    return lines


def floor_line(screen: Screen) -> str:
    """The run's own noise floor in a sentence; empty where no identical forms were measured."""
    known = [c for c in screen.conditions if c.pairs]
    if not known:
        return ""
    parts = ", ".join(f"{words.floor(c)} {_short(c)}" for c in known)
    return f"Noise floor (identical code timed twice): {parts}."


def _short(condition: Condition) -> str:
    return {"alone": "alone", "work": "among work", "contended": "contended"}[condition.key]
