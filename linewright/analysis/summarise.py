# SPDX-License-Identifier: MIT
"""Summaries of whole files: every cell merged, then what only its neighbours can tell: near or far,
modes, controls, flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from linewright.analysis.control import with_baselines
from linewright.analysis.intervals import median_of
from linewright.analysis.merge import merge
from linewright.analysis.modes import FALSE_ALARM, FEWEST_MODES, modes
from linewright.analysis.near_far import with_nearness
from linewright.analysis.plausible import with_flags
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.schema import Context, Record


def by_id(contexts: Iterable[Context] | Mapping[str, Context]) -> dict[str, Context]:
    """Contexts by their id, whichever way they come."""
    return dict(contexts) if isinstance(contexts, Mapping) else {c.context_id: c for c in contexts}


def summarise(
    contexts: Iterable[Context] | Mapping[str, Context], records: Iterable[Record]
) -> list[Summary]:
    """One summary per machine and cell, in the order of first appearance.

    Records whose context is missing are kept apart under their context id, since their machine is
    unknown."""
    known = by_id(contexts)

    def machine_of(record: Record) -> str:
        return (
            known[record.context_id].machine_id if record.context_id in known else record.context_id
        )

    groups = grouped(records, lambda r: (machine_of(r), r.cell.id))
    return summarise_groups(known, ((machine, members) for (machine, _), members in groups.items()))


def summarise_groups(
    contexts: Mapping[str, Context], groups: Iterable[tuple[str, list[Record]]]
) -> list[Summary]:
    """The same from one cell's records after the other: a machine's id with all records of a cell
    there.

    Only the summaries stay in memory.
    """
    merged = [merge(machine, members, contexts) for machine, members in groups]
    machines = machines_of(with_nearness(merged, contexts))
    finished: dict[tuple[str, str], Summary] = {}
    for members in machines.values():
        whole = with_flags(with_modes(with_baselines(members, contexts)), contexts)
        finished |= {(s.machine_id, s.id): s for s in whole}
    return [finished[s.machine_id, s.id] for s in merged]


def with_modes(summaries: Iterable[Summary]) -> list[Summary]:
    """The same summaries of one machine, each with the groups that its launches fall into: more
    than one, and the cell is metastable.

    The chance that one of a machine's cells is called metastable although its launches vary in one
    way is at most `FALSE_ALARM`: it is shared by the cells that are judged."""
    members = list(summaries)
    values = [_launches(s) for s in members]
    judgement = sum(len(v) >= FEWEST_MODES for v in values)
    answers = []
    for s, v in zip(members, values, strict=True):
        if v:
            found = modes(v, alarm=FALSE_ALARM / max(judgement, 1))
            flags = sorted({*s.flags, "metastable"}) if len(found) > 1 else s.flags
            s = msgspec.structs.replace(s, modes=found, flags=flags)
        answers.append(s)
    return answers


def _launches(s: Summary) -> list[float]:
    """What the launches of a cell took: with work, the exposed cost on top of the usual baseline.

    A baseline loop with two modes is then no property of the operation.
    """
    if s.status != "ok" or s.unit != "launch" or len(s.unit_ns) < FEWEST_MODES:
        return []
    if not s.cell.work_iters:
        return s.unit_ns
    usual = median_of(s.of_launches("baseline_ns").values(), 0.0)
    return [usual + ns for ns in s.of_launches("exposed_ns").values()]
