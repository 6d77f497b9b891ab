"""One way to declare a table: each column with its heading, unit, value, width and meaning in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = TypeVar("Row")


class Column(Struct, Generic[Row], frozen=True):
    """One column of a table whose rows are of type `Row`."""

    heading: str
    value: Callable[[Row], str]
    unit: str = ""
    """Shown behind the heading."""
    text: bool = False
    """Text stands at the left and figures at the right."""
    fold_at: int = 0
    """Fewest columns to which long text may be folded; 0: the column is never folded."""
    meaning: str = ""
    """One sentence for the legend below the tables; empty where the heading says all."""

    @property
    def title(self) -> str:
        return f"{self.heading} {self.unit}".strip()


def table(
    title: str,
    columns: Sequence[Column[Row]],
    rows: Iterable[Row],
    style: Callable[[Row], str] = lambda row: "",
    space: int = 1,
) -> Table:
    """A table without a frame; `style` gives a row's Rich style, `space` is the distance between columns."""
    made = Table(title=Text(title), title_justify="left", box=None, padding=(0, space, 0, 0), pad_edge=False)
    for column in columns:
        made.add_column(
            Text(column.title),
            justify="left" if column.text else "right",
            no_wrap=not column.fold_at,
            overflow="fold",
            min_width=column.fold_at or None,
        )
    for row in rows:
        made.add_row(*(Text(column.value(row)) for column in columns), style=style(row))
    return made


def table_width(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> int:
    """Columns of the terminal that a table takes, each column's distance to the next included."""
    return sum(max(len(text) for text in (c.title, *map(c.value, rows))) + 1 for c in columns)


def print_table(made: Table, console: Console) -> None:
    """Print a table and an empty line; nothing where it has no rows."""
    if made.row_count:
        console.print(made)
        console.print()


def legend(columns: Iterable[Column]) -> list[str]:
    """One line for each distinct column that has a meaning, in the order of first appearance."""
    return list(dict.fromkeys(f"{column.title}: {column.meaning}" for column in columns if column.meaning))
