"""What the tests of `find` share: the built programs, and whether this machine lets them sample."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import waiting
from support.finding import PLANTED, SAMPLER
from support.places import ROOT


@functools.lru_cache
def _refusal() -> str:
    """Why perf_event_open cannot be used here, or nothing."""
    done = subprocess.run([SAMPLER, "--", "true"], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout.strip() or f"exit code {done.returncode}"


@pytest.fixture
def built() -> Path:
    for path in (SAMPLER, PLANTED):
        if not path.exists():
            pytest.skip(f"{path.name} is not built")
    return PLANTED


@pytest.fixture
def sampling(built) -> Path:
    """Where perf_event_open is refused, the fall-back's own tests run instead."""
    if _refusal():
        pytest.skip(f"perf_event_open is refused: {_refusal()}")
    return built


@pytest.fixture
def run(built):
    """`linewright find` as a process of its own."""

    def start(*words: object, **more) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("LINEWRIGHT_")} | {
            "LINEWRIGHT_FIND": str(SAMPLER), "PYTHONPATH": str(ROOT)}  # fmt: skip
        command = [sys.executable, "-m", "linewright", "find", *map(str, words)]
        return waiting.run(command, env=env, **more)

    return start


@pytest.fixture
def found(run):
    """Its result as `--json` prints it."""

    def start(*words: object, **more) -> dict:
        done = run("--json", *words, **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return start
