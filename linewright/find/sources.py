"""From a gathered stream to the facts of its lines, and from those to a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from linewright.find import line_prices, moved_tasks, remedies
from linewright.find.evidence import collect, collect_near
from linewright.find.line_prices import Prices
from linewright.find.live import SamplerOutput
from linewright.find.names import Names
from linewright.find.notes import BLIND, note, unknown_pointers
from linewright.find.results import Hot, LineFacts, Result
from linewright.find.shared_lines import SharedLines
from linewright.numbers import at_most

if TYPE_CHECKING:
    from linewright.find.heap import HeapTable


@dataclass
class Findings:
    """What one source found, before it is priced and advised on."""

    arch: str
    lines: list[LineFacts]
    notes: list[str]
    about: dict[str, Any]
    """Further fields of the result."""


def findings_of(
    gathered: SamplerOutput, program: str, heap: HeapTable | None = None, notes: Sequence[str] = ()
) -> Findings:
    """Judge everything that a live run saw."""
    gathered.samples.sort(key=lambda s: s.time_ns)
    if heap is not None:
        gathered.lines.split_by_heap_block(heap.owners)
    shared = {place for place, evidence in gathered.lines.known.items() if evidence.watched}
    collect(gathered.samples, gathered.decoder, gathered.lines)
    collect_near(gathered.samples, gathered.decoder, gathered.lines, shared)
    moved_tasks.mark_task_bytes(gathered.lines, gathered.decoder)
    addresses, start, end = gathered.addresses(heap), gathered.start, gathered.end
    if heap is not None:
        gathered.lines.drop_unclear()
        gathered.lines.drop(lambda pid, address: heap.is_table(gathered.spaces.find(pid, address)))
    found = SharedLines(addresses, gathered.lines, start.arch, gathered.samples, gathered.ticks)
    lines = found.shared()
    about = {
        "source": start.source,
        "program": PurePath(program).name,
        "seconds": end.elapsed_ns / 1e9 if end else 0.0,
        "samples": len(gathered.samples),
        "lost": end.lost if end else 0,
        "threads": len({s.tid for s in gathered.samples}),
        "alone": [Hot(**msgspec.structs.asdict(facts)) for facts in found.alone()],
        "overhead": _overhead(gathered),
        "beside_s": end and (end.own_cpu_ns + gathered.reading_ns) / 1e9,
        "blind": [*BLIND[start.source], *_unknown_pointers(gathered)],
        "exit_code": end.exit_code if end and end.ending == "exit" else None,
    }
    said = [*notes, *_notes(gathered), *_unlisted(addresses.code, gathered)]
    return Findings(start.arch, lines, said, about)


class Advice(NamedTuple):
    """What prices and advice follow from, beside a line's facts."""

    command: Sequence[str] = ()
    on: str = "local"
    """The machine that the program ran on."""
    heap: bool = False
    """Names of blocks were asked for already."""
    prices: Prices | None = None
    notes: Sequence[str] = ()
    """What is said of the prices, or why there are none."""


def conclude(found: Findings, advice: Advice, notes: Sequence[str] = ()) -> Result:
    """The result: each line with its ceiling and what to do."""
    near = None if advice.prices is None else advice.prices.apart
    apart = near.needed if near else None
    lines = [concluded(facts, found.arch, advice, apart) for facts in found.lines]
    measured = [note("apart_measured", apart, at_most(near.within))] if apart else []
    usual = remedies.convention(lines, advice.on, apart)
    return Result(
        linewright_find_result=2,
        arch=found.arch,
        lines=lines,
        bytes_apart=apart,
        notes=[*found.notes, *measured, *advice.notes, *usual, *notes],
        **found.about,
    )


def concluded(facts: LineFacts, arch: str, advice: Advice, apart: int | None = None) -> Hot:
    """One line with what follows from its facts; `apart`: how many bytes apart threads' words were
    measured to have to lie."""
    known = msgspec.structs.asdict(facts)
    if facts.advised and apart:
        known["advised"] = facts.advised.at(apart)
    return Hot(
        **known
        | {
            "ceiling": line_prices.ceiling_of(facts, advice.prices, arch),
            "remedy": remedies.remedy(facts, apart),
            "next_command": remedies.next_command(facts, advice.command, advice.on, advice.heap),
        }
    )


def _unlisted(names: Names, gathered: SamplerOutput) -> list[str]:
    """How code that was compiled at run time gets names; known when all is named."""
    kinds = {"java": "libjvm.so", "javascript": "node"}
    return [
        note(kind, pid)
        for kind, file in kinds.items()
        for pid in [p for p in sorted(names.unlisted) if gathered.spaces.has_file(p, file)][:1]
    ]


def _unknown_pointers(gathered: SamplerOutput) -> list[str]:
    """What follows from thread pointers that were not found."""
    threads = gathered.spaces.threads
    without = {
        s.tid for s in gathered.samples if not s.kernel and s.tid not in threads.get(s.pid, {})
    }
    return [unknown_pointers(gathered.start.arch, len(without))] if without else []


def _overhead(gathered: SamplerOutput) -> float | None:
    """What samples, watchpoints and timers that were set anew cost the program's threads, over the
    CPU time that the samples stand for or that the kernel counted."""
    if gathered.end is None or not gathered.start.period_ns:
        return None
    busy_ns = max(len(gathered.samples) * gathered.start.period_ns, gathered.end.cpu_ns)
    end = gathered.end
    if not busy_ns:
        return None
    return (end.sample_cost_ns + end.watch_cost_ns + end.switch_cost_ns) / busy_ns


def _notes(gathered: SamplerOutput) -> list[str]:
    """What the reader must know of this run before believing it."""
    start, end = gathered.start, gathered.end
    by_timer = start.source == "timer"
    found = {
        "ended_by": gathered.ended_by and gathered.ended_by.name,
        "damaged": gathered.damaged,
        "left_out": start.left_out,
        "assumed_cost": by_timer and not start.measured,
        "lost": end and end.lost,
        "throttled": end and end.throttled,
        "refused": gathered.watcher.refused,
        "unwatched": gathered.watcher.unwatched,
        "user_time": by_timer and not start.kernel,
        "other_run": start.other_run,
        "ending": end and end.ending != "exit" and end.ending,
        "no_sample": not gathered.samples,
    }
    return [note(kind, value) for kind, value in found.items() if value]
