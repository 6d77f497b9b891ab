# SPDX-License-Identifier: MIT
"""Programs with planted lines: what must be found is found and rightly called, and controls without
sharing give none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from linewright.find.results import Result
from linewright.find.stream import AnyLine, Watch
from support import find_results
from support.finding import (
    CONTROLS,
    PLANTED,
    SAMPLER,
    SHARING,
    STAYING,
    TRIES,
    emulator_with_plugins,
    sampled,
)
from support.mounts import own_mounts

SECONDS = "1.2"
STAY = ("one_cpu", "by_turns")


def travelling(result: dict) -> list[tuple[str, str]]:
    """Object and kind of every line reported as shared on 64 bytes."""
    return [
        (line["object"], line["kind"])
        for line in result["lines"]
        if line["kind"] in ("true", "false")
    ]


@pytest.mark.parametrize("kind", SHARING)
def test_a_planted_line_is_named_and_judged(sampling, found, kind: str) -> None:
    """Other runs of `find` may hold the debug registers for as long as a short run lasts."""
    name, wanted = SHARING[kind]
    for seconds in (SECONDS, "5", "20"):
        result = found("--", sampling, kind, 2, seconds)
        named = [judgement for object_, judgement in travelling(result) if name in object_]
        if named:
            break
    assert named and named[0] == wanted, (travelling(result), result["notes"])


@pytest.mark.parametrize("kind", CONTROLS)
def test_a_control_without_sharing_gives_none(sampling, found, kind: str) -> None:
    assert travelling(found("--", sampling, kind, 2, SECONDS)) == []


@pytest.mark.parametrize("kind", STAYING)
def test_what_all_threads_use_and_no_two_cpus_is_not_contended(sampling, found, kind: str) -> None:
    """A counter per CPU, slots by CPU, threads on one CPU, a job that is handed over every 10 ms
    or 10 us, striped adders. Whose turn it is, both CPUs ask of one line at the same time."""
    for line in found("--", sampling, kind, 2, SECONDS)["lines"]:
        if "whose_turn" not in line["object"]:
            assert line["movement"]["answer"] != "moves", line
            assert line["ceiling"] is None or line["movement"]["answer"] == "open"


@pytest.mark.parametrize("threads", [1, 8, 64])
def test_threads_from_one_to_many(sampling, found, threads: int) -> None:
    """Beside the planted line only one that travels too may be named: where 64 threads begin."""
    true = travelling(found("--", sampling, "true", threads, 2))
    assert true[:1] == ([("true_counter", "true")] if threads > 1 else [])
    assert all(kind == "true" for _, kind in true)
    assert travelling(found("--", sampling, "private", threads, 2)) == []


def test_false_sharing_of_many_threads_names_every_threads_bytes(sampling, found) -> None:
    line = found("--", sampling, "false", 8, 2)["lines"][0]
    assert line["kind"] == "false" and line["threads"] == 8
    assert sorted(touch["bytes"][0][0] for touch in line["touches"]) == list(range(0, 64, 8))


def test_plain_false_sharing_of_more_threads_than_cpus(sampling, found) -> None:
    """Each of them waits for a CPU most of the time, also while it is watched. Beside a load the
    program may end before they were all waited for, or two alone were met, and is run again."""
    line = next(
        line
        for _ in range(TRIES)
        for line in found("--", sampling, "false_plain", 16, 4)["lines"]
        if "plain_counters" in line["object"] and line["threads"] > 2
    )
    assert line["kind"] == "false" and line["certainty"] == "watched"


def test_neighbouring_lines_are_shared_on_128_bytes_only(sampling, run, found) -> None:
    """On a loaded machine two threads may take turns for a whole run, or one of them may hardly be
    met: nothing travels then, which is what find says, and they are run again."""
    words = ("--", sampling, "neighbouring_lines", 2, SECONDS)
    results = (found(*words) for _ in range(TRIES))
    result = next(
        r
        for r in results
        if r["lines"] and not any(line["movement"]["answer"] in STAY for line in r["lines"])
    )
    assert travelling(result) == []
    assert [(line["line_bytes"], line["kind_128"]) for line in result["lines"]] == [
        (128, "false")
    ] * 2
    pages = (" ".join(run(*words).stdout.split()) for _ in range(TRIES))
    page = next(p for p in pages if "2 more on 128-byte lines only, in find_planted" in p)
    assert page.startswith("No line is shown to travel")


def test_a_program_is_ended_after_the_time_asked_for(sampling, found) -> None:
    words = ("--", sampling, "true", 2, 600)
    result = sampled(lambda seconds: found("--for", seconds, *words))
    assert travelling(result)[0] == ("true_counter", "true")
    assert result["seconds"] < 300 and any("Terminated" in note for note in result["notes"])


def test_a_stripped_program_is_named_by_its_file(sampling, found, tmp_path) -> None:
    program = tmp_path / "bare"
    subprocess.run(["strip", "-o", program, sampling], check=True)
    line = found("--", program, "true", 2, SECONDS)["lines"][0]
    assert line["kind"] == "true" and "static data of bare" in line["object"]
    assert line["sites"][0]["function"].startswith("bare+0x")


def test_a_deleted_program_is_still_decoded(sampling, found, tmp_path) -> None:
    program = tmp_path / "gone"
    shutil.copy(sampling, program)
    begins = f"while [ -e /proc/$!/exe ] && ! [ /proc/$!/exe -ef {program} ]; do sleep 0.1; done"
    words = ("sh", "-c", f"{program} true 2 {SECONDS} & {begins}; rm {program}; wait")
    line = found("--", *words)["lines"][0]
    assert line["kind"] == "true" and line["sites"][0]["instruction"] == "lock add"


def test_the_caller_of_a_librarys_lock_is_named(sampling, found) -> None:
    sites = found("--", sampling, "mutex", 2, SECONDS)["lines"][0]["sites"]
    assert any("mutex_lock" in site["caller"] for site in sites)


def test_a_running_process_is_joined(sampling, found) -> None:
    with subprocess.Popen([sampling, "true", "2", "600"]) as program:
        try:
            result = sampled(lambda seconds: found("--pid", program.pid, "--for", seconds))
        finally:
            program.kill()
    assert travelling(result)[0] == ("true_counter", "true")


def test_what_finding_costs_is_stated(sampling, found) -> None:
    """Bounds are held where time does not count: the period's below, the budget's in lines_test."""
    assert found("--", sampling, "false_plain", 2, 2)["overhead"] > 0


def test_a_result_is_of_the_schema(sampling, run) -> None:
    done = run("--json", "--", sampling, "true", 2, SECONDS)
    result = msgspec.json.decode(done.stdout, type=Result)
    assert result.blind and result.source == "timer"


def test_the_page_names_what_it_is_blind_to_also_when_nothing_is_found(sampling, run) -> None:
    page = run("--", sampling, "private", 2, SECONDS).stdout
    assert page.startswith("No line is shown to travel") and "blind to:" in page


def test_the_programs_output_is_not_mixed_into_the_result(sampling, run) -> None:
    done = run("--json", "--", "sh", "-c", "echo out; echo err >&2")
    assert msgspec.json.decode(done.stdout, type=Result).lines == []
    assert "out\n" in done.stderr and "err\n" in done.stderr


def test_the_program_keeps_its_streams_and_its_exit_code_is_said(sampling, run) -> None:
    done = run("--", "sh", "-c", "cat; echo err >&2; exit 7", input="through\n")
    assert "through" in done.stdout and "err" in done.stderr and "exit code 7" in done.stderr
    assert done.returncode == 3


@pytest.mark.parametrize("exact", [(), ("--exact",)])
@pytest.mark.parametrize("program", ["exit 7", "kill -SEGV $$"])
def test_a_failing_program_is_green_in_no_guard(sampling, run, tmp_path, exact, program) -> None:
    """`--exact --fail-new -- /bin/false` ended with 0."""
    if exact:
        emulator_with_plugins("qemu-x86_64")
    into = str(tmp_path / "before.json")
    rounds = 999 if exact else 99999  # a baseline needs samples, or accesses that are all counted
    busy = f"i=0; while [ $i -lt {rounds} ]; do i=$((i + 1)); done"
    assert run(*exact, "-o", into, "--", "sh", "-c", busy).returncode == 0
    guard = ("--baseline", into, "--fail-new", "--", "sh", "-c", program)
    assert run(*exact, *guard).returncode == 3


def test_a_program_that_ends_at_once(sampling, found) -> None:
    result = found("--", "true")
    assert result["lines"] == []
    assert any("No sample" in note for note in result["notes"]) == (result["samples"] == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_process_is_refused_by_name(sampling, tmp_path) -> None:
    """The sampler itself, which another user need not be able to read our Python for."""
    sampler = shutil.copy(SAMPLER, "/tmp/linewright-find-of-a-test")
    try:
        with subprocess.Popen(["sleep", "60"]) as process:
            command = [sampler, f"--pid={process.pid}", "--for=1"]
            done = subprocess.run(command, capture_output=True, text=True, user=65534, cwd="/")
            process.kill()
    finally:
        os.unlink(sampler)
    assert done.returncode == 2 and "another user's (0)" in done.stdout


def test_costs_are_measured_before_the_program_starts(sampling) -> None:
    done = subprocess.run([SAMPLER, "--", "true"], capture_output=True, text=True, check=True)
    start = msgspec.json.decode(done.stdout.splitlines()[0], type=AnyLine)
    assert min(start.sample_ns, start.arm_ns, start.hit_ns) > 0
    asked = subprocess.run(
        [SAMPLER, "--sample-share=0.001", "--", "true"], capture_output=True, text=True, check=True
    )
    slow = msgspec.json.decode(asked.stdout.splitlines()[0], type=AnyLine)
    assert slow.period_ns >= 1000 * slow.sample_ns


HANDING = """
import os
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    for _ in range(20000):
        os.read(there[0], 1), os.write(back[1], b"x")
    os._exit(0)
for _ in range(20000):
    os.write(there[1], b"x"), os.read(back[0], 1)
os.wait()
"""
"""Two processes of one CPU that hand a byte to and fro 20,000 times."""


def test_every_change_of_tasks_is_paid_for(sampling) -> None:
    """Those behind the end of the recording were not: where changes are many, nearly all."""
    words = [SAMPLER, "--", sys.executable, "-c", HANDING]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = [msgspec.json.decode(line, type=AnyLine) for line in done.stdout.splitlines()]
    start, end = lines[0], lines[-1]
    assert end.switches >= 39_000 and end.switches_recorded <= end.switches
    recorded_ns = end.switches_recorded * start.recorded_switch_ns
    assert end.switch_cost_ns > recorded_ns or start.scope != "machine"


def test_a_watchpoint_that_waits_is_counted(sampling) -> None:
    """On an address that nothing touches, for 0.2 s: some CPUs copy many times slower meanwhile."""
    with subprocess.Popen([PLANTED, "true", "2", "60"]) as program:
        for seconds in (2, 8, 32):  # beside a load it may begin late
            receive, send = os.pipe()
            os.write(send, f"\nwatch 1 {program.pid} 65536 8 w 200\n".encode())
            words = [SAMPLER, f"--pid={program.pid}", f"--for={seconds}", f"--commands={receive}"]
            done = subprocess.run(words, capture_output=True, text=True, pass_fds=(receive,))
            os.close(receive), os.close(send)
            lines = [msgspec.json.decode(line, type=AnyLine) for line in done.stdout.splitlines()]
            if watches := [line for line in lines if isinstance(line, Watch)]:
                break
        program.kill()
    (watch,), start, end = watches, lines[0], lines[-1]
    assert watch.outcome == "silent" and watch.after_ns >= 200_000_000
    others = end.watch_armed * start.arm_ns + end.watch_hits * start.hit_ns
    assert end.watch_cost_ns >= others + 190 * start.watch_wait_ns


@own_mounts
def test_a_file_of_another_mount_namespace_is_named_by_its_own_symbols(
    sampling, found, tmp_path
) -> None:
    """A container's program lies at a path that is another program's, or none, out here."""
    script = 'mount --bind "$1" "$2" && exec "$2" true 2 "$3"'
    here = tmp_path / "server"
    shutil.copy("/bin/true", here)
    words = ["unshare", "--mount", "sh", "-c", script, "sh", sampling, here, SECONDS]
    line = found("--", *words)["lines"][0]
    assert line["object"] == "true_counter"
    assert "true_sharing" in line["sites"][0]["function"]


@pytest.mark.parametrize("exact", [(), ("--exact",)])
def test_names_that_are_no_utf_8_lose_no_result(sampling, run, tmp_path, exact) -> None:
    """A result was lost at its end, when it was written."""
    if exact:
        emulator_with_plugins("qemu-x86_64")
    program = os.fsdecode(os.fsencode(tmp_path) + b"/app\xff")
    shutil.copy(sampling, program)
    for plugin in sampling.parent.glob("libfind_plugin.so"):
        shutil.copy(plugin, tmp_path)
    into = os.fsdecode(os.fsencode(tmp_path) + b"/found\xfe.json")
    words = (*exact, "-o", into, "--baseline", into, "--", program, "true", 2, "0.5")
    assert run(*exact, "-o", into, "--", program, "true", 2, "0.5").returncode == 0
    assert run(*words).returncode == 0
    result = find_results.worded(Path(into).read_bytes())
    assert result["program"] == "app\N{REPLACEMENT CHARACTER}"
    assert any("true_counter" in line["object"] for line in result["lines"])
