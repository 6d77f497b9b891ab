"""What a search says beside its lines: what its source cannot see, and what the reader must know of
the run before believing it."""

from __future__ import annotations

_RARE = "lines that move rarely: below a few samples nothing is said"
_KERNEL = "time inside the kernel and what the kernel touches"
BLIND = {
    "timer": (
        "plain stores that no watchpoint met (the hottest lines are watched, one after the other)",
        _KERNEL,
        _RARE,
    ),
    "signal": (
        "plain stores and loads: without perf_event_open there are no watchpoints, so false "
        "sharing between plain stores is unseen",
        "statically linked programs, threads that block the signal or were not made by "
        "pthread_create",
        _KERNEL,
        _RARE,
    ),
    "exact": (
        "time: how often a line moves on real hardware, and what that costs",
        "code that this run did not execute",
        "how processes take turns on memory that they share",
        "what the kernel touches",
    ),
}
"""What a source of evidence cannot see."""
_HIDDEN = {"arm64": "names of thread-local variables", "i386": "accesses through %gs"}
_NOTES = {
    "ended_by": "Ended by {} before its time: what was seen until then counts.",
    "damaged": "Broken off: {}; what came before counts.",
    "left_out": "{} threads are not sampled: too few file descriptors (ulimit -n), and no "
    "permission for the whole machine.",
    "assumed_cost": "The cost of samples or watchpoints could not be measured here: the overhead "
    "rests on assumed figures.",
    "lost": "{} samples were lost: the machine was too busy to read them.",
    "throttled": "The kernel throttled the timers (kernel.perf_event_max_sample_rate).",
    "refused": "{} watchpoints were refused or found no free register.",
    "unwatched": "Lines that were not watched, or not to the end: {}. Watching stops with the "
    "program and at its half of the 2 % that finding may take.",
    "user_time": "Shares are of user time: kernel.perf_event_paranoid does not allow samples of "
    "the kernel.",
    "other_run": "Another run was measuring or sampling on this machine when this one began: each "
    "disturbs the other.",
    "ending": "The program was ended by: {}.",
    "no_sample": "No sample: the program used less CPU time than one period.",
    "by_signal": "{}. Chain by CPU timers and a signal handler in a preloaded library instead.",
    "unread": "Heap blocks have no names: {}",
    "other_version": "Heap blocks have no names: the interposed malloc is of another version; "
    "build it anew.",
    "not_loaded": "Heap blocks have no names: no process loaded the interposed malloc; is the "
    "program static?",
    "too_large": "{} has more than 512 MiB and was not fetched: its names are missing.",
    "replaced": "{} is not the file that the program mapped, which was replaced: it names nothing "
    "here; start the program anew.",
    "java": "Methods of Java (process {0}) have no names: start it with JAVA_TOOL_OPTIONS="
    "'-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit' (JDK 17), or jcmd {0} "
    "Compiler.perfmap while it runs, then find --pid.",
    "javascript": "Functions of JavaScript (process {}) have no names: node --perf-basic-prof.",
    "heap_dropped": "{} heap blocks found no place in the table and have no name.",
    "exact_order": "Lines are in the order in which they changed hands most under emulation: that "
    "is no measure of time.",
    "exact_seldom": "{} more lines changed hands fewer than {} times, as at starts and ends of "
    "threads.",
    "no_records": "No ceiling: no records of this machine ({}){}. {} makes them; "
    "--prices measure takes {} s.",
    "several_models": "No ceiling: the records are of several simulated machines, {}; name one "
    "file.",
    "half_a_model": "No ceiling: the records of simulated machine {} have no form both alone and "
    "contended.",
    "of_a_model": "Ceilings are priced on simulated machine {}: what a model says, and no "
    "measurement.",
    "apart_measured": "alignas({}) is what plan spacing measured on this machine: more gains at "
    "most {}.",
    "apart_usual": "alignas({}) is a convention: {} finds what the machine needs.",
    "measuring_failed": "No ceiling: measuring failed ({}).",
}


def note(kind: str, *values: object) -> str:
    """One remark with its figures."""
    return _NOTES[kind].format(*values)


def unknown_pointers(arch: str, threads: int) -> str:
    """What follows from thread pointers that were not found."""
    hidden = _HIDDEN.get(arch, "accesses through %fs")
    if threads == 1:
        return f"{hidden} of 1 thread, whose thread pointer was not found"
    return f"{hidden} of {threads} threads, whose thread pointers were not found"
