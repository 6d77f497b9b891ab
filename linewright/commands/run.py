# SPDX-License-Identifier: MIT
"""`linewright run`: a program as it is, with its outlined atomics switched or its readers-writer
locks replaced."""

from __future__ import annotations

import os
import platform
from typing import Annotated

import typer

from linewright import policy
from linewright.commands._options import ProgramArgument, become
from linewright.errors import UserError
from linewright.run import programs
from linewright.run.programs import find_audit, find_rwlock
from linewright.say.words import problem_text
from linewright.show.output import note
from linewright.trial import interposed_locks, switching

ORDER = 12
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def run(
    command: ProgramArgument,
    atomics: Annotated[
        str | None,
        typer.Option(
            help="arm64: the setting, as in LINEWRIGHT_ATOMICS.",
            show_default="prefetch, without --locks",
        ),
    ] = None,
    locks: Annotated[
        bool,
        typer.Option(
            "--locks", help="pthread_rwlock_* is Linewright's, whose readers share no cache line."
        ),
    ] = False,
) -> int:
    """Run an already-built program with its outlined atomics in another form (arm64), or with other
    readers-writer locks.

    Nothing is written to the program's files. The program takes this command's place: signals reach
    it, and its exit code is the answer. LINEWRIGHT_VERBOSE=1 lists the atomics that were changed,
    LINEWRIGHT_RWLOCK_STATISTICS=1 the locks that were used."""
    if atomics is None and not locks:
        atomics = "prefetch"
    policy.read(atomics or "", "--atomics")
    program = switching.find_program(command[0] if command else "")
    environment = dict(os.environ)
    if atomics is not None:
        environment = _with_atomics(environment, atomics, program)
    if locks:
        environment = _with_locks(environment, program)
    return become(program, command, environment, "PROGRAM")


def _warn(problem: switching.SwitchProblem) -> None:
    note(problem_text(problem))


def _with_atomics(environment: dict[str, str], atomics: str, program: str) -> dict[str, str]:
    machine = platform.machine()
    if machine != "aarch64":
        what = f"nothing to switch: {policy.one_form(machine)}"
        raise UserError(what, "--atomics", "allowed on every machine: --locks")
    switching.warn_unswitched(program, _warn)
    library, room = find_audit(), switching.tls_room(program, _warn)
    return switching.switched(environment, atomics, library, room, _warn)


def _with_locks(environment: dict[str, str], program: str) -> dict[str, str]:
    given = environment.get(interposed_locks.STATISTICS)
    if given not in (None, "", "0", "1"):
        raise UserError(f"{given!r} is no setting", interposed_locks.STATISTICS, "allowed: 1, or 0")
    library = find_rwlock(interposed_locks.arch_of(program))
    interposed_locks.check_calls(program, _warn)
    return environment | programs.preloading([programs.name_of(library)], environment)
