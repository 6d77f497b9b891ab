"""Which cells are metastable: their launches fall into separate groups, judged over all cells of a machine together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from linewright.analysis.modes import FALSE_ALARM, FEWEST_MODES, Mode, modes
from linewright.analysis.summary import Summary


def with_modes(summaries: Iterable[Summary]) -> list[Summary]:
    """The same summaries of one machine, each with the groups that its launches fall into.

    The chance that one of a machine's cells is called metastable although its launches vary in one way is at most
    `FALSE_ALARM`: it is shared by the cells that are judged.
    """
    members = list(summaries)
    values = {s.id: _values(s) for s in members}
    judged = sum(len(v) >= FEWEST_MODES for v in values.values())
    return [_with(s, modes(values[s.id], alarm=FALSE_ALARM / judged)) if values[s.id] else s for s in members]


def _values(s: Summary) -> list[float]:
    """What the launches of a cell took: with work, the exposed cost on top of the usual baseline.

    A baseline loop with two modes is then no property of the operation.
    """
    if s.status != "ok" or s.unit != "launch" or len(s.unit_ns) < FEWEST_MODES:
        return []
    if not s.cell.work_iters:
        return s.unit_ns
    usual = float(np.median(list(s.baseline_by_launch.values()))) if s.baseline_by_launch else 0.0
    return [usual + ns for ns in s.exposed_by_launch.values()] if s.exposed_by_launch else []


def _with(s: Summary, found: list[Mode]) -> Summary:
    flags = sorted({*s.flags, "metastable"}) if len(found) > 1 else s.flags
    return msgspec.structs.replace(s, modes=found, flags=flags)
