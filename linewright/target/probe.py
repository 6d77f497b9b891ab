"""Questions to linewright-probe that need no measurement: its forms, the machine's topology, whether a plan is
valid."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from linewright import architectures
from linewright.errors import RunError, UserError, one_line
from linewright.records.files import decode_line
from linewright.schema import Context, Cpu, Plan

QUESTION_TIMEOUT_S = 60
"""Far above what a question takes, emulated too: the probe calibrates its clock for a fraction of a second."""

Program = Path | Sequence[str | Path] | Callable[[str], Sequence[str]]
"""A program that answers as the probe does: its path, a command with what is always said to it, or the command of an
option."""


class Form(Struct, frozen=True, kw_only=True):
    """One form as the probe lists it. `available` is whether this CPU has what it `needs`."""

    name: str
    operation: str
    order: str
    arch: str
    width_bits: int
    needs: str = "none"
    atomic: bool = True
    """Whether concurrent operations on one line all count."""
    available: bool = True
    reason: str = ""


class Topology(Struct, frozen=True, kw_only=True):
    """The machine's CPUs as the probe sees them."""

    arch: str
    cpus: list[Cpu]
    pairs: dict[str, list[str]] = {}
    """Pairs of usable CPUs, as ``A,B``, by how near they are."""

    @property
    def word_bits(self) -> int:
        """Width of the architecture's registers."""
        return architectures.of(self.arch).word_bits

    def usable(self) -> list[int]:
        """Numbers of the CPUs that the process may run on."""
        return [cpu.cpu for cpu in self.cpus if cpu.allowed]


def digest(probe: Path) -> str:
    """What tells one build of the probe from another: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(probe.read_bytes()).hexdigest()[:16]


def forms(probe: Program) -> list[Form]:
    """Every form that the probe can name, those this CPU lacks included."""
    return read_forms(ask(probe, "--list-forms"))


def topology(probe: Program) -> Topology:
    return read_topology(ask(probe, "--topology"))


def context(probe: Program) -> Context:
    """The context that a run now would write; its `machine_id` says whether records are this machine's."""
    return read_context(ask(probe, "--context"))


def read_forms(answer: bytes) -> list[Form]:
    return _decode(answer, list[Form], "--list-forms")


def read_topology(answer: bytes) -> Topology:
    return _decode(answer, Topology, "--topology")


def read_context(answer: bytes) -> Context:
    line = decode_line(answer.strip(), "linewright-probe --context")
    if not isinstance(line, Context):
        raise RunError("linewright-probe --context answered with something else than a context")
    return line


def check(probe: Program, plan: Plan) -> None:
    """Raise UserError when the probe finds the plan wrong; nothing runs."""
    ask(probe, "--check", msgspec.json.encode(plan))


def version(probe: Program) -> str:
    return one_line(ask(probe, "--version").decode("utf-8", "replace"))


def ask(probe: Program, option: str, stdin: bytes = b"") -> bytes:
    """What the probe answers to one option, as bytes."""
    if callable(probe):
        command = list(probe(option))
    else:
        command = [probe, option] if isinstance(probe, Path) else [*probe, option]
    try:
        answer = subprocess.run(command, input=stdin, capture_output=True, timeout=QUESTION_TIMEOUT_S)
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}", "linewright-probe") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"linewright-probe {option} gave no answer in {QUESTION_TIMEOUT_S} s") from None
    if answer.returncode == 0:
        return answer.stdout
    message = error_text(answer.stderr) or exit_text(answer.returncode)
    if answer.returncode == 2:
        raise UserError(message)
    raise RunError(f"linewright-probe {option}: {message}")


def _decode(data: bytes, shape: Any, option: str) -> Any:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunError(f"linewright-probe {option} answered with something unexpected: {error}") from None


def error_text(stderr: bytes) -> str:
    """The message of the last ``{"error":…}`` line, else the last line of text that is no progress."""
    last = ""
    for line in stderr.decode("utf-8", "replace").splitlines():
        message = stderr_message(line)
        last = message.get("error", "") if isinstance(message, dict) else (line.strip() or last)
    return one_line(str(last))


def stderr_message(line: str) -> dict | None:
    """A machine-readable line of the probe's standard error, or nothing when it is plain text."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def exit_text(code: int) -> str:
    """How a program ended, for people."""
    if code < 0:
        return f"killed by signal {-code}"
    return f"exited with {code}"
