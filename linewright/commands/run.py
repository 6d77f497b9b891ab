"""`linewright run`: a program as it is, with its outlined atomics switched."""

from __future__ import annotations

import os
import platform
from typing import Annotated

import typer

from linewright import policy
from linewright.commands._options import ProgramArgument, become
from linewright.say.switch_words import problem_text
from linewright.show.console import note
from linewright.trial import switching

ORDER = 70
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def run(
    command: ProgramArgument,
    atomics: Annotated[
        str, typer.Option(help="The setting, as in LINEWRIGHT_ATOMICS.")
    ] = "prefetch",
) -> int:
    """Run an already-built arm64 program with its outlined atomics in another form.

    Nothing is written to the program's files. The program takes this command's place: signals reach
    it, and its exit code is the answer. LINEWRIGHT_VERBOSE=1 lists what was found and changed."""
    policy.check(atomics, "--atomics")
    program = switching.find_program(command[0] if command else "")
    machine, environment = platform.machine(), dict(os.environ)
    if machine == "aarch64":
        warn = lambda problem: note(problem_text(problem))
        switching.warn_unswitched(program, warn)
        environment = switching.switched(
            environment,
            atomics,
            switching.find_library(),
            switching.tls_room(program, warn),
            warn,
        )
    else:
        note(f"{policy.one_form(machine)}: nothing to switch; {command[0]} runs unchanged")
    return become(program, command, environment, "PROGRAM")
