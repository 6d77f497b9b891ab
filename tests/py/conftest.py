"""What the tests of the command share: running it as users do, with the real probe or with one that fails to order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAKE = HERE / "fake_probe.py"
REAL = HERE.parents[1] / "build" / "native" / "probe" / "linewright-probe"


class Command:
    """`linewright` in a directory of its own; `fake` sets what the fake probe does, None takes the real one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fake: dict | None = {}

    def environment(self) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("LINEWRIGHT_", "FORCE_COLOR", "COLUMNS"))}
        env["LINEWRIGHT_PROBE"] = str(REAL if self.fake is None else FAKE)
        env["FAKE_PROBE"] = json.dumps(self.fake or {})
        env["PYTHONPATH"] = str(HERE.parents[1])
        return env

    def arguments(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "linewright", *map(str, words)]

    def __call__(self, *words: str, **options) -> subprocess.CompletedProcess[str]:
        given = {"capture_output": True, "text": True, "timeout": 120, "cwd": self.directory, "env": self.environment()}
        return subprocess.run(self.arguments(*words), **(given | options))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Run in a process group of its own, as a shell does."""
        return subprocess.Popen(
            self.arguments(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.directory, env=self.environment(),
            start_new_session=True,
        )  # fmt: skip

    def refused(self, *words: str) -> str:
        """Standard error of a request that must be refused: exit 2, one line, nothing on standard output."""
        answer = self(*words)
        assert answer.returncode == 2, (answer.returncode, answer.stdout, answer.stderr)
        assert answer.stdout == ""
        assert answer.stderr.startswith("linewright: ") and answer.stderr.count("\n") == 1, answer.stderr
        return answer.stderr


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def real(command: Command) -> Command:
    """The command with the probe that was built for this machine."""
    if not REAL.exists():
        pytest.skip("the native probe is not built")
    command.fake = None
    return command
