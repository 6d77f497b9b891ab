# SPDX-License-Identifier: MIT
"""What may be said of threads that wait in a loop: for each answer, simulated runs in which it must
be given, and runs in which it would be false."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import get_args

import msgspec
import numpy as np
import pytest
from find.test_stream import START, encoded
from find.test_watching import BASE, DATA, registers

from linewright.find import sources
from linewright.find.result_document import PARTS, REMEDIES, waiting_topic
from linewright.find.results import Result, Wait, WaitAnswer
from linewright.find.space import PAGE
from linewright.find.stream import Code, Map, Off, Sample
from linewright.find.waiting import NEVER, MachineTick, WordUse, judge, machine_ticks, with_uses

FAR = 60_000
"""Time between the samples of one tick, in ns: more than words take that are passed on quickly."""
STEP, TICK, SLICE = 20_000, 1_000_000, 3_000_000
"""Of the simulated machine, its sampler and its scheduler, in ns."""
SECONDS = 1.0
INSIDE, OUTSIDE, OTHER = 100, 200, 300
"""Addresses of code: under the lock, outside of it, and of a thread that never takes it."""


@dataclass
class Thread:
    """One thread: it works outside, takes the lock, works inside."""

    tid: int
    outside_ns: int = 100_000
    inside_ns: int = 100_000
    sleeps_ns: int = 0
    """While it has the lock."""
    cpu: int | None = None
    """The only one that it may run on."""
    locks: bool = True
    foreign: bool = False
    """Of another program."""
    gives_up_ns: int = 0
    """After so long in the loop it works outside again."""
    state: str = "outside"
    left_ns: int = 0
    on: int | None = None
    until_ns: int = 0
    queued: int = 0
    ticket: int = 0
    spun_ns: int = 0
    rng: Random = field(default_factory=Random)

    def draw(self, mean_ns: int) -> int:
        return int(mean_ns * self.rng.uniform(0.5, 1.5))


@dataclass
class Machine:
    """CPUs that give each thread a time slice in turn, and one lock."""

    threads: list[Thread]
    cpus: int = 2
    fair: bool = False
    """A ticket lock: the one that waits longest is next, also where it does not run."""
    taken_by_nobody: bool = False
    """The word changes only by what is not seen."""
    shards: bool = False
    """Half of the threads use another lock of the same code, whose word is not looked at."""
    own: bool = True
    """No other program can store the word."""
    apart_ns: int = 0
    """Each CPU's timer fires up to so long behind that of the CPU before, at times less or not at
    all."""
    away_ns: int = 0
    """The host takes each CPU away for so long, three times of four."""
    until_ns: int = NEVER
    """Changes of tasks are recorded until then."""
    holder: dict[int, Thread | None] = field(default_factory=lambda: {0: None, 1: None})
    offs: list[Off] = field(default_factory=list)
    ticks: list[tuple[int, int]] = field(default_factory=list)
    uses: list[WordUse] = field(default_factory=list)
    order: count = field(default_factory=count)
    taken: set[int] = field(default_factory=set)
    """CPUs that the host has taken away."""

    def run(self, seconds: float = SECONDS) -> Wait:
        rng, order = Random(7), list(self.threads)
        for t in self.threads:
            t.rng = Random(t.tid)
            t.left_ns = t.draw(t.outside_ns)
        ticks = [0] * self.cpus
        for now in range(0, int(seconds * 1e9), STEP):
            if self.away_ns and now % (self.away_ns // STEP * STEP) == 0:
                self.taken = {cpu for cpu in range(self.cpus) if rng.random() < 0.75}
            self.schedule(now)
            rng.shuffle(order)
            for t in order:
                if t.on is not None and t.on not in self.taken:
                    self.work(t, now)
            for cpu in {*range(self.cpus)} - self.taken:
                behind_ns = cpu * self.apart_ns * (ticks[cpu] // 50 % 4) // 3
                if now >= ticks[cpu] * TICK + behind_ns:
                    self.sample(cpu, now + STEP)
                    ticks[cpu] = (now - behind_ns) // TICK + 1
        counts = any(t.gives_up_ns for t in self.threads)
        offs = [off for off in self.offs if off.time_ns <= self.until_ns]
        seen = with_uses(machine_ticks(self.ticks, TICK), self.uses)
        return judge(seen, offs, {}, counts, len(self.uses), self.until_ns)

    def leave(self, t: Thread, now: int, preempted: bool) -> None:
        t.on, t.queued = None, next(self.order)
        if not t.foreign:
            self.offs.append(Off(time_ns=now, pid=1, tid=t.tid, preempted=preempted))

    def schedule(self, now: int) -> None:
        for t in self.threads:
            if now < t.until_ns or (t.on is None and t.state != "sleeps") or t.on in self.taken:
                continue
            if t.state == "sleeps":
                t.state, t.left_ns = "inside", t.draw(t.inside_ns)
                continue
            ready = [o for o in self.threads if o.on is None and o.state != "sleeps"]
            if any(o.cpu in (None, t.on) for o in ready):
                self.leave(t, now, True)
            else:
                t.until_ns = now + SLICE
        for cpu in {*range(self.cpus)} - {t.on for t in self.threads}:
            ready = [o for o in self.threads if o.on is None and o.state != "sleeps"]
            fit = [t for t in ready if t.cpu in (None, cpu)]
            if fit:
                t = min(fit, key=lambda t: t.queued)
                t.on, t.until_ns = cpu, now + t.draw(SLICE)

    def work(self, t: Thread, now: int) -> None:
        lock = t.tid % 2 if self.shards else 0
        if t.state == "outside":
            t.left_ns -= STEP
            if t.left_ns <= 0 and t.locks:
                t.state, t.ticket, t.spun_ns = "waits", next(self.order), 0
        elif t.state == "inside":
            t.left_ns -= STEP
            if t.left_ns <= 0:
                self.holder[lock] = None
                t.state, t.left_ns = "outside", t.draw(t.outside_ns)
        if t.state == "waits":
            t.spun_ns += STEP
            others = [o for o in self.threads if o.state == "waits"]
            turn = not self.fair or t is min(others, key=lambda o: o.ticket)
            if self.holder[lock] is None and turn and not self.taken_by_nobody:
                self.holder[lock] = t
                t.state, t.left_ns = "inside", t.draw(t.inside_ns)
                if t.sleeps_ns:
                    t.state, t.until_ns = "sleeps", now + t.draw(t.sleeps_ns)
                    self.leave(t, now, False)
            elif t.gives_up_ns and t.spun_ns >= t.gives_up_ns:
                t.state, t.left_ns = "outside", t.draw(t.outside_ns)

    def sample(self, cpu: int, now: int) -> None:
        self.ticks.append((now, cpu))
        for t in self.threads:
            if t.on != cpu or t.foreign:
                continue
            other = self.shards and t.tid % 2
            if t.state == "waits" and not other:
                turn = t.ticket if self.fair and self.own else None
                self.uses.append(WordUse(t.tid, "waits", turn=turn, time_ns=now))
            else:
                code = {"inside": INSIDE, "waits": OTHER}.get(t.state, OUTSIDE)
                place = (1, (code if t.locks else OTHER) + int(t.left_ns / 40_000) % 4)
                self.uses.append(WordUse(t.tid, "elsewhere", place, time_ns=now))


def threads(number: int, **more: object) -> list[Thread]:
    return [Thread(tid + 1, **more) for tid in range(number)]


MUST: dict[str, tuple[str, Callable[[], Machine]]] = {
    "more threads than CPUs": ("preempted", lambda: Machine(threads(5, outside_ns=40_000))),
    "a competitor on the holder's CPU": (
        "preempted",
        lambda: Machine(
            [
                Thread(1, 40_000, 40_000, cpu=0),
                Thread(2, 200_000, 20_000, cpu=1),
                Thread(9, locks=False, foreign=True, cpu=0),
            ]
        ),
    ),
    "the holder sleeps": (
        "asleep",
        lambda: Machine(threads(2, outside_ns=20_000, sleeps_ns=2_000_000)),
    ),
    "a long section": (
        "running",
        lambda: Machine(threads(2, outside_ns=100_000, inside_ns=400_000)),
    ),
    "a long section, four CPUs": (
        "running",
        lambda: Machine(threads(4, outside_ns=300_000, inside_ns=400_000), cpus=4),
    ),
    "a long section, and samples that lie apart": (
        "running",
        lambda: Machine(threads(2, outside_ns=100_000, inside_ns=400_000), apart_ns=FAR),
    ),
    "more threads than CPUs, and samples that lie apart": (
        "preempted",
        lambda: Machine(threads(5, outside_ns=40_000), apart_ns=FAR),
    ),
    "a ticket lock's next thread is off its CPU": (
        "turn",
        lambda: Machine(threads(4, outside_ns=40_000), fair=True),
    ),
}


@pytest.mark.parametrize("case", MUST)
def test_the_cause_is_named(case: str) -> None:
    answer, machine = MUST[case]
    assert machine().run().answer == answer


FALSE: dict[str, Callable[[], Machine]] = {
    "what stores the word is no thread of the program": lambda: Machine(
        threads(5), taken_by_nobody=True
    ),
    "the same, and a thread that never uses the word runs": lambda: Machine(
        [*threads(2), Thread(8, locks=False)], cpus=3, taken_by_nobody=True
    ),
    "the same, and that thread takes turns with another": lambda: Machine(
        [*threads(2), Thread(7, locks=False), Thread(8, locks=False)], cpus=3, taken_by_nobody=True
    ),
    "a ticket lock's next thread is off its CPU, which looks as if another program stored": (
        lambda: Machine(threads(4, outside_ns=40_000), fair=True, own=False)
    ),
    "what stores a ticket lock's word is not seen": lambda: Machine(
        threads(5), fair=True, taken_by_nobody=True
    ),
    "samples lie further apart than the section is long": lambda: Machine(
        threads(2, outside_ns=60_000, inside_ns=60_000), apart_ns=4 * FAR
    ),
    "the host takes CPUs away for long": lambda: Machine(
        threads(2, outside_ns=60_000), apart_ns=FAR, away_ns=5_000_000
    ),
    "the host takes CPUs away for less than a period": lambda: Machine(
        threads(2, outside_ns=60_000), apart_ns=FAR, away_ns=200_000
    ),
    "changes of tasks are not recorded": lambda: Machine(
        threads(5, outside_ns=400_000, inside_ns=400_000), apart_ns=FAR, until_ns=0
    ),
    "locks of the same code protect other data": lambda: Machine(
        threads(4, outside_ns=40_000, inside_ns=400_000), cpus=4, shards=True
    ),
}


@pytest.mark.parametrize("case", FALSE)
def test_no_cause_is_named_where_it_would_be_false(case: str) -> None:
    found = FALSE[case]().run()
    assert found.samples > 100 and found.answer == "undecided"


def test_who_gives_up_shows_no_end_of_a_wait() -> None:
    """Threads that look elsewhere after a while: the holder is preempted all the same."""
    machine = Machine(
        [
            Thread(1, 20_000, 500_000, cpu=0),
            *(Thread(tid, 20_000, 20_000, cpu=tid - 1, gives_up_ns=300_000) for tid in (2, 3)),
            Thread(9, locks=False, foreign=True, cpu=0),
        ],
        cpus=3,
    )
    assert machine.run().answer in ("preempted", "undecided")


def uses(*where: str) -> list[WordUse]:
    return [WordUse(tid, what, (1, OUTSIDE)) for tid, what in enumerate(where, 1)]


def drawn(number: int, **shares: float) -> list[MachineTick]:
    """Two threads that are each at these places for these parts of their time, independently."""
    rng, places = np.random.default_rng(3), list(shares)
    each = [rng.choice(places, 2, p=list(shares.values())) for _ in range(number)]
    return [MachineTick(at * TICK, True, uses(*map(str, some))) for at, some in enumerate(each)]


def test_a_word_that_is_on_its_way_is_handed_on() -> None:
    ticks = drawn(800, waits=0.85, at=0.1, elsewhere=0.05)
    assert judge(ticks, [], {}, False, 1600).answer == "handed"


def test_code_outside_of_the_section_is_not_taken_for_it() -> None:
    """Each is met outside at times at which the other one waits, and at times at which it does not:
    a shorter section would gain nothing."""
    ticks = drawn(800, waits=0.3, elsewhere=0.7)
    assert judge(ticks, [], {}, False, 1600).answer == "undecided"


@pytest.mark.parametrize(("both", "answer"), [(8, "running"), (40, "undecided")])
def test_a_section_is_told_from_what_follows_it(both: int, answer: str) -> None:
    """The planted long section, as CPUs that were sampled up to 20 us apart met it; and code at
    which two threads are met as often as a tenth of what independent ones would be, and more."""
    inside, outside = (WordUse(0, "elsewhere", (1, at)) for at in (INSIDE, OUTSIDE))
    waits = WordUse(0, "waits")
    met = {(inside, waits): 480, (outside, waits): 31, (inside, outside): 127}
    met |= {(inside, inside): both, (outside, outside): 40}
    pairs = [pair for pair, number in met.items() for _ in range(number)]
    Random(5).shuffle(pairs)
    ticks = [
        MachineTick(at * TICK, True, [one._replace(tid=1 + at % 2), two._replace(tid=2 - at % 2)])
        for at, (one, two) in enumerate(pairs)
    ]
    assert judge(ticks, [], {}, False, 2 * len(ticks)).answer == answer


def test_a_tick_without_all_cpus_says_nothing() -> None:
    ticks = [t._replace(whole=False) for t in drawn(800, waits=0.9, at=0.1)]
    found = judge(ticks, [], {}, False, 1600)
    assert found.open == 1 and found.answer == "undecided"


def test_what_lies_too_far_apart_for_a_word_on_its_way_says_nothing_of_it() -> None:
    ticks = [
        t._replace(last_ns=t.time_ns + FAR) for t in drawn(800, waits=0.85, at=0.1, elsewhere=0.05)
    ]
    found = judge(ticks, [], {}, False, 1600)
    assert found.open == 1 and found.answer == "undecided"


def far_apart(punctual: bool = True) -> list[MachineTick]:
    """Two threads that take turns inside; of two ticks in three the one that waits is met FAR
    behind the other."""
    ticks = []
    for number in range(900):
        begin, behind = number * TICK, FAR * (number % 3 > 0)
        holder = WordUse(1 + number % 2, "elsewhere", (1, INSIDE), time_ns=begin)
        waiter = WordUse(2 - number % 2, "waits", time_ns=begin + behind)
        ticks.append(MachineTick(begin, True, [holder, waiter], begin + behind, punctual))
    return ticks


def leaves(after_ns: int) -> list[Off]:
    """Each time the one that is met first leaves its CPU, so long after it was met."""
    return [
        Off(time_ns=number * TICK + after_ns, pid=1, tid=1 + number % 2, preempted=True)
        for number in range(1, 900)
    ]


@pytest.mark.parametrize(
    ("ticks", "offs", "until_ns", "answer"),
    [
        (far_apart(), [], NEVER, "running"),
        (far_apart(punctual=False), [], NEVER, "undecided"),
        (far_apart(), [], 0, "undecided"),
        (far_apart(), leaves(FAR // 2), NEVER, "undecided"),
        (far_apart(), leaves(2 * FAR), NEVER, "running"),
        (far_apart(), leaves(-FAR // 2), NEVER, "undecided"),
    ],
    ids=[
        "nothing happens in between", "a CPU's timer is late", "it would not be seen",
        "it leaves its CPU in between", "it leaves it later",
        "it left it just before, so that another time would not be seen",
    ],
)  # fmt: skip
def test_who_was_met_before_runs_on_unless(ticks, offs, until_ns: int, answer: str) -> None:
    assert judge(ticks, offs, {}, False, 1800, until_ns).answer == answer


def test_a_timer_is_punctual_between_two_of_its_periods() -> None:
    late = [0, 1, 2, 3.3, 4, 5, 6]
    ticks = [(int(at * TICK), 0) for at in late] + [(at * TICK, 1) for at in range(7)]
    seen = list(machine_ticks(sorted(ticks), TICK))
    assert [tick.punctual for tick in seen if tick.whole] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]


def test_one_long_absence_is_no_rule() -> None:
    """A thread was stopped once, by whatever: many ticks, one event."""
    before = [MachineTick(at * TICK, True, uses("waits", "at")) for at in range(3)]
    away = [MachineTick(at * TICK, True, uses("waits")) for at in range(4, 400)]
    off = Off(time_ns=int(3.5 * TICK), pid=1, tid=2, preempted=True)
    found = judge([*before, *away], [off], {}, False, 400)
    assert found.preempted > 0.9 and found.answer == "undecided"


def mostly_alone() -> list[MachineTick]:
    """One thread waits all the time; the other is met at the word at each tenth tick."""
    return [
        MachineTick(at * TICK, True, uses("waits", "at") if at % 10 == 0 else uses("waits"))
        for at in range(500)
    ]


def test_a_missing_record_is_no_cause() -> None:
    """The thread ran after its last known absence: why it is away is not known."""
    ticks = mostly_alone()
    assert judge(ticks, [], {}, False, 550).answer == "undecided"
    offs = [Off(time_ns=at * TICK + 1, pid=1, tid=2, preempted=True) for at in range(0, 500, 10)]
    assert judge(ticks, offs, {}, False, 550).answer == "preempted"


def test_a_thread_that_has_ended_is_not_waited_for() -> None:
    ticks = mostly_alone()
    offs = [Off(time_ns=at * TICK + 1, pid=1, tid=2, preempted=False) for at in range(0, 500, 10)]
    assert judge(ticks, offs, {}, False, 550).answer == "asleep"
    assert judge(ticks, offs, {2: 1}, False, 550).asleep < 0.1


PLANTED = [
    ("preempted", "load", "preempted"),
    ("preempted", "exchange", "preempted"),
    ("preempted", "call", "preempted"),
    ("asleep", "load", "asleep"),
    ("convoy", "load", "preempted"),
    ("convoy", "ticket", "turn"),
    ("section", "load", "running"),
]


@pytest.mark.parametrize(("planted", "lock", "cause"), PLANTED)
def test_a_planted_cause_is_named(sampling, run, planted: str, lock: str, cause: str) -> None:
    """Beside a load it may stay undecided, or the load preempt who has the word; nothing else is
    said, however loaded the machine."""
    program = sampling.with_name("find_waits")
    for seconds in ("1", "4", "16"):
        done = run("--json", "--", program, planted, seconds, lock)
        assert done.returncode == 0, done.stderr
        found = msgspec.json.decode(done.stdout, type=Result)
        for wait in found.waits:
            assert wait.answer in (cause, "preempted", "undecided"), wait
            assert wait.what.symbol == "waited_word"
        if any(wait.answer == cause for wait in found.waits):
            (topic,) = [t for t in found.document["blocks"] if t.get("name") == "waits"]
            assert REMEDIES[cause] in str(topic)
            return
    pytest.skip(f"undecided beside this load: {found.waits}")


@pytest.mark.parametrize(("stored", "waited"), [(0x40, 0x40), (0x00, 0x00), (0x08, None)])
def test_a_loop_that_reads_two_words_waits_for_the_one_that_is_written(stored, waited) -> None:
    """A worker that polls a queue and the flag that ends it was said to wait for the flag."""
    text = bytes.fromhex("837f4000 7505 833f00 74f5 c3")  # 1: one of two words is not 0
    text += bytes.fromhex(f"90909090 8947{stored:02x} 90")  # mov %eax,stored(%rdi)
    code = text.ljust(PAGE, b"\x90").hex()

    def stream() -> Iterator[bytes]:
        yield from encoded(msgspec.structs.replace(START, scope="machine"))
        where = dict(offset=0, device=1, inode=0, path="", executable=False, shared=False)
        yield from encoded(
            Map(time_ns=0, pid=1, start=DATA, length=PAGE, writable=True, **where),
            Code(pid=1, address=BASE, bytes=code),
        )
        for n in range(400):
            what = dict(pid=1, tid=1 + n % 2, cpu=n % 2, ip=BASE + (9, 19)[n % 2], bits=64)
            yield from encoded(Sample(time_ns=n * 1_000, registers=registers(1), **what))

    waits = sources.findings_of(sources.gather(stream(), lambda _: None), "program").waits
    assert [w.what.offset for w in waits] == ([] if waited is None else [waited])


def test_each_answer_has_its_own_remedy() -> None:
    said = set()
    for answer in get_args(WaitAnswer):
        parts = dict.fromkeys(PARTS, 0.0) | {answer if answer in PARTS else "open": 0.9, "off": 0.1}
        wait = Wait(answer=answer, samples=100, share=None, **parts)
        topic = waiting_topic([wait])
        assert topic.lines[1].text == REMEDIES[answer]
        assert f"90 % {PARTS[answer if answer in PARTS else 'open']}" in topic.lines[0].text
        said.add(topic.lines[1].text)
    assert len(said) == len(get_args(WaitAnswer))
