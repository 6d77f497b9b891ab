"""A comparison on a terminal or in a pipe: the decision first, then the rows, then what limits the answer."""

from __future__ import annotations

import re

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from linewright.compare import comparison as c
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.one_screen import longest, more, print_blocks
from linewright.units import rounded, value_text

_STYLES = {"worse": "red", "better": "green", "error": "bold red"}


def show(comparison: c.Comparison, console: Console, every: bool) -> None:
    """Print the decision, then for each file what was found, then its rows, then what limits the answer.

    Rows are those that differ or have become wrong, as many as one screen has room for, and with `every` all.
    """
    rows = {side.file: _rows(comparison, side, every) for side in comparison.others}
    most = max(map(len, rows.values()), default=0)

    def made(count: int) -> list[RenderableType]:
        return _blocks(comparison, rows, count, every)

    print_blocks(made(most) if every else longest(made, most, console), console)


def _rows(comparison: c.Comparison, side: c.Side, every: bool) -> list[c.Row]:
    return [row for row in comparison.of(side.file) if every or row.finding in (*c.CERTAIN, *c.FAILED)]


def _blocks(comparison: c.Comparison, rows: dict[str, list[c.Row]], count: int, every: bool) -> list[RenderableType]:
    """Everything with at most `count` rows for each file; p values and all of the machine's conditions with `every`."""
    blocks: list[RenderableType] = []
    if check := c.check_sentence(comparison):
        blocks.append(Text(check, style=_check_style(comparison)))
    said = {side.file: c.sentences(comparison, side) for side in comparison.others}
    blocks += [Text(one_line(said[side.file][0]), style="bold") for side in comparison.others]
    conditions = comparison.baseline.conditions if every else comparison.baseline.conditions[:1]
    blocks += [Text(one_line(line)) for line in (comparison.what, *conditions)]
    for side in comparison.others:
        own = rows[side.file]
        if own:
            blocks += [Text(), _table(comparison, own[:count], one_line(side.file), every)]
        if len(own) > count:
            blocks.append(Text(more(len(own) - count, "cell", "compare")))
        blocks.append(Text())
        blocks += [Text(_sentence(sentence)) for sentence in said[side.file][1:]]
        for reason, number in _reasons(comparison.of(side.file)).items():
            blocks.append(Text(one_line(f"Not comparable, {number} of them: {reason}.")))
    return blocks


def _check_style(comparison: c.Comparison) -> str:
    return "bold red" if comparison.failed else "bold yellow" if comparison.undecided else "bold green"


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    line = one_line(text)
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", "…")) else ".")


def _change(row: c.Row) -> str:
    """``+2.0 to +8.3 %``, or in ns of exposed costs, which are compared by their difference.

    The interval alone: it is of the launches, pair by pair, and its middle need not be what the two medians differ by.
    """
    if row.ratio is not None:
        values = [100 * (x - 1) for x in (row.ratio_low, row.ratio_high)]
        digits, unit = 1 if max(map(abs, values)) < 100 else 0, "%"
    elif row.difference_low is not None:
        values, digits, unit = [row.difference_low, row.difference_high], 2, row.unit
    else:
        return "–"
    low, high = (rounded(value, digits, True) for value in values)
    return f"{low} to {high} {unit}"


def _table(comparison: c.Comparison, rows: list[c.Row], name: str, every: bool) -> Table:
    columns = (
        Column("", lambda row: one_line(row.label), text=True, fold_at=12),
        Column("before", lambda row: value_text(row.before, row.unit)),
        Column("after", lambda row: value_text(row.after, row.unit)),
        Column("change, 95 %", _change),
        *([Column("p", lambda row: "–" if row.p is None else f"{row.p:.2g}")] if every else []),
        Column("", lambda row: _called(comparison, row), text=True),
    )
    return table(name, columns, rows, style=lambda row: _STYLES.get(row.finding, ""), space=2)


def _called(comparison: c.Comparison, row: c.Row) -> str:
    text = comparison.called(row.finding)
    return text.upper() if row.finding in c.FAILED else text


def _reasons(rows: list[c.Row]) -> dict[str, int]:
    """How many rows were left out for each reason, numbers in it aside."""
    answer: dict[str, int] = {}
    for row in rows:
        if row.finding in ("not_comparable", "error"):
            reason = re.sub("[0-9]+", "N", row.reason)
            answer[reason] = answer.get(reason, 0) + 1
    return answer
