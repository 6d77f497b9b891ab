"""Every Python program of bench/ starts as `make bench` starts it: by itself, outside .venv, from
any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import waiting
from support.places import ROOT

PROGRAMS = [
    path for path in sorted((ROOT / "bench").glob("*/*.py")) if path.read_bytes().startswith(b"#!")
]


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
