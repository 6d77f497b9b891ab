# SPDX-License-Identifier: MIT
"""Why threads wait in loops that read one word: whether the thread that they wait for was off its
CPU, or ran, or none had it.

It needs samples of all CPUs that were taken together, and the times at which threads left their
CPUs.  No program says which thread has a lock.  Of each tick at which a thread is met in the loop,
it follows from where the others are:

* Who is met in the loop, or at an atomic operation on the word, has not got it.
* Who left its CPU before a wait began that has ended since has not got it either: the word was
  passed on meanwhile (of loops that count their rounds this is not known, for they may give up).
* Where all that run are in the loop, the thread that has it, or whose turn it is, is one of those
  that are off their CPUs; where there is none, it is being passed on.
* Where no thread that could have it is off its CPU, one that runs elsewhere has it, if only one
  thread at a time is ever met at that code.  CPUs' samples of one tick are not of one instant: a
  thread that was met before the waiting one, or after it, ran then, too, where no change of tasks
  was reported of it in between, and its CPU's timer fired when it was due before and after.  (One
  that fires late says that a virtual CPU itself was away, or interrupts were off.)
* Where each waiting thread wants another value than all others, a queue is called in turn, and
  where all that run are in the loop, the turn is that of one that is off its CPU, though all of
  those were in the loop, too.

What remains is not known, and counts against every answer."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from linewright.analysis.intervals import wilson_score
from linewright.find.addresses import ARM64_REGISTERS
from linewright.find.decode import Operand, WaitLoop
from linewright.find.movement import LONGEST_TURN_NS, tick_numbers
from linewright.find.results import Wait, WaitAnswer
from linewright.find.space import Key, Spaces
from linewright.find.stream import Off, Sample

if TYPE_CHECKING:
    from linewright.find.addresses import Addresses, Names
    from linewright.find.sources import SamplerOutput

FEWEST = 50
"""Samples in loops that wait for a word before anything is said of it: a part of half of them has
an interval of 0.14 on either side."""
LEAST_SHARE = 0.02
"""The same as a share of all samples."""
RARE = 0.001
"""Share of the samples below which an instruction's are not looked at."""
MOST_WORDS = 3
FEWEST_TIMES = 5
"""Different absences of a thread, or ends of a wait, that an answer rests on: ticks in one of them
are no independent evidence."""
SHORT = 64
"""Bytes of code of a function that a loop calls to wait in."""
MOSTLY = 0.5
"""Of the samples in such loops, the part that an answer must be shown to hold for."""
FEWEST_PAIRS = 10
"""Ticks at which two threads would be met at the same code if they went through it independently,
from which it counts that they were not."""
ENOUGH_PAIRS = 40
"""More are not looked at, but those whose samples lie closest: between two samples of one tick the
section may have passed from one thread to the other."""
EXCLUSIVE = 0.1
"""Over that number, how often they may be met there at most."""
PUNCTUAL_NS = 20_000
"""By how much a CPU's timer may miss its period. Of 2,628 ticks of a virtual machine, 98 in 100
missed it by less than 10 us, the others by up to 4 ms."""
OFF_EVERY_NS = 100_000
"""One change of tasks of a thread within this time is reported (find/timers.cpp)."""
NEVER = 1 << 63

_WordPlace = Literal["waits", "at", "kernel", "elsewhere"]
_Seen = Literal["preempted", "turn", "asleep", "off", "running", "handed", "open"]


class WordUse(NamedTuple):
    """One sample as seen from one word."""

    tid: int
    where: _WordPlace
    place: tuple[int, int] = (0, 0)
    """Process and address of code elsewhere."""
    turn: int | None = None
    """The value that it waits for, where that is its own."""
    time_ns: int = 0


class MachineTick(NamedTuple):
    """What all CPUs did at one time."""

    time_ns: int
    whole: bool
    """Each CPU was met."""
    uses: list[WordUse]
    last_ns: int = 0
    """Its last sample."""
    punctual: bool = False
    """Each CPU's timer fired a period after the tick before, and again a period later."""

    @property
    def length_ns(self) -> int:
        """From its first sample to its last."""
        return max(0, self.last_ns - self.time_ns)

    @property
    def close(self) -> bool:
        """All within a time in which few words are passed on: an absence lasts longer."""
        return self.length_ns <= LONGEST_TURN_NS


def machine_ticks(ticks: Sequence[tuple[int, int]], period_ns: int) -> Iterator[MachineTick]:
    """The ticks of a run, without samples: from the times and CPUs at which timers fired, in
    order."""
    times = np.array([time for time, _ in ticks], np.int64)
    cpu_of = np.array([cpu for _, cpu in ticks])
    due = np.zeros(len(times), bool)
    for cpu in np.unique(cpu_of):
        own = np.flatnonzero(cpu_of == cpu)
        before = np.abs(np.diff(times[own]) - period_ns) <= PUNCTUAL_NS
        due[own[1:-1]] = before[:-1] & before[1:]
    begins = np.flatnonzero(np.diff(tick_numbers(times, period_ns), prepend=-1))
    cpus = len(np.unique(cpu_of))
    for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
        yield MachineTick(
            int(times[begin]), len(np.unique(cpu_of[begin:end])) == cpus, [],
            int(times[end - 1]), bool(due[begin:end].all()),
        )  # fmt: skip


def with_uses(ticks: Iterable[MachineTick], uses: Sequence[WordUse]) -> Iterator[MachineTick]:
    """Ticks with the samples of each, in order."""
    at = 0
    for tick in ticks:
        first = at
        while at < len(uses) and uses[at].time_ns <= tick.last_ns:
            at += 1
        yield tick._replace(uses=list(uses[first:at]))


def waits_of(gathered: SamplerOutput, addresses: Addresses) -> list[Wait]:
    """The words that threads of a run wait for; none where not every CPU was sampled."""
    if gathered.start.scope != "machine":
        return []
    found = _Waits(gathered, addresses.code)
    named = list(found.judged())
    addresses.code.prepare([(sample.pid, load.ip) for _, sample, load, _ in named])
    for wait, sample, load, address in named:
        wait.what = addresses.object(sample.pid, address, sample.time_ns)
        wait.where = addresses.code.name(sample.pid, load.ip)
    return [wait for wait, *_ in named]


class _Waits:
    """The samples of a run, by the word that each waits for."""

    def __init__(self, gathered: SamplerOutput, names: Names) -> None:
        self._gathered, self._samples = gathered, gathered.samples
        self._decoder, self._names = gathered.decoder, names
        self._loop = cache(gathered.decoder.wait_loop)
        self._offs = sorted(gathered.offs, key=lambda off: off.time_ns)
        self._words: dict[int, tuple[Key, bool, int | None]] = {}
        self._at: dict[int, Key] = {}
        self._loads: dict[Key, Counter[Operand]] = defaultdict(Counter)
        self._example: dict[Key, tuple[Sample, int]] = {}
        self._find(gathered.spaces)

    def _find(self, spaces: Spaces) -> None:
        """Find the samples in loops that wait, and those at atomic operations. A loop that several
        words may end waits for the one that another thread is seen to write."""
        often = Counter((s.pid, s.ip, s.bits) for s in self._samples if s.bits and not s.kernel)
        least = max(3, RARE * len(self._samples))
        met = [(n, s) for n, s in enumerate(self._samples) if often[s.pid, s.ip, s.bits] >= least]
        open_ends: list[tuple[int, Sample, WaitLoop, Operand]] = []
        for number, s in met:
            for o, at in self._accesses(s):
                address = o.address(s.registers)
                if address is None or not (o.sure or o.access == "read"):
                    continue
                key, loop = spaces.key(s.pid, address), self._loop(s.pid, o.ip)
                if loop and loop.first <= at <= loop.last:
                    if loop.others:
                        open_ends.append((number, s, loop, o))
                    else:
                        self._waits_for(number, key, loop, o, address)
                    break
                if o.sure:
                    self._at[number] = key
                    break
        writers: dict[Key, set[int]] = defaultdict(set)
        for _, s in met if open_ends else ():
            for o, _ in self._accesses(s):
                if o.access != "read" and (address := o.address(s.registers)) is not None:
                    writers[spaces.key(s.pid, address)].add(s.tid)
        for number, s, loop, load in open_ends:
            for o in [load, *(o for o, _ in self._accesses(s) if o.ip in loop.others)]:
                address = o.address(s.registers)
                key = None if address is None else spaces.key(s.pid, address)
                if key and writers[key] - {s.tid}:
                    self._waits_for(number, key, loop, o, address)
                    break

    def _waits_for(
        self, number: int, key: Key, loop: WaitLoop, load: Operand, address: int
    ) -> None:
        s = self._samples[number]
        self._words[number] = key, loop.counts, _turn(s, load, loop, key)
        self._loads[key][load._replace(distance=0)] += 1
        self._example.setdefault(key, (s, address))

    def _accesses(self, s: Sample) -> Iterator[tuple[Operand, int]]:
        """Accesses near a sample, and where the thread is among them: there, or in a function with
        a hint that their code calls, which has kept nothing on the stack yet."""
        for o in self._decoder.operands(s.pid, s.ip, s.bits):
            yield o, s.ip
        arm = len(s.registers) == ARM64_REGISTERS
        after = s.registers[30] if arm else s.top[0] if s.top else 0
        called = self._names.called(s.pid, after) if after else 0
        if called and 0 <= s.ip - called <= SHORT and self._decoder.hints(s.pid, called):
            for o in self._decoder.behind_call(s.pid, after):
                yield o, after

    def judged(self) -> Iterator[tuple[Wait, Sample, Operand, int]]:
        """The words that take most time, each with a sample there, its most frequent load, and its
        address."""
        often, total = Counter(key for key, *_ in self._words.values()), len(self._samples)
        for key, number in often.most_common(MOST_WORDS):
            if number < max(FEWEST, LEAST_SHARE * total):
                return
            counts = any(counts for k, counts, _ in self._words.values() if k == key)
            offs = [off for off in self._offs if _reaches(key, off.pid)]
            until_ns = self._gathered.recorded_until_ns
            wait = judge(self._of(key), offs, self._gathered.ended, counts, total, until_ns)
            sample, address = self._example[key]
            yield wait, sample, self._loads[key].most_common(1)[0][0], address

    @cached_property
    def _ticks(self) -> list[MachineTick]:
        """Of the whole run, put together once for all its words."""
        gathered = self._gathered
        return list(machine_ticks(sorted(gathered.ticks), gathered.start.period_ns))

    def _of(self, key: Key) -> Iterator[MachineTick]:
        """The run as seen from a word, tick by tick: of the threads that may use it."""
        samples = enumerate(self._samples)
        uses = [self._use(number, key) for number, s in samples if _reaches(key, s.pid)]
        return with_uses(self._ticks, uses)

    def _use(self, number: int, key: Key) -> WordUse:
        s = self._samples[number]
        where, place, turn = "elsewhere", (s.pid, s.ip), None
        if s.kernel or not s.bits:
            where = "kernel"
        elif number in self._words and self._words[number][0] == key:
            where, turn = "waits", self._words[number][2]
        elif self._at.get(number) == key:
            where = "at"
        return WordUse(s.tid, where, place, turn, s.time_ns)


def _turn(s: Sample, load: Operand, loop: WaitLoop, key: Key) -> int | None:
    """The value that a thread waits for, of a word that no other program and no kernel stores."""
    if loop.turn < 0 or len(key.space) > 1:
        return None
    return s.registers[loop.turn] & ((1 << 8 * load.size) - 1)


def _reaches(key: Key, pid: int) -> bool:
    """Whether a process can use a word: its own memory, or what processes share."""
    return len(key.space) > 1 or key.space == (pid,)


class _Absences:
    """Which threads are off their CPUs at a tick, since when and why."""

    def __init__(self, offs: Sequence[Off], ended: dict[int, int]) -> None:
        self._offs, self._next, self._ended = offs, 0, ended
        self.new: list[Off] = []
        """Since the tick before."""
        self._left: dict[int, Off] = {}
        self._seen: dict[int, int] = {}

    def at(self, tick: MachineTick) -> dict[int, tuple[int, bool | None]]:
        """Of each thread that is not met at this tick: when it left its CPU, and whether it was
        preempted, or None where that record is missing."""
        self.new = []
        while self._next < len(self._offs) and self._offs[self._next].time_ns <= tick.time_ns:
            self.new.append(self._offs[self._next])
            self._left[self._offs[self._next].tid] = self._offs[self._next]
            self._next += 1
        for use in tick.uses:
            self._seen[use.tid] = tick.time_ns
        found: dict[int, tuple[int, bool | None]] = {}
        for tid in self._left.keys() | self._seen.keys():
            seen, left = self._seen.get(tid, -1), self._left.get(tid)
            if seen == tick.time_ns or self._ended.get(tid, tick.time_ns) < tick.time_ns:
                continue
            known = left is not None and left.time_ns >= seen
            found[tid] = (left.time_ns, left.preempted) if known else (seen, None)
        return found


class _Presence:
    """Which threads had their CPUs throughout a tick."""

    def __init__(self, ticks: Sequence[MachineTick], offs: Sequence[Off], until_ns: int) -> None:
        self._until_ns = until_ns
        self._met: dict[int, list[int]] = defaultdict(list)
        self._left: dict[int, list[int]] = defaultdict(list)
        for tick in ticks:
            for use in tick.uses:
                self._met[use.tid].append(use.time_ns)
        for off in offs:
            self._left[off.tid].append(off.time_ns)

    def all_stay(self, tick: MachineTick) -> bool:
        """Whether no thread left its CPU in a tick after it was met, and who does not wait there
        did not come to it in the tick either."""
        begins = [u.time_ns if u.where == "waits" else tick.time_ns for u in tick.uses]
        there = zip(tick.uses, begins, strict=True)
        return tick.last_ns <= self._until_ns and all(
            self._stays(use.tid, begin, tick.last_ns) for use, begin in there
        )

    def _stays(self, tid: int, begin_ns: int, end_ns: int) -> bool:
        """Met at the beginning, or before that and not gone since; not gone until the end. Of two
        changes that follow each other closely the second is not recorded."""
        met, left = self._met[tid], self._left[tid]
        before, gone = bisect_right(met, begin_ns), bisect_right(left, end_ns)
        return before > 0 and (not gone or left[gone - 1] + OFF_EVERY_NS <= met[before - 1])


class _Passes:
    """When the word was last seen to be passed on."""

    def __init__(self, counts: bool) -> None:
        self._counts = counts
        self._waits: dict[int, int] = {}
        self._turn: dict[int, int | None] = {}
        self.began_ns = -1
        """The latest beginning of a wait that has ended: who was off its CPU since before then, and
        still is, cannot have it."""
        self.number = 0
        """Waits that were seen to end, or another to have begun since."""

    def take(self, tick: MachineTick, offs: Iterable[Off]) -> None:
        """A tick, and which threads left their CPUs before it: one that went to sleep had left the
        loop."""
        left = [off.tid for off in offs if not off.preempted]
        left += [use.tid for use in tick.uses if use.where in ("at", "elsewhere")]
        for tid in left:
            if tid in self._waits and not self._counts:
                self.began_ns = max(self.began_ns, self._waits.pop(tid))
                self.number += 1
        waiting = [use for use in tick.uses if use.where == "waits"]
        self.number += sum(self._turn.get(use.tid, use.turn) != use.turn for use in waiting)
        self._turn |= {use.tid: use.turn for use in waiting}
        self._waits |= {use.tid: tick.time_ns for use in waiting}


def judge(
    ticks: Iterable[MachineTick],
    offs: Sequence[Off],
    ended: dict[int, int],
    counts: bool,
    total: int,
    until_ns: int = NEVER,
) -> Wait:
    """What the ticks say of one word; all changes of tasks until `until_ns` are among `offs`."""
    ticks = list(ticks)
    presence, turns = _Presence(ticks, offs, until_ns), _turns(ticks)
    users = {use.tid for tick in ticks for use in tick.uses if use.where in ("waits", "at")}
    absences, passes = _Absences(offs, ended), _Passes(counts)
    waited: dict[int, int] = {}
    seen: Counter[_Seen] = Counter()
    times: dict[_Seen, set[tuple[int, int]]] = defaultdict(set)
    inside: Counter[tuple[int, int]] = Counter()
    for tick in ticks:
        away = absences.at(tick)
        passes.take(tick, absences.new)
        waiting = [use for use in tick.uses if use.where == "waits"]
        if waiting:
            may = {tid: left for tid, left in away.items() if left[0] > passes.began_ns}
            sure = {
                tid
                for tid, (_, preempted) in may.items()
                if waited.get(tid, -1) <= passes.began_ns or (preempted is False and not counts)
            }
            what = _at(tick, may, sure, users, turns) if tick.whole else "open"
            stays = what == "running" and tick.punctual and presence.all_stay(tick)
            if what in ("running", "handed") and not (tick.close or stays):
                what = "open"
            seen[what] += len(waiting)
            if what in ("preempted", "asleep", "off"):
                times[what] |= {(tid, may[tid][0]) for tid in sure}
            elif what in ("running", "handed", "turn"):
                times[what].add((0, passes.number))
            elsewhere = [use for use in tick.uses if use.where == "elsewhere"]
            if what == "running" and len(elsewhere) == 1 and tick.close:
                inside[elsewhere[0].place] += 1
        waited.update((use.tid, tick.time_ns) for use in waiting)
    number = sum(seen.values())
    shares = {what: wilson_score(seen[what], number) for what in get_args(_Seen)}
    shown = [what for what in get_args(_Seen) if shares[what] and shares[what].low > MOSTLY]
    answer: WaitAnswer = "undecided"
    if shown and shown[0] not in ("open", "off") and len(times[shown[0]]) >= FEWEST_TIMES:
        answer = shown[0]
    if answer == "running" and not _exclusive(ticks, inside):
        answer = "undecided"
    parts = {what: seen[what] / number if number else 0.0 for what in get_args(_Seen)}
    return Wait(answer=answer, samples=number, share=wilson_score(number, total), **parts)


def _turns(ticks: Iterable[MachineTick]) -> bool:
    """Whether threads that wait at one time want different values of the word, each its own."""
    pairs: Counter[bool] = Counter()
    for tick in ticks:
        wanted = [use.turn for use in tick.uses if use.where == "waits"]
        pairs.update(one is not None and one != two for one, two in combinations(wanted, 2))
    return pairs[True] >= FEWEST_PAIRS and not pairs[False]


def _at(
    tick: MachineTick,
    may: dict[int, tuple[int, bool | None]],
    sure: set[int],
    users: set[int],
    turns: bool,
) -> _Seen:
    """What a tick says where a thread waits: `may` could have the word and are off their CPUs;
    `sure` are those of them that are no such waiting threads: they were not seen in
    the loop since the word was last passed on, or went to sleep, which no thread in it does."""
    where = {use.where for use in tick.uses}
    if where & {"elsewhere", "kernel"}:
        runs = any(use.where == "elsewhere" and use.tid in users for use in tick.uses)
        return "running" if runs and not may else "open"
    if not may:
        return "handed"
    why = {preempted for _, preempted in may.values()}
    if turns and not sure and may.keys() <= users and why == {True}:
        return "turn"
    if not sure or not sure <= users:
        return "open"
    return {(True,): "preempted", (False,): "asleep"}.get(tuple(why), "off")


def _exclusive(ticks: Iterable[MachineTick], inside: Counter[tuple[int, int]]) -> bool:
    """Whether one thread at a time only is met at the code at which one runs while others wait: if
    threads went through it independently, pairs of them would be met there."""
    ticks = [tick for tick in ticks if tick.close]
    expected, met = _met_together(ticks, inside)
    if expected > ENOUGH_PAIRS:
        lengths = sorted(tick.length_ns for tick in ticks)
        longest_ns = lengths[int(len(ticks) * ENOUGH_PAIRS / expected)]
        closest = [tick for tick in ticks if tick.length_ns <= longest_ns]
        expected, met = _met_together(closest, inside)
    return expected >= FEWEST_PAIRS and met < EXCLUSIVE * expected


def _met_together(
    ticks: Sequence[MachineTick], inside: Counter[tuple[int, int]]
) -> tuple[float, float]:
    """How many pairs of threads would be met there if they went through it independently, and how
    many are. Code is weighed by the square of how often it is met in such waits: what follows the
    section is met as well."""
    most = max(inside.values(), default=1)
    weights: dict[int, np.ndarray] = {}
    for number, tick in enumerate(ticks):
        for use in tick.uses:
            if use.where == "elsewhere" and use.place in inside:
                row = weights.setdefault(use.tid, np.zeros(len(ticks)))
                row[number] = (inside[use.place] / most) ** 2
    expected = met = 0.0
    for one, two in combinations(weights.values(), 2):
        expected += one.mean() * two.sum()
        met += float(one @ two)
    return expected, met
