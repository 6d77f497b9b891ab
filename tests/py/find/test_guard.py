# SPDX-License-Identifier: MIT
"""The guard for builds: what is new against an earlier result, and the recipes of the page."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from find.test_movement import MOVES, STAYS, hot

from linewright.analysis.intervals import wilson_score
from linewright.errors import UserError
from linewright.find import guard, line_words, results
from linewright.find.evidence import Thread, sharing_kind
from linewright.find.line_words import name_text
from linewright.find.results import note
from linewright.find.shared_lines import FEWEST_ALONE, FEWEST_SAMPLES
from support import find_results, waiting
from support.finding import SAMPLER, emulator_with_plugins
from support.places import ROOT

PAGE = (ROOT / "docs/guide/find.md").read_text().split("## A guard for builds")[1].split("\n## ")[0]
RECIPES = dict(re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL))
PROGRAM = """
#include <pthread.h>
#include <stdint.h>
uint64_t apart[64] __attribute__((aligned(256))), together[8] __attribute__((aligned(256)));
#ifdef SHARED
#define WORD(i) &together[i]
#else
#define WORD(i) &apart[32 * (i)]
#endif
static pthread_barrier_t both;
static void *count(void *word) {
    pthread_barrier_wait(&both);
    for (int i = 0; i < 300000; i++) __atomic_fetch_add((uint64_t *)word, 1, __ATOMIC_SEQ_CST);
    return 0;
}
#ifndef NO_MAIN
int main(void)
#else
void pair(void)
#endif
{
    pthread_t t[2];
    pthread_barrier_init(&both, 0, 2);
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, count, WORD(i));
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
#ifndef NO_MAIN
    return 0;
#endif
}
"""
BENCH = """
#include <benchmark/benchmark.h>
extern "C" void pair(void);
static void BM_pair(benchmark::State &state) { for (auto _ : state) pair(); }
BENCHMARK(BM_pair);
BENCHMARK_MAIN();
"""


result = functools.partial(find_results.result, samples=1000)


def named(name: str, share: float = 0.5, samples: int = 1000, **more):
    seen = wilson_score(round(samples * share), samples)
    return hot(MOVES, **({"object": name, "share": seen} | more))


def test_a_line_is_the_same_whatever_its_address_thread_field_and_kind():
    """The kind of one line of tasks was false, true, false in three runs."""
    before = result(named("shards", address=4096))
    assert guard.new_lines(result(named("shards", address=8192, kind="false")), before) == []
    (new,) = guard.new_lines(result(named("queue")), before)
    assert name_text(new) == "queue"


def test_a_line_is_the_same_by_any_of_its_names():
    """Which of its fields and functions samples meet differs from run to run."""
    before = result(named("a", identity=["static a", "static b"]))
    for same in (["static a"], ["static b"], ["static b", "static c"]):
        assert guard.new_lines(result(named("x", identity=same)), before) == []
    assert guard.new_lines(result(named("x", identity=["static c"])), before) != []


def test_a_line_that_the_baseline_met_too_seldom_to_list_is_not_new():
    assert guard.new_lines(result(named("edge")), result(seldom=["static edge"])) == []


def test_of_two_hundred_lines_one_more_is_new_at_whatever_rank():
    lines = [named(f"queue_{n}", 0.004) for n in range(200)]
    before = result(*lines, samples=100_000)
    assert guard.new_lines(result(*lines), before) == []
    planted = named("planted", 0.003)
    for rank in (0, 30, 200):
        now = result(*lines[:rank], planted, *lines[rank:])
        assert guard.new_lines(now, before) == [planted]


def unsure(name: str, samples: int) -> results.Unsure:
    return results.Unsure(identity=[f"static {name}"], samples=samples)


MET = {"met": ["static edge"], "samples": 16_000}
"""The baseline of a run that met one line more than it lists."""


@pytest.mark.parametrize(
    ("code", "now", "before"),
    [
        (0, {"samples": 2000}, MET),
        (0, {"samples": 2000, "unsure": [unsure("edge", 9)]}, MET),
        (0, {"samples": 2000, "unsure": [unsure("rare", 1)]}, MET),
        (0, {"samples": 10_000, "unsure": [unsure("rare", 9)]}, MET),
        (0, {"samples": 1000, "unsure": [unsure("new", 11)]}, {"samples": 16_000}),
        (0, {"source": "exact", "samples": 9}, {"source": "exact", "samples": 9}),
        (3, {"samples": 1000, "unsure": [unsure("new", 11)]}, MET),
        (3, {"samples": 1000, "unsure": [unsure("edge", 11), unsure("new", 11)]}, MET),
        (3, {"samples": 5000, "unsure": [unsure("plain", 100)]}, MET),
        (3, {"samples": 300}, MET),
        (3, {"samples": 100_000}, {"samples": 100}),
        (3, {"samples": 9}, MET),
        (1, {"samples": 300, "lines": [named("new", 0.1)]}, MET),
        (1, {"samples": 1000, "unsure": [unsure("u", 11)], "lines": [named("new")]}, MET),
    ],
)
def test_green_is_said_only_where_a_new_line_of_two_percent_would_have_been_seen(code, now, before):
    found, lines = result(**{k: v for k, v in now.items() if k != "lines"}), now.get("lines", [])
    found.lines = lines
    found.against = guard.against(found, result(**before), "b.json")
    assert guard.exit_code(found, [lines[at] for at in found.against.new], True) == code
    assert guard.exit_code(found, [], False) == 0, "without --fail-new"
    said = line_words.guard_text(found)
    assert ("cannot tell" in said) == (code == 3)


@pytest.mark.parametrize("samples", [20, 300, 700])
@pytest.mark.parametrize("earlier", [None, 8000, 100_000])
def test_the_run_that_is_long_enough_can_tell_and_a_shorter_one_cannot(samples, earlier):
    before = result(samples=earlier) if earlier else None
    wanted = guard.against(result(samples=samples), before, "b").samples_wanted
    assert wanted > samples
    for many, enough in ((wanted - 1, False), (wanted, True)):
        found = guard.against(result(samples=many), before, "b")
        assert (found.least <= guard.GUARDED) == enough
        assert (found.samples_wanted == 0) == enough


def test_a_baseline_that_no_run_can_be_held_against_is_to_be_run_longer():
    found = guard.against(result(samples=2000), result(samples=100), "b")
    wanted, before = found.samples_wanted, found.baseline_wanted
    assert before > 100
    least = guard.against(result(samples=max(2000, wanted)), result(samples=before), "b").least
    assert least <= guard.GUARDED


def test_how_much_longer_is_said_in_seconds():
    now = result(samples=200, seconds=0.5)
    now.against = guard.against(now, result(samples=16_000), "b.json")
    seconds = now.against.samples_wanted / 400
    assert 1 < seconds < 4
    assert f"a run of {seconds:.1f} s" in line_words.guard_text(now)


def test_without_a_baseline_a_run_of_few_samples_is_not_green_either():
    for samples, code in ((50, 3), (5000, 0)):
        found = result(samples=samples)
        found.against = guard.against(found, None)
        assert guard.exit_code(found, [], True) == code
    found.lines = [named("queue")]
    found.against = guard.against(found, None)
    assert found.against.new == [0]


@pytest.mark.parametrize(
    ("share", "samples"), [(0.02, 100), (0.02, 1000), (0.02, 1300), (0.05, 1300)]
)
def test_a_planted_line_of_two_percent_is_missed_silently_in_one_run_of_a_thousand(share, samples):
    """It is new, or the guard cannot tell, whatever the line's samples look like."""
    import numpy as np

    before, draw = result(samples=8 * samples, met=[]), np.random.default_rng(1)

    @functools.cache
    def silent(many: int, shared: bool) -> bool:
        now = result(samples=samples)
        if shared and many >= FEWEST_SAMPLES:
            now.lines = [named("new", many / samples, samples)]
        elif 0 < many < FEWEST_ALONE:
            now.unsure = [unsure("new", many)]
        now.against = guard.against(now, before, "b")
        return guard.exit_code(now, [now.lines[at] for at in now.against.new], True) == 0

    def seen(many: int) -> bool:
        threads: dict[int, Thread] = {}
        for at, one in enumerate(draw.integers(2, size=many)):
            threads.setdefault(int(one), Thread(written=1)).saw(at)
        return silent(many, sharing_kind(threads.values()) == "true")

    assert sum(seen(int(many)) for many in draw.binomial(samples, share, 4000)) <= 8


def in_turns(draw, samples: int, turn: float, share: float) -> tuple[int, int, bool]:
    """One run on a busy machine, whose two threads have a CPU in turns of `turn` samples on
    average: its turns, the planted line's samples, and whether both threads were seen to use that
    at a time."""
    import numpy as np

    lengths = draw.geometric(1 / turn, samples)
    owners = np.repeat(np.arange(samples) % 2, lengths)[:samples]
    there = np.flatnonzero(draw.random(samples) < share)
    threads: dict[int, Thread] = {}
    for at in there:
        threads.setdefault(int(owners[at]), Thread(written=1)).saw(int(at))
    changes = int(np.count_nonzero(np.diff(owners)))
    return changes, len(there), sharing_kind(threads.values()) == "true"


@pytest.mark.parametrize("turn", [2, 20, 200, 2000])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_of_threads_that_got_no_cpu_a_planted_line_is_never_silently_missed(turn, share):
    """Forty samples by one thread, and then forty by the other, were green: the one had no CPU
    while the other had one."""
    import numpy as np

    draw, samples = np.random.default_rng(3), 2000
    before = result(samples=8 * samples, met=[], turns=4 * samples)
    silent = 0
    for _ in range(150):
        changes, many, shared = in_turns(draw, samples, turn, share)
        now = result(samples=samples, turns=changes)
        if shared and many >= FEWEST_SAMPLES:
            now.lines = [named("new", many / samples, samples)]
        else:
            now.unsure = [results.Unsure(identity=["static new"], samples=many, atomics=True)]
        now.against = guard.against(now, before, "b")
        new = [now.lines[at] for at in now.against.new]
        silent += guard.exit_code(now, new, True) == 0
        assert not now.lines or new
    assert silent <= 1


def test_a_thread_alone_by_nature_and_a_busy_machine_of_many_turns_are_green():
    """A worker's own line is new, its main thread waits all the time; and the same where threads
    take turns of eight samples, which are many beside the line's."""
    own = results.Unsure(identity=["static own"], samples=80, atomics=True)
    for turns, earlier in ((3, 24), (250, 8000)):
        now = result(samples=2000, turns=turns, unsure=[own])
        now.against = guard.against(now, result(samples=16_000, met=[], turns=earlier), "b")
        assert guard.exit_code(now, [], True) == 0, (turns, earlier)
    now = result(samples=2000, turns=3, unsure=[own])
    now.against = guard.against(now, result(samples=16_000, met=[], turns=8000), "b")
    assert guard.exit_code(now, [], True) == 3
    assert "took turns 0.3 % as often as the baseline's" in line_words.guard_text(now)


@pytest.mark.parametrize("lines", [3, 60])
def test_an_unchanged_program_of_a_second_is_green(lines: int):
    """Half of its lines are used by one thread; chance decides which of them have few samples."""
    import numpy as np

    draw = np.random.default_rng(2)
    shares = draw.dirichlet(np.full(2 * lines + 1, 0.3))

    def run(samples: int) -> results.Result:
        counts = draw.multinomial(samples, shares)[:-1]
        shared, alone = counts[:lines], counts[lines:]
        listed = [named(f"s{n}", c / samples, samples) for n, c in enumerate(shared) if c >= 3]
        some = [unsure(f"s{n}", int(c)) for n, c in enumerate(shared) if 0 < c < 3]
        some += [unsure(f"a{n}", int(c)) for n, c in enumerate(alone) if 0 < c < FEWEST_ALONE]
        met = [f"static s{n}" for n, c in enumerate(shared) if c]
        met += [f"static a{n}" for n, c in enumerate(alone) if c]
        seldom = [name for one in some for name in one.identity]
        return result(*listed, samples=samples, unsure=some, met=met, seldom=seldom)

    codes = []
    for _ in range(100):
        now, before = run(2000), run(16_000)
        now.against = guard.against(now, before, "b")
        codes.append(guard.exit_code(now, [now.lines[at] for at in now.against.new], True))
    assert sum(map(bool, codes)) <= 1, codes


@pytest.mark.parametrize(
    ("more", "guarding", "plain"),
    [
        ({}, 0, 0),
        ({"exit_code": 0}, 0, 0),
        ({"exit_code": 7}, 3, 3),
        ({"exit_code": 139}, 3, 3),
        ({"notes": [note("no_sample", True)]}, 3, 0),
        ({"notes": [note("refused_all", 8)]}, 3, 0),
        ({"notes": [note("went_on", 5)]}, 3, 0),
        ({"notes": [note("damaged", "the sampler ended")]}, 3, 0),
        ({"notes": [note("ended_by", "SIGINT")]}, 3, 0),
        ({"notes": [note("throttled", 5)]}, 0, 0),
    ],
)
def test_what_cannot_be_told_has_an_exit_code_of_its_own(more: dict, guarding: int, plain: int):
    found = result(**more)
    assert guard.exit_code(found, [], True) == guarding
    assert guard.exit_code(found, [], False) == plain
    assert guard.exit_code(found, [named("queue")], True) == 1, "new lines are new lines"


def test_what_stays_and_what_the_baseline_could_not_see_is_not_new():
    assert guard.new_lines(result(hot(STAYS)), result()) == []
    assert guard.new_lines(result(named("rare", 0.004)), result(samples=100)) == []
    assert guard.new_lines(result(named("rare", 0.004)), result(samples=100_000)) != []
    assert guard.new_lines(result(named("rare", 0.003)), result(source="exact")) != []


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("lines", [3, 28])
def test_chance_makes_no_line_new_and_a_planted_one_is_seen_with_the_stated_power(
    lines: int, times: int
):
    """Runs of 300 samples, in which chance has each of 28 lines from 3 to 20 times, against a run
    that is `times` as long."""
    import numpy as np

    draw, short = np.random.default_rng(1), 300
    shares = np.full(lines + 1, 1 / (lines + 1))

    def run(samples: int, shares) -> results.Result:
        counts = draw.multinomial(samples, shares)
        listed = [
            hot(MOVES, object=f"q{n}", share=wilson_score(int(count), samples))
            for n, count in enumerate(counts)
            if count >= 3
        ]
        met = [f"static q{n}" for n, count in enumerate(counts) if 0 < count < 3]
        return result(*listed, seldom=met, samples=samples)

    red = sum(
        bool(guard.new_lines(run(short, shares), run(times * short, shares))) for _ in range(500)
    )
    assert red <= 2
    before = run(times * short, shares)
    least = guard.against(run(short, shares), before, "b.json").least
    planted = np.append((1 - least) * shares, least)
    new = [guard.new_lines(run(short, planted), before) for _ in range(500)]
    wanted = [f"static q{lines + 1}"]
    assert np.mean([any(h.identity == wanted for h in some) for some in new]) > 0.91


def test_a_run_without_a_sample_has_no_new_line():
    found = guard.against(result(samples=0), result(), "b")
    assert found.new == [] and found.least == 1, "nothing would be named"


@pytest.mark.parametrize("earlier", [5_000, 80_000])
def test_the_power_is_that_of_samples_of_two_threads_that_overlap(earlier: int):
    """With the stated share, 999 of 1000 runs have as many samples as make a line new, and those of
    its two threads are seen to overlap; the rule that tells it is the one that judges a line."""
    import numpy as np

    now, before = result(samples=1000), result(samples=earlier)
    fewest, least = guard.fewest_samples(now, before, more=1), guard.against(now, before, "b").least
    draw = np.random.default_rng(1)

    def seen(samples: int) -> bool:
        threads: dict[int, Thread] = {}
        for at, tid in enumerate(draw.integers(2, size=samples)):
            threads.setdefault(int(tid), Thread(written=1)).saw(at)
        return samples >= fewest and sharing_kind(threads.values()) == "true"

    found = [seen(samples) for samples in draw.binomial(1000, least, 50_000)]
    assert 0.9985 < np.mean(found) < 0.9995
    assert guard.against(result(source="exact"), result(source="exact"), "b").least == 0
    assert guard.against(result(samples=2), before, "b").least == 1, "nothing would be named"
    assert guard.against(result(samples=5), result(samples=10**6), "b").least == 1


@pytest.mark.parametrize(
    ("before", "exact", "why"),
    [
        ({"program": "other"}, False, "is of other, not of server"),
        ({"samples": 0}, False, "no sample"),
        ({}, True, "sampled"),
    ],
)
def test_a_baseline_that_nothing_can_be_held_against_is_refused(before, exact: bool, why: str):
    with pytest.raises(UserError, match=why):
        guard.refuse(result(**{"program": "server"} | before), "b.json", "/bin/server", exact)
    guard.refuse(result(program="server"), "b.json", "./server", False)
    guard.refuse(result(program="server (7)"), "b.json", "", False)


def test_a_file_that_is_no_result_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UserError, match="no result of find"):
        results.read(str(tmp_path / "a.json"))


def test_junit_and_sarif_fail_the_new_lines(tmp_path):
    old, new = named("old"), named("new")
    for ending in ("xml", "sarif", "json"):
        guard.write(str(tmp_path / f"a.{ending}"), result(old, new), [new])
    suite = ElementTree.parse(tmp_path / "a.xml").getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert (suite.get("tests"), suite.get("failures"), failed) == ("2", "1", ["new"])
    (run,) = json.loads((tmp_path / "a.sarif").read_text())["runs"]
    levels = {r["message"]["text"].split(":")[0]: r["level"] for r in run["results"]}
    assert levels == {"old": "note", "new": "error"}
    assert len(results.read(str(tmp_path / "a.json")).lines) == 2


def test_why_nothing_can_be_said_stands_in_every_file(tmp_path):
    short = result(named("old"), samples=100)
    short.against = guard.against(short, result(named("old"), samples=800), "b.json")
    failed = result(notes=[note("failed", "exit code 7")], exit_code=7)
    for found, word in ((short, "cannot tell"), (failed, "exit code 7")):
        why = guard.why_not(found)
        assert word in why
        for ending in ("xml", "sarif"):
            guard.write(str(tmp_path / f"a.{ending}"), found, [], why)
        suite = ElementTree.parse(tmp_path / "a.xml").getroot()
        cases = list(suite)
        assert (suite.get("errors"), suite.get("tests")) == ("1", str(len(cases)))
        assert cases[-1].find("error").get("message") == why
        (run,) = json.loads((tmp_path / "a.sarif").read_text())["runs"]
        (ended,) = run["invocations"]
        assert not ended["executionSuccessful"]
        assert ended["toolExecutionNotifications"][0]["message"]["text"] == why
        assert guard.annotations([], why) == [f"::error::{why}"]
    assert guard.annotations([]) == []


@pytest.fixture
def folder(sampling, tmp_path, monkeypatch):
    """A folder with the program in both builds, a result of the one that shares nothing, and
    `linewright` on the path."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    emulator_with_plugins("qemu-x86_64")
    (tmp_path / "a.c").write_text(PROGRAM)
    for name, more in (("program", []), ("shared", ["-DSHARED"])):
        command = ["gcc", "-O1", "-g", "-pthread", *more, "-o", name, "a.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/linewright").write_text(f'#!/bin/sh\nexec {sys.executable} -m linewright "$@"')
    (tmp_path / "bin/linewright").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("LINEWRIGHT_FIND", str(SAMPLER))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(*command: str) -> int:
    return waiting.run(command).returncode


def baseline(*words: str) -> None:
    assert made("linewright", "find", "-o", "lines.json", *words) == 0


def test_the_recipe_for_pytest(folder):
    baseline("--exact", "--", "./program")
    (folder / "test_lines.py").write_text(RECIPES["python"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lines.py"]
    assert made(*command) == 0
    os.replace("shared", "program")
    assert made(*command) == 1


def test_the_recipe_for_ctest(folder):
    if shutil.which("ctest") is None:
        pytest.skip("no ctest")
    baseline("--exact", "--", "./program")
    head = "cmake_minimum_required(VERSION 3.25)\nproject(a C)\nenable_testing()\n"
    build = "add_executable(program a.c)\ntarget_link_libraries(program pthread)\n"
    for more, wanted in (("", 0), ("add_compile_definitions(SHARED)\n", 8)):
        (folder / "CMakeLists.txt").write_text(head + more + build + RECIPES["cmake"])
        assert made("cmake", "-S", ".", "-B", "build") == made("cmake", "--build", "build") == 0
        assert made("ctest", "--test-dir", "build") == wanted
    failed = ElementTree.parse(folder / "build/lines.xml").getroot().get("failures")
    assert failed == "1"


COUNTING = """
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[repr(align(256))]
struct Line([AtomicU64; 64]);
const ZERO: AtomicU64 = AtomicU64::new(0);
static WORDS: Line = Line([ZERO; 64]);
fn main() {
    std::thread::scope(|scope| {
        for n in 0..2 {
            scope.spawn(move || for _ in 0..200_000 { WORDS.0[APART * n].fetch_add(1, Relaxed); });
        }
    });
}
"""


@pytest.mark.slow
def test_the_recipe_for_cargo(folder):
    if shutil.which("cargo") is None:
        pytest.skip("no cargo")
    (folder / "Cargo.toml").write_text('[package]\nname = "program"\nversion = "1.0.0"\n')
    for part in ("src", "tests"):
        (folder / part).mkdir()
    (folder / "tests/lines.rs").write_text(RECIPES["rust"])
    for apart, wanted in ((32, 0), (1, 101)):
        text = COUNTING.replace("APART", str(apart))
        (folder / "src/main.rs").write_text(text)
        if not wanted:
            assert made("cargo", "build", "--offline", "-q") == 0
            baseline("--exact", "--", "target/debug/program")
        assert made("cargo", "test", "--offline", "-q", "--test", "lines") == wanted


def test_the_workflow_for_github(folder, monkeypatch):
    """It is one by GitHub's schema, and its step tells new lines by annotations and SARIF."""
    pytest.importorskip("check_jsonschema")
    (folder / "lines.yml").write_text(RECIPES["yaml"])
    schema = ("--builtin-schema", "vendor.github-workflows")
    assert made(sys.executable, "-m", "check_jsonschema", *schema, "lines.yml") == 0
    step = re.search(r"name: new lines\n +run: (.*)", RECIPES["yaml"])[1]
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    baseline("--exact", "--", "./program")
    assert made("sh", "-e", "-c", step) == 0
    os.replace("shared", "program")
    done = waiting.run(("sh", "-e", "-c", step))
    assert done.returncode == 1 and "::error file=a.c,line=" in done.stderr
    (run,) = json.loads((folder / "lines.sarif").read_text())["runs"]
    assert [found["level"] for found in run["results"]] == ["error"]


def test_the_recipe_for_google_benchmark(folder):
    (folder / "b.cpp").write_text(BENCH)
    link = ["b.cpp", "a.o", "-lbenchmark", "-pthread", "-o", "bench"]
    for more, wanted in (("", 0), ("-DSHARED", 1)):
        define = ["-DNO_MAIN", *([more] if more else [])]
        assert made("gcc", "-O1", "-g", "-c", "-o", "a.o", *define, "a.c") == 0
        if made("g++", "-O1", *link):
            pytest.skip("no Google Benchmark")
        if not wanted:
            baseline("--exact", "--", "./bench", "--benchmark_min_time=0.01")
            (folder / "lines.json").rename(folder / "bench.json")
        assert made("sh", "-c", RECIPES["sh"]) == wanted
