# SPDX-License-Identifier: MIT
"""What the tests of the command share: running it as users do, with the real probe or with one that
fails to order."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from linewright.cli import main
from support import waiting
from support.places import FAKE_PROBE, REAL

# A loaded machine makes a test slow, not red, and neither does chance: the lanes try the same
# examples each time, the night those that its seed draws (--hypothesis-profile drawn).
settings.register_profile("linewright", deadline=None, derandomize=True)
settings.register_profile("drawn", deadline=None)
settings.load_profile("linewright")

# As in the arm64 test preset: glib's slice allocator can stop a child of qemu-user's fork() for
# ever.
os.environ.setdefault("G_SLICE", "always-malloc")

HERE = Path(__file__).parent
LONG = (
    "packaging/test_packaging.py",
    "packaging/test_bench_programs.py",
    "kernel/test_module.py",
    "find/test_planted.py",
    "find/test_exact.py",
    "find/test_arm64_kernel.py",
    "find/test_users.py",
    "docs/test_examples.py",
    "surroundings/test_surroundings.py",
    "show/report/test_browser.py",
    "model/test_calibration.py",
    "model/test_every_machine.py",
    "remote/test_dask.py",
)
"""Files of the long lane: every test in them counts as slow. Begun first: one that is begun last
keeps one core busy while the others have nothing to do."""
CROSS = (
    "probe/test_disassembly.py",
    "commands/test_workload.py::test_arm64_runs_under_every_kind_of_setting",
    "elf/test_inspect.py::test_linewrights_own_helpers_are_told_apart",
    "elf/test_run.py::test_that_environment_switches_a_program",
    "elf/test_run.py::test_with_that_room_the_program_starts_and_without_it_does_not",
    "plans/test_operations.py::test_the_probe_runs_each_with_an_exact_sum_or_says_",
    "plans/test_percpu.py::test_the_probe_finds_every_count_again",
    "plans/test_readers.py::test_an_srcu_shaped_pair_holds_its_form_twice",
    "plans/test_readers.py::test_every_reader_has_its_loops",
    "plans/test_readers.py::test_every_section_saw_what_it_should",
    "plans/test_readers.py::test_locks_lock_as_often_as_they_should",
    "plans/test_readers.py::test_other_loops_hold_what_they_are_named_after",
    "plans/test_wide.py::test_the_probe_runs_the_plan_and_its_layout_comes_out",
    "remote/test_exec.py::test_the_arm64_probe_under_qemu",
    "remote/test_find.py::test_a_32_bit_machine_",
    "remote/test_ssh.py::test_a_32_bit_machine_gets_the_i386_probe",
)
"""What wants other architectures' programs, by file or how a test's name begins: of the long lane,
whatever is built. A test with a parameter `arch` wants them unless that is the native build's."""
NATIVE = (platform.machine(), "native")
LIVE = {"sampling", "found", "refused", "as_nobody", "real", "outside"}
"""Fixtures of tests that sample or measure a live program. What they demand is seen with a high
probability, not with certainty: the host's scheduler may keep a thread off its CPU for as long as
the test looks. Such a test fails when it failed three times; each repetition is printed, with its
traceback. How often a statement is false is counted by bench/claims, from records."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is slow as a whole is not even imported by the quick lane."""
    quick = config.option.markexpr.startswith("not slow")
    return True if quick and collection_path in {HERE / name for name in LONG} else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    begun = {HERE / name: place for place, name in enumerate(LONG)}
    cross = [(HERE / file, name) for file, _, name in (place.partition("::") for place in CROSS)]
    for path, name in (*((path, "") for path in begun), *cross):
        assert path.exists() and f"def {name}" in path.read_text(), f"{path}: {name} was renamed"
    for item in items:
        if item.path in begun:
            item.add_marker("slow")
        arch = getattr(item, "callspec", None) and item.callspec.params.get("arch")
        named = any(item.path == path and item.name.startswith(name) for path, name in cross)
        if named and arch not in NATIVE:
            item.add_marker("cross")
        if LIVE & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.flaky(reruns=2))
    items.sort(key=lambda item: begun.get(item.path, len(LONG)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object):
    """By file, with one more share for each kernel that a file boots: they have nothing in
    common, and one behind the other they last longer than all the rest."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFileAndKernel(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            kernel = re.search(r"\[(\d+\.\d+:\w+:\w+)", nodeid)
            return super()._split_scope(nodeid) + (kernel[1] if kernel else "")

    return ByFileAndKernel(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """A test of another architecture's programs that neither lane runs is a failure, not a skip."""
    report = yield
    lanes = any(item.get_closest_marker(name) for name in ("slow", "cross"))
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    if report.skipped and not lanes and re.search(r"\b(arm64|i386)\b", reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}: name the test in CROSS, so that the long lane runs it"
    return report


class Command:
    """`linewright` in a directory of its own; `fake` sets what the fake probe does.

    Called, it runs in this process (quick); `apart` and `start` make it a process of its own.
    """

    def __init__(
        self, directory: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
    ) -> None:
        self.directory, self.capture, self.patch = directory, capture, patch
        self.fake: dict = {}
        self.probe = FAKE_PROBE

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
            # The fake probe is started hundreds of times: by this Python, not by a version
            # manager's script.
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
        given = {"cwd": self.directory, "env": self.environment()}
        return waiting.run(self.arguments(*words), **(given | options))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Run in a process group of its own, as a shell does: with SIGINT heeded, also when these
        tests run in the background of a script, where it is ignored and the ignoring inherited."""
        return subprocess.Popen(
            self.arguments(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=self.environment(),
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def planned(self, *words: str) -> int:
        """Records that `measure` with these options makes: cells times launches of its plan."""
        head = self("measure", "--dry-run", *words).stdout.partition("\n")[0]
        cells, launches = map(int, re.findall(r"\d+", head))
        return cells * launches

    def refused(self, *words: str) -> str:
        """Standard error of a request that must be refused: exit 2, one line, nothing on standard
        output."""
        answer = self(*words)
        assert answer.returncode == 2, (answer.returncode, answer.stdout, answer.stderr)
        assert answer.stdout == ""
        assert answer.stderr.startswith("linewright: ") and answer.stderr.count("\n") == 1, (
            answer.stderr
        )
        return answer.stderr


@pytest.fixture
def command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    return Command(tmp_path, capfd, monkeypatch)


@pytest.fixture
def real(command: Command) -> Command:
    """The command with the probe that was built for this machine."""
    if not REAL.exists():
        pytest.skip("the native probe is not built")
    command.probe = REAL
    return command


@pytest.fixture
def without_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that this process makes hold no Vega: bundling it takes seconds, and the browser's
    tests have it."""
    from linewright.show.report import report_page

    monkeypatch.setattr(report_page, "_vega", str)
