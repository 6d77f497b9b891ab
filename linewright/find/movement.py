# SPDX-License-Identifier: MIT
"""Whether a line moves between CPUs, and tasks between threads, from the times of samples.

Two threads that use the same bytes are no proof that anything travels: a counter per CPU is used by
every thread and stays where it is, and a job that is handed over takes its lines along once.  Two
ratios tell them apart.  Each is 1 where the CPUs use the line independently of each other, and near
0 where one CPU uses it for a while before another does:

* *changes*: neighbouring samples of different CPUs, over their number in random order (as in the
  runs test of Wald and Wolfowitz, 1940).  It sees turns that are longer than a sampling period.
* *close pairs*: of the pairs of samples of two CPUs that lie within a few sampling periods, those
  that lie closer than a small distance, over that share of all the timers' pairs (a pair
  correlation).  It sees turns down to that distance.  Where each CPU has one timer, the sampler
  lets them fire within microseconds of each other; else their periods differ, so that all
  distances are equally frequent.

Handing over at distances that the samples do not resolve looks like contention: the answer
carries the distance, and is open where that is more than LONGEST_TURN_NS.

Where a runtime moves tasks between threads (goroutines, virtual threads, fibers), a thread of the
kernel's is not one user of a line: each comes to use the bytes of all tasks, and false sharing
between tasks looks like true sharing.  Samples of two threads that lie close together tell.  They
*meet* if the code around one writes what that around the other uses.  How often they do, over how
often any uses of both threads would, is 1 where threads use the bytes independently of each other,
above 1 where they turn to the same bytes together, and near 0 where what is one thread's now is
another's later.

Only neighbours that lie close together count, and their greatest distance is a part of the answer:
tasks that are moved more often than that look like threads that share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import NamedTuple

import msgspec
import numpy as np

from linewright.analysis.intervals import wilson_score
from linewright.find.decode import Decoder
from linewright.find.evidence import LINE, Evidence, LineEvidence, byte_mask, runs, sharing_kind
from linewright.find.results import Movement, Tasks
from linewright.find.stream import Sample
from linewright.schema import Estimate

LINE_BETWEEN = 0.6
"""Ratio above which a line moves. Planted lines under contention had 1.2 to 1.7 by changes, lines
handed over every 10 ms 0.30 to 0.39."""
FEWEST_ON_ONE_CPU = 35
"""Samples that must all be of one CPU before the line is said to stay there: then others' share is
below 10 % (Wilson, 95 %)."""
REACH = 8
"""Sampling intervals of the line within which pairs are looked at."""
CLOSE_PAIRS = 40
"""Close pairs that are expected of CPUs that use the line independently: their distance follows
from it, and a ratio of 1 then has an interval that excludes LINE_BETWEEN."""

LONGEST_TURN_NS = 20_000
"""Distance that close pairs must resolve before a line is said to move. One miss (at most about
1 µs) is a few hundredths of longer turns, and a sample stops its CPU, and a turn there, about so
long."""

STRETCH = 20
"""Sampling periods over which the CPU time of threads is added up: one sample more or less is a
twentieth."""
TICK_PART = 4
"""Samples that lie closer than this part of the period are of one tick of timers that fire
together."""

SELDOM = 0.5
"""Ratio below which threads use the bytes one after the other: simulated tasks had 0 to 0.3, and
threads that share about 1."""
FEWEST_MET = 2
"""Meetings in one byte from which it may be shared beside others that are not."""
ALWAYS = 0.95
"""Chance of meeting above which there is one thing to use only, and nothing to tell apart."""

Use = tuple[int, int]
"""Time in ns and CPU of a sample."""


class Ticks:
    """Times at which CPUs' timers fired, whatever ran there; none where all distances between
    those of two CPUs are equally frequent."""

    def __init__(self, ticks: Sequence[Use] = ()) -> None:
        ordered = np.array(sorted(ticks), np.int64).reshape(-1, 2)
        cpus = ordered[:, 1]
        self._times = ordered[:, 0]
        self._by_cpu = [self._times[cpus == cpu] for cpu in np.unique(cpus)]

    def pairs(self, distance_ns: float) -> float:
        """A number in proportion to pairs of ticks of two CPUs that lie as close as this."""
        if not len(self._times):
            return distance_ns

        def close(times: np.ndarray) -> int:
            behind = np.searchsorted(times, times + distance_ns, "right")
            return int(np.sum(behind - np.arange(1, len(times) + 1)))

        return close(self._times) - sum(map(close, self._by_cpu))

    def distance(self, share: float, reach_ns: float) -> float:
        """The least distance that this share of the pairs within reach have."""
        low, high, wanted = 0.0, reach_ns, share * self.pairs(reach_ns)
        while high - low > max(1.0, 1e-3 * high):
            middle = (low + high) / 2
            low, high = (low, middle) if self.pairs(middle) >= wanted else (middle, high)
        return high


def movement(uses: Iterable[Use], ticks: Ticks | None = None) -> Movement:
    """The answer from the line's samples, in any order."""
    ordered = sorted(uses)
    times = np.array([time for time, _ in ordered])
    cpus = np.array([cpu for _, cpu in ordered])
    counts, number = Counter(cpus.tolist()), len(cpus)
    if len(counts) < 2:
        stays = number >= FEWEST_ON_ONE_CPU
        return Movement(answer="one_cpu" if stays else "open", samples=number, cpus=len(counts))
    differ = 1 - sum(n * (n - 1) for n in counts.values()) / (number * (number - 1))
    changes = _over(wilson_score(int(np.count_nonzero(cpus[1:] != cpus[:-1])), number - 1), differ)
    close_ns, close = _close_pairs(times, cpus, ticks or Ticks())
    known = [changes] if close is None else [changes, close]
    if any(ratio.high < LINE_BETWEEN for ratio in known):
        answer = "by_turns"
    elif 0 < close_ns <= LONGEST_TURN_NS and min(r.low for r in known) > LINE_BETWEEN:
        answer = "moves"
    else:
        answer = "open"
    return Movement(
        answer=answer,
        samples=number,
        cpus=len(counts),
        changes=changes,
        close=close,
        close_ns=close_ns,
    )


def table_movement(lines: list[list[Use]], ticks: Ticks | None = None) -> Movement:
    """The same of many lines together, each with too few samples: they move if CPUs use the whole
    at the same time, and neighbouring samples of one line are of CPUs in random order."""
    whole = movement((use for uses in lines for use in uses), ticks)
    pairs = [(one[1], two[1]) for uses in lines for one, two in pairwise(sorted(uses))]
    counts = Counter(cpu for uses in lines for _, cpu in uses)
    differ = 1 - sum(n * n for n in counts.values()) / counts.total() ** 2
    seen = wilson_score(sum(one != two for one, two in pairs), len(pairs))
    if seen is None or not differ:
        return whole
    changes = _over(seen, differ)
    answer = whole.answer
    if changes.high < LINE_BETWEEN:
        answer = "by_turns"
    elif answer == "by_turns":
        return whole  # with the ratio that shows it
    elif changes.low < LINE_BETWEEN and answer == "moves":
        answer = "open"
    return msgspec.structs.replace(whole, answer=answer, changes=changes)


def ran_at_once(threads: Sequence[Sequence[int]], period_ns: int, together: bool) -> float:
    """Of the time in which any of these threads ran, the part in which two or more are seen to have
    run, from the times of each one's samples. Where CPUs' timers fire `together`, samples of one
    tick are of threads that ran then; else the CPU time that all used of a stretch, beyond the
    whole of it, is what they must have used at once."""
    times = np.concatenate([np.asarray(some, np.int64) for some in threads])
    who = np.repeat(np.arange(len(threads)), [len(some) for some in threads])
    if not together:
        stretches, used = np.unique(times // (STRETCH * period_ns) * len(threads) + who,
                                    return_counts=True)  # fmt: skip
        each = np.minimum(used, STRETCH)
        in_all = np.bincount(np.unique(stretches // len(threads), return_inverse=True)[1], each)
        at_once = np.clip(in_all - STRETCH, 0, STRETCH)
        return float(at_once.sum() / max(1, np.minimum(in_all, STRETCH).sum()))
    order = np.argsort(times, kind="stable")
    ticks = tick_numbers(times[order], period_ns)
    ticks = np.unique(ticks * len(threads) + who[order]) // len(threads)
    return float(np.mean(np.unique(ticks, return_counts=True)[1] > 1)) if len(ticks) else 0.0


def tick_numbers(times: np.ndarray, period_ns: int) -> np.ndarray:
    """The number of each time's tick, from 0 on, of times in order: those of one tick of timers
    that fire together lie closer than a part of the period."""
    return np.cumsum(np.diff(times, prepend=times[:1]) > period_ns // TICK_PART)


def _over(seen: Estimate, expected: float) -> Estimate:
    return Estimate(value=seen.value / expected, low=seen.low / expected, high=seen.high / expected)


def _close_pairs(times: np.ndarray, cpus: np.ndarray, ticks: Ticks) -> tuple[int, Estimate | None]:
    """The distance below which pairs are close, in ns, and their ratio; None of too few pairs."""
    reach = REACH * float(np.median(np.diff(times)))
    found = []
    for step in range(1, len(times)):
        apart = times[step:] - times[:-step]
        near = apart <= reach
        if not near.any():
            break
        found.append(apart[near & (cpus[step:] != cpus[:-step])])
    pairs = np.concatenate(found) if found else times[:0]
    if len(pairs) < 2 * CLOSE_PAIRS:
        return 0, None
    close_ns = ticks.distance(CLOSE_PAIRS / len(pairs), reach)
    seen = wilson_score(int(np.count_nonzero(pairs <= close_ns)), len(pairs))
    return round(close_ns), _over(seen, ticks.pairs(close_ns) / ticks.pairs(reach))


class BytesUsed(NamedTuple):
    """The bytes of a line that the code around one sample reads and writes, as masks."""

    time_ns: int
    thread: int
    read: int
    written: int

    @property
    def touched(self) -> int:
        return self.read | self.written

    def shared_bytes(self, other: BytesUsed) -> int:
        """The bytes that both use and one of them writes."""
        return self.written & other.touched | other.written & self.touched


def mark_task_bytes(lines: LineEvidence, decoder: Decoder) -> None:
    """Note of each line on whose bytes threads meet whether they do so at one time; of its threads
    what they use only after one another."""
    for e in lines.known.values():
        if sharing_kind(e.threads.values()) == "true":
            mark_line(e, list(_uses(e, lines, decoder)))


def mark_line(e: Evidence, uses: Sequence[BytesUsed]) -> None:
    """The same of one line by its samples."""
    e.tasks, about = moved_tasks(uses)
    if e.tasks is not None and e.tasks.answer == "tasks":
        for use in uses:
            e.thread(use.thread).of_tasks |= use.touched & about


def _uses(e: Evidence, lines: LineEvidence, decoder: Decoder) -> Iterator[BytesUsed]:
    """All that the code around a sample uses is of the task that ran."""
    for sample in e.samples_at():
        read = written = 0
        for operand in decoder.operands(sample.pid, sample.ip, sample.bits):
            at = operand.address(sample.registers) if operand.distance >= -1 else None
            if at is not None and _is_of(e, sample, at, lines):
                mask = byte_mask(at % LINE, operand.size)
                read, written = read | mask, written | mask * (operand.access != "read")
        yield BytesUsed(sample.time_ns, sample.tid, read, written)


def _is_of(e: Evidence, sample: Sample, at: int, lines: LineEvidence) -> bool:
    """Whether an address of a sample's process is on the line."""
    if sample.pid == e.pid:
        return at // LINE == e.address // LINE
    return lines.place(sample.pid, at, sample.time_ns) == e.place


def moved_tasks(uses: Iterable[BytesUsed]) -> tuple[Tasks | None, int]:
    """The answer, and the bytes that it is about; None where two threads' uses always meet, or
    never."""
    ordered = sorted(uses)
    close, within_ns = _close(ordered)
    met, expected = Counter(one.shared_bytes(two) for one, two in close), _by_chance(ordered, close)
    about = _shared(met, expected) or reduce(or_, expected, 0)
    number = max(1, len(close))
    chance = _of(expected, about) / number
    if not 0 < chance < ALWAYS:
        return None, about
    seen = wilson_score(_of(met, about), number)
    ratio = _over(seen, chance)
    answer = "tasks" if ratio.high < SELDOM else "threads" if ratio.low > SELDOM else "open"
    parts = _parts(use.touched & about for use in ordered)
    found = Tasks(answer=answer, pairs=number, ratio=ratio, within_ns=within_ns, parts=parts)
    return found, about


def _close(ordered: Sequence[BytesUsed]) -> tuple[list[tuple[BytesUsed, BytesUsed]], int]:
    """Neighbours of two threads, the closest third of them, and their greatest distance in ns.
    Where timers fire together, every second distance is a whole period."""
    pairs = [(one, two) for one, two in pairwise(ordered) if one.thread != two.thread]
    distances = sorted(two.time_ns - one.time_ns for one, two in pairs)
    within_ns = distances[len(distances) // 3] if distances else 0
    return [(one, two) for one, two in pairs if two.time_ns - one.time_ns <= within_ns], within_ns


def _by_chance(
    ordered: Sequence[BytesUsed], close: Sequence[tuple[BytesUsed, BytesUsed]]
) -> Counter[int]:
    """How many of these neighbours would meet, by the bytes that they meet in, if each were any use
    of its thread."""
    own: dict[int, Counter[BytesUsed]] = defaultdict(Counter)
    for use in ordered:
        own[use.thread][use._replace(time_ns=0)] += 1
    expected: Counter[int] = Counter()
    for (one, two), number in Counter((a.thread, b.thread) for a, b in close).items():
        each = number / (own[one].total() * own[two].total())
        for a, often in own[one].items():
            for b, more in own[two].items():
                expected[a.shared_bytes(b)] += each * often * more
    del expected[0]
    return expected


def _of(counts: Counter[int], about: int) -> float:
    """What was counted in these bytes."""
    return sum(number for mask, number in counts.items() if mask & about)


def _shared(met: Counter[int], expected: Counter[int]) -> int:
    """The bytes in which threads meet often, where they may use others apart."""
    bytes_ = [1 << at for at in range(LINE) if _of(met, 1 << at) >= FEWEST_MET]
    return sum(b for b in bytes_ if _of(met, b) > SELDOM * _of(expected, b))


def _parts(masks: Iterable[int]) -> list[list[tuple[int, int]]]:
    """Masks that have bytes in common are of one part."""
    parts: list[int] = []
    for mask in set(masks) - {0}:
        whole = reduce(or_, (one for one in parts if one & mask), mask)
        parts = [*(one for one in parts if not one & mask), whole]
    return sorted(map(runs, parts))
