"""Summaries of whole files: every cell merged, then what only its neighbours can tell: near or far, modes, controls,
flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from linewright.analysis.control import with_baselines
from linewright.analysis.merge import merge
from linewright.analysis.metastable import with_modes
from linewright.analysis.near_far import with_nearness
from linewright.analysis.plausible import with_flags
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.schema import Context, Record


def by_id(contexts: Iterable[Context] | Mapping[str, Context]) -> dict[str, Context]:
    """Contexts by their id, whichever way they come."""
    return dict(contexts) if isinstance(contexts, Mapping) else {c.context_id: c for c in contexts}


def summarise(contexts: Iterable[Context] | Mapping[str, Context], records: Iterable[Record]) -> list[Summary]:
    """One summary per machine and cell, in the order of first appearance.

    Records whose context is missing are kept apart under their context id, since their machine is unknown.
    """
    known = by_id(contexts)

    def machine_of(record: Record) -> str:
        return known[record.context_id].machine_id if record.context_id in known else record.context_id

    groups = grouped(records, lambda r: (machine_of(r), r.cell.id))
    return summarise_groups(known, ((machine, members) for (machine, _), members in groups.items()))


def summarise_groups(contexts: Mapping[str, Context], groups: Iterable[tuple[str, list[Record]]]) -> list[Summary]:
    """The same from one cell's records after the other: a machine's id with all records of a cell there.

    Only the summaries stay in memory.
    """
    merged = [merge(machine, members, contexts) for machine, members in groups]
    machines = machines_of(with_nearness(merged, contexts))
    finished = {
        (s.machine_id, s.id): s
        for members in machines.values()
        for s in with_flags(with_modes(with_baselines(members, contexts)), contexts)
    }
    return [finished[(s.machine_id, s.id)] for s in merged]
