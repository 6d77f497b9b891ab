"""From a gathered stream to a result, and what each source of evidence cannot see."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from linewright.find.evidence import collect, collect_near
from linewright.find.live import SamplerOutput
from linewright.find.names import Names
from linewright.find.objects import Heap, Objects
from linewright.find.sharing_result import Judge
from linewright.find.sharing_schema import Result

BLIND = {
    "timer": (
        "plain stores that no watchpoint met (the hottest lines are watched, one after the other)",
        "time inside the kernel and what the kernel touches",
        "lines that move rarely: below a few samples nothing is said",
    ),
    "signal": (
        "plain stores and loads: without perf_event_open there are no watchpoints, so false "
        "sharing between plain"
        " stores is unseen",
        "statically linked programs, threads that block the signal or were not made by "
        "pthread_create",
        "time inside the kernel and what the kernel touches",
        "lines that move rarely: below a few samples nothing is said",
    ),
    "exact": (
        "time: how often a line moves on real hardware, and what that costs",
        "code that this run did not execute",
        "how processes take turns on memory that they share",
        "what the kernel touches",
    ),
}


def result_of(
    gathered: SamplerOutput, program: str, heap: Heap | None = None, notes: list[str] | None = None
) -> Result:
    """Judge everything that a live run saw."""
    gathered.samples.sort(key=lambda s: s.time_ns)
    collect(gathered.samples, gathered.decoder, gathered.lines)
    collect_near(gathered.samples, gathered.decoder, gathered.lines, gathered.watcher.confirmed)
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
    )
    end = gathered.end
    if heap is not None:
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
        blind=[*BLIND[gathered.start.source], *_unknown_pointers(gathered)],
        notes=[*(notes or []), *_notes(gathered)],
        exit_code=end.exit_code if end and end.ending == "exit" else None,
    )


def _unknown_pointers(gathered: SamplerOutput) -> list[str]:
    """What follows from thread pointers that were not found."""
    threads = gathered.spaces.threads
    without = len(
        {s.tid for s in gathered.samples if not s.kernel and s.tid not in threads.get(s.pid, {})}
    )
    hidden = {"arm64": "names of thread-local variables", "i386": "accesses through %gs"}.get(
        gathered.start.arch, "accesses through %fs"
    )
    whose = (
        "1 thread, whose thread pointer was"
        if without == 1
        else f"{without} threads, whose thread pointers were"
    )
    return [f"{hidden} of {whose} not found"] if without else []


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
    notes = []
    start, end = gathered.start, gathered.end
    if gathered.damaged:
        notes.append(f"Broken off: {gathered.damaged}; what came before counts.")
    if start.left_out:
        notes.append(f"{start.left_out} threads are not sampled: too few file descriptors "
"(ulimit -n), and no"
                     " permission for the whole machine.")  # fmt: skip
    if start.source == "timer" and not start.measured:
        notes.append(
            "The cost of samples or watchpoints could not be measured here: the overhead rests "
            "on assumed figures."
        )
    if end and end.lost:
        notes.append(f"{end.lost} samples were lost: the machine was too busy to read them.")
    if end and end.throttled:
        notes.append("The kernel throttled the timers (kernel.perf_event_max_sample_rate).")
    if gathered.watcher.refused:
        notes.append(
            f"{gathered.watcher.refused} watchpoints were refused or found no free register."
        )
    if start.source == "timer" and not start.kernel:
        notes.append(
            "Shares are of user time: kernel.perf_event_paranoid does not allow samples of the "
            "kernel."
        )
    if start.other_run:
        notes.append(
            "Another run was measuring or sampling on this machine when this one began: each "
            "disturbs the other."
        )
    if end and end.ending not in ("", "exit"):
        notes.append(f"The program was ended by: {end.ending}.")
    if not gathered.samples:
        notes.append("No sample: the program used less CPU time than one period.")
    return notes
