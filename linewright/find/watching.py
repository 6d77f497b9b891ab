# SPDX-License-Identifier: MIT
"""Which lines are worth watchpoints, which watchpoints to ask for, and what their outcomes add to
the evidence.

A line is watched in two rounds: writes of every word in every thread concerned, then, if a thread
wrote, reads.  Hits of two threads in one round are what confirms sharing: they used the line within
the same few hundredths of a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from linewright.find.decode import NEAR, STACK_POINTER, Decoder
from linewright.find.evidence import LINE, Evidence, LineEvidence, LinePlace, SiteKey
from linewright.find.space import Spaces
from linewright.find.stream import Sample, Watch

WORD = {"x86_64": 8, "arm64": 8, "i386": 4}
"""Bytes that one watchpoint watches: as many as a register of the CPU has."""
ROUND_MS = 4
"""How long one watchpoint waits. A thread that runs touches its hot line within 0.3 ms, and a CPU
on which one waits may copy many times slower; for threads that want a CPU the sampler waits
longer."""
MOST_LINES = 64
MOST_THREADS = 8
"""Threads watched on one line: those that were seen on it, then the ones with most samples."""
PER_SITE = 40
"""Samples of one instruction in one thread that candidates are taken from."""
FEWEST = 3
"""Samples near a line's accesses from which it is a candidate."""


@dataclass
class Candidate:
    """A line that decoded code says is used."""

    seen: Evidence
    """What the code says, which is no evidence: a register may hold what it did not hold there."""
    threads: Counter[int] = field(default_factory=Counter)
    writes: bool = False
    own_stack: bool = False
    between_processes: bool = False
    """In memory that processes can share."""


_Touched = tuple[int, int, bool]
"""What a hit shows: offset and number of bytes of the line, and whether they were written."""


@dataclass
class _Round:
    evidence: Evidence
    pid: int
    address: int
    threads: list[int]
    reads: bool
    waiting: int = 0
    hits: list[tuple[Watch, _Touched]] = field(default_factory=list)


class Watcher:
    """Chooses lines as samples come in and turns outcomes into evidence."""

    def __init__(self, spaces: Spaces, decoder: Decoder, lines: LineEvidence) -> None:
        self._spaces, self._decoder, self._lines = spaces, decoder, lines
        self._word = WORD[decoder.arch]
        self._candidates: dict[LinePlace, Candidate] = {}
        self._used: Counter[tuple[int, int]] = Counter()
        self._seen: Counter[int] = Counter()
        self._busy: Counter[int] = Counter()
        self._watched: set[LinePlace] = set()
        self._missed: dict[LinePlace, Evidence] = {}
        """Lines some of whose watchpoints were refused."""
        self._rounds: dict[int, _Round] = {}
        self._next = 1
        self._now_ns = 0
        """Of the latest sample; all hits of a round are dated so, and count as together, since a
        round is short."""
        self.refused = self.answered = 0
        """Watchpoints that found no free register, or were refused, and others."""

    def sample(self, sample: Sample) -> None:
        """Note the lines that the code around a sample uses."""
        self._now_ns = max(self._now_ns, sample.time_ns)
        self._busy[sample.tid] += 1
        self._used[sample.tid, sample.ip] += 1
        self._seen[sample.ip] += 1
        # Code that was met once only is not decoded while the program runs: reading must keep pace
        # with the samples.
        if self._seen[sample.ip] < 2 or self._used[sample.tid, sample.ip] > PER_SITE:
            return
        pointer = sample.registers[STACK_POINTER[self._decoder.arch]]
        stack = self._spaces.find(sample.pid, pointer)
        for operand in self._decoder.operands(sample.pid, sample.ip, sample.bits):
            address = operand.address(sample.registers)
            mapping = self._spaces.find(sample.pid, address) if address is not None else None
            if mapping is None or not mapping.writable:
                continue
            place = self._lines.place(sample.pid, address)
            known = self._candidates.get(place)
            if known is None:
                seen = Evidence(place, sample.pid, address // LINE * LINE)
                known = self._candidates[place] = Candidate(seen)
            writes = operand.access != "read"
            if operand.access != "atomic":  # of which samples tell
                known.seen.touch(sample.tid, address % LINE, operand.size, writes, sample.time_ns)
                key = SiteKey(sample.pid, operand.ip, operand.access, operand.mnemonic)
                known.seen.sites[key] += 1
            known.threads[sample.tid] += 2 if abs(operand.distance) <= NEAR else 1
            known.writes |= writes
            known.own_stack |= mapping is stack
            known.between_processes |= mapping.shared

    @property
    def unwatched(self) -> int:
        """Lines with watchpoints that were asked for and not answered."""
        return len({round_.evidence.place for round_ in self._rounds.values()})

    def suspected(self) -> list[Evidence]:
        """Lines that plain accesses in the code of several threads seem to use."""
        several = (c for c in self._candidates.values() if c.writes and len(c.threads) > 1)
        return [c.seen for c in several if c.seen.sites]

    def perhaps_shared(self) -> list[Evidence]:
        """Those of them that watchpoints never came to, or not to the end, or not all."""
        open_ = {round_.evidence.place for round_ in self._rounds.values()}
        open_ |= {place for place, e in self._missed.items() if not e.watched}
        return [e for e in self.suspected() if e.place in open_ or e.place not in self._watched]

    def requests(self) -> Iterator[str]:
        """Commands for the sampler: a round for each line not yet watched, the most promising
        first. Lines that two threads' code uses come first; one thread's own stack only then.
        Memory that one thread alone can reach is left out: two threads' hits are what shows
        anything."""
        threads = Counter(map(self._spaces.process_of.get, self._busy))
        fit = [
            c
            for c in self._candidates.values()
            if c.seen.place not in self._watched
            and c.threads.total() >= FEWEST
            and (c.between_processes or threads[c.seen.pid] > 1)
            and (len(c.threads) > 1 or (c.writes and not c.own_stack))
        ]
        for c in sorted(fit, key=lambda c: (len(c.threads) < 2, -c.threads.total())):
            if len(self._watched) >= MOST_LINES:
                return
            if len(users := self._threads(c)) > 1:
                self._watched.add(c.seen.place)
                evidence = self._lines.at(c.seen.pid, c.seen.address)
                yield from self._ask(_Round(evidence, c.seen.pid, c.seen.address, users, False))

    def _threads(self, candidate: Candidate) -> list[int]:
        """Threads of processes that have the line, at the address that it has in the first one."""
        space = self._lines.place(candidate.seen.pid, candidate.seen.address).space
        seen = [tid for tid, _ in candidate.threads.most_common(MOST_THREADS)]
        others = [tid for tid, _ in self._busy.most_common() if tid not in candidate.threads]
        process_of, address = self._spaces.process_of, candidate.seen.address
        fit = [t for t in others if self._lines.place(process_of[t], address).space == space]
        return (seen + fit)[:MOST_THREADS]

    def _ask(self, round_: _Round) -> Iterator[str]:
        """One watchpoint for each thread and word; the sampler arms four of a thread at a time."""
        hit = {(w.tid, w.address) for w, _ in round_.hits}
        for word in range(0, LINE, self._word):
            for tid in round_.threads:
                address = round_.address + word
                if round_.reads and (tid, address) in hit:
                    continue
                number, self._next = self._next, self._next + 1
                self._rounds[number] = round_
                round_.waiting += 1
                yield (
                    f"watch {number} {tid} {address} {self._word} "
                    f"{'rw' if round_.reads else 'w'} {ROUND_MS}\n"
                )

    def outcome(self, watch: Watch) -> list[str]:
        """What one watchpoint came to; returns the requests that follow from it."""
        round_ = self._rounds.pop(watch.id, None)
        if round_ is None:
            return []
        round_.waiting -= 1
        refused = watch.outcome in ("refused", "busy")
        self.refused += refused
        self.answered += not refused
        if refused:
            self._missed[round_.evidence.place] = round_.evidence
        if watch.outcome == "hit" and (touch := self._touch(watch, round_)):
            round_.hits.append((watch, touch))
        if round_.waiting:
            return []
        # A round's hits become evidence when two threads had some: else nothing travels here.
        if len({w.tid for w, _ in round_.hits}) > 1:
            for hit, touch in round_.hits:
                round_.evidence.touch(hit.tid, *touch, self._now_ns)
            round_.evidence.watched |= any(wrote for _, (_, _, wrote) in round_.hits)
        if round_.reads or not round_.hits:
            return []
        again = _Round(round_.evidence, round_.pid, round_.address, round_.threads, reads=True)
        again.hits = round_.hits
        return list(self._ask(again))

    def _touch(self, watch: Watch, round_: _Round) -> _Touched | None:
        """By the instruction, else as far as the watchpoint tells; None where the instruction's
        only access was elsewhere: a processor may name a second watchpoint beside the one that was
        met, which is the other thread's. None, too, of the kernel's reads: each sample follows the
        frame pointers, and the register for them may hold the address of any data."""
        if watch.reads and not watch.registers:
            return None
        pid = self._spaces.process_of.get(watch.tid, round_.pid)
        # arm64 stops before the access, x86 behind it.
        wanted = -1 if self._decoder.arch == "arm64" else 0
        elsewhere = False
        for operand in self._decoder.operands(pid, watch.ip) if watch.registers else ():
            at = operand.address(watch.registers) if operand.distance == wanted else None
            if at is None:
                continue
            if watch.address - operand.size < at < watch.address + watch.length:
                return max(0, at - round_.address), operand.size, operand.access != "read"
            elsewhere = True
        # A string instruction stops at each of its own accesses, before it is done.
        if elsewhere and not self._decoder.mnemonic(pid, watch.ip).startswith("rep"):
            return None
        return watch.address - round_.address, watch.length, not watch.reads
