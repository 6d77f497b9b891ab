"""Several machines beside each other: the figures of their screens, one column for each machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from linewright import numbers
from linewright.say.columns import Column, table_of
from linewright.say.common_costs import CommonCost, common_costs
from linewright.say.document import Document
from linewright.say.price_table import in_signs
from linewright.show.text_tables import table

NAME_COLUMNS = (14, 34)
"""Shortest and longest room for a machine's name in a heading."""
RATIO_COLUMNS = 16
"""Room for the ratio of two machines."""


def side_by_side(screens: Sequence[Document], width: int) -> list[RenderableType]:
    """A table of the common costs; machines that the width has no room for are named below it."""
    rows = common_costs(screens)
    if not rows:
        return [Text("The machines have no cost in common.")]
    space = max(len(row.name) for row in rows) + 1
    shortest, longest = NAME_COLUMNS
    most = min(len(screens), max(1, (width - space) // (shortest + 1)))
    room = min(longest, (width - space - (len(screens) == 2) * RATIO_COLUMNS) // most - 1)
    columns: list[Column[CommonCost]] = [
        Column("ns per operation", lambda row: row.name, text=True),
        *(
            Column(
                _short(screen.title, room),
                lambda row, n=n: row.costs[n] or numbers.ABSENT,
            )
            for n, screen in enumerate(screens[:most])
        ),
    ]
    if len(screens) == 2:
        columns.append(Column("second", lambda row: in_signs(row.ratio) or "?"))
    made: list[RenderableType] = [table(table_of("The machines beside each other", columns, rows))]
    if len(screens) > most:
        made.append(Text(f"{len(screens) - most} more machines: linewright report shows all."))
    return made


def _short(title: str, room: int) -> str:
    """A machine's name; where it is too long its beginning, and its number."""
    if len(title) <= room:
        return title
    mark = re.search(r"( #[0-9]+)?$", title)[0]
    return f"{title[: room - len(mark) - 1]}…{mark}"
