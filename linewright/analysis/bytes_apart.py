# SPDX-License-Identifier: MIT
"""How many bytes apart two threads' words have to lie: each distance against the farthest, in
either half of a pair of lines, and 64 bytes inside a pair against 64 bytes across two.

A distance suffices where it and every larger one is shown to cost no more than the farthest.  What
is not shown is undecided, never the same.  The comparisons are corrected with operations'."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from linewright.analysis.comparison import Comparison, Side
from linewright.analysis.summary import Summary
from linewright.forms import SPACING
from linewright.schema import Situation

LINE = 64
"""Bytes of a line of an aligned pair; a machine may have longer lines, and then the pair is one."""


def no_more(c: Comparison) -> bool:
    """Shown to cost no more than what it is compared with."""
    return c.answer in ("same", "cheaper")


def distance_of(c: Comparison) -> int:
    """Bytes between the words of the compared side."""
    return int(c.first.situation.param("bytes_apart"))


class WordsApart(Struct, frozen=True):
    """One kind of pair in one half, on one pair of CPUs: its distances, the least first."""

    operation: str
    form: str
    half: str
    situation: Situation
    """Without `bytes_apart` and `half`."""
    nearer: list[Comparison]
    """Each over the farthest that was measured."""
    placebo: Comparison | None
    """The farthest against a second thread that touches nothing; None where there is none."""

    @property
    def enough(self) -> int | None:
        """The least distance that suffices, as all larger ones do; None where even the largest
        that was compared is not shown to."""
        suffice = itertools.takewhile(no_more, reversed(self.nearer))
        return min(map(distance_of, suffice), default=None)

    @property
    def too_near(self) -> int:
        """The largest distance that is shown to cost more; 0 where none is."""
        return max((distance_of(d) for d in self.nearer if d.slower), default=0)

    @property
    def farthest(self) -> Side:
        return self.nearer[0].second

    @property
    def ids(self) -> list[str]:
        return [*(d.first.id for d in self.nearer), self.farthest.id]


class ApartAnswers(Struct, frozen=True, kw_only=True):
    """What one machine's records say of all kinds of pairs together."""

    kinds: list[WordsApart]
    pairs: list[Comparison]
    """64 bytes apart inside a pair of lines over 64 bytes apart across two pairs."""

    @property
    def enough(self) -> int | None:
        """The least distance that is shown to suffice for every kind in either half; None where
        there is none."""
        found = [kind.enough for kind in self.kinds]
        return None if None in found else max(found, default=None)

    @property
    def too_near(self) -> int:
        """The largest distance that is shown to cost more for some kind; 0 where none is."""
        return max((kind.too_near for kind in self.kinds), default=0)

    @property
    def open(self) -> list[int]:
        """Distances that are neither shown to suffice nor shown to cost more."""
        measured = {distance_of(d) for kind in self.kinds for d in kind.nearer}
        enough = math.inf if self.enough is None else self.enough
        return sorted(d for d in measured if self.too_near < d < enough)

    @property
    def needed(self) -> int | None:
        """The distance to keep, where that is decided: it suffices, and the next smaller one that
        was measured costs more, or is none."""
        return None if self.open else self.enough

    @property
    def within(self) -> float:
        """By how much, as a share, a larger distance than `enough` may still cost less."""
        every = (d for kind in self.kinds for d in kind.nearer)
        return max([0.0, *(d.contrast.high - 1 for d in every if distance_of(d) == self.enough)])

    @property
    def neighbour(self) -> Literal["matters", "none", "undecided", ""]:
        """Whether the other line of an aligned pair of lines matters; empty where nothing was
        measured in both halves."""
        if not self.pairs:
            return ""
        if any(pair.slower for pair in self.pairs):
            return "matters"
        return "none" if all(map(no_more, self.pairs)) else "undecided"

    @property
    def ids(self) -> list[str]:
        return [i for kind in self.kinds for i in kind.ids]


_ByDistance = Mapping[int, Summary]
"""Cells by their distance; a placebo, whose second thread has no word, is at 0."""


def _of(summaries: Iterable[Summary]) -> dict[tuple, dict[str, _ByDistance]]:
    """The cells that may be compared, by who does what where (all but the distance and the half),
    then by half."""
    found: dict[tuple, dict[str, dict[int, Summary]]] = {}
    for s in summaries:
        if s.cell.operation in SPACING.operations and s.trusted:
            situation = s.cell.situation.without("params", "contender")
            kind = s.cell.operation, s.cell.form, situation
            half, distance = (s.cell.situation.param(name) for name in ("half", "bytes_apart"))
            found.setdefault(kind, {}).setdefault(str(half), {})[int(distance)] = s
    return found


def pairs(summaries: Iterable[Summary]) -> list[tuple[Summary, Summary]]:
    """Each distance over the farthest, the farthest over a second thread that touches nothing, and
    64 bytes inside a pair over 64 bytes across two."""
    return [
        pair
        for halves in _of(summaries).values()
        for found in (*map(_in_half, halves.values()), _across_halves(halves))
        for pair in found
    ]


def _in_half(cells: _ByDistance) -> list[tuple[Summary, Summary]]:
    farthest = max(cells)
    nearer = [(s, cells[farthest]) for distance, s in cells.items() if 0 < distance < farthest]
    return nearer + ([(cells[farthest], cells[0])] if farthest and 0 in cells else [])


def _across_halves(halves: Mapping[str, _ByDistance]) -> list[tuple[Summary, Summary]]:
    inside, across = (halves.get(half, {}).get(LINE) for half in ("lower", "upper"))
    return [(inside, across)] if inside and across else []


def bytes_apart(summaries: Iterable[Summary], found: Iterable[Comparison]) -> ApartAnswers:
    """The answers of one machine, from its comparisons."""
    known = {c.ids: c for c in found}
    kinds, between = [], []
    for (operation, form, situation), halves in _of(summaries).items():
        for half, cells in sorted(halves.items()):
            own = [known[a.id, b.id] for a, b in _in_half(cells)]
            farthest = cells[max(cells)].id
            nearer = sorted((c for c in own if c.second.id == farthest), key=distance_of)
            placebo = next((c for c in own if c not in nearer), None)
            if nearer:
                kinds.append(WordsApart(operation, form, half, situation, nearer, placebo))
        between += [known[a.id, b.id] for a, b in _across_halves(halves)]
    return ApartAnswers(kinds=kinds, pairs=between)
