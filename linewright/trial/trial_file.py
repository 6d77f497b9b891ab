# SPDX-License-Identifier: MIT
"""Trial files: JSON lines, one for a session, then one per run; docs/reference/records.md lists all
fields."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from linewright.errors import UserError, cannot_read, cannot_write
from linewright.records import files as records
from linewright.records.files import DECODE_ERRORS, kind_of
from linewright.schema import Count, architecture_of

EXPECTED = "expected a trial file, written by `linewright trial`"
FOLDER = "$LINEWRIGHT_FOLDER"
"""In a setting's environment on another machine: the folder that holds what was copied there, which
is another one each time."""


class TrialSetting(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One setting: its name, what it changes in the environment, and its command."""

    name: str
    environment: dict[str, str]
    command: list[str] = []
    """Empty where the session's is run."""
    threads: Annotated[int, Meta(ge=0, le=4096)] = 0
    """Of ``--threads``: how many the program is to use; else 0."""


class Session(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is run, how, and where: written before the runs of one invocation or one boot."""

    linewright_trial: Literal[1]
    session: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$(?!\n)")]
    started_utc: str
    tool_version: str
    command: Annotated[list[str], Meta(min_length=1)]
    metric: str
    """``wall``, ``cpu``, ``maxrss``, or a regular expression whose first group is the figure."""
    unit: Literal["s", "bytes", ""]
    higher_is_better: bool
    settings: Annotated[list[TrialSetting], Meta(min_length=1, max_length=64)]
    """The first one is the baseline."""
    planned_rounds: Annotated[int, Meta(ge=2, le=100_000)]
    precision: Annotated[float, Meta(gt=0, le=0.5)]
    warmup_rounds: Annotated[int, Meta(ge=0, le=1000)]
    seed: Count
    work: Literal["job", "thread"] = "job"
    """Of ``--threads``: whether all threads together do the same work at each number, or each
    thread does."""
    fail_below: Annotated[float, Meta(ge=0)] = 0.0
    """Of ``--fail-below``: the throughput of the last setting over the first's below which the
    trial fails; else 0."""
    undecided_fails: bool = False
    target: str = "local"
    """Where it ran, as ``--on`` names it."""
    arch: str
    cpu_model: str
    cpus: Count
    """Those that its programs may run on."""
    kernel: str
    boot_id: str
    """Different after every boot; empty where the kernel does not tell."""
    boot_parameters: str

    @property
    def in_name_alone(self) -> bool:
        """Whether nothing but LINEWRIGHT_ATOMICS differs where it has no effect."""
        changed = {name for s in self.settings for name in s.environment}
        return changed == {"LINEWRIGHT_ATOMICS"} and not architecture_of(self.arch).forms_differ

    @property
    def scaling(self) -> bool:
        """Whether its settings are numbers of threads."""
        return self.settings[0].threads > 0

    def runs(self, samples: Iterable[ProgramRun]) -> dict[str, dict[int, float | None]]:
        """The metric of each setting's counted runs, by round; None where the run failed."""
        found: dict[str, dict[int, float | None]] = {s.name: {} for s in self.settings}
        for sample in samples:
            if not sample.warm_up and sample.session == self.session:
                found[sample.setting][sample.round] = sample.value
        return found


class ProgramRun(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One run of the program."""

    linewright_trial_run: Literal[1]
    session: str
    setting: str
    round: Count
    warm_up: bool = False
    """Kept for the record, never counted."""
    value: float | None = None
    """The metric in the session's unit; null where the run failed."""
    reason: str = ""
    """Why there is no value."""
    wall_s: float
    cpu_s: float
    """User and system time of the program and the processes that it waited for."""
    maxrss_bytes: Count
    threads: Count = 0
    """Of ``--threads``: the most that were seen at once in a setting's first run, with those of
    processes that it started; else 0."""
    exit_code: int | None = None
    """Negative: ended by that signal."""


class TrialFile(NamedTuple):
    """Everything in one trial file, checked."""

    path: str
    sessions: list[Session]
    samples: list[ProgramRun]
    good_end: int
    """Byte offset behind the last whole line."""


def read(path: str, warn=lambda text: None) -> TrialFile:
    """Every line of a trial file; a last line cut off by a kill is dropped with a warning, other
    errors are refused."""
    try:
        with open(path, "rb") as file:
            lines = list(records.bounded_lines(file, path))
    except OSError as error:
        raise cannot_read(path, error, "expected a trial file") from None
    sessions: list[Session] = []
    samples: list[ProgramRun] = []
    end = 0
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if not line.endswith(b"\n"):
            warn(f"{where}: truncated line dropped (the run was killed while writing it)")
            break
        value = _decode(line, where)
        if isinstance(value, Session):
            sessions.append(value)
        else:
            _check(value, sessions, where)
            samples.append(value)
        end += len(line)
    if not sessions:
        raise UserError("no trial in it", path, EXPECTED)
    return TrialFile(path, sessions, samples, end)


def _decode(line: bytes, where: str) -> Session | ProgramRun:
    try:
        kind, version = kind_of(line)
        if kind not in ("trial", "trial_run"):
            allowed = 'each line has "linewright_trial": 1 or "linewright_trial_run": 1'
            raise UserError("not a line of a trial", where, allowed)
        if version != "1":
            raise UserError(f"trial of version {version}, this program reads version 1", where)
        return msgspec.json.decode(line, type=Session if kind == "trial" else ProgramRun)
    except DECODE_ERRORS as error:
        raise UserError(str(error), where, EXPECTED) from None


def _check(sample: ProgramRun, sessions: list[Session], where: str) -> None:
    session = next((s for s in sessions if s.session == sample.session), None)
    if session is None:
        what = f"run of session {sample.session!r}, which no line before it describes"
        raise UserError(what, where)
    if sample.setting not in [s.name for s in session.settings]:
        what = f"run of setting {sample.setting!r}, which its session does not have"
        raise UserError(what, where)


def check_same(first: Session, other: Session, where: str) -> None:
    """Refuse sessions of one file that measure different things."""
    for name in ("command", "metric", "higher_is_better", "settings", "work"):
        if getattr(first, name) != getattr(other, name):
            what = f"{where} holds another {name.replace('_', ' ')}"
            raise UserError(what, "trial", "one file for one program, metric and list of settings")


def schemas() -> dict[str, dict]:
    """JSON Schema of the two kinds of lines: ``trial`` (a session) and ``trial_run``."""
    return {"trial": msgspec.json.schema(Session), "trial_run": msgspec.json.schema(ProgramRun)}


def append_to(file: TrialFile, where: str) -> records.Writer:
    """A writer behind the last whole line."""
    try:
        fd = os.open(file.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        os.ftruncate(fd, file.good_end)
    except OSError as error:
        raise cannot_write(file.path, error, where) from None
    return records.Writer(fd, file.path, created=False)
