# SPDX-License-Identifier: MIT
"""What tests wait with: a process that has ended or sleeps for good is noticed, one that works is
waited for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import waiting
from support.sshd import children


def python(script: str, *words: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-S", "-c", script, *words])


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(waiting, "ASLEEP_S", 0.6)


def test_one_that_has_ended_is_not_waited_for():
    with pytest.raises(AssertionError, match=r"ended with 7 before: why"):
        waiting.wait_for(lambda: False, python("raise SystemExit(7)"), said=lambda: "why")


def test_one_that_sleeps_for_good_is_named(impatient):
    with (
        python("import time; time.sleep(600)") as process,
        pytest.raises(AssertionError, match=rf"all asleep for 1 s: .*{process.pid} \(.*sleep"),
    ):
        try:
            waiting.wait_for(lambda: False)
        finally:
            process.kill()
    with pytest.raises(AssertionError, match="all asleep"):
        waiting.run([sys.executable, "-S", "-c", "import time; time.sleep(600)"])


def test_one_that_works_is_waited_for(impatient, tmp_path):
    """Three times as long as one that sleeps would be; also the child of one that has ended."""
    work = "import sys, time\nwhile time.process_time() < 1.8: pass\nopen(sys.argv[1], 'w').close()"
    start = "import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', *sys.argv[1:]])"
    with python(work, f"{tmp_path}/0"):
        waiting.wait_for((tmp_path / "0").exists)
    meet = f"{start}; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", meet, work, f"{tmp_path}/1"], stdin=subprocess.PIPE
    ) as parent:
        waiting.wait_for(lambda: children(parent.pid))
        parent.stdin.close()
        parent.wait()
        waiting.wait_for((tmp_path / "1").exists)


def test_output_is_whole_and_input_is_given():
    script = "import sys, time; print(sys.stdin.read()); time.sleep(0.6); print('end')"
    done = waiting.run([sys.executable, "-S", "-c", script], "given" * 10_000)
    assert (done.returncode, done.stdout) == (0, "given" * 10_000 + "\nend\n")
