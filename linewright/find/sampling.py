# SPDX-License-Identifier: MIT
"""A program or process sampled from its start to the judgement: how densely, by which means, and
with which prices."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from linewright.errors import RunError
from linewright.find.results import note
from linewright.find.sampled_machine import SamplerPlace
from linewright.find.stream import SamplingRefusal
from linewright.run import programs

if TYPE_CHECKING:
    from linewright.find.line_prices import Prices
    from linewright.find.results import Remark, Result
    from linewright.find.sources import SamplerOutput

MOST_PER_SECOND = 4000
"""Samples a second over all CPUs: what the command reads without falling behind."""
OVERHEAD = 0.02
"""What finding may cost the program: half for samples, half for watchpoints."""
HELD_BACK = 0.1
"""Of a run's time, how long a CPU quota held its threads back from which that is said."""
SIGNAL_NS = 4_000
"""Assumed cost of a sample by a signal, for planning alone: the page states what the handlers
took."""


class SampleRequest(NamedTuple):
    """What is sampled and how."""

    command: list[str]
    pid: int | None
    seconds: float | None
    heap: bool

    def arguments(self, cpus: int) -> list[str]:
        """The sampler's options."""
        options = [f"--{what}-share={OVERHEAD / 2:g}" for what in ("sample", "watch")]
        options += [f"--period-us={period_us(cpus):g}"]
        options += [f"--pid={self.pid}"] if self.pid else []
        return options + ([f"--for={self.seconds:g}"] if self.seconds else [])


def sampled(
    request: SampleRequest, there: SamplerPlace, records: str | None
) -> tuple[SamplerOutput, Result]:
    """Sample a program or process and judge what was seen, at the prices of a file of `records`,
    without one of those that are at their usual place."""
    table = heap = None
    if request.heap:
        there.refuse_sanitizer(request.command[0], "--heap")
        table = there.table()
    before_s = there.held_back_s(request.pid)
    gathered, said = _gathered(request, there, table)
    notes = [*_held_back(there.held_back_s(request.pid) - before_s, gathered), *said]
    from linewright.find import sources

    if table is not None:
        heap = there.blocks(table, gathered.spaces)
        notes += heap.notes
    name = request.command[0] if request.command else there.name_of(request.pid)
    found = sources.findings_of(gathered, name, heap, notes)
    known = prices_of(found, records, there)
    sources.conclude(found, request.command, there.on, request.heap, *known)
    found.notes += [note(why, path) for path, why in there.files.left_out.items()]
    return gathered, found


def _gathered(
    request: SampleRequest, there: SamplerPlace, table: str | None
) -> tuple[SamplerOutput, list[Remark]]:
    """What the kernel's timers show, and where they are refused a library's, with the reason."""
    preload = [there.library("heap")] if table else []
    environment = [f"LINEWRIGHT_FIND_HEAP={table}"] if table else []
    given, period = request.arguments(there.cpus), period_us(there.cpus)
    try:
        ours = _environment(environment, preload, there.environment)
        return there.run(given + ours, request.command, True), []
    except SamplingRefusal as refused:
        if request.pid:
            raise RunError(
                f"{refused}; a running process cannot be sampled otherwise: start the program "
                "with find"
            ) from None
        there.refuse_sanitizer(request.command[0], "find")
        said = note("by_signal", str(refused))
    rings = there.rings()
    preload.append(there.library("timer"))
    environment += [
        f"LINEWRIGHT_FIND_RINGS={rings}",
        # Its signals cannot be tried out beforehand; what they took is measured as they run.
        f"LINEWRIGHT_FIND_PERIOD_NS={max(SIGNAL_NS / (OVERHEAD / 2), 1000 * period):.0f}",
    ]
    given += [f"--signals={rings}", *_environment(environment, preload, there.environment)]
    return there.run(given, request.command, False), [said]


def _held_back(held_s: float, gathered: SamplerOutput) -> list[Remark]:
    """What is said where a CPU quota took a noticeable part of the run."""
    seconds = gathered.end.elapsed_ns / 1e9 if gathered.end else 0.0
    if held_s < HELD_BACK * seconds or not seconds:
        return []
    return [note("held_back", round(held_s, 1), round(seconds, 1))]


def _environment(
    assignments: list[str], preload: list[str], before: Mapping[str, str]
) -> list[str]:
    """Options that set the program's environment."""
    more = programs.preloading(preload, before) if preload else {}
    return [f"--env={text}" for text in (*assignments, *(f"{k}={v}" for k, v in more.items()))]


def prices_of(
    found: Result, named: str | None, there: SamplerPlace
) -> tuple[Prices | None, list[Remark]]:
    """Prices where the source counts time, and what is said of them."""
    from linewright.find import line_prices

    if not found.lines or found.lines[0].share is None:
        return None, []
    paths = [named] if named else sorted(glob.glob("results/*.jsonl"))
    known, said = line_prices.from_files(paths, there.cpu_model, named is not None, there.on)
    return known, [said] if said else []


def period_us(cpus: int) -> float:
    """CPU time between samples, at least: never more samples than the command can read.  The
    sampler lengthens it where samples cost more than their share."""
    by_reading = 1e6 * cpus / MOST_PER_SECOND
    # Not a multiple of the kernel's tick: a program that works in ticks would be met at one place
    # only.
    return max(by_reading, 997.0)
