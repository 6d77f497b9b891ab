# SPDX-License-Identifier: MIT
"""Tasks that a runtime moves between threads: goroutines, virtual threads, fibers.

A thread of the kernel's is then not one user of a line: each comes to use the bytes of all tasks,
and false sharing between tasks looks like true sharing.  Samples of two threads that lie close
together tell.  They *meet* if the code around one writes what that around the other uses.  How
often they do, over how often any uses of both threads would, is 1 where threads use the bytes
independently of each other, above 1 where they turn to the same bytes together, and near 0 where
what is one thread's now is another's later.

Only neighbours that lie close together count, and their greatest distance is a part of the answer:
tasks that are moved more often than that look like threads that share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import NamedTuple

from linewright.analysis.intervals import wilson_score
from linewright.find.decode import Decoder
from linewright.find.evidence import LINE, Evidence, LineEvidence, byte_mask, runs, sharing_kind
from linewright.find.results import Tasks
from linewright.find.stream import Sample
from linewright.schema import Estimate

SELDOM = 0.5
"""Ratio below which threads use the bytes one after the other: simulated tasks had 0 to 0.3, and
threads that share about 1."""
FEWEST_MET = 2
"""Meetings in one byte from which it may be shared beside others that are not."""
ALWAYS = 0.95
"""Chance of meeting above which there is one thing to use only, and nothing to tell apart."""


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
    ratio = Estimate(value=seen.value / chance, low=seen.low / chance, high=seen.high / chance)
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
