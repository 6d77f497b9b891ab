# SPDX-License-Identifier: MIT
"""One way to declare a table: each column with heading, unit, value and meaning in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from linewright.say.document import TableCell, TextTable

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


def legend(columns: Iterable[Column]) -> list[str]:
    """One line for each column that has a meaning."""
    return [f"{column.title}: {column.meaning}" for column in columns if column.meaning]
