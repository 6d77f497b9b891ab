"""What a handoff between two cores takes, by the distance of the cores."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from linewright.analysis.summary import Summary, grouped

FEW_PAIRS = 2
"""Pairs of cores above which a handoff is spoken of by the distance of the cores, not by pair."""


class Handoff(Struct, frozen=True):
    """One form over the pairs of cores of one distance."""

    form: str
    median_ns: float
    least_ns: float
    most_ns: float
    ids: tuple[str, ...]
    """A cell for each pair of cores."""

    @property
    def pairs(self) -> int:
        return len(self.ids)


def handoffs(cells: Sequence[Summary]) -> dict[str, list[Handoff]]:
    """Each distance, a placement class, with its handoffs, of which a round trip has two; nothing
    for few pairs."""
    if len({s.cell.placement for s in cells}) <= FEW_PAIRS:
        return {}
    usable = [s for s in cells if s.status == "ok" and s.issue and not s.cell.work_iters]
    return {
        distance: [
            Handoff(form, median(ns), min(ns), max(ns), tuple(s.id for s in own))
            for form, own in grouped(apart, lambda s: s.cell.form).items()
            for ns in [[s.issue.median_ns / 2 for s in own]]
        ]
        for distance, apart in grouped(usable, lambda s: s.placement_class).items()
    }
