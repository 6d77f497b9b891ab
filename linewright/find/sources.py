"""From a gathered stream to a result."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from linewright.find import moved_tasks
from linewright.find.evidence import collect, collect_near
from linewright.find.live import SamplerOutput
from linewright.find.names import Names
from linewright.find.notes import BLIND, note, unknown_pointers
from linewright.find.objects import Heap, Objects
from linewright.find.sharing_result import Judge
from linewright.find.sharing_schema import Result


def result_of(
    gathered: SamplerOutput, program: str, heap: Heap | None = None, notes: list[str] | None = None
) -> Result:
    """Judge everything that a live run saw."""
    gathered.samples.sort(key=lambda s: s.time_ns)
    if heap is not None:
        gathered.lines.part(heap.owners)
    shared = {place for place, evidence in gathered.lines.known.items() if evidence.watched}
    collect(gathered.samples, gathered.decoder, gathered.lines)
    collect_near(gathered.samples, gathered.decoder, gathered.lines, shared)
    moved_tasks.part(gathered.lines, gathered.decoder)
    names = Names(gathered.spaces)
    objects = Objects(gathered.spaces, names, gathered.stacks, heap)
    total, by_thread = len(gathered.samples), Counter(s.tid for s in gathered.samples)
    judge = Judge(
        gathered.spaces,
        names,
        objects,
        gathered.lines,
        by_thread,
        gathered.start.arch,
        gathered.samples,
        gathered.ticks,
    )
    end = gathered.end
    if heap is not None:
        gathered.lines.drop_unclear()
        gathered.lines.drop(lambda pid, address: heap.is_table(gathered.spaces.find(pid, address)))
    return Result(
        linewright_find_result=2,
        source=gathered.start.source,
        program=PurePath(program).name,
        arch=gathered.start.arch,
        seconds=end.elapsed_ns / 1e9 if end else 0.0,
        samples=total,
        lost=end.lost if end else 0,
        threads=len(by_thread),
        lines=judge.shared(),
        alone=judge.alone(),
        overhead=_overhead(gathered),
        beside_s=end and (end.own_cpu_ns + gathered.reading_ns) / 1e9,
        blind=[*BLIND[gathered.start.source], *_unknown_pointers(gathered)],
        notes=[*(notes or []), *_notes(gathered), *_unlisted(names, gathered)],
        exit_code=end.exit_code if end and end.ending == "exit" else None,
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
