# SPDX-License-Identifier: MIT
"""What may be said of bytes that several threads use: for each answer, synthetic samples in which
it must be given, and in which it would be false."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from linewright.find.decode import Decoder
from linewright.find.evidence import (
    Evidence,
    LineEvidence,
    LinePlace,
    byte_mask,
    collect,
    sharing_kind,
)
from linewright.find.movement import BytesUsed, mark_line, mark_task_bytes, moved_tasks
from linewright.find.result_document import document
from linewright.find.results import Movement, Tasks, Touch
from linewright.find.space import Spaces
from linewright.find.stream import Sample
from linewright.say.document import render_all
from linewright.schema import Estimate
from support.find_results import line as line_of
from support.find_results import result

MS = 1_000_000
WORDS = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
"""The word that each of the samples is at, by their times and threads."""


def kind(
    rng: np.random.Generator,
    words: WORDS,
    seconds: float = 1.2,
    period_ms: float = 1.8,
    threads: int = 2,
    aligned: bool = True,
) -> str:
    """What is said of a line that each thread uses for nine tenths of its time, by the timers of as
    many CPUs: those that fire within 20 us of each other, or at any distance."""
    times, cpus = [], []
    for cpu in range(threads):
        own = period_ms * MS * (1 if aligned else 1 + 0.03 * (0.618 * cpu % 1))
        at = np.arange(0 if aligned else rng.uniform(0, own), seconds * 1000 * MS, own)
        at += rng.uniform(0, 20_000, at.size) if aligned else 0
        times.append(at[rng.random(at.size) < 0.9].astype(int))
        cpus.append(np.full(times[-1].size, cpu))
    times, cpus = np.concatenate(times), np.concatenate(cpus)
    at = zip(times.tolist(), cpus.tolist(), words(rng, times, cpus).tolist(), strict=True)
    uses = [BytesUsed(time, cpu, 0, byte_mask(8 * word, 8)) for time, cpu, word in at]
    line = Evidence(LinePlace((1,), 1), 1, 64)
    for use in uses:
        thread = line.thread(use.thread)
        thread.written |= use.written
        thread.saw(use.time_ns)
    mark_line(line, uses)
    return sharing_kind(line.threads.values())


def kinds(words: WORDS, times: int = 40, **more) -> Counter[str]:
    rng = np.random.default_rng(20261126)
    return Counter(kind(rng, words, **more) for _ in range(times))


def stays(rng: np.random.Generator, times: np.ndarray, turn_ns: float, choices: int) -> np.ndarray:
    """A number below `choices` at each time; each lasts an exponentially distributed time with mean
    `turn_ns`."""
    span = float(times.max()) + 1
    ends = np.cumsum(rng.exponential(turn_ns, int(3 * span / turn_ns) + 50))
    return rng.integers(0, choices, ends.size + 1)[np.searchsorted(ends, times)]


def tasks(turn_ns: float, number: int = 2, lock_step: bool = False) -> WORDS:
    """Tasks with a word each, no two of them on a thread at once, put anew on threads after a while
    of this length; or tasks that change places after exactly so long."""

    def words(rng, times, threads):
        count = int(threads.max()) + 1
        span = float(times.max()) + 1
        if lock_step:
            return (times // turn_ns + threads).astype(int) % number
        ends = np.cumsum(rng.exponential(turn_ns, int(3 * span / turn_ns) + 50))
        placed = np.array([rng.permutation(number)[:count] for _ in range(ends.size + 1)])
        return placed[np.searchsorted(ends, times), threads]

    return words


def at_random(number: int) -> WORDS:
    return lambda rng, times, threads: rng.integers(0, number, times.size)


def mixed(shared: float, private: WORDS) -> WORDS:
    """Word 7 for this share of the time, whatever thread; else private ones."""

    def words(rng, times, threads):
        return np.where(rng.random(times.size) < shared, 7, private(rng, times, threads))

    return words


def own(rng, times, threads):
    return threads


def phases(turn_ns: float, choices: int) -> WORDS:
    """All threads use one word for a while, then all another."""
    return lambda rng, times, threads: (times // turn_ns).astype(int) % choices


def each_for_a_while(turn_ns: float, choices: int) -> WORDS:
    """Each thread uses a word for a while, whatever the others do."""

    def words(rng, times, threads):
        found = np.zeros(times.size, int)
        for thread in np.unique(threads):
            mine = threads == thread
            found[mine] = stays(rng, times[mine], turn_ns, choices)
        return found

    return words


# Truly shared, whatever the threads do by turns.
SHARED = {
    "two words at random": (at_random(2), {}),
    "eight words at random": (at_random(8), {}),
    "phases": (phases(50 * MS, 2), {}),
    "a word beside own ones": (mixed(0.3, own), {}),
    "a word beside own ones, seldom": (mixed(0.1, own), {}),
    "a word beside those of tasks": (mixed(0.3, tasks(10 * MS)), {}),
    "each for 2 ms": (each_for_a_while(2 * MS, 2), {}),
    "each for 10 ms": (each_for_a_while(10 * MS, 2), {}),
    "each for 10 ms, other distances": (each_for_a_while(10 * MS, 2), {"aligned": False}),
    "four threads, each for 20 ms": (each_for_a_while(20 * MS, 4), {"threads": 4}),
    "few samples": (at_random(2), {"seconds": 0.05}),
    # Tasks that are moved more often than samples tell.
    "tasks moved every 5 us": (tasks(5_000, lock_step=True), {}),
    "tasks moved every 0.1 ms": (tasks(0.1 * MS, lock_step=True), {"aligned": False}),
}
# Tasks that a runtime moves, each with a word of its own.
APART = {
    "every 10 ms": (tasks(10 * MS), {}),
    "every 10 ms, samples every ms": (tasks(10 * MS), {"period_ms": 1.0}),
    "every 10 ms, samples every 4 ms": (tasks(10 * MS), {"period_ms": 4.0}),
    "every 10 ms, other distances": (tasks(10 * MS), {"aligned": False}),
    "every ms": (tasks(1 * MS), {}),
    "once or twice": (tasks(500 * MS, lock_step=True), {}),
    "in lock step": (tasks(10 * MS, lock_step=True), {}),
    "four tasks of two threads": (tasks(10 * MS, 4), {}),
    "eight tasks of four threads": (tasks(10 * MS, 8), {"threads": 4, "seconds": 3}),
}
FOR_LONG = {
    "each for 50 ms": each_for_a_while(50 * MS, 2),
    "each for 50 ms, four words": each_for_a_while(50 * MS, 4),
    "each for 200 ms": each_for_a_while(200 * MS, 2),
}
TIMES = pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.slow)])


@TIMES
@pytest.mark.parametrize("name", SHARED)
def test_what_threads_share_stays_true_sharing(name: str, times: int) -> None:
    words, more = SHARED[name]
    assert kinds(words, times, **more)["true"] >= 0.98 * times


@TIMES
@pytest.mark.parametrize("name", APART)
def test_words_of_tasks_that_are_moved_are_falsely_shared(name: str, times: int) -> None:
    words, more = APART[name]
    assert kinds(words, times, **more)["false"] >= 0.95 * times


@pytest.mark.slow
@pytest.mark.parametrize("name", FOR_LONG)
def test_threads_that_stay_at_a_word_for_long_seldom_pass_for_tasks(name: str) -> None:
    """Of some twenty stays in a run, few may happen to be of two threads at once."""
    assert kinds(FOR_LONG[name], 100)["false"] <= 10


def test_a_word_that_is_handed_over_is_not_falsely_shared() -> None:
    """One word alone: nothing beside it could be separated."""
    assert kinds(lambda rng, times, threads: np.zeros(times.size, int), 3) == {"true": 3}


class Code(Spaces):
    """At 4096 what two tasks of a runtime run: the first word's addition at 4096 + 16, the second
    one's at 4096 + 32."""

    def __init__(self, second: str) -> None:
        super().__init__()
        first = bytes.fromhex("90" * 11 + "f0480fc111 ebf9")  # lock xadd %rdx,(%rcx)
        self.code = (first.ljust(18, b"\x90") + bytes.fromhex(second).rjust(14, b"\x90")).ljust(
            4096, b"\xcc"
        )

    def read_code(self, pid, start, end):
        start = max(start, 4096)
        return start, self.code[start - 4096 : end - 4096]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("f0480fc15108", "false"),  # lock xadd %rdx,8(%rcx)
        ("8401 f0480fc15108", "true"),  # test %al,(%rcx) before it reads a byte of the first word
    ],
)
def test_all_that_the_code_around_a_sample_uses_is_one_part(second: str, expected: str) -> None:
    """Two tasks change places after every 100 ms."""
    spaces = Code(second)
    lines, decoder = LineEvidence(spaces), Decoder("x86_64", spaces)
    registers = [0] * 18
    registers[2] = 1 << 16
    found = []
    for n in range(1200):
        thread, time = n % 2, n // 2 * 2 * MS + n % 2 * 10_000
        ip = 4096 + 16 * (1 + (thread + time // (100 * MS)) % 2)
        more = dict(ip=ip, bits=64, registers=registers)
        found.append(Sample(time_ns=time, pid=1, tid=1 + thread, cpu=thread, **more))
    collect(found, decoder, lines)
    (line,) = lines.known.values()
    assert sharing_kind(line.threads.values()) == "true"
    mark_task_bytes(lines, decoder)
    assert sharing_kind(line.threads.values()) == expected
    assert line.tasks.answer == ("tasks" if expected == "false" else "threads")


def page(kind: str, answer: str, **more: object) -> str:
    """What is said of a line with two words that two threads use."""
    ratio = Estimate(value=0.02, low=0, high=0.1)
    parts = [[(0, 8)], [(8, 8)]]
    tasks = Tasks(answer=answer, pairs=50, ratio=ratio, within_ns=15_000, parts=parts)
    touches = [
        Touch(thread=tid, name="t", bytes=[(0, 16)], writes=True, reads=False) for tid in (1, 2)
    ]
    hot = line_of(kind, tasks=tasks, touches=touches, **more)
    return "\n".join(render_all(document(result(hot)).evidence[0].lines))


def test_the_page_tells_tasks_from_threads_and_says_what_to_separate() -> None:
    said = page("false", "tasks")
    assert "11111111 22222222 ........" in said and "1, 2, … are tasks" in said
    assert "A runtime seems to move tasks between these kernel threads" in said
    assert "within 15.0 µs meet in the same bytes 0.02 times (0.00 to 0.1)" in said
    assert "give what each task uses a line of its own (alignas(128), or padding)" in said
    assert "Count per CPU" not in said


def test_the_page_says_what_true_sharing_of_several_words_cannot_tell() -> None:
    said = page("true", "threads")
    assert "Threads use these bytes at one time" in said and "Separate" not in said
    assert "tasks that a runtime moves between threads more often would look the same" in said
    undecided = "Undecided whether threads share these bytes, or a runtime moves tasks"
    few = Movement(answer="open", samples=60, cpus=2)
    one_cpu = Movement(answer="one_cpu", samples=60, cpus=1)
    assert undecided in page("true", "open")
    assert undecided in page("true", "open", movement=few), "the advice is for threads that share"
    seldom = page("true", "threads", at_once=0.004)
    assert "at one time" not in seldom and undecided in seldom, "they hardly ran at once"
    assert undecided in page("true", "threads", at_once=0.0, movement=one_cpu)
    assert "Threads use these bytes at one time" in page("true", "threads", at_once=0.4)
    assert undecided not in page("true", "open", at_once=0.9, movement=one_cpu), "it stays"


def swapped(pairs: int) -> list[BytesUsed]:
    """Samples of two threads, 10 us apart every 2 ms, whose tasks change places half way."""
    return [
        BytesUsed(2 * MS * n + 10_000 * thread, thread, 0, 0xFF << 8 * (thread ^ (2 * n > pairs)))
        for n in range(pairs)
        for thread in (0, 1)
    ]


def test_few_pairs_leave_it_open_and_only_close_ones_count() -> None:
    few, many = (moved_tasks(swapped(pairs))[0] for pairs in (6, 60))
    assert (few.answer, few.ratio.value) == ("open", 0)
    assert (many.answer, many.within_ns) == ("tasks", 10_000)
