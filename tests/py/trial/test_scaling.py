# SPDX-License-Identifier: MIT
"""`linewright trial --threads`: synthetic programs in which each thing that is said would be false,
planted laws, and small real programs whose figures do not depend on time."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from linewright.errors import UserError
from linewright.say import trial_document
from linewright.say.document import render_all
from linewright.trial import engine, named_settings, scaling
from linewright.trial.runner import RunOutcome
from linewright.trial.trial_file import Session, TrialSetting
from support import trial_samples
from support.helper import runs

NUMBERS = (1, 2, 4, 8)
ALPHA = 0.05


def session(numbers=NUMBERS, **changes) -> Session:
    """A session of these numbers of threads on a machine with a CPU for each."""
    settings = [
        TrialSetting(name=f"{n} threads", environment={}, command=["p", str(n)], threads=n)
        for n in numbers
    ]
    return trial_samples.session(settings, **{"cpus": 64} | changes)


def law(sigma: float, kappa: float):
    """The throughput of n threads by the universal scalability law."""
    return lambda n: n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def found(asked: Session, throughput, noise=0.01, seed=1, seen=lambda n: n + 1, fails=lambda n: ()):
    """What is found, and said, of a program with this throughput by its number of threads; a drift
    falls on all of a round alike."""
    rng, level, count = np.random.default_rng(seed), [0.0], {}

    def program(setting: TrialSetting) -> RunOutcome:
        n = setting.threads
        count[n] = count.get(n, -1) + 1
        if count[n] in fails(n):
            return RunOutcome(None, "exited with 7", 1.0, 1.0, 4096, 7, seen(n))
        level[0] += rng.normal(0, 0.003)
        rate = throughput(n) * np.exp(level[0] + rng.normal(0, noise))
        rate /= n if asked.work == "thread" else 1
        value = rate if asked.higher_is_better else 1 / rate
        return RunOutcome(float(value), "", 1.0, 1.0, 4096, 0, seen(n))

    done = engine.run(asked, program)
    every = [*done.warm_ups, *done.samples]
    result = scaling.scaling(asked, every, done.verdict)
    said = trial_document.document(asked, done.samples, done.verdict, result)
    return SimpleNamespace(result=result, verdict=done.verdict, document=said, said=headline(said))


def headline(document) -> str:
    return "\n".join(render_all(document.of("headline")))


def rare(wrong: int, trials: int) -> bool:
    """Whether this number of wrong answers agrees with the promised rate of them."""
    return stats.binom.sf(wrong - 1, trials, ALPHA) > 1e-3


# ---- planted laws -------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.01, 0.1])
@pytest.mark.parametrize("numbers", [(1, 2, 4), (1, 2, 4, 8), (2, 4, 8, 16)])
@pytest.mark.parametrize(("sigma", "kappa"), [(0.0, 0.0), (0.03, 0.0), (0.03, 0.002), (0.2, 0.01)])
def test_planted_contention_and_coherency_lie_in_their_intervals(numbers, sigma, kappa, noise):
    rng, trials = np.random.default_rng(len(numbers)), 100
    true = np.array([law(sigma, kappa)(n) for n in numbers])
    wrong = [0, 0, 0]
    for _ in range(trials):
        rates = true * np.exp(rng.normal(0, noise, (20, true.size)) + rng.normal(0, 0.1, (20, 1)))
        fitted, why = scaling.fit(numbers, rates)
        if fitted is None:
            assert why == "misfit"
            wrong[2] += 1
            continue
        for place, (share, truth) in enumerate(
            ((fitted.contention, sigma), (fitted.coherency, kappa))
        ):
            wrong[place] += not share.low <= truth <= share.high
    assert all(rare(count, trials) for count in wrong), wrong


def test_the_planted_law_is_said_with_its_peak():
    one = found(session(), law(0.05, 0.01), noise=0.002)
    peak = one.result.law.peak
    assert peak[0] < np.sqrt(0.95 / 0.01) < peak[1]
    assert "contention is 0.0" in one.said and "coherency is 0.0" in one.said
    assert "throughput is highest at 9" in one.said
    best = max(range(1, 40), key=law(0.05, 0.01))
    assert peak[0] - 1 < best < peak[1] + 1


def test_without_coherency_no_peak_is_said():
    one = found(session(), law(0.05, 0.0), noise=0.002)
    assert one.result.law.peak is None and "highest" not in one.said
    assert "contention is 0.0" in one.said and "coherency is not shown, at most 0.00" in one.said


@pytest.mark.parametrize("changes", [{}, {"work": "thread"}, {"higher_is_better": True}])
def test_time_of_a_job_work_of_each_thread_and_a_rate_give_the_same(changes):
    one = found(session(**changes), law(0.05, 0.01), noise=0.002)
    last, truth = one.result.throughput[-1], law(0.05, 0.01)(8)
    assert last.low < truth < last.high and last.high / last.low < 1.02
    assert one.result.law.contention.low < 0.05 < one.result.law.contention.high
    assert one.verdict.comparisons[-1].cheaper, "the word for better"


# ---- where each sentence would be false ---------------------------------------------------------


def test_a_program_that_ignores_its_number_is_told_by_its_threads():
    for changes in ({}, {"work": "thread"}):
        flat = (lambda n: n) if changes else (lambda n: 1)
        one = found(session(fail_below=3.2, **changes), flat, seen=lambda n: 5)
        assert one.result.ignored and one.result.untold and one.result.law is None
        assert "it had 5 threads at 1 and at 8" in one.said
        assert "times the throughput" not in one.said and "NOTHING KNOWN" in one.said


def test_a_program_that_does_not_scale_is_not_called_one_that_ignores_its_number():
    one = found(session(), law(1.0, 0.0))
    assert not one.result.ignored and "the throughput of 1 threads within" in one.said
    assert 0.95 < one.result.law.contention.value < 1.05


def test_a_pool_of_fixed_size_that_does_scale_heeds_its_number():
    assert not found(session(), law(0.02, 0.0), seen=lambda n: 33).result.ignored


def test_threads_that_were_never_counted_show_nothing():
    assert not found(session(), law(1.0, 0.0), seen=lambda n: 0).result.ignored


def test_superlinear_throughput_gets_no_law():
    caches = lambda n: n * (1.3 if n > 2 else 1.0)
    one = found(session(), caches)
    assert one.result.why == "superlinear" and one.result.law is None
    assert (
        "more than its threads explain" in one.said and "grows by more than the threads" in one.said
    )


def test_linear_throughput_is_seldom_called_superlinear():
    trials = 60
    wrong = sum(
        found(session(), lambda n: n, seed=i).result.why == "superlinear" for i in range(trials)
    )
    assert rare(wrong, trials), wrong


def test_a_step_that_the_law_cannot_have_gets_no_law():
    sockets = lambda n: n if n <= 4 else 4.0 + 0.05 * n
    one = found(session((1, 2, 4, 8, 16)), sockets)
    assert one.result.why == "misfit" and "lie elsewhere" in one.said


@pytest.mark.parametrize("sigma", [0.0, 0.25])
def test_figures_without_noise_are_exact(sigma):
    for numbers in ((1, 2, 4), (1, 2, 3, 5, 7)):
        rates = np.array([[law(sigma, 0.0)(n) for n in numbers]] * 9)
        fitted, _ = scaling.fit(numbers, rates)
        assert fitted.contention.low == pytest.approx(sigma) == fitted.contention.high
        assert fitted.coherency.low == 0 == fitted.coherency.high and fitted.peak is None


def test_wide_noise_shows_neither_constant():
    one = found(session((1, 2, 4)), law(0.03, 0.002), noise=0.3)
    assert one.result.law.contention.low < 0 < one.result.law.contention.high
    assert "contention is not shown, at most" in one.said
    assert "coherency is not shown, at most" in one.said and "highest" not in one.said


def test_a_loss_is_called_a_loss():
    assert "8 threads: a loss, 0.2" in found(session(), law(2.0, 0.3)).said


def test_two_numbers_or_too_few_cpus_get_no_law():
    assert found(session((1, 8)), law(0.03, 0)).result.why == "few_numbers"
    one = found(session(cpus=2), lambda n: min(n, 2))
    assert one.result.why == "few_numbers" and "3 numbers of threads that have a CPU" in one.said
    (table,) = one.document.tables
    assert "4 and 8 threads share 2 CPUs" in " ".join(render_all(table.notes))


def test_numbers_beyond_the_cpus_are_left_out_of_the_law():
    one = found(session((1, 2, 4, 8, 16), cpus=8), lambda n: law(0.05, 0.0)(min(n, 8)))
    assert one.result.law.threads == [1, 2, 4, 8]
    assert one.result.law.contention.low < 0.05 < one.result.law.contention.high


def test_rounds_in_which_a_number_failed_are_left_out():
    one = found(session(), law(0.05, 0.0), fails=lambda n: range(1, 8) if n == 4 else ())
    assert one.result.law.contention.low < 0.05 < one.result.law.contention.high
    one = found(
        session(fail_below=3.0), law(0.05, 0.0), fails=lambda n: range(21) if n == 8 else ()
    )
    assert one.result.untold and one.result.why == "few_rounds"
    assert "8 threads: undecided. Only 0 rounds" in one.said and "NOTHING KNOWN" in one.said


def test_it_goes_on_until_the_intervals_are_narrow_and_not_until_differences_are_clear():
    assert found(session(planned_rounds=40), law(0.0, 0.0)).verdict.rounds == 40
    exact = found(session(planned_rounds=40, precision=0.01), lambda n: n, noise=0)
    assert exact.verdict.why == "precise" or exact.verdict.rounds == 40


# ---- the limit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4.0, 5.0, 6.0])
def test_a_limit_fails_where_it_is_shown_to_be_missed_alone(limit):
    """The truth is 5: a limit of 6 fails, one of 4 passes, and one of 5 fails as often as
    promised."""
    trials, failed, undecided_failed = 60, 0, 0
    for number in range(trials):
        asked = session((1, 8), fail_below=limit)
        result = found(asked, law(3 / 35, 0.0), noise=0.03, seed=number).result
        assert result.threads[-1] * 1.0 / (1 + 3 / 35 * 7) == pytest.approx(5)
        failed += result.fails(asked)
        undecided_failed += result.fails(session((1, 8), fail_below=limit, undecided_fails=True))
    if limit == 5:
        assert rare(failed, trials) and undecided_failed > trials * 0.9
    else:
        assert failed == undecided_failed == (trials if limit > 5 else 0)


@pytest.mark.parametrize(
    ("limit", "word"),
    [(4.0, "passed: "), (5.0, "UNDECIDED, counted as passed: "), (6.0, "FAILED: ")],
)
def test_the_check_is_said_first(limit, word):
    one = found(session((1, 8), fail_below=limit), law(3 / 35, 0.0), noise=0.03, seed=3)
    assert one.said.startswith(f"check: {word}")


# ---- requests and real programs -----------------------------------------------------------------

RATE = ("sh", "-c", "echo rate $(({threads} * 10))")
TRIAL = ("trial", "--metric", "rate ([0-9]+)", "--higher-is-better", "--runs", "8")


def test_settings_of_threads():
    one, two = named_settings.of_threads("1,2", ["p", "-j{threads}"], ["A={threads} B=x"])
    assert (one.name, two.name) == ("1 thread", "2 threads")
    assert two.command == ["p", "-j2"] and two.environment == {"A": "2", "B": "x"}
    for text in (
        "1",
        "",
        "2,1",
        "1,1",
        "0,2",
        "1,5000",
        "1,x",
        "1,,2",
        "1;2",
        ",".join(map(str, range(1, 19))),
    ):
        with pytest.raises(UserError, match="--threads: bad value .* each larger than the last"):
            named_settings.of_threads(text, ["p", "{threads}"], None)
    with pytest.raises(UserError, match="nothing tells the program its number of threads"):
        named_settings.of_threads("1,2", ["{threads}"], ["A=1"])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--threads 2,1 -- p {threads}", "bad value '2,1'"),
        ("--threads 1,2 -- true", "nothing tells the program"),
        ("--threads 1,2 --env A={threads} --env B=1 -- true", "several --env"),
        ("--threads 1,2 --locks -- true {threads}", "one kind of setting"),
        ("--threads 1,2 --settings default/prefetch -- true {threads}", "one kind of setting"),
        ("--threads 1,2 -- true {threads} --versus true", "one kind of setting"),
        ("--threads 1,2 --metric cpu -- true {threads}", "cpu is no throughput"),
        ("--fail-below 3x --env A=1 -- true", "beside --threads"),
        ("--set work=thread --env A=1 -- true", "beside --threads"),
        ("--threads 1,2 --fail-below 0x -- true {threads}", "not a ratio: '0x'"),
        ("--threads 1,2 --fail-below 3x,maybe -- true {threads}", "no decision"),
    ],
)
def test_wrong_requests_are_one_line(command, line, why):
    assert why in command.refused("trial", *line.split())


def test_a_rate_beside_work_of_each_thread_is_refused(command):
    words = (*TRIAL, "--threads", "1,2", "--set", "work=thread", "--", *RATE)
    assert "a rate is that of all threads" in command.refused(*words)


@pytest.mark.parametrize(
    ("limit", "code"), [("1.9x", 0), ("2.1x", 1), ("2.1x,undecided", 1), ("2", 0)]
)
def test_exit_codes_of_a_limit(command, limit, code):
    done = command(*TRIAL, "--threads", "1,2", "--fail-below", limit, "--", *RATE)
    assert done.returncode == code, done.stderr
    assert "2 threads: 2.00 times the throughput of 1 thread" in done.stdout


def test_a_program_that_fails_at_its_last_number_keeps_no_limit(command):
    line = "test {threads} = 1 && echo rate 5"
    words = (*TRIAL, "--threads", "1,2", "--fail-below", "0.1x", "--", "sh", "-c", line)
    done = command(*words)
    assert done.returncode == 3 and "NOTHING KNOWN" in done.stdout


def test_the_variable_file_json_and_a_resumed_trial(command):
    words = (*TRIAL, "--threads", "1,2,4", "--env", "N={threads}", "--fail-below", "3x")
    done = command(*words, "-o", "t.jsonl", "--json", "--", "sh", "-c", "echo rate $((N * 10))")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["scaling"]["threads"] == [1, 2, 4]
    assert [x["value"] for x in result["scaling"]["throughput"]] == pytest.approx([1, 2, 4])
    again = command("trial", "--resume", "t.jsonl", "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["scaling"] == result["scaling"]


WAITING = """
import sys, threading
threads, helper = sys.argv[1:]
for _ in range(int(threads)):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
def sleeps():
    text = open(f"/proc/{helper}/status").read()
    return int(text.split("\\nvoluntary_ctxt_switches:")[1].split()[0])
first = sleeps()
while sleeps() < first + 3:
    pass
"""


def test_threads_are_counted_once_for_each_number_and_with_those_of_children():
    """The program ends when the helper has slept and looked three times more."""
    line = [f'{sys.executable} -c "$0" 3 $PPID; true', WAITING]
    one = runs(["sh", "-c", *line])
    assert one(TrialSetting(name="3", environment={}, threads=3)).threads == 5
    plain = runs(["true"])
    assert plain(TrialSetting(name="", environment={})).threads == 0
