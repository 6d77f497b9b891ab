# SPDX-License-Identifier: MIT
"""From a gathered stream to what was found, and from that to a result with prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from linewright.find.addresses import Addresses, HeapTable
from linewright.find.evidence import Evidence, LineEvidence, collect, collect_near
from linewright.find.line_prices import Prices
from linewright.find.line_verdict import SELDOM_AT_ONCE
from linewright.find.live import SamplerOutput
from linewright.find.movement import mark_task_bytes
from linewright.find.names import Names
from linewright.find.results import BLIND, Remark, Result, note, readable
from linewright.find.shared_lines import SharedLines
from linewright.find.waiting import waits_of
from linewright.numbers import at_most, percent


def findings_of(
    gathered: SamplerOutput,
    program: str,
    heap: HeapTable | None = None,
    notes: Sequence[Remark] = (),
) -> Result:
    """Judge everything that a live run saw; `conclude` completes it."""
    gathered.samples.sort(key=lambda s: s.time_ns)
    gathered.spaces.store.look_anew()
    if heap is not None:
        gathered.lines.split_by_heap_block(heap.owners)
    collect(gathered.samples, gathered.decoder, gathered.lines)
    perhaps_shared = _perhaps_shared(gathered)
    mark_task_bytes(gathered.lines, gathered.decoder)
    addresses = Addresses(gathered.spaces, gathered.stacks, heap)
    start, end = gathered.start, gathered.end
    if heap is not None:
        gathered.lines.drop_unclear()
        gathered.lines.drop(lambda pid, address: heap.is_table(gathered.spaces.find(pid, address)))
    found = SharedLines(
        addresses,
        gathered.lines,
        start.arch,
        gathered.samples,
        gathered.ticks,
        start.period_ns,
        perhaps_shared,
    )
    lines = found.shared()
    return Result(
        source=start.source,
        program=readable(PurePath(program).name),
        arch=start.arch,
        seconds=end.elapsed_ns / 1e9 if end else 0.0,
        samples=len(gathered.samples),
        lost=end.lost if end else 0,
        threads=len({s.tid for s in gathered.samples}),
        lines=lines,
        seldom=found.seldom_identities(),
        unsure=found.unsure(),
        turns=sum(one.tid != two.tid for one, two in pairwise(gathered.samples)),
        met=found.met(gathered.watcher.suspected()),
        waits=waits_of(gathered, addresses),
        alone=found.alone(),
        overhead=_overhead(gathered),
        beside_s=end and (end.own_cpu_ns + gathered.reading_ns) / 1e9,
        blind=[*BLIND[start.source], *_unknown_pointers(gathered)],
        notes=[
            *notes,
            *_notes(gathered, found.at_once()),
            *_unlisted(addresses.code, gathered),
            *addresses.code.untyped(),
        ],
        exit_code=gathered.exit_code,
    )


def _perhaps_shared(gathered: SamplerOutput) -> list[Evidence]:
    """Lines that watchpoints should have told of and did not, with the samples near their plain
    accesses."""
    counted = LineEvidence(gathered.spaces)
    for e in gathered.watcher.perhaps_shared():
        line = counted.at(e.pid, e.address)
        line.threads, line.sites = e.threads, Counter(e.sites)
    collect_near(gathered.samples, gathered.decoder, counted, set(counted.known))
    return list(counted.known.values())


def conclude(
    found: Result,
    command: Sequence[str] = (),
    on: str = "local",
    heap: bool = False,
    prices: Prices | None = None,
    notes: Sequence[Remark] = (),
) -> Result:
    """What was found, with each line's ceiling, and what commands that follow are made of: `on`
    names the machine, `heap`: names of blocks were asked for. `notes` are of the prices, or say why
    there are none."""
    near = None if prices is None else prices.distance
    for hot in found.lines:
        hot.ceiling = None if prices is None else prices.ceiling(hot, found.arch)
    found.command = list(map(readable, command))
    found.on, found.heap = readable(on), heap
    found.bytes_apart = near.needed if near else None
    measured = [note("apart_measured", near.needed, at_most(near.within))] if near else []
    found.notes = [*found.notes, *measured, *notes]
    return found


def _unlisted(names: Names, gathered: SamplerOutput) -> list[Remark]:
    """How code that was compiled at run time gets names; known when all is named."""
    kinds = {"java": "libjvm.so", "javascript": "node"}
    return [
        note(kind, pid)
        for kind, file in kinds.items()
        for pid in [p for p in sorted(names.unlisted) if gathered.spaces.has_file(p, file)][:1]
    ]


def _unknown_pointers(gathered: SamplerOutput) -> list[Remark]:
    """What follows from thread pointers that were not found."""
    threads = gathered.spaces.threads
    without = {
        s.tid for s in gathered.samples if not s.kernel and s.tid not in threads.get(s.pid, {})
    }
    arch = {"x86_64": ""}.get(gathered.start.arch, f"_{gathered.start.arch}")
    return [note(f"unknown_pointers{arch}", len(without))] if without else []


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


FEW_CPUS = 0.75
"""CPUs left by other programs, less than which two threads can hardly run at once on."""


def _few_cpus(gathered: SamplerOutput) -> str:
    """How many other programs left, where those are few, and of how many; empty where they are not,
    or where the program may have used more CPU time than is known."""
    start, end = gathered.start, gathered.end
    if end is None or not end.beside_ns or start.left_out or gathered.left():
        return ""
    sampled_ns = (len(gathered.samples) + end.lost) * start.period_ns
    others_ns = end.beside_ns - max(end.cpu_ns, sampled_ns) - gathered.reading_ns
    left = start.cpus - others_ns / end.elapsed_ns
    return f"{max(0.0, left):.1f} of {start.cpus}" if left < FEW_CPUS else ""


def _notes(gathered: SamplerOutput, at_once: float | None) -> list[Remark]:
    """What the reader must know of this run before believing it; of the time in which threads ran,
    several did for the part `at_once`."""
    start, end, watcher = gathered.start, gathered.end, gathered.watcher
    by_timer, several = start.source == "timer", len({s.tid for s in gathered.samples}) > 1
    seldom = several and at_once is not None and at_once < SELDOM_AT_ONCE
    found = {
        "ended_by": gathered.ended_by and gathered.ended_by.name,
        "damaged": gathered.damaged,
        "failed": gathered.failure,
        "ending": end and end.stopped and end.ending,
        "went_on": end and end.ending and not end.stopped and gathered.left(),
        "left_out": start.left_out,
        "assumed_cost": by_timer and not start.measured,
        "lost": end and end.lost,
        "throttled": end and end.throttled,
        "refused": watcher.refused,
        "refused_all": watcher.refused and not watcher.answered,
        "unwatched": watcher.unwatched,
        "user_time": by_timer and not start.kernel,
        "other_run": start.other_run,
        "no_sample": not gathered.samples,
        "one_cpu": several and len({s.cpu for s in gathered.samples if s.cpu is not None}) == 1,
        "few_cpus": seldom and _few_cpus(gathered),
        "never_at_once": seldom and percent(at_once, False),
    }
    return [note(kind, *[value] * (value is not True)) for kind, value in found.items() if value]
