"""What the tests of the command share: running it as users do, with the real probe or with one that fails to order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from linewright.cli import main

# As in the arm64 test preset: glib's slice allocator can stop a child of qemu-user's fork() for ever.
os.environ.setdefault("G_SLICE", "always-malloc")

HERE = Path(__file__).parent
FAKE = HERE / "support" / "fake_probe.py"
REAL = HERE.parents[1] / "build" / "native" / "probe" / "linewright-probe"
LONG = (
    "packaging/test_packaging.py",
    "kernel/test_module.py",
    "find/test_planted.py",
    "find/test_exact.py",
    "docs/test_examples.py",
    "commands/test_measure.py",
    "surroundings/test_surroundings.py",
    "probe/test_disassembly.py",
    "report/test_browser.py",
    "model/test_calibration.py",
    "remote/test_ssh.py",
)
"""Files that take long, begun first: one that is begun last keeps one core busy while the others have nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    begun = {HERE / name: place for place, name in enumerate(LONG)}
    assert all(path.exists() for path in begun), "a file of LONG was renamed"
    items.sort(key=lambda item: begun.get(item.path, len(LONG)))


class Command:
    """`linewright` in a directory of its own; `fake` sets what the fake probe does.

    Called, it runs in this process (quick); `apart` and `start` make it a process of its own.
    """

    def __init__(self, directory: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.directory, self.capture, self.patch = directory, capture, patch
        self.fake: dict = {}
        self.probe = FAKE

    def environment(self) -> dict[str, str]:
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("LINEWRIGHT_", "FORCE_COLOR", "COLUMNS"))
        }
        own = {
            "LINEWRIGHT_PROBE": str(self.probe),
            "FAKE_PROBE": json.dumps(self.fake),
            "PYTHONPATH": str(HERE.parents[1]),
            # The fake probe is started hundreds of times: by this Python, not by a version manager's script.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        return env | own

    def arguments(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "linewright", *map(str, words)]

    def __call__(self, *words: str, columns: int | None = None) -> subprocess.CompletedProcess[str]:
        self.capture.readouterr()
        with self.patch.context() as patch:
            patch.chdir(self.directory)
            for key, value in self.environment().items():
                patch.setenv(key, value)
            patch.delenv("COLUMNS", raising=False)
            if columns:
                patch.setenv("COLUMNS", str(columns))
            code = main(list(map(str, words)))
        said = self.capture.readouterr()
        return subprocess.CompletedProcess(words, code, said.out, said.err)

    def apart(self, *words: str, **options) -> subprocess.CompletedProcess[str]:
        given = {"capture_output": True, "text": True, "timeout": 600, "cwd": self.directory, "env": self.environment()}
        return subprocess.run(self.arguments(*words), **(given | options))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Run in a process group of its own, as a shell does: with SIGINT heeded, also when these tests run in the
        background of a script, where it is ignored and the ignoring inherited."""
        return subprocess.Popen(
            self.arguments(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=self.environment(),
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def refused(self, *words: str) -> str:
        """Standard error of a request that must be refused: exit 2, one line, nothing on standard output."""
        answer = self(*words)
        assert answer.returncode == 2, (answer.returncode, answer.stdout, answer.stderr)
        assert answer.stdout == ""
        assert answer.stderr.startswith("linewright: ") and answer.stderr.count("\n") == 1, answer.stderr
        return answer.stderr


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(tmp_path, capfd, monkeypatch)


@pytest.fixture
def real(command: Command) -> Command:
    """The command with the probe that was built for this machine."""
    if not REAL.exists():
        pytest.skip("the native probe is not built")
    command.probe = REAL
    return command
