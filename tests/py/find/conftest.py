# SPDX-License-Identifier: MIT
"""What the tests of `find` share: the built programs, and whether this machine lets them sample."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

from support import find_results
from support.finding import PLANTED, SAMPLER
from support.places import REAL


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
def run(built, command):
    """`linewright find`; a process of its own where something is said of its start."""
    before = command.environment
    command.environment = lambda: before() | {"LINEWRIGHT_FIND": str(SAMPLER)}
    command.probe = REAL

    def start(*words: object, **options) -> subprocess.CompletedProcess[str]:
        return (command.apart if options else command)("find", *words, **options)

    return start


@pytest.fixture
def found(run):
    """Its result as `--json` prints it."""

    def start(*words: object) -> dict:
        done = run("--json", *words)
        assert done.returncode == 0, done.stderr
        return find_results.worded(done.stdout)

    return start
