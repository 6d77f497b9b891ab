# SPDX-License-Identifier: MIT
"""The costs that several machines have in common, and what two of them differ by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from linewright import numbers
from linewright.errors import one_line
from linewright.say.document import Document, TableCell


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
        if not (first and second and first.low and second.low):
            return ""
        if not min(first.low, second.low) > 0:
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
    found: dict[str, dict[int, TableCell]] = {}
    for number, document in enumerate(documents):
        for cost in document.costs:
            found.setdefault(cost.name, {})[number] = cost.cell
    return [
        CommonCost(name, tuple(costs.get(number) for number in range(len(documents))))
        for name, costs in found.items()
        if len(costs) > 1
    ]


def common_words(row: CommonCost, documents: Sequence[Document]) -> str:
    """A common cost as a line without columns."""
    pairs = zip(documents, row.costs, strict=True)
    costs = "; ".join(f"{document.title} {cost.text}" for document, cost in pairs if cost)
    shown = len(documents) == 2 and row.ratio
    return f"{row.name}, nanoseconds: {costs}." + (f" The second takes {shown}." if shown else "")
