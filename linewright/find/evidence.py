# SPDX-License-Identifier: MIT
"""What is known of each 64-byte line: who touches which bytes, from where, and whether they do so
in the same stretch of time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from linewright.find.decode import NEAR, Decoder
from linewright.find.results import SharingKind, Tasks
from linewright.find.space import Spaces
from linewright.find.stream import Sample

LINE = 64
MOST_SITES = 16
"""Of a line, how many are named."""
STRAY = 0.05
"""Of a thread's samples of atomic operations, how many there are at least where it really is."""


class LinePlace(NamedTuple):
    """A line: the same for all processes that share it."""

    space: tuple[int, ...]
    line: int
    owners: frozenset = frozenset()
    """The heap blocks that held it, where others had the same bytes at other times."""

    @property
    def unclear(self) -> bool:
        """Whether that was about the time when one block followed another, so that it is not known
        which of them it was."""
        return any(a.reuses(b) for a, b in combinations(self.owners, 2))


class SiteKey(NamedTuple):
    """An accessing instruction; the process is one that ran it."""

    pid: int
    ip: int
    access: str
    mnemonic: str
    caller: int = 0
    """The call instruction that led there, where the source knows it."""


@dataclass
class Thread:
    """One thread on one line: masks of bytes, one bit each, and when."""

    read: int = 0
    written: int = 0
    of_tasks: int = 0
    """Of them, bytes that samples show to be used by one thread at a time (movement.py)."""
    first_ns: int = 1 << 63
    last_ns: int = 0

    @property
    def touched(self) -> int:
        return self.read | self.written

    def saw(self, time_ns: int) -> None:
        self.first_ns, self.last_ns = min(self.first_ns, time_ns), max(self.last_ns, time_ns)

    def at_any_time(self) -> Thread:
        """The same bytes, used at whatever time."""
        return Thread(self.read, self.written, self.of_tasks, 0, 0)

    def add(self, other: Thread, shift: int = 0) -> None:
        """Its uses of another line, whose bytes lie so far behind."""
        self.read |= other.read << shift
        self.written |= other.written << shift
        self.of_tasks |= other.of_tasks << shift
        self.saw(other.first_ns), self.saw(other.last_ns)

    def together(self, other: Thread) -> bool:
        """Whether both used the line in one stretch of time, and not one after the other."""
        return max(self.first_ns, other.first_ns) <= min(self.last_ns, other.last_ns)

    def shared_bytes(self, other: Thread) -> int:
        """The bytes that both use and one writes, but for those that are used apart."""
        met = self.written & other.touched | other.written & self.touched
        return met & ~(self.of_tasks & other.of_tasks)


@dataclass
class Evidence:
    """One line."""

    place: LinePlace
    pid: int
    """A process that has it mapped, and its address there."""
    address: int
    threads: dict[int, Thread] = field(default_factory=dict)
    sites: Counter[SiteKey] = field(default_factory=Counter)
    """Samples, or accesses where every one is seen."""
    used_at: Counter[int] = field(default_factory=Counter)
    """Samples by the offset in the line; where every access is seen, those of each byte."""
    bytes_of: Counter[SiteKey] = field(default_factory=Counter)
    """Where every access is seen: a mask of the bytes that an instruction uses."""
    seen: dict[SiteKey, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    """The samples themselves, where the source has any."""
    samples: int = 0
    near_by_thread: Counter[int] = field(default_factory=Counter)
    """Of the samples, those that fall only near a plain access."""
    watched: bool = False
    """Some of the threads' bytes were seen by watchpoints."""
    accesses: int = 0
    moved: int = 0
    """Where every access is seen: how many, and how often the line changed hands (exact.py)."""
    tasks: Tasks | None = None
    """Whether threads use its bytes at one time, where that is a question (movement.py)."""

    def uses(self, *sites: SiteKey) -> list[tuple[int, int]]:
        """Time in ns and CPU of the samples at these sites, or at all, where the source names the
        CPU."""
        return [(s.time_ns, s.cpu) for s in self.samples_at(*sites) if s.cpu is not None]

    def example(self, site: SiteKey) -> Sample | None:
        """Its first sample."""
        return next(iter(self.seen.get(site, ())), None)

    def samples_at(self, *sites: SiteKey) -> list[Sample]:
        """The same samples, whole."""
        return [sample for site in sites or self.seen for sample in self.seen.get(site, ())]

    @property
    def hottest(self) -> list[SiteKey]:
        """The sites that are named."""
        return [key for key, _ in self.sites.most_common(MOST_SITES)]

    @property
    def begins(self) -> set[int]:
        """Where a thread's used bytes begin."""
        return {at for t in self.threads.values() for at, _ in runs(t.touched)}

    @property
    def when_ns(self) -> int:
        """A time at which it was used: the middle of its samples, or the last one known."""
        threads = [t.last_ns for t in self.threads.values()]
        times = sorted(time for time, _ in self.uses()) or threads
        return times[len(times) // 2] if times else 0

    def thread(self, tid: int) -> Thread:
        return self.threads.setdefault(tid, Thread())

    def count(self, site: SiteKey, sample: Sample, offset: int = 0) -> None:
        """One sample at one of the line's instructions, which uses the line from the offset."""
        self.used_at[offset] += 1
        self.sites[site] += 1
        self.seen[site].append(sample)
        self.samples += 1

    def add(self, other: Evidence) -> None:
        """Another line's evidence to this one's."""
        for tid, thread in other.threads.items():
            self.thread(tid).add(thread)
        self.sites += other.sites
        self.samples += other.samples
        self.near_by_thread += other.near_by_thread
        for site, seen in other.seen.items():
            self.seen[site] += seen

    def touch(self, tid: int, offset: int, size: int, writes: bool, time_ns: int) -> None:
        thread = self.thread(tid)
        mask = byte_mask(offset, size)
        if writes:
            thread.written |= mask
        else:
            thread.read |= mask
        thread.saw(time_ns)


def byte_mask(offset: int, size: int) -> int:
    """Bits for bytes of a line; what lies beyond its end belongs to the next one."""
    return ((1 << max(1, size)) - 1) << offset & ((1 << LINE) - 1)


def runs(mask: int) -> list[tuple[int, int]]:
    """Offset and length of each run of bytes in a mask."""
    return [(m.start(), len(m[0])) for m in re.finditer("1+", f"{mask:b}"[::-1])]


def bytes_in(mask: int) -> list[int]:
    """Offsets of the bytes in a mask, in order."""
    return [at for begin, size in runs(mask) for at in range(begin, begin + size)]


def sharing_kind(threads: Iterable[Thread]) -> SharingKind:
    """The kind of sharing that masks and times show; `alone` where no two threads used the line
    together."""
    kind: SharingKind = "alone"
    for one, two in combinations(threads, 2):
        if not one.together(two):
            continue
        if one.shared_bytes(two):
            return "true"
        if one.written or two.written:
            kind = "false"
        elif kind == "alone":
            kind = "read"
    return kind


def paired(halves: Iterable[Evidence]) -> list[Thread]:
    """Threads on 128 bytes: the masks of the two lines side by side."""
    merged: dict[int, Thread] = {}
    for half in halves:
        for tid, thread in half.threads.items():
            merged.setdefault(tid, Thread()).add(thread, half.place.line % 2 * LINE)
    return list(merged.values())


class LineEvidence:
    """Evidence of all lines, from samples and from watchpoints."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self.known: dict[LinePlace, Evidence] = {}
        self._owners: Callable[[int, int, int], frozenset] = lambda *_: frozenset()

    def place(self, pid: int, address: int, when_ns: int = 0) -> LinePlace:
        """The line that holds an address, at a time where that is known."""
        key = self._spaces.key(pid, address)
        owners = self._owners(pid, address // LINE * LINE, when_ns)
        return LinePlace(key.space, key.at // LINE, owners)

    def split_by_heap_block(self, owners: Callable[[int, int, int], frozenset]) -> None:
        """Tell uses of a line apart by the heap blocks that held it then: `owners` gives those of
        a process's line at a time."""
        self._owners, known = owners, self.known
        self.known = {}
        for e in known.values():
            e.place = self.place(e.pid, e.address, e.when_ns)
            self.known[e.place] = e

    def at(self, pid: int, address: int, when_ns: int = 0) -> Evidence:
        """Its evidence, new where nothing was known."""
        place = self.place(pid, address, when_ns)
        if place not in self.known:
            self.known[place] = Evidence(place, pid, address // LINE * LINE)
        return self.known[place]

    def drop_unclear(self) -> None:
        """Forget what was seen about the time when one block followed another, which may be of
        either, of lines whose blocks are mostly known."""
        uses: Counter[tuple] = Counter()
        for place, e in self.known.items():
            uses[place.space, place.line] += -len(e.uses()) if place.unclear else len(e.uses())
        self.known = {
            place: e
            for place, e in self.known.items()
            if not place.unclear or uses[place.space, place.line] <= 0
        }

    def drop(self, is_ours: Callable[[int, int], bool]) -> None:
        """Forget lines of memory that is there for our sake only."""
        self.known = {place: e for place, e in self.known.items() if not is_ours(e.pid, e.address)}


def collect(samples: Iterable[Sample], decoder: Decoder, lines: LineEvidence) -> None:
    """Put each sample on one line at most: one at an atomic operation on that operation's, others
    on those that watchpoints have shown to be shared. A sample that a jump may have brought to
    where it was met counts only if its thread was there often: a thread that comes by another way
    leaves a few samples there, which would make it a user of bytes that it never touches."""
    watched = {place for place, evidence in lines.known.items() if evidence.watched}
    sure = [
        (sample, operand)
        for sample in collect_near(samples, decoder, lines, watched)
        if not sample.kernel and sample.bits
        for operand in [decoder.sure(sample.pid, sample.ip, sample.bits)]
        if operand is not None
    ]
    of_thread = Counter(sample.tid for sample, _ in sure)
    there = Counter((sample.tid, sample.ip) for sample, _ in sure)
    for sample, operand in sure:
        often = there[sample.tid, sample.ip] >= STRAY * of_thread[sample.tid]
        address = operand.address(sample.registers) if often or not operand.joined else None
        if address is not None:
            e, writes = lines.at(sample.pid, address, sample.time_ns), operand.access != "read"
            e.touch(sample.tid, address % LINE, operand.size, writes, sample.time_ns)
            key = SiteKey(sample.pid, operand.ip, operand.access, operand.mnemonic)
            e.count(key, sample, address % LINE)


def collect_near(
    samples: Iterable[Sample], decoder: Decoder, lines: LineEvidence, wanted: set[LinePlace]
) -> list[Sample]:
    """Count the samples that fall near a plain access of one of these lines, or at a full fence
    behind a plain store to one, and return the others: an estimate of the time that those accesses
    take, since neighbours' samples are among them and stalls surface later. The masks stay as they
    are."""
    spaces = {place.space for place in wanted}
    private = all(len(space) == 1 for space in spaces)
    return [
        sample
        for sample in samples
        if (private and (sample.pid,) not in spaces)
        or not _put_near(sample, decoder, lines, wanted)
    ]


def _put_near(
    sample: Sample, decoder: Decoder, lines: LineEvidence, wanted: set[LinePlace]
) -> bool:
    """Whether it was counted."""
    if sample.kernel or not sample.bits:
        return False
    sure = decoder.sure(sample.pid, sample.ip, sample.bits)
    if sure is not None and not sure.changes_nothing:
        return False
    for operand in decoder.close(sample.pid, sample.ip, sample.bits):
        if not (operand.fenced or (sure is None and -1 <= operand.distance <= NEAR)):
            continue
        address = operand.address(sample.registers)
        place = None if address is None else lines.place(sample.pid, address, sample.time_ns)
        if place in wanted:
            evidence = lines.known[place]
            site = SiteKey(sample.pid, operand.ip, operand.access, operand.mnemonic)
            evidence.count(site, sample, address % LINE)
            evidence.near_by_thread[sample.tid] += 1
            return True
    return False
