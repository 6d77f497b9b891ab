# SPDX-License-Identifier: MIT
"""The examples of the pages for users run: code fences marked `run` are executed as a reader would,
in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import waiting
from support.finding import without_plugins
from support.places import ROOT

FENCE = re.compile(r"^```(\w+) run ?(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MARKED = [(page, *found.groups()) for page in PAGES for found in FENCE.finditer(page.read_text())]
SHELL = sorted({page for page, language, _, _ in MARKED if language == "sh"})
PROGRAMS = [
    (page, arch or "native", code)
    for page, language, arch, code in MARKED
    if language in ("c", "cpp")
]
SHORTER = (
    (r"--plan cache --budget \S+", "--plan cache --budget 4s --only '*state=dirty_l1*'"),
    (r"--plan wide --budget \S+", "--plan wide --set launches=1 --budget 8s --only '*/w0/*/t1*'"),
    (r"--plan published", "--plan published --set launches=2 --set draws=20"),
    (r"--budget 60s", "--budget 10s --only '*/w0/*/t1*'"),
    (r"--runs \d+", "--runs 3"),
)
"""A test has less patience than a reader: fewer cells, launches, draws and runs, and nothing else
of a command is changed."""


def name(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value) if len(str(value)) < 9 else ""


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """The environment of a reader: `linewright` on the path, the programs of this checkout."""
    programs = {
        variable: ROOT / "build/native" / room / f"linewright-{room}"
        for variable, room in (
            ("LINEWRIGHT_PROBE", "probe"),
            ("LINEWRIGHT_WORKLOAD", "workload"),
            ("LINEWRIGHT_MODEL", "model"),
        )
    }
    if not all(program.exists() for program in programs.values()):
        pytest.skip("the native programs are not built")
    command = tmp_path / "bin/linewright"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m linewright "$@"\n'
    )
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return (
        os.environ
        | {"PATH": path}
        | {variable: str(program) for variable, program in programs.items()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", SHELL, ids=name)
def test_the_commands_of_a_page_run_one_after_the_other(
    page: Path, outside: dict[str, str], tmp_path: Path
) -> None:
    script = "set -e\n" + "".join(
        code for marked, language, _, code in MARKED if marked == page and language == "sh"
    )
    if "--arch i386" in script and not (ROOT / "build/i386/probe/linewright-probe").exists():
        pytest.skip("the i386 probe is not built")
    if without_plugins("qemu-x86_64"):
        script = re.sub(r".*--exact.*\n", "", script)
    for pattern, shorter in SHORTER:
        script = re.sub(pattern, shorter, script)
    done = waiting.run(["sh", "-c", script], cwd=tmp_path, env=outside)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize(("page", "arch", "code"), PROGRAMS, ids=name)
def test_a_program_of_a_page_compiles_and_runs(
    page: Path, arch: str, code: str, tmp_path: Path
) -> None:
    library = ROOT / "build" / arch / "src/liblinewright.a"
    if not library.exists():
        pytest.skip(f"the library is not built for {arch}")
    (tmp_path / "prog.c").write_text(code)
    options = ["-m32", "-I/usr/include/x86_64-linux-gnu"] if arch == "i386" else []
    build = [
        "cc",
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        *options,
        f"-I{ROOT}/include",
        "prog.c",
    ]
    compiled = subprocess.run(
        [*build, "-o", "prog", str(library), "-pthread"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    ran = waiting.run(["./prog"], cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_page_for_users_is_run() -> None:
    """Each has examples, and shows no command or program beside those that are run."""
    pages = {page for page in PAGES if page.parent.name == "users"}
    assert len(pages) == 6 and pages <= {page for page, *_ in MARKED}
    for page in pages:
        beside = FENCE.sub("", page.read_text())
        assert "```" not in beside and not re.search(r"^    ", beside, re.MULTILINE), page
