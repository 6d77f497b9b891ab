# SPDX-License-Identifier: MIT
"""The core works with a wing's folder removed, and the wings that are present bring what they
have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from linewright.forms import table_file
from linewright.run.programs import find_probe
from linewright.wings import PACKAGE, wings
from support.analysis_samples import cell, context, launches, published, write

COMMANDS = {"find": "find", "fleet": None, "model": "model", "kernel": None}
"""A command of each wing that brings one."""


def test_every_wing_is_known_here():
    assert set(wings()) == set(COMMANDS)


SEVERAL = """
import sys
from linewright.cli import main
for line in sys.argv[1:]:
    if code := main(line.split()):
        sys.exit(f"{line}: {code}")
"""
"""Runs several commands: one start of Python is what most of them take."""


@pytest.fixture
def command(tmp_path: Path):
    """Runs the command from a copy of the package; `without` names the folders to remove first."""

    def run(
        without: Sequence[str], *arguments: str, program: Sequence[str] = ("-m", "linewright")
    ) -> subprocess.CompletedProcess[str]:
        if not (tmp_path / "linewright").exists():
            shutil.copytree(PACKAGE, tmp_path / "linewright")
            shutil.copy(table_file(), tmp_path / "linewright" / "forms.json")
            for wing in without:
                shutil.rmtree(tmp_path / "linewright" / wing)
        # Without `site` nothing of an editable installation is found instead.
        places = os.pathsep.join([str(tmp_path), sysconfig.get_path("purelib")])
        environment = os.environ | {"PYTHONPATH": places, "LINEWRIGHT_PROBE": str(find_probe())}
        return subprocess.run(
            [sys.executable, "-S", *program, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize(
    "gone",
    [*(pytest.param([wing], marks=pytest.mark.slow) for wing in COMMANDS), list(COMMANDS)],
    ids="+".join,
)
def test_the_core_works_without_wings(command, gone: list[str], tmp_path: Path):
    """Without each of the four, and without all of them."""
    write(tmp_path / "table.jsonl", *published())
    rows = launches(cell("stadd"), 10.0, np.random.default_rng(1), between=0.005)
    contexts = [context(context_id=i) for i in dict.fromkeys(r.context_id for r in rows)]
    write(tmp_path / "run.jsonl", contexts, rows)
    lines = (
        "--help",
        "measure --dry-run",
        "show --all table.jsonl",
        "advise table.jsonl",
        "report table.jsonl -o report.html",
        "compare run.jsonl run.jsonl",
        "trial --env A=1 --runs 3 --output trial.jsonl -- true",
    )
    done = command(gone, *lines, program=("-c", SEVERAL))
    assert done.returncode == 0, done.stderr
    for missing in filter(None, map(COMMANDS.get, gone)):
        assert "No such command" in command(gone, missing).stderr


def test_the_core_names_no_wing():
    """Neither a module of a wing nor what stands before the colon of its targets."""
    schemes = [scheme for wing in wings().values() for scheme in (*wing.targets, *wing.transports)]
    named = re.compile(rf"linewright\.({'|'.join(wings())})\b|\b({'|'.join(schemes)}):[A-Z{{]")
    core = [
        path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in wings()
    ]
    found = {path.name: match[0] for path in core if (match := named.search(path.read_text()))}
    assert len(core) > 100 and not found


def test_figures_of_a_simulation_are_shown_by_its_wing(command, tmp_path: Path):
    rows = [
        replace(row, metrics={"p05_ns": 8.0, "p50_ns": 9.0, "p95_ns": 11.0}, flags=["edited"])
        for row in launches(cell("stadd"), 10.0, np.random.default_rng(1), between=0.005)
    ]
    contexts = [context(context_id=i) for i in dict.fromkeys(r.context_id for r in rows)]
    write(tmp_path / "run.jsonl", contexts, rows)
    shown = command([], "show", "--all", "run.jsonl").stdout
    assert "band 5 %" in shown and "changed after its calibration" in shown
    shutil.rmtree(tmp_path / "linewright" / "model")
    shown = command([], "show", "--all", "run.jsonl").stdout
    assert "stadd" in shown and "band" not in shown and "calibration" not in shown


def test_what_a_missing_wing_brings_is_refused_in_one_line(command):
    done = command(["model"], "measure", "--on", "model:x", "--dry-run")
    assert done.returncode == 2 and "no target 'model:x'" in done.stderr
    assert "model:NAME" not in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("on", [["--on", "local", "--on", "local"], ["--on", "@hosts.txt"]])
def test_several_machines_want_the_fleet(command, on: list[str]):
    done = command(["fleet"], "measure", *on)
    assert done.returncode == 2 and "several machines" in done.stderr
