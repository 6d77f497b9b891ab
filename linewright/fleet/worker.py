"""What runs on a Dask worker: one `linewright measure` of its own machine, whose records the fleet's command comes and
reads.

A run belongs to the command that asked for it: it ends when that command has not been heard of for a while.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from linewright import __version__
from linewright.errors import BAD_REQUEST
from linewright.target.process import die_with_parent

SILENT_S = 60.0
"""A command that has not asked for so long is gone, and the run is ended."""
STEP_S = 0.2
MOST_ERRORS = 65536
"""Bytes of standard error that are handed back: its end says why a run failed."""


class News(NamedTuple):
    """What a run has written since it was last asked."""

    records: bytes
    said: bytes


class Ended(NamedTuple):
    """A run at its end: everything that it wrote, and how it ended."""

    code: int
    records: bytes
    said: bytes


class _Run:
    def __init__(self, process: subprocess.Popen, records: Path, errors: Path) -> None:
        self.process, self.records, self.errors = process, records, errors
        self.heard = time.monotonic()


_runs: dict[str, _Run] = {}


def measure(token: str, options: list[str], before: bytes, version: str) -> Ended:
    """Measure this machine to the end of the plan; `before` are the records that there are already, in whole lines."""
    if version != __version__:
        said = f"linewright: linewright {__version__} is installed there, this is {version}\n"
        return Ended(BAD_REQUEST, before, said.encode())
    with tempfile.TemporaryDirectory(prefix="linewright-fleet-") as folder:
        records, errors = Path(folder, "records.jsonl"), Path(folder, "errors")
        if before:
            records.write_bytes(before)
        where = ["--resume" if before else "--output", str(records)]
        command = [sys.executable, "-m", "linewright", "measure", "--quiet", "--on", "local", *where, *options]
        with errors.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
                preexec_fn=die_with_parent(),  # the worker
            )
        run = _runs[token] = _Run(process, records, errors)
        try:
            code = _wait(run)
        finally:
            del _runs[token]
            if process.poll() is None:
                process.kill()
                process.wait()
        return Ended(code, _from(records, 0), _from(errors, 0)[-MOST_ERRORS:])


def _wait(run: _Run) -> int:
    asked = False
    while True:
        try:
            return run.process.wait(STEP_S)
        except subprocess.TimeoutExpired:
            if not asked and time.monotonic() - run.heard > SILENT_S:
                run.process.send_signal(signal.SIGTERM)
                asked = True


def news(offsets: Mapping[str, tuple[int, int]]) -> dict[str, News]:
    """Of the runs on this worker: records and standard error behind these offsets."""
    found = {}
    for token, (records_at, said_at) in offsets.items():
        run = _runs.get(token)
        if run is not None:
            run.heard = time.monotonic()
            found[token] = News(_from(run.records, records_at), _from(run.errors, said_at))
    return found


def stop(tokens: Iterable[str], at_once: bool = False) -> None:
    """Have these runs write what they have and end."""
    for token in tokens:
        run = _runs.get(token)
        if run is not None:
            run.process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)


def _from(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except OSError:
        return b""
