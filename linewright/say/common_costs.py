"""The costs that several machines have in common, and what two of them differ by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from linewright import numbers
from linewright.analysis.matrix import Figure, shown_ratio
from linewright.errors import one_line
from linewright.say.cost_words import figure, heading
from linewright.say.document import Document


class CommonCost(NamedTuple):
    """One cost on every machine; None where it was not measured."""

    name: str
    costs: tuple[Figure | None, ...]

    @property
    def ratio(self) -> str:
        """What the second machine takes of the first one's time, ``1.5 to 1.8 times more``; empty
        where that is not shown."""
        found = shown_ratio(*self.costs[:2])
        return numbers.times(*found) if found else ""


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
    found: dict[str, dict[int, Figure]] = {}
    for number, document in enumerate(documents):
        for name, cost in _costs(document):
            found.setdefault(name, {})[number] = cost
    return [
        CommonCost(name, tuple(costs.get(number) for number in range(len(documents))))
        for name, costs in found.items()
        if len(costs) > 1
    ]


def _costs(document: Document) -> list[tuple[str, Figure]]:
    """The back-to-back figures of the matrix, then the price list, by name."""
    costs = [
        (f"{row.name}, {heading(column)}", entry.default)
        for row in document.rows
        for column in document.columns
        if column.key != "work" and (entry := row.entries.get(column.key)) and entry.default
    ]
    for price in document.prices:
        if price.contended and not price.reference:
            costs.append((f"{price.name}, 2 CPUs", price.contended))
        elif price.alone and not price.reference:
            costs.append((price.name, price.alone))
    return costs


def common_words(row: CommonCost, documents: Sequence[Document]) -> str:
    """A common cost as a line without columns."""
    pairs = zip(documents, row.costs, strict=True)
    costs = "; ".join(f"{document.title} {figure(cost)}" for document, cost in pairs if cost)
    shown = len(documents) == 2 and row.ratio
    return f"{row.name}, nanoseconds: {costs}." + (f" The second takes {shown}." if shown else "")
