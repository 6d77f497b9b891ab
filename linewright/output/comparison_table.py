"""A comparison on a terminal or in a pipe: the decision first, then the rows, then what limits the answer."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linewright.compare import comparison as c
from linewright.errors import one_line
from linewright.output.columns import Column, table

_STYLES = {"worse": "red", "better": "green", "error": "bold red"}


def show(comparison: c.Comparison, console: Console, every: bool) -> None:
    """Print the decision, then for each file what was found, then its rows, then what limits the answer.

    Rows are those that differ or cannot be compared, and with `every` all others too.
    """
    if check := c.check_sentence(comparison):
        console.print(Text(check, style=_check_style(comparison)))
    said = {side.file: c.sentences(comparison, side) for side in comparison.others}
    for side in comparison.others:
        console.print(Text(one_line(said[side.file][0]), style="bold"))
    console.print(Text(one_line(comparison.what), style="dim"))
    for line in comparison.baseline.conditions:
        console.print(Text(one_line(line), style="dim"))
    for side in comparison.others:
        rows = [row for row in comparison.of(side.file) if every or row.finding in (*c.CERTAIN, *c.FAILED)]
        console.print()
        if rows:
            console.print(_table(comparison, rows, one_line(side.file)))
            console.print()
        for sentence in said[side.file][1:]:
            console.print(Text(one_line(sentence)))
        for reason, count in _reasons(comparison.of(side.file)).items():
            console.print(Text(one_line(f"not comparable: {count}: {reason}"), style="dim"))


def _check_style(comparison: c.Comparison) -> str:
    return "bold red" if comparison.failed else "bold yellow" if comparison.undecided else "bold green"


def _table(comparison: c.Comparison, rows: list[c.Row], name: str) -> Table:
    words = {
        "worse": comparison.words[0],
        "better": comparison.words[1],
        "same": "the same",
        "undecided": "undecided",
        "error": "WRONG NOW",
        "not_comparable": "not comparable",
    }
    columns = (
        Column("", lambda row: one_line(row.label), text=True, fold_at=12),
        Column("before", lambda row: c.value_text(row.before, row.unit)),
        Column("after", lambda row: c.value_text(row.after, row.unit)),
        Column("change (interval)", c.change_text),
        Column("difference", lambda row: c.value_text(row.difference, row.unit)),
        Column("p", lambda row: "–" if row.p is None else f"{row.p:.2g}"),
        Column("", lambda row: words[row.finding], text=True),
    )
    return table(name, columns, rows, style=lambda row: _STYLES.get(row.finding, ""), space=2)


def _reasons(rows: list[c.Row]) -> dict[str, int]:
    """How many rows were left out for each reason, numbers in it aside."""
    answer: dict[str, int] = {}
    for row in rows:
        if row.finding in ("not_comparable", "error"):
            reason = re.sub("[0-9]+", "N", row.reason)
            answer[reason] = answer.get(reason, 0) + 1
    return answer
