# SPDX-License-Identifier: MIT
"""Questions to linewright-probe that need no measurement: its forms, the machine's topology,
whether a plan is valid."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from linewright.errors import RunError, UserError, one_line
from linewright.forms import Form
from linewright.records.files import decode_line
from linewright.schema import Context, Plan
from linewright.target import Topology

QUESTION_TIMEOUT_S = 60
"""Far above what a question takes, emulated too: the probe calibrates its clock for a fraction of a
second."""

Program = Sequence[str | Path] | Callable[[str], Sequence[str]]
"""A program that answers as the probe does: the command with what is always said to it, or the
command of an option."""


def digest(probe: Path) -> str:
    """What tells one probe from another: the first 16 hexadecimal digits of the SHA-256 of what it
    loads. Debug information is none of it, which names the folder of the build."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    content = probe.read_bytes()
    try:
        loaded = [
            section.data()
            for section in ELFFile(io.BytesIO(content)).iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section.name != ".note.gnu.build-id"
        ]
    except ELFError:  # a script, as in tests
        loaded = []
    # Of a file that has shed its section table all of it.
    return hashlib.sha256(b"".join(loaded or [content])).hexdigest()[:16]


def read_forms(answer: bytes) -> list[Form]:
    """Every form that the probe can name, those this CPU lacks included."""
    return _decode(answer, list[Form], "--list-forms")


def read_topology(answer: bytes) -> Topology:
    return _decode(answer, Topology, "--topology")


def read_context(answer: bytes) -> Context:
    """The context that a run now would write; its `machine_id` says whether records are this
    machine's."""
    line = decode_line(answer.strip(), "linewright-probe --context")
    if not isinstance(line, Context):
        raise RunError("linewright-probe --context answered with something else than a context")
    return line


def check(probe: Program, plan: Plan) -> None:
    """Raise UserError when the probe finds the plan wrong; nothing runs."""
    ask(probe, "--check", msgspec.json.encode(plan))


def ask(probe: Program, option: str, stdin: bytes = b"") -> bytes:
    """What the probe answers to one option, as bytes."""
    command = list(probe(option)) if callable(probe) else [*probe, option]
    return answered(command, f"linewright-probe {option}", stdin).stdout


def answered(
    command: Sequence[str | Path],
    name: str,
    stdin: bytes = b"",
    limit_s: float | None = QUESTION_TIMEOUT_S,
    fine: Collection[int] = (0,),
) -> subprocess.CompletedProcess[bytes]:
    """A program that has come to its end, with an exit code that is `fine`. UserError where it
    cannot be run or refuses the request, RunError where it fails or takes too long; `name` is what
    messages call it."""
    try:
        answer = subprocess.run(command, input=stdin, capture_output=True, timeout=limit_s)
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}", name) from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{name} gave no answer in {limit_s} s") from None
    if answer.returncode in fine:
        return answer
    message = error_text(answer.stderr) or exit_text(answer.returncode)
    raise UserError(message) if answer.returncode == 2 else RunError(f"{name}: {message}")


def _decode(data: bytes, shape: Any, option: str) -> Any:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"linewright-probe {option} answered with something unexpected"
        raise RunError(f"{what}: {error}") from None


def error_text(stderr: bytes) -> str:
    """The message of the last ``{"error":…}`` line, else the last line of text that is no
    progress."""
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
    if code >= 0:
        return f"exited with {code}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"
