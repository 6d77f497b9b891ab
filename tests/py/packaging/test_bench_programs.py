# SPDX-License-Identifier: MIT
"""All of bench/ is built, every compiled program of it runs briefly, and every Python one starts as
`make bench` starts it: by itself, outside .venv, from any folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import waiting
from support.compiled import compiled_again
from support.places import ROOT

PROGRAMS = [
    path for path in sorted((ROOT / "bench").glob("*/*.py")) if path.read_bytes().startswith(b"#!")
]


COMPILED = {
    "cache/cache_bench",
    "matrix/against_google_benchmark",
    "model/engine_speed",
    "percpu/percpu_add",
    "percpu/percpu_forms",
    "percpu/percpu_limits",
    "percpu/percpu_scale",
    "policy/policy_branch",
    "readers/against_liburcu",
    "rwlock/rwlocks",
    "wait/slices",
    "wait/waits",
    "wide/wide_u128_x86_64",
    "wide/wide_u64_i386",
}
"""What `make bench` starts of compiled programs on x86-64."""
BESIDE = {"readers/probe/linewright-probe-urcu": ["--list-forms"]}
"""Programs of bench/ that other programs start, and what they are asked here."""


def is_compiled(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK) and path.open("rb").read(4) == b"\x7fELF"


@pytest.fixture(scope="module")
def built() -> Path:
    waiting.run([ROOT / "scripts" / "bench.sh", "--build"], cwd=ROOT, check=True)
    return ROOT / "build/bench/bench"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="named as x86-64 has them")
def test_every_compiled_program_is_built_and_named_here(built: Path) -> None:
    programs = {str(path.relative_to(built)) for path in built.glob("*/*") if is_compiled(path)}
    assert programs - {name for name in programs if ".so" in name} == COMPILED


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="named as x86-64 has them")
@pytest.mark.parametrize("program", sorted(COMPILED | set(BESIDE)))
def test_it_runs_briefly(program: str, built: Path, tmp_path: Path) -> None:
    command = [built / program, *BESIDE.get(program, [])]
    if program == "cache/cache_bench":
        command.append(tmp_path / "cache.json")  # not where a run in full leaves its figures
    environment = os.environ | {"LINEWRIGHT_BENCH_BRIEF": "1"}
    done = waiting.run(command, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_one_round_decides_no_goal_of_waiting(built: Path) -> None:
    environment = os.environ | {"LINEWRIGHT_BENCH_BRIEF": "1"}
    done = waiting.run([built / "wait/waits"], env=environment, stdin=subprocess.DEVNULL)
    points = re.split(r"^  goals .*$", done.stdout, flags=re.MULTILINE)[1:]
    answer = re.compile(r"\((\S+ to \S+)\) of .* (met|undecided)$", re.MULTILINE)
    goals = [answer.findall(each) for each in points]
    assert [len(each) for each in goals] == [10, 10, 11, 11], done.stdout
    assert {said for each in goals for said in each} == {("0.00 to inf", "undecided")}
    # The hint that `auto` stands for: both figures of five locks, at four points.
    assert done.stdout.count(" itself\n") == 40, done.stdout


def test_what_the_native_build_compiled_is_not_compiled_again(built: Path) -> None:
    assert compiled_again("bench") == []


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[Path, tuple[int, str]]:
    """What each says to --help, which it is asked for behind its imports; all at once, since most
    of the time is theirs."""
    python = Path(sys.base_prefix) / "bin" / "python3"
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    folder = tmp_path_factory.mktemp("elsewhere")
    running = {
        path: subprocess.Popen(
            [python, path, "--help"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for path in PROGRAMS
    }
    said = {path: waiting.finish(process)[0] for path, process in running.items()}
    return {path: (process.returncode, said[path]) for path, process in running.items()}


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda path: path.relative_to(ROOT / "bench").as_posix()
)
def test_it_starts_outside_the_environment(program: Path, answers) -> None:
    code, said = answers[program]
    assert code == 0, said
    assert said.startswith("usage: "), said
