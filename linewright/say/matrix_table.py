# SPDX-License-Identifier: MIT
"""The matrix of a machine as a table: operation × {alone, with work, with a second CPU}, with the
best other form beside each figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linewright import numbers
from linewright.analysis.matrix import Entry, MatrixColumn, Row
from linewright.say.columns import Column, table_of
from linewright.say.cost_words import figure_cell, figure_words, form_name, span
from linewright.say.document import LETTERS, TableCell, TextTable, text_of
from linewright.say.sentence import Sentence, sentence_as_written
from linewright.say.words import in_english

_ROWS = {"read": "load", "xchg": "exchange"}
_CAS_ROWS = {"read_first": "CAS, reads first", "guess_first": "CAS, guesses first"}


def row_name(row: Row) -> str:
    """An operation of the matrix: ``add``, ``CAS, reads first``."""
    return _CAS_ROWS.get(row.loop) or _ROWS.get(row.operation, row.operation)


def heading(column: MatrixColumn) -> str:
    """A column of the matrix: ``alone``, ``work 20``, ``2 CPUs``."""
    return column.situation.without("contender_iters").short()


def matrix_table(
    columns: Sequence[MatrixColumn],
    rows: Sequence[Row],
    bits: int,
    controls: Sequence[str] = (),
) -> TextTable:
    """The table without columns that have no figure; the limits say why one has none.  `controls`:
    the cells that the noise floor rests on."""
    shown, shared = _with_figures(columns, rows), _shared_name(rows)
    other = shared or "best other"
    made: list[Column[Row]] = [Column(f"ns, {bits} bit", row_name, text=True)]
    for c in shown:
        made.append(Column(heading(c), _of(c, _figure)))
        if c.key == "contended":
            made.append(Column(_confidence(rows, c), _of(c, _range), spare=True))
        made.append(Column(other, _of(c, lambda entry: _versus(entry, shared)), text=True))
    made = [column for column in made if any(text_of(column.value(row)) for row in rows)]
    headings = [column.title for column in made]
    return table_of(
        f"Matrix of {bits}-bit operations, nanoseconds per operation",
        made,
        rows,
        name="matrix",
        what="operation",
        short_headings=["other" if text == "best other" else text for text in headings],
        legend=_legend(shown, rows),
        notes=_controls(shown, controls),
        spoken=[
            _spoken(f"{row_name(row)}, {_where(column)}: {_words(entry, column)}", entry)
            for row in rows
            for column in columns
            if (entry := row.entries.get(column.key))
        ],
    )


def _of(
    column: MatrixColumn, text: Callable[[Entry], str | TableCell]
) -> Callable[[Row], str | TableCell]:
    key = column.key
    return lambda row: text(row.entries[key]) if key in row.entries else ""


def _with_figures(columns: Sequence[MatrixColumn], rows: Sequence[Row]) -> list[MatrixColumn]:
    return [c for c in columns if any(e.default for row in rows if (e := row.entries.get(c.key)))]


def _shared_name(rows: Sequence[Row]) -> str:
    """The one name of all alternatives, which the heading then bears; empty where they differ.

    An alternative that is another row's form, such as the loop that reads first, does not count.
    """
    entries = [entry for row in rows for entry in row.entries.values()]
    defaults = {entry.default.form for entry in entries if entry.default}
    names = {
        _other_form(entry)
        for entry in entries
        if entry.versus and entry.versus.first.form not in defaults and entry.versus.contrast
    }
    return names.pop() if len(names) == 1 else ""


def _other_form(entry: Entry) -> str:
    """What sets the best other form of an entry apart from its default."""
    return form_name(entry.versus.first.form, entry.default.form if entry.default else "")


def _figure(entry: Entry) -> str | TableCell:
    return figure_cell(entry.default) if entry.default else in_english(entry.why) or "–"


def _range(entry: Entry) -> str:
    return span(entry.default) if entry.default else ""


def _confidence(rows: Sequence[Row], c: MatrixColumn) -> str:
    """What the intervals of a column hold: ``95 %``, and of a simulated machine ``90 %``."""
    entries = [row.entries[c.key] for row in rows if c.key in row.entries]
    known = [e.default.ns.confidence for e in entries if e.default and e.default.ns.confidence > 0]
    return f"{100 * min(known, default=0.95):.0f} %"


def _versus(entry: Entry, shared: str) -> str | TableCell:
    """``=``, ``? -14 to +9 %``, ``-52 to -48 %`` or ``more``; empty where no other form was
    measured."""
    versus = entry.versus
    if versus is None:
        return ""
    ends = versus.contrast
    known = {"low": ends.low, "high": ends.high} if ends else {}
    if versus.answer in ("same", "slower"):
        sign = "=" if versus.answer == "same" else "more"
        return TableCell(text=sign, sign=sign, **known)
    change = versus.change()
    tight = change.replace(" to ", "..").replace(" %", "%").replace(" ns", "ns")
    name = _other_form(entry)
    note = "" if name == shared or not change else name
    if versus.answer == "undecided":
        shorter = (f"? {tight}", "?") if change else ()
        text = f"? {change}".strip()
        return TableCell(text=text, shorter=shorter, sign="?", note=note, **known)
    return TableCell(text=change or "?", shorter=(tight or "?",), note=note, **known)


def same_within(column: MatrixColumn) -> str:
    """What ``=`` promises in a column: ``5 %`` or ``0.5 ns``."""
    return f"{column.same:.1f} ns" if column.scale == "ns" else f"{100 * column.same:.0f} %"


def _legend(shown: Sequence[MatrixColumn], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """What the signs mean."""
    within = ", ".join(f"{same_within(c)} ({heading(c)})" for c in shown)
    made = [
        ("=", f"= same within {within}"),
        ("?", "? undecided, corrected for all comparisons"),
        ("more", "more: all others cost more"),
        (LETTERS, ""),
        ("~", "~ metastable"),
    ]
    for c in shown:
        if c.key == "work":
            kind = "added to" if c.scale == "ns" else "with"
            made.append(("", f"{heading(c)}: ns {kind} {_work_length(c)} of work"))
    return made


def _work_length(column: MatrixColumn) -> str:
    """How long a column's work takes, or where that is unknown its units."""
    units = column.situation.work_iters
    length = units * column.unit_ns
    return f"{numbers.figure(length, 2)} ns" if length > 0 else f"{units} units"


def _controls(shown: Sequence[MatrixColumn], cells: Sequence[str]) -> list[Sentence]:
    """The run's own controls, its noise floor and its loop of work, in one sentence; nothing where
    none was measured."""
    floors = [f"{numbers.within(c.floor, c.scale)} ({heading(c)})" for c in shown if c.pairs]
    parts = [f"noise floor: {', '.join(floors)}"] * bool(floors) + [
        f"work linear to {numbers.at_most(c.bent)}, steady to {numbers.at_most(c.spread)}"
        for c in shown
        if c.bent is not None and c.spread is not None
    ]
    text = "; ".join(parts)
    basis = "cells" if cells else "run"
    return [sentence_as_written(f"{text[0].upper()}{text[1:]}.", cells, basis)] if text else []


# ---- without columns ---------------------------------------------------------------------------


def _spoken(text: str, entry: Entry) -> Sentence:
    cells = [entry.default.id] if entry.default else []
    return sentence_as_written(text, cells, "cells" if cells else "run")


def _where(column: MatrixColumn) -> str:
    situation = column.situation
    return situation.sharers if situation.contended else situation.words()


def _words(entry: Entry, column: MatrixColumn) -> str:
    """An entry of the matrix without signs: its cost, contended the interval, and what is known of
    the best other form."""
    if entry.default is None:
        return f"{in_english(entry.why) or 'no figure'}."
    text = figure_words(entry.default)
    if column.key == "contended" and (ends := span(entry.default)):
        text += f", interval {ends.replace('–', ' to ')}"
    return f"{text}.{_versus_words(entry)}"


def _versus_words(entry: Entry) -> str:
    versus = entry.versus
    if versus is None:
        return ""
    if versus.slower:
        return " Every other form costs more."
    return f" {_other_form(entry)}: {versus.words()}."
