# SPDX-License-Identifier: MIT
"""`linewright trial`: error rates and planted differences with a synthetic runner, plumbing with
small real programs.

No test depends on how long a program takes: compared figures come from the program's output or from
the runner."""

from __future__ import annotations

import json
import platform
import re
import shlex
import signal
import struct
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from scipy import stats

from linewright.analysis.comparison import ALPHA
from linewright.compare import from_files
from linewright.compare.compared_files import CompareOptions
from linewright.errors import RunError, UserError
from linewright.run.process import Interrupts
from linewright.say import trial_document
from linewright.say.comparison_document import obstacle_text
from linewright.say.document import render_all
from linewright.show.progress import TrialMeter
from linewright.trial import engine, named_settings, runner, trial_file, trial_place
from linewright.trial.interim_analysis import fewest_rounds
from linewright.trial.runner import Interruption, RunOutcome
from linewright.trial.trial_file import ProgramRun, Session, TrialSetting
from support import trial_samples, waiting
from support.command_lines import go_on
from support.helper import here, runs, under
from support.places import ROOT

on_x86 = pytest.mark.skipif(
    platform.machine() == "aarch64", reason="tells what happens where settings have no effect"
)


def session(names=("a", "b"), **changes) -> Session:
    named = [TrialSetting(name=n, environment={"WHICH": n}) for n in names]
    return trial_samples.session(changes.pop("settings", named), **changes)


def outcome(value, reason="", code=0) -> RunOutcome:
    return RunOutcome(value, reason, 1.0, 0.5, 4096, code)


class Synthetic:
    """A program whose truth is known: relative changes by setting, noise, a drift that all settings
    share, modes."""

    def __init__(self, rng, changes, noise=0.01, drift=0.003, modes=()):
        self.rng, self.changes, self.noise, self.drift, self.modes = (
            rng,
            changes,
            noise,
            drift,
            dict(modes),
        )
        self.level, self.order = 0.0, []

    def __call__(self, setting):
        name = setting.name
        self.order.append(name)
        self.level += self.rng.normal(0, self.drift)
        value = (1 + self.changes[name]) * np.exp(self.level + self.rng.normal(0, self.noise))
        if name in self.modes and self.rng.random() < 0.5:
            value *= self.modes[name]
        return outcome(float(value))


# ---- what is promised --------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_a_program_against_itself_differs_at_most_as_often_as_promised(names):
    rng = np.random.default_rng(len(names))
    wrong, trials = 0, 150
    for number in range(trials):
        finished = engine.run(
            session(names, seed=number), Synthetic(rng, dict.fromkeys(names, 0.0))
        )
        wrong += any(c.differs for c in finished.verdict.comparisons)
    assert stats.binom.sf(wrong - 1, trials, ALPHA) > 1e-3, wrong


def test_a_planted_two_percent_is_found_and_a_planted_zero_is_not():
    """Every planted 2 % is found and inside its interval; the planted 0 % beside it at most as
    often as promised."""
    rng = np.random.default_rng(21)
    trials, wrong, outside = 40, 0, 0
    for number in range(trials):
        program = Synthetic(rng, {"a": 0.0, "b": 0.02, "c": 0.0}, noise=0.006)
        slow, same = engine.run(
            session("abc", planned_rounds=40, seed=number), program
        ).verdict.comparisons
        assert slow.slower
        outside += not slow.contrast.low < 1.02 < slow.contrast.high
        wrong += same.differs
    assert (
        stats.binom.sf(wrong - 1, trials, ALPHA) > 1e-3
        and stats.binom.sf(outside - 1, trials, ALPHA) > 1e-3
    ), (
        wrong,
        outside,
    )


def test_too_few_rounds_for_any_claim_are_told_beforehand(command):
    for settings in (2, 3, 5):
        enough = fewest_rounds(settings)
        for planned in (enough - 1, enough):
            changes = dict(zip("abcdefgh", [0.0] + [0.5] * (settings - 1), strict=False))
            program = Synthetic(np.random.default_rng(2), changes, noise=1e-4, drift=0)
            names = list(changes)[:settings]
            asked = session(names, planned_rounds=planned)
            found = engine.run(asked, program).verdict
            assert all(c.differs is (planned == enough) for c in found.comparisons), (
                settings,
                planned,
            )
            said = render_all(trial_document.limits(asked, found))
            assert f"{planned} of {planned} rounds were run." in said, "and nothing ended early"
    said = command(
        "trial",
        "--env",
        "A=1",
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--metric",
        "([0-9])",
        "--",
        "echo",
        "3",
    )
    assert "2 rounds cannot show a difference between 2 settings" in said.stderr


def test_a_bimodal_program_is_recognised():
    finished = engine.run(
        session(planned_rounds=40),
        Synthetic(np.random.default_rng(3), {"a": 0.0, "b": 0.0}, modes={"b": 1.7}.items()),
    )
    a, b = finished.verdict.settings
    assert len(a.modes) == 1 and len(b.modes) == 2
    from linewright.say import trial_document

    said = render_all(trial_document.limits(session(), finished.verdict))
    assert any(
        line.startswith("b: the program's runs fall into separate modes: ") and " s in " in line
        for line in said
    )


def test_what_a_program_against_itself_gives_is_the_same_and_not_undecided():
    from linewright.say import trial_document

    finished = engine.run(
        session(planned_rounds=20), Synthetic(np.random.default_rng(3), {"a": 0.0, "b": 0.0})
    )
    (said,) = render_all(trial_document.decisions(finished.verdict))
    assert re.match(r"b: the same as a within [0-4]\.\d %, ", said), said
    named = [
        TrialSetting(name=name, environment={"LINEWRIGHT_ATOMICS": name})
        for name in ("default", "prefetch")
    ]
    assert session(settings=named).in_name_alone
    assert not session(settings=named, arch="arm64").in_name_alone
    assert not session().in_name_alone


def test_it_stops_early_when_clear_and_interleaves_at_random():
    program = Synthetic(np.random.default_rng(4), {"a": 0.0, "b": 0.5})
    finished = engine.run(session(planned_rounds=100), program)
    assert finished.verdict.why == "clear" and finished.verdict.rounds == 25
    warm, rounds = (
        program.order[:2],
        [program.order[i : i + 2] for i in range(2, len(program.order), 2)],
    )
    assert warm == ["a", "b"] and all(sorted(r) == ["a", "b"] for r in rounds)
    assert 3 < sum(r == ["a", "b"] for r in rounds) < 22, "the order within rounds is random"
    assert len(finished.samples) == 50, "warm-up is not counted"


def test_higher_is_better_turns_the_verdict():
    for higher in (False, True):
        finished = engine.run(
            session(higher_is_better=higher),
            Synthetic(np.random.default_rng(5), {"a": 0.0, "b": 0.2}),
        )
        assert finished.verdict.comparisons[0].cheaper is higher


def test_failed_runs_are_shown_and_never_averaged_in():
    state = {"n": 0}

    def program(setting):
        state["n"] += 1
        if setting.name == "b" and state["n"] % 3 == 0:
            return outcome(None, "exit code 7", 7)
        return outcome(1.0 + 1e-4 * (state["n"] % 5))

    kept: list[ProgramRun] = []
    finished = engine.run(session(), program, keep=kept.append)
    b = finished.verdict.settings[1]
    assert b.failed > 0 and b.median == pytest.approx(1, rel=1e-3) and b.runs == 20
    from linewright.say import trial_document

    (line,) = trial_document.failures(session(), finished.samples)
    assert line.text == f"b: {b.failed} failed runs left out: exit code 7"
    assert sum(s.warm_up for s in kept) == 2 and len(kept) == 42


@pytest.mark.parametrize("change", [0.0, 0.05])
def test_the_rounds_that_would_decide_do_decide(change):
    """A noisy program is undecided after 20 rounds; with as many as the answer names, two in
    three trials are decided at least, also where every twentieth run is wild."""

    def trial(number: int, rounds: int):
        program = Synthetic(np.random.default_rng(number), {"a": 0.0, "b": change}, 0.1, drift=0)
        wild = lambda s: outcome(program(s).value * (5 if program.rng.random() < 0.05 else 1))
        return engine.run(session(planned_rounds=rounds), wild).verdict

    asked = sorted(n for number in range(20) for n in trial(number, 20).rounds_needed.values())
    assert len(asked) >= 12 and asked[0] > 20
    enough = asked[len(asked) // 2]
    found = [trial(100 + number, enough) for number in range(30)]
    undecided = [v for v in found if v.comparisons[0].answer == "undecided"]
    assert len(undecided) <= 10 and enough < 400, (enough, len(undecided))
    assert undecided == [v for v in found if v.rounds_needed]


def test_a_program_that_always_fails_is_told_at_once():
    kept: list[ProgramRun] = []
    with pytest.raises(RunError, match="no figure under any setting: exit code 3"):
        engine.run(session(), lambda setting: outcome(None, "exit code 3", 3), keep=kept.append)
    assert len(kept) == 2


def test_an_interrupt_keeps_finished_runs_and_resuming_completes_the_same_schedule():
    rng = np.random.default_rng(6)
    whole = Synthetic(rng, {"a": 0.0, "b": 0.0})
    count = {"left": 13}

    def stopping(setting):
        if not count["left"]:
            raise Interruption
        count["left"] -= 1
        return whole(setting)

    first = engine.run(session(), stopping)
    assert first.interrupted and len(first.samples) == 11 and not first.verdict.stop
    assert not any(c.differs for c in first.verdict.comparisons)
    rest = engine.run(session(), whole, done=first.samples)
    assert not rest.interrupted and len(rest.samples) == 40
    assert len({(s.round, s.setting) for s in rest.samples}) == 40
    again = engine.run(session(), whole, done=rest.samples)
    assert again.samples == rest.samples, "nothing is left to run"


def test_the_time_left_is_an_upper_bound_from_the_pace():
    now = {"s": 0.0}
    meter = TrialMeter(10, clock=lambda: now["s"])
    for _ in range(4):
        now["s"] += 2.0
        meter.take("a")
    assert meter.text() == " 40%  4/10 runs, at most 12 s left  a"


# ---- metrics, processes ------------------------------------------------------------------------


def test_metrics_from_output():
    pattern = runner.compile_metric(r"^rate: ([0-9.e+]+)")
    assert runner.figure(pattern, b"x\nrate: 12.5 MB\nrate: 99\n") == (12.5, "")
    assert "fits" in runner.figure(pattern, b"none")[1]
    assert "not a number" in runner.figure(runner.compile_metric("(a)"), b"a")[1]
    assert "above 0" in runner.figure(runner.compile_metric("([0-9]+)"), b"0")[1]
    assert "above 0" in runner.figure(runner.compile_metric("(nan|inf)"), b"inf")[1]
    for wrong in ("walll", "[", "rate [0-9]+"):
        with pytest.raises(UserError, match="allowed: wall, cpu, maxrss"):
            runner.compile_metric(wrong)


def test_what_a_real_process_gives():
    python = sys.executable
    one = runs(["/bin/sh", "-c", "echo figure $WHICH"], r"figure (\d+)")(under(WHICH="42"))
    assert (one.value, one.exit_code) == (42.0, 0) and one.wall_s > 0
    failed = runs(["/bin/sh", "-c", "echo first >&2; echo why it failed >&2; exit 5"])(under())
    assert (failed.value, failed.reason, failed.exit_code) == (
        None,
        "exited with 5: why it failed",
        5,
    )
    killed = runs(["/bin/sh", "-c", "kill -SEGV $$"])(under())
    assert (killed.value, killed.reason, killed.exit_code) == (
        None,
        "ended by SIGSEGV",
        -signal.SIGSEGV,
    )
    late = runs(["/bin/sh", "-c", "sleep 600"], limit_s=0.1)(under())
    assert late.value is None
    assert re.fullmatch(
        r"longer than its limit: ended after ([1-9]\d{2} ms|[1-9].* s)", late.reason
    )
    big = runs([python, "-S", "-c", "x = b'1' * 60_000_000"], "maxrss")(under())
    small = runs([python, "-S", "-c", "pass"], "maxrss")(under())
    assert big.value - small.value > 40e6
    busy = runs([python, "-S", "-c", "import time\nwhile time.process_time() < 0.1: pass"], "cpu")(
        under()
    )
    assert busy.value >= 0.1
    with pytest.raises(UserError, match="cannot run"):
        runs(["/etc/passwd"])(under())


def test_a_signal_ends_a_search_that_would_take_very_long(monkeypatch):
    """Backtracking of 2^26 steps; an expression with a few letters more would never end."""
    interrupts, search = Interrupts(), runner.figure

    def search_and_be_asked_to_end(pattern, text):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        return search(pattern, text)

    monkeypatch.setattr(runner, "figure", search_and_be_asked_to_end)
    before = signal.signal(signal.SIGALRM, interrupts._note)
    try:
        with pytest.raises(Interruption):
            runs(["sh", "-c", f"echo {'a' * 26}X"], r"(a+)+$b(\d)", interrupts=interrupts)(under())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_output_that_is_not_searched_to_its_end_is_said_to_be(monkeypatch):
    monkeypatch.setattr(runner, "MOST_OUTPUT", 2**20)
    script = "head -c 1048576 /dev/zero; echo figure 7"
    assert runs(["/bin/sh", "-c", script], r"figure (\d)")(under()).reason.startswith(
        "nothing in the first 1 MiB of its output fits"
    )
    assert runs(["/bin/sh", "-c", "echo figure"], r"figure (\d)")(under()).reason.startswith(
        "nothing in its output fits"
    )


def test_nothing_of_a_run_that_was_ended_goes_on(tmp_path):
    """A program may make a process group of its own, as timeout(1) does, and start others that do
    not end politely."""
    script = (
        "import os, signal, time; os.setpgid(0, 0); signal.signal(signal.SIGTERM, "
        "signal.SIG_IGN); os.fork();"
        f"open(f'{tmp_path}/{{os.getpid()}}.pid', 'w').close(); time.sleep(600)"
    )
    interrupts = Interrupts()

    def twice() -> None:
        waiting.wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
        for _ in range(2):
            interrupts._note(signal.SIGINT, None)

    thread = threading.Thread(target=twice)
    thread.start()
    with pytest.raises(Interruption):
        runs([sys.executable, "-S", "-c", script], limit_s=400, interrupts=interrupts)(under())
    thread.join()
    pids = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert len(pids) == 2
    waiting.wait_for(lambda: not any(map(waiting.lives, pids)))


def test_a_program_that_is_stopped_ends_politely_too(tmp_path):
    interrupts, pid = Interrupts(), tmp_path / "pid"

    def stopped() -> bool:
        number = pid.read_text().strip() if pid.exists() else ""
        return (
            bool(number)
            and Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
        )

    def ask() -> None:
        waiting.wait_for(stopped)
        interrupts._note(signal.SIGINT, None)

    thread = threading.Thread(target=ask)
    thread.start()
    run = runs(["sh", "-c", f"echo $$ > {pid}; kill -STOP $$"], limit_s=600, interrupts=interrupts)
    asked, end = [], run._helper.end
    run._helper.end = lambda how: (asked.append(how), end(how))
    with pytest.raises(Interruption):
        run(under())
    thread.join()
    assert asked == ["end"], "the limit had to end it"


# ---- the command -------------------------------------------------------------------------------

RATE = "echo rate $((1000 + STEP + $$ % 5))"


def test_the_command_finds_a_planted_difference(command, tmp_path):
    answer = command(
        "trial",
        "--env",
        "STEP=0",
        "--env",
        "STEP=100",
        "--runs",
        "12",
        "--metric",
        r"rate (\d+)",
        "--higher-is-better",
        "--output",
        "t.jsonl",
        "--",
        "sh",
        "-c",
        RATE,
    )
    assert answer.returncode == 0, answer.stderr
    assert (
        "STEP=100: better than STEP=0, +" in answer.stdout
        and "ended early because every setting differs" in answer.stdout
    )
    assert "every run is in t.jsonl" in answer.stderr
    kept = trial_file.read(str(tmp_path / "t.jsonl"))
    assert [s.name for s in kept.sessions[0].settings] == ["STEP=0", "STEP=100"]
    assert (
        all(s.value and s.exit_code == 0 for s in kept.samples)
        and sum(s.warm_up for s in kept.samples) == 2
    )
    resumed = command("trial", "--resume", "t.jsonl", "--json")
    assert resumed.returncode == 0 and json.loads(resumed.stdout)["verdict"]["why"] == "clear"
    assert len(trial_file.read(str(tmp_path / "t.jsonl")).samples) == len(kept.samples), (
        "nothing was left to run"
    )


def test_no_figure_in_any_run_is_no_result(command):
    """Also when no warm-up tells beforehand; the runs are shown and kept nevertheless."""
    said = command(
        "trial",
        "--env",
        "A=1",
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--output",
        "t.jsonl",
        "--",
        "sh",
        "-c",
        "exit 4",
    )
    assert (
        said.returncode == 3
        and "sh gives no figure under any setting: exited with 4" in said.stderr
    )
    assert "2 failed runs left out: exited with 4" in said.stdout


def test_two_commands_are_held_against_each_other(command, tmp_path):
    """Builds of one program, whose arguments may differ; the file goes on with both."""
    old, new = tmp_path / "old", tmp_path / "new"
    for path, rate in ((old, 10), (new, 20)):
        path.write_text(f"#!/bin/sh\necho rate $(({rate} + $1))\n")
        path.chmod(0o755)
    save = tmp_path / "t.jsonl"
    words = ["trial", "--runs", "8", "--metric", r"rate (\d+)", "--higher-is-better"]
    done = command(*words, "--output", save, "--", old, 1, "--versus", "--", new, 1)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert f"{new} 1: better than {old} 1, +9" in said and "old and new: " in said
    known = trial_file.read(str(save))
    assert [s.command for s in known.sessions[0].settings] == [[str(old), "1"], [str(new), "1"]]
    assert {s.setting: s.value for s in known.samples} == {f"{old} 1": 11, f"{new} 1": 21}
    again = command(*words, "--output", save, "--", old, 1, "--versus", new, 1)
    assert again.returncode == 0 and len(trial_file.read(str(save)).sessions) == 2


def test_a_command_may_be_tried_against_itself(command, tmp_path):
    """What is said where nothing differs; each turn of the command is a setting of its own."""
    program = tmp_path / "same"
    program.write_text("#!/bin/sh\necho rate 7\n")
    program.chmod(0o755)
    words = ["--runs", "8", "--metric", r"rate (\d+)", "--output", "t.jsonl"]
    done = command("trial", *words, "--", *[program, "--versus"] * 2, program)
    assert done.returncode == 0, done.stderr
    names = [f"{program}{turn}" for turn in ("", " (2)", " (3)")]
    (session,) = trial_file.read(str(tmp_path / "t.jsonl")).sessions
    assert [s.name for s in session.settings] == names
    said = " ".join(done.stdout.split())
    assert all(f"{name}: the same as {program}" in said for name in names[1:]), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "true", "--versus"], "no program beside it"),
        (["--", "--versus", "--", "true"], "no program beside it"),
        (["--env", "A=1", "--", "true", "--versus", "--", "false"], "one kind of setting"),
        (["--pad", "main", "--", "true", "--versus", "--", "false"], "one kind of setting"),
        (["--", "true", "--versus", "--", "/absent"], "/absent"),
    ],
)
def test_commands_that_cannot_be_compared_are_refused(command, words, said):
    done = command("trial", *words)
    assert done.returncode == 2 and said in done.stderr


def test_one_environment_is_held_against_the_one_as_it_is(command):
    answer = command(
        "trial",
        "--env",
        "STEP=7",
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--json",
        "--metric",
        "([0-9]+)",
        "--",
        "sh",
        "-c",
        "echo 3",
    )
    told = json.loads(answer.stdout)
    assert [s["name"] for s in told["verdict"]["settings"]] == ["as is", "STEP=7"]
    assert told["verdict"]["comparisons"][0]["answer"] == "undecided"


def test_boots_are_saved_and_compared(command, tmp_path):
    for name, step in (("before", 0), ("after", 50), ("same", 0)):
        words = [
            "trial",
            "--output",
            f"{name}.jsonl",
            "--runs",
            "8",
            "--metric",
            r"rate (\d+)",
            "--",
            "sh",
            "-c",
            RATE,
        ]
        command.patch.setenv("STEP", str(step))
        assert command(*words).returncode == 0
        assert command(*words).returncode == 0, "a second session goes into the same file"
    assert len(trial_file.read(str(tmp_path / "before.jsonl")).sessions) == 2
    changed = command("compare", "before.jsonl", "after.jsonl")
    assert changed.returncode == 1 and "1 worse" in changed.stdout and "% " in changed.stdout
    assert "a boot's own luck is not in the interval" in changed.stdout
    same = command("compare", "before.jsonl", "same.jsonl", "--json")
    assert same.returncode == 0 and json.loads(same.stdout)["rows"][0]["answer"] == "same"
    both = command("compare", "before.jsonl", "same.jsonl", "after.jsonl", "--fail-above", "90%")
    assert both.returncode == 0 and "check: passed: " in both.stdout


def test_a_program_that_now_fails_in_every_run_fails_the_check(command):
    words = [
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--metric",
        r"rate (\d+)",
        "--",
        "sh",
        "-c",
        "${FAIL:-true} && " + RATE,
    ]
    command.patch.setenv("STEP", "0")
    assert command("trial", "--output", "works.jsonl", *words).returncode == 0
    command.patch.setenv("FAIL", "false")
    assert command("trial", "--output", "fails.jsonl", *words).returncode == 3
    said = command("compare", "works.jsonl", "fails.jsonl", "--fail-above", "90%")
    assert (
        said.returncode == 1
        and "1 wrong now" in said.stdout
        and "every run fails now" in said.stdout
    )
    assert (
        command.refused("compare", "fails.jsonl", "works.jsonl").count("nothing could be compared")
        == 1
    )


def file_of(boot_values, name) -> trial_file.TrialFile:
    """Boots with their runs' values, as a file that was read."""
    sessions, samples = [], []
    for number, values in enumerate(boot_values):
        one = session(["as is"], session=f"{number:016x}", boot_id=f"boot{number}")
        sessions.append(one)
        samples += [
            ProgramRun(
                linewright_trial_run=1,
                session=one.session,
                setting=one.settings[0].name,
                round=i,
                value=float(v),
                wall_s=1.0,
                cpu_s=0.5,
                maxrss_bytes=4096,
            )
            for i, v in enumerate(values)
        ]
    return trial_file.TrialFile(name, sessions, samples, 0)


def test_several_boots_carry_their_own_luck():
    """A/A over boots with 3 % luck each: called different at most as often as promised; few boots
    would not do."""
    rng = np.random.default_rng(8)
    trials = wrong = 0
    for _ in range(200):
        sides = [
            file_of(
                [np.exp(rng.normal(0, 0.03)) * np.exp(rng.normal(0, 0.003, 10)) for _ in range(4)],
                n,
            )
            for n in "ab"
        ]
        found = from_files.compare_boots(sides, CompareOptions())
        assert not found.others[0].few_boots
        trials, wrong = trials + 1, wrong + (found.rows[0].differs)
    assert stats.binom.sf(wrong - 1, trials, ALPHA) > 1e-3, wrong
    far = file_of([1.3 * np.exp(rng.normal(0, 0.03, 10)) for _ in range(4)], "c")
    (found,) = from_files.compare_boots([sides[0], far], CompareOptions()).rows
    assert found.slower


@on_x86
def test_a_setting_that_has_no_figure_now_does_not_pass_for_one_within_the_limit():
    """One setting kept four boots, the other lost all of its runs but one: the check passed, and
    the page spoke of fewer than three boots."""
    both = [TrialSetting(name=name, environment={}) for name in ("as is", "b")]
    files = []
    for name, left in (("a", 40), ("b", 1)):
        file = file_of(np.ones((4, 10)) + np.random.default_rng(len(files)).random((4, 10)), name)
        more = [msgspec.structs.replace(s, setting="b") for s in file.samples[:left]]
        sessions = [msgspec.structs.replace(s, settings=both) for s in file.sessions]
        files.append(trial_file.TrialFile(name, sessions, file.samples + more, 0))
    asked = CompareOptions(fail_above=9.0, undecided_fails=True)
    found = from_files.compare_boots(files, asked)
    assert [row.second.id for row in found.undecided] == ["b"] and found.failed
    assert obstacle_text(found.undecided[0]) == "after: too few runs with figures"
    assert not found.others[0].few_boots


def test_settings_without_effect_are_refused_before_anything_runs(command):
    words = ("trial", "--settings", "default/prefetch/load", "--", "touch", "seen")
    assert "nothing to try: on x86_64 each" in command.refused(*words)
    assert not (command.directory / "seen").exists()


def test_settings_on_arm64_load_the_auditing_library(monkeypatch, tmp_path):
    library = tmp_path / "liblinewright_audit.so"
    library.write_bytes(b"")
    monkeypatch.setenv("LINEWRIGHT_AUDIT", str(library))
    monkeypatch.delenv("LD_AUDIT", raising=False)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    about = SimpleNamespace(about={"arch": "aarch64"})
    monkeypatch.setattr(trial_place, "Helper", lambda place: about)
    monkeypatch.setattr(trial_place, "warn_unswitched", lambda program, warn: None)
    named = named_settings.named(None, None, "true", False, trial_place.TrialPlace(None))
    assert [(n.name, n.environment) for n in named] == [
        # without the third a program with jemalloc does not start under any auditing library
        (
            name,
            {
                "LD_AUDIT": str(library),
                "LINEWRIGHT_ATOMICS": name,
                "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384",
            },
        )
        for name in ("default", "prefetch", "load")
    ]
    for given, said in (("default", "nothing to be compared"), ("load/load", "named twice: load")):
        with pytest.raises(UserError, match=said):
            named_settings.named(given, None, "true", False, trial_place.TrialPlace(None))


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (
            ["--settings", "default/near", "--", "true"],
            ["--settings", "'near' is unknown", "store|load|llsc"],
        ),
        (["--env", "A=1", "--output", "t.jsonl", "--", "absent"], ["no such program"]),
        (["--env", "A=1", "--env", "A=1", "--", "true"], ["setting named twice: A=1"]),
        (["--settings", "load/llsc", "--env", "A=1", "--", "true"], ["contradict"]),
        (["--env", "A", "--env", "B=1", "--", "true"], ["--env", "not an assignment: 'A'"]),
        (["--env", "", "--", "true"], ["--env", "one setting has nothing to be compared with"]),
        (["--env", "A='", "--", "true"], ["--env", "NAME=VALUE"]),
        (["--env", "A=1", "--", "no-such-program"], ["no such program: no-such-program"]),
        (["--env", "A=1", "--", "/etc/passwd"], ["not executable"]),
        (["--env", "A=1"], ["no program named"]),
        (["--env", "A=1", "--runs", "1", "--", "true"], ["--runs", "2 to 100000"]),
        (["--env", "A=1", "--runs", "x", "--", "true"], ["--runs", "valid int"]),
        (["--env", "A=1", "--set", "warmup=-1", "--", "true"], ["--set warmup"]),
        (
            ["--env", "A=1", "--set", "precision=0", "--", "true"],
            ["--set precision", "out of range"],
        ),
        (["--env", "A=1", "--set", "precision=60%", "--", "true"], ["--set precision", "50%"]),
        (["--env", "A=1", "--metric", "rate [0-9]+", "--", "true"], ["--metric", "no group"]),
        (["--env", "A=1", "--metric", "(", "--", "true"], ["--metric", "not a regular expression"]),
        (["--env", "A=1", "--set", "limit=soon", "--", "true"], ["--set limit", "not a duration"]),
        (["--env", "A=1", "--set", "seed=-4", "--", "true"], ["--set seed"]),
        (
            ["--env", "A=1", "--output", "absent/t.jsonl", "--", "true"],
            ["--output", "no such directory"],
        ),
        (["--resume", "absent.jsonl"], ["absent.jsonl"]),
        (["--resume", "absent.jsonl", "--", "true"], ["--resume takes everything"]),
        (
            ["--resume", "absent.jsonl", "--runs", "50"],
            ["--resume takes everything", "--json, --set limit"],
        ),
        (["--env", "A=\udcff", "--", "true"], ["not UTF-8", "A="]),
        (["--env", "A=1", "--", "echo", "\udcff"], ["not UTF-8"]),
        (["--bogus", "--", "true"], ["--bogus"]),
    ],
)
def test_wrong_requests_are_one_line(command, words, messages):
    said = command.refused("trial", *words)
    assert all(message in said for message in messages), said
    assert not list(command.directory.glob("*.jsonl"))


def test_slices_are_refused_before_anything_runs_where_the_kernel_has_none(command):
    vector = Path("/proc/self/auxv").read_bytes()
    if not trial_place.lacks_slices(vector):
        pytest.skip("this kernel has time slice extensions, or may")
    given = ("--env", "LINEWRIGHT_WAIT=auto", "--env", "LINEWRIGHT_WAIT=pause,slice")
    said = command.refused("trial", *given, "--", "touch", "seen")
    assert "not available on this kernel: time slice extensions (LINEWRIGHT_WAIT=pause,s" in said
    assert not list(command.directory.iterdir())


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [({27: 33}, False), ({27: 32}, True), ({27: 28}, True), ({}, True)],
)
def test_the_auxiliary_vector_tells_whether_a_kernel_has_slices(fields, lacks):
    words = {6: 4096, **fields, 0: 0}.items()
    assert trial_place.lacks_slices(b"".join(struct.pack("<QQ", *w) for w in words)) == lacks
    narrow = b"".join(struct.pack("<II", *word) for word in words)
    assert not trial_place.lacks_slices(narrow + b"\0" * (len(narrow) % 16))


@on_x86
def test_without_a_setting_there_is_nothing_to_try(command):
    assert "nothing to try" in command.refused("trial", "--", "true")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no trial in it"),
        (b"{}\n", "not a line of a trial"),
        (b"\x00\xff\n", "1"),
        (b'{"linewright_trial": 2}\n', "version 2"),
        (b'{"linewright_trial": 1}\n', "missing required field"),
        (
            b'{"linewright_trial_run": 1, "session": "x", "setting": "a", "round": 0, "wall_s": '
            b'1, "cpu_s": 1,'
            b' "maxrss_bytes": 1}\n',
            "describes",
        ),
        (b"[" * 100_000 + b"\n", ":1"),
    ],
)
def test_damaged_files_are_refused(command, tmp_path, text, message):
    (tmp_path / "t.jsonl").write_bytes(text)
    assert message in command.refused("trial", "--resume", "t.jsonl")


def test_a_cut_last_line_is_dropped_and_another_program_refused(command, tmp_path):
    path = tmp_path / "t.jsonl"
    whole = msgspec.json.encode(session(**here())) + b"\n"
    path.write_bytes(whole + b'{"linewright_trial_run": 1, "ses')
    warned: list[str] = []
    assert (
        trial_file.read(str(path), warned.append).good_end == len(whole)
        and "truncated" in warned[0]
    )
    said = command("trial", "--env", "A=1", "--output", "t.jsonl", "--", "true")
    assert said.returncode == 2 and "holds another command" in said.stderr
    path.write_bytes(msgspec.json.encode(session(**(here() | {"boot_id": "earlier"}))) + b"\n")
    assert "another boot" in command.refused("trial", "--resume", "t.jsonl")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_keeps_the_finished_runs(command, tmp_path, name):
    script = "echo 5; echo x >> ran; test $(wc -l < ran) -ne 6 || { touch waiting; sleep 600; }"
    child = command.start(
        "trial",
        "--env",
        "A=1",
        "--env",
        "A=2",
        "--runs",
        "4",
        "--output",
        "my t.jsonl",
        "--metric",
        r"(\d)",
        "--",
        "sh",
        "-c",
        script,
    )
    waiting.wait_for((tmp_path / "waiting").exists, child)
    child.send_signal(getattr(signal, name))
    out, err = waiting.finish(child)
    assert child.returncode == 3 and b"interrupted; 3 runs are kept; continue with " in err, err
    assert b"2 runs" not in out
    kept = trial_file.read(str(tmp_path / "my t.jsonl")).samples
    assert len(kept) == 5 and sum(s.warm_up for s in kept) == 2
    assert command(*go_on(err)).returncode == 0
    whole = trial_file.read(str(tmp_path / "my t.jsonl")).samples
    counted = [(s.round, s.setting) for s in whole if not s.warm_up]
    assert whole[:5] == kept and len(set(counted)) == len(counted) == 8


# ---- recipes of docs/guide/trial.md -----------------------------------------------------

FUTEX = """# Running 'futex/{part}' benchmark:
Run summary [PID 4242]: blocking on 96 threads (at [private] futex 0x55d0c8a3b0c0), \
{verb} 1 at a time.

[Run 1]: {Verb} 96 of 96 threads in 9.1234 ms
[Run 2]: {Verb} 96 of 96 threads in 8.8766 ms
{Verb} 96 of 96 threads in 9.0000 ms (+-1.37%)
"""
HASH = (
    "[thread   1] futexes: 0x55 ... 0x56 [ 4718592 ops/sec ]\n\n"
    "Averaged 4717000 operations/sec (+- 0.12%), total secs = 10\n"
)
UNIXBENCH = """System Benchmarks {Which} Index              BASELINE       RESULT    INDEX
Dhrystone 2 using register variables         116700.0   39000000.0   3341.9
System Call Overhead                          15000.0    4500000.0   3000.0
                                                                   ========
System Benchmarks Index Score{partial}                                 3166.3
"""
TBENCH = """  96     12345  1520.11 MB/sec  warmup   1 sec  latency 3.041 ms
  96     99999  1611.75 MB/sec  execute  59 sec  latency 2.804 ms
  96  cleanup  60 sec

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 Flush         123456     0.085     9.051

Throughput {value} MB/sec  96 clients  96 procs  max_latency=9.123 ms
"""


@pytest.mark.parametrize(
    ("file", "output", "value"),
    [
        ("K-wake", FUTEX.format(part="wake", verb="waking up", Verb="Wokeup"), 9.0),
        ("K-requeue", FUTEX.format(part="requeue", verb="requeuing", Verb="Requeued"), 9.0),
        ("K-hash", HASH, 4717000.0),
        ("K-unix", UNIXBENCH.format(Which="", partial=""), 3166.3),
        ("K-unix", UNIXBENCH.format(Which="Partial", partial=" (Partial Only)"), 3166.3),
        ("K-tbench", TBENCH.format(value="1612.4"), 1612.4),
        ("K-tbench", TBENCH.format(value="1.61241e+06"), 1612410.0),
    ],
)
def test_the_expressions_of_the_documented_recipes_find_the_summary(file, output, value) -> None:
    page = (ROOT / "docs/guide/trial.md").read_text()
    line = next(line for line in page.splitlines() if f"--output {file}.jsonl" in line)
    expression = shlex.split(line)[shlex.split(line).index("--metric") + 1]
    assert runner.figure(runner.compile_metric(expression), output.encode()) == (value, "")
