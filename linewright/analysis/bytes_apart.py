"""How many bytes apart two threads' words have to lie: each distance against the farthest, in
either half of a pair of lines, and 64 bytes inside a pair against 64 bytes across two.

A distance suffices where it and every larger one is shown to cost no more than the farthest.  What
is not shown is undecided, never the same.  The comparisons are corrected with those of `across`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from linewright.analysis.findings import distrust_of
from linewright.analysis.hypothesis_tests import Judgement
from linewright.analysis.summary import Summary
from linewright.families import SPACING
from linewright.schema import Interval, Situation

LINE = 64
"""Bytes of a line of an aligned pair; a machine may have longer lines, and then the pair is one."""


class Distance(Struct, frozen=True, kw_only=True):
    """One distance, and against the farthest that was measured."""

    bytes_apart: int
    ns: Interval
    """The timed thread's time for an operation."""
    judgement: Judgement
    id: str

    @property
    def no_more(self) -> bool:
        """Shown to cost no more than the farthest."""
        return self.judgement.answer == "same" or self.judgement.cheaper


class WordsApart(Struct, frozen=True, kw_only=True):
    """One kind of pair in one half, on one pair of CPUs: its distances, the least first."""

    operation: str
    form: str
    half: str
    situation: Situation
    """Without `bytes_apart` and `half`."""
    nearer: list[Distance]
    farthest: int
    farthest_ns: Interval
    farthest_id: str
    placebo: Judgement | None
    """The farthest against a second thread that touches nothing; None where there is none."""

    @property
    def enough(self) -> int | None:
        """The least distance that suffices, as all larger ones do; None where even the largest
        that was compared is not shown to."""
        found = None
        for distance in reversed(self.nearer):
            if not distance.no_more:
                break
            found = distance.bytes_apart
        return found

    @property
    def too_near(self) -> int:
        """The largest distance that is shown to cost more; 0 where none is."""
        return max((d.bytes_apart for d in self.nearer if d.judgement.slower), default=0)

    @property
    def ids(self) -> list[str]:
        return [*(d.id for d in self.nearer), self.farthest_id]


class PairOfLines(Struct, frozen=True, kw_only=True):
    """64 bytes apart inside a pair of lines, and against them 64 bytes apart across two pairs."""

    operation: str
    form: str
    situation: Situation
    inside_ns: Interval
    across_ns: Interval
    judgement: Judgement
    """Inside over across."""
    ids: tuple[str, str]


class ApartAnswers(Struct, frozen=True, kw_only=True):
    """What one machine's records say of all kinds of pairs together."""

    kinds: list[WordsApart]
    pairs: list[PairOfLines]

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
        measured = {d.bytes_apart for kind in self.kinds for d in kind.nearer}
        return sorted(
            d for d in measured if d > self.too_near and (self.enough is None or d < self.enough)
        )

    @property
    def needed(self) -> int | None:
        """The distance to keep, where that is decided: it suffices, and the next smaller one that
        was measured costs more, or is none."""
        return None if self.open else self.enough

    @property
    def within(self) -> float:
        """By how much, as a share, a larger distance than `enough` may still cost less."""
        found = (
            d.judgement.contrast.high - 1
            for kind in self.kinds
            for d in kind.nearer
            if d.bytes_apart == self.enough
        )
        return max((0.0, *found))

    @property
    def neighbour(self) -> Literal["matters", "none", "undecided", ""]:
        """Whether the other line of an aligned pair of lines matters; empty where nothing was
        measured in both halves."""
        if not self.pairs:
            return ""
        if any(pair.judgement.slower for pair in self.pairs):
            return "matters"
        shown = all(p.judgement.answer == "same" or p.judgement.cheaper for p in self.pairs)
        return "none" if shown else "undecided"

    @property
    def ids(self) -> list[str]:
        return [i for kind in self.kinds for i in kind.ids]


class _Kind(NamedTuple):
    """Who does what where: all but the distance and the half."""

    operation: str
    form: str
    situation: Situation


_ByDistance = Mapping[int, Summary]
"""Cells by their distance; a placebo, whose second thread has no word, is at 0."""


def _of(summaries: Iterable[Summary]) -> dict[_Kind, dict[str, _ByDistance]]:
    """The cells that may be compared, by kind, then by half."""
    found: dict[_Kind, dict[str, dict[int, Summary]]] = {}
    for s in summaries:
        if s.cell.operation in SPACING.operations and s.usable and not distrust_of(s):
            situation = s.cell.situation.without("params", "contender")
            kind = _Kind(s.cell.operation, s.cell.form, situation)
            half, distance = (s.cell.situation.param(name) for name in ("half", "bytes_apart"))
            found.setdefault(kind, {}).setdefault(str(half), {})[int(distance)] = s
    return found


def comparisons(summaries: Iterable[Summary]) -> list[tuple[Summary, Summary]]:
    """The pairs of cells whose contrasts `bytes_apart` needs."""
    pairs = []
    for halves in _of(summaries).values():
        for cells in halves.values():
            farthest = max(cells)
            near = (s for distance, s in cells.items() if 0 < distance < farthest)
            pairs += [(s, cells[farthest]) for s in near]
            pairs += [(cells[farthest], cells[0])] if farthest and 0 in cells else []
        inside, across = (halves.get(half, {}).get(LINE) for half in ("lower", "upper"))
        pairs += [(inside, across)] if inside and across else []
    return pairs


def bytes_apart(
    summaries: Iterable[Summary], judgements: Mapping[tuple[str, str], Judgement]
) -> ApartAnswers:
    """The answers of one machine; `judgements` of `comparisons`, by both ids."""
    kinds, pairs = [], []
    for kind, halves in _of(summaries).items():
        for half, cells in sorted(halves.items()):
            farthest = cells[max(cells)]
            nearer = [
                Distance(
                    bytes_apart=distance,
                    ns=s.issue,
                    judgement=judgements[s.id, farthest.id],
                    id=s.id,
                )
                for distance, s in sorted(cells.items())
                if 0 < distance < max(cells)
            ]
            if not nearer:
                continue
            placebo = cells.get(0)
            kinds.append(
                WordsApart(
                    **kind._asdict(),
                    half=half,
                    nearer=nearer,
                    farthest=max(cells),
                    farthest_ns=farthest.issue,
                    farthest_id=farthest.id,
                    placebo=judgements[farthest.id, placebo.id] if placebo else None,
                )
            )
        inside, across = (halves.get(half, {}).get(LINE) for half in ("lower", "upper"))
        if inside and across:
            pairs.append(
                PairOfLines(
                    **kind._asdict(),
                    inside_ns=inside.issue,
                    across_ns=across.issue,
                    judgement=judgements[inside.id, across.id],
                    ids=(inside.id, across.id),
                )
            )
    return ApartAnswers(kinds=kinds, pairs=pairs)
