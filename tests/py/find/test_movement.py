# SPDX-License-Identifier: MIT
"""What may be said of a line's movement: for each answer, synthetic samples in which it must be
given, and in which it would be false."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from find.test_stream import START, encoded

from linewright.analysis.intervals import wilson_score
from linewright.find import sources
from linewright.find.line_prices import Prices
from linewright.find.line_words import kind_text, movement_text, note_text
from linewright.find.movement import Ticks, Use, movement, ran_at_once
from linewright.find.result_document import document, headline
from linewright.find.results import Hot, Movement, Site, Touch, note
from linewright.find.sources import gather
from linewright.find.stream import End, Sample, Start, Task
from linewright.say.document import render_all
from linewright.schema import Estimate, Interval
from support.find_results import line as line_of
from support.find_results import result, said_of

MS = 1_000_000
SECOND = 1000 * MS


def samples(
    rng: np.random.Generator,
    uses: Callable[[np.ndarray, int], np.ndarray],
    seconds: float = 5,
    period_ns: float = 2.0137 * MS,
    cpus: int = 2,
    aligned: bool = True,
) -> tuple[list[Use], Ticks]:
    """What timers on each CPU see of a line that a CPU uses at a time with the probability that
    `uses` gives: timers that fire within 20 us of each other, or of slightly different periods."""
    found, ticks, begin = [], [], rng.uniform(0, period_ns)
    for cpu in range(cpus):
        own = period_ns * (1 + (0 if aligned else 0.03 * (0.618 * cpu % 1)))
        at = np.arange(begin if aligned else rng.uniform(0, own), seconds * SECOND, own)
        at += rng.normal(0, 2_000, at.size)
        at += 20_000 * cpu * (1 - at / (125 * MS) % 2) if aligned else 0
        seen = rng.random(at.size) < uses(at, cpu)
        found += [(int(time), cpu) for time in at[seen]]
        ticks += [(int(time), cpu) for time in at]
    return found, Ticks(ticks if aligned else ())


def contended(at: np.ndarray, cpu: int) -> np.ndarray:
    return np.full(at.size, 0.9)


def handed_over_every(turn_ns: float, cpus: int = 2) -> Callable[[np.ndarray, int], np.ndarray]:
    return lambda at, cpu: 0.9 * ((at // turn_ns) % cpus == cpu)


def answers(uses, times: int = 100, **more) -> Counter[str]:
    rng = np.random.default_rng(20261123)
    return Counter(movement(*samples(rng, uses, **more)).answer for _ in range(times))


def test_cpus_that_use_it_at_the_same_time_move_it() -> None:
    assert answers(contended)["moves"] >= 90


@pytest.mark.slow
def test_many_cpus_that_use_it_at_the_same_time_move_it() -> None:
    assert answers(contended, times=20, cpus=16, seconds=2)["moves"] >= 18


@pytest.mark.slow
def test_seldom_used_lines_move_too() -> None:
    def seldom(at: np.ndarray, cpu: int) -> np.ndarray:
        return np.full(at.size, 0.1)

    assert answers(seldom, times=20, seconds=30)["moves"] >= 14
    short = answers(seldom)
    assert short["by_turns"] + short["one_cpu"] <= 5


@pytest.mark.slow
def test_a_use_in_bursts_by_all_cpus_moves_it() -> None:
    """Phases of a program in which the line is used, and others in which it is not."""

    def bursts(at: np.ndarray, cpu: int) -> np.ndarray:
        return 0.9 * ((at // (50 * MS)) % 4 == 0)

    found = answers(bursts)
    assert found["by_turns"] + found["one_cpu"] <= 5 and found["moves"] >= 70


@pytest.mark.parametrize(
    "turn_ms", [0.7, *(pytest.param(ms, marks=pytest.mark.slow) for ms in (3, 10, 100))]
)
def test_a_line_that_is_handed_over_does_not_move(turn_ms: float) -> None:
    found = answers(handed_over_every(turn_ms * MS))
    assert found["moves"] == 0 and found["by_turns"] >= 80


@pytest.mark.slow
def test_turns_of_ten_microseconds_are_seen_by_timers_that_fire_together() -> None:
    """No thread without a turn is sampled: the timers' own distances are what pairs are held
    against."""
    found = answers(handed_over_every(10_000), seconds=30, times=20)
    assert found["moves"] == 0 and found["by_turns"] >= 16


def test_a_line_that_four_cpus_hand_on_does_not_move() -> None:
    found = answers(handed_over_every(10 * MS, cpus=4), times=20, cpus=4)
    assert found["moves"] == 0 and found["by_turns"] >= 16


def test_turns_shorter_than_a_slow_samplers_period_are_not_called_movement() -> None:
    """Turns of 10 ms seen every 20 ms: neighbouring samples alternate as under contention."""
    assert answers(handed_over_every(10 * MS), period_ns=20.137 * MS)["moves"] == 0


def test_turns_that_no_sample_resolves_look_like_movement_and_the_distance_says_so() -> None:
    rng = np.random.default_rng(1)
    uses = handed_over_every(10_000)
    found = movement(*samples(rng, uses, seconds=30, aligned=False))
    assert found.answer == "moves" and found.close_ns > 1_000


def test_a_distance_of_more_than_a_turn_leaves_it_open() -> None:
    """Half a second of contention: its pairs cannot tell it from turns of a tenth of one ms."""
    found = movement(*samples(np.random.default_rng(2), contended, seconds=0.5, aligned=False))
    assert found.answer == "open" and found.close_ns > 100_000


def test_one_cpu_alone_is_said_when_enough_samples_show_it() -> None:
    assert movement([(at * MS, 3) for at in range(35)]).answer == "one_cpu"
    assert movement([(at * MS, 3) for at in range(34)]).answer == "open"


def test_a_thread_that_changed_its_cpu_once_does_not_move_the_line() -> None:
    uses = [(at * MS, int(at >= 400)) for at in range(1000)]
    assert movement(uses).answer == "by_turns"


def test_few_samples_leave_it_open() -> None:
    assert movement([(0, 0), (MS, 1)]).answer == "open"
    assert movement([(0, 0)]).answer == "open"


def hot(movement_: Movement, **more: object) -> Hot:
    site = Site(
        instruction="lock add",
        module="a",
        function="f",
        offset=0,
        access="atomic",
        share=0.5,
    )
    touches = [
        Touch(thread=tid, name="t", bytes=[(0, 8)], writes=True, reads=False) for tid in (1, 2)
    ]
    kind = more.pop("kind", "true")
    about = {
        "object": "counter",
        "share": wilson_score(50, 100),
        "at_once": 0.9,
        "touches": touches,
        "sites": [site],
    }
    return line_of(kind, movement=movement_, **(about | more))


STAYS = Movement(answer="one_cpu", samples=50, cpus=1)
MOVES = Movement(
    answer="moves",
    samples=50,
    cpus=2,
    changes=Estimate(value=1.4, low=1.2, high=1.6),
    close=Estimate(value=1.0, low=0.8, high=1.3),
    close_ns=40_000,
)


def test_a_line_that_stays_gets_no_remedy_no_ceiling_and_no_next_command() -> None:
    interval = Interval(median_ns=5, low_ns=4, high_ns=6, confidence=0.9)
    prices = Prices([], [])
    prices._alone = {"lock_add": interval}
    prices._contended = {"lock_add": Interval(median_ns=50, low_ns=40, high_ns=60, confidence=0.9)}
    for movement_, ends in ((STAYS, False), (MOVES, True)):
        said, step = said_of(hot(movement_), ["./program"])
        assert bool(step) == ends
        assert ("Count per CPU" in said) == ends
        assert (prices.ceiling(hot(movement_), "x86_64") is not None) == ends


def test_the_page_says_where_it_stays_and_how_it_moves() -> None:
    assert kind_text(hot(STAYS)) == "shared, on one CPU"
    assert movement_text(hot(STAYS)) == "One CPU alone uses the line: all 50 samples are on it"
    assert kind_text(hot(MOVES)) == "true sharing"
    assert movement_text(hot(MOVES)) == (
        "The line moves between CPUs: pairs of samples of two CPUs within 40.0 µs occur "
        "1.0 times (0.8 to 1.3) as often as with CPUs in random order"
    )


def test_the_order_in_which_samples_come_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    uses, _ = samples(rng, contended)
    mixed = [uses[i] for i in rng.permutation(len(uses))]
    assert movement(mixed) == movement(uses)


def test_the_headline_counts_what_is_shown_and_a_pair_of_lines_gains_nothing() -> None:
    """Redis was said to have 19 lines that travel, all of them undecided; a program without a line
    that travels, to gain 45 % of its time from a pair of lines."""
    still = Movement(answer="open", samples=20, cpus=2)
    share = Estimate(value=0.022, low=0.01, high=0.04)
    undecided = [line_of(movement=still, share=share) for _ in range(19)]
    none = "No line is shown to travel"
    assert headline(result(*undecided)).startswith(
        f"{none}, 19 undecided (the largest takes 2.2 % of the time), in p ("
    )
    both = headline(result(*undecided, line_of(movement=MOVES)))
    assert both.startswith("1 line is shown to travel, 19 undecided")
    assert headline(result()).startswith(f"{none} in p (")
    pair = hot(MOVES, kind="alone", kind_128="false")
    assert headline(result(pair)).startswith(f"{none}, 1 more on 128-byte lines only, in")
    prices = Prices([], [])
    assert prices.ceiling(pair, "x86_64") is None
    said = " ".join(render_all(document(result(pair)).evidence[0].lines))
    assert "The pair of lines moves between CPUs" in said and "The line moves" not in said


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("failed", "the program failed"),
        ("no_sample", "there is no sample"),
        ("went_on", "the program went on in another process"),
        ("one_cpu", "one CPU ran all of it"),
        ("few_cpus", "other programs held the CPUs"),
        ("never_at_once", "its threads hardly ever ran at once"),
        ("refused_all", "watchpoints were refused"),
    ],
)
def test_the_headline_says_why_nothing_was_seen(kind: str, why: str) -> None:
    notes = [note("throttled"), note(kind, "5")]
    assert headline(result(notes=notes)).startswith(f"No line is shown to travel: {why} in p (")
    seen = headline(result(line_of(movement=MOVES), notes=notes))
    assert seen.startswith("1 line is shown to travel in p (")


def few_cpus(
    others_s: float, at_once: bool = False, cpus: int = 2, ran_on: int = 2, **more: int
) -> list[str]:
    """What is said of a program that used 3 s of CPU time in 10 s, while others used so much; its
    two threads ran concurrently or in turns, on `ran_on` CPUs. `more` are fields of the stream's
    first and last line."""
    about = {"left_out": 0, "beside_ns": int((3 + others_s) * SECOND), "cpu_ns": 3 * SECOND}
    about |= {"reading_ns": 0, "goes_on": 0} | more
    start = Start(
        linewright_find=1, source="timer", arch="x86_64", scope="machine", pid=1, period_ns=MS,
        kernel=True, cpus=cpus, left_out=about["left_out"], command=["p"], time_ns=0)  # fmt: skip
    times = ((n // 2 * 2 if at_once else n) * 3 * MS for n in range(3000))
    seen = [
        Sample(time_ns=at, pid=1, tid=1 + n % 2, cpu=n % ran_on, ip=8) for n, at in enumerate(times)
    ]
    child = Task(time_ns=5, event="start", pid=7, tid=7, parent=1)
    end = End(samples=3000, elapsed_ns=10 * SECOND, ending="exit", beside_ns=about["beside_ns"],
              cpu_ns=about["cpu_ns"])  # fmt: skip
    gathered = gather(encoded(start, *[child] * about["goes_on"], *seen, end), watch=False)
    gathered.reading_ns = about["reading_ns"]
    notes = sources.findings_of(gathered, "p").notes
    return [note_text(said) for said in notes if said.kind == "few_cpus"]


def test_that_others_held_the_cpus_is_said_only_where_they_did() -> None:
    """For each way in which that would be false, a run."""
    (said,) = few_cpus(15)
    assert said.startswith("Other programs left 0.5 of 2 CPUs, on which")
    assert few_cpus(15, cpu_ns=0), "of a process that was joined the samples say how much it used"
    assert not few_cpus(2), "its threads wait for each other, on an idle machine"
    assert not few_cpus(10), "the same beside one busy thread"
    assert not few_cpus(15, at_once=True), "they ran at once all the same"
    assert not few_cpus(40, cpus=64), "enough CPUs were left"
    assert not few_cpus(15, ran_on=1), "it was kept on one, whatever the other one did"
    assert not few_cpus(15, beside_ns=0), "it is not known"
    assert not few_cpus(15, reading_ns=9 * SECOND), "it is the command itself that used them"
    assert not few_cpus(15, cpu_ns=18 * SECOND), "or the program, in code that has no samples"
    for uncounted in ("left_out", "goes_on"):
        assert not few_cpus(15, **{uncounted: 1}), "or threads of it whose time is not known"


@pytest.mark.parametrize(("cpu_ms", "share"), [(0, 0.005), (100, 0.005), (2000, 0.0025)])
def test_what_finding_costs_is_a_share_of_the_programs_cpu_time(cpu_ms: int, share: float) -> None:
    """Of the time that the samples stand for, or that the kernel counted, where that is more."""
    start = msgspec.structs.replace(START, period_ns=MS)
    seen = [Sample(time_ns=n * MS, pid=1, tid=1, cpu=0, ip=8) for n in range(1000)]
    end = End(samples=1000, elapsed_ns=2 * SECOND, ending="exit", cpu_ns=cpu_ms * MS,
              sample_cost_ns=3 * MS, watch_cost_ns=MS, switch_cost_ns=MS)  # fmt: skip
    result = sources.findings_of(gather(encoded(start, *seen, end), watch=False), "p")
    assert result.overhead == pytest.approx(share)


@pytest.mark.parametrize("together", [False, True])
def test_how_long_threads_ran_at_once(together: bool) -> None:
    """Each thread has a sample in each millisecond in which it ran, at a time of its own, or where
    timers fire together at that of the others."""

    def ran(*threads: Callable[[int], bool]) -> float:
        apart = 3_000 if together else 317_000
        times = [
            [ms * MS + apart * n for ms in range(2000) if runs(ms)]
            for n, runs in enumerate(threads)
        ]
        return ran_at_once(times, MS, together)

    always, half = lambda ms: True, lambda ms: ms % 100 < 50
    assert ran(always, always) == ran(always, always, always) == 1
    assert ran(always, half) == pytest.approx(0.5)
    assert ran(always) == ran(half, lambda ms: not half(ms)) == 0, "one after the other"
    assert ran(lambda ms: ms % 2 == 0, lambda ms: ms % 2 == 1) == 0, "on one CPU"
    assert ran(lambda ms: ms % 3 > 0, lambda ms: ms % 3 < 2) == pytest.approx(1 / 3, abs=0.02)


def test_turns_shorter_than_a_period_are_no_running_at_once() -> None:
    """A lock that two threads hand to each other every 100 us: each has half of the CPU time."""
    times = [[2 * at * MS + 317_000 * n for at in range(1000)] for n in range(2)]
    assert ran_at_once(times, MS, together=False) == 0


@pytest.mark.parametrize("stays", ["by_turns", "one_cpu"])
def test_nothing_is_to_be_changed_only_where_threads_ran_at_once(stays: str) -> None:
    """A mutex beside its data, a thread pool's queue, any program on one CPU, and textbook false
    sharing beside other programs had the advice to change nothing."""
    seen = Movement(answer=stays, samples=500, cpus=2)
    for kind in ("true", "false"):
        for at_once, withheld in ((None, True), (0.0, True), (0.19, True), (0.2, False)):
            found = hot(seen, kind=kind, at_once=at_once)
            assert ("Change nothing" in said_of(found)[0]) != withheld
            assert found.verdict.stays != withheld and found.verdict.travels == withheld
            because = "seldom_at_once" if withheld else ""
            assert found.verdict.because == because, (kind, at_once)
            assert ("its threads ran at once" in movement_text(found)) == withheld


@pytest.mark.parametrize(
    "function", ["pthread_mutex_lock", "sync.(*Mutex).lockSlow", "__lll_lock_wait", "my_spin_lock"]
)
def test_the_turns_of_a_lock_are_contention(function: str) -> None:
    seen = Movement(answer="by_turns", samples=500, cpus=2)
    (site,) = hot(seen).sites
    lock = hot(seen, sites=[msgspec.structs.replace(site, function=function)])
    assert (lock.verdict.answer, lock.verdict.because) == ("undecided", "lock")
    assert said_of(lock)[0].startswith("Hold the lock less often")
    assert "in turns that the lock makes" in movement_text(lock)


@pytest.mark.parametrize(
    ("function", "because"),
    [
        ("__lll_lock_wait", "lock"),
        ("pthread_mutex_lock", "seldom_at_once"),
        ("pthread_rwlock_rdlock", "seldom_at_once"),
    ],
)
@pytest.mark.parametrize("answer", ["by_turns", "one_cpu"])
def test_turns_that_a_lack_of_cpus_may_make_are_not_called_a_locks(function, because, answer):
    """A mutex of threads on one CPU, and readers beside other programs: none waits."""
    (site,) = hot(STAYS).sites
    seen = Movement(answer=answer, samples=500, cpus=2)
    lock = hot(seen, at_once=0.04, sites=[msgspec.structs.replace(site, function=function)])
    assert (lock.verdict.sharing, lock.verdict.because) == ("lock", because)
    turns = (because, answer) == ("lock", "by_turns")
    assert (
        "in turns that the lock makes: what waits for it is held up" in movement_text(lock)
    ) == turns
    known = (because, answer) != ("lock", "one_cpu")
    assert ("nothing is known of turns between CPUs" in movement_text(lock)) != known, (
        "one CPU makes none"
    )


@pytest.mark.parametrize(
    ("cpus", "at_once", "tells"), [(1, 0.0, False), (1, 0.9, True), (2, 0.0, True)]
)
def test_a_longer_run_is_not_said_to_tell_what_one_cpu_cannot_show(cpus, at_once, tells) -> None:
    seen = Movement(
        answer="open", samples=5, cpus=cpus, changes=MOVES.changes if cpus > 1 else None
    )
    assert ("a longer run tells" in movement_text(hot(seen, at_once=at_once))) == tells
