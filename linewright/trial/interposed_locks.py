# SPDX-License-Identifier: MIT
"""The environment in which the readers-writer locks of an already-built program are those of
liblinewright-rwlock.so, and the programs that cannot have it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from linewright.errors import UserError
from linewright.run import programs
from linewright.run.programs import VARIABLE as PRELOAD
from linewright.trial.switching import SwitchProblem, Warn, gained_rights

BEFORE = "LINEWRIGHT_PRELOAD_BEFORE"
STATISTICS = "LINEWRIGHT_RWLOCK_STATISTICS"
ALLOWED = "allowed: a dynamically linked program of glibc"


def arch_of(program: str) -> str:
    """The architecture of a program whose locks can be replaced; empty for a script, say, of which
    only what it starts is concerned. UserError names the program and why it cannot."""
    from linewright.elf import image, lock_calls

    try:
        headers = image.begin(program)
    except UserError:
        return ""
    if why := lock_calls.refusal(headers):
        raise UserError(f"{program}: {why}", "--locks", ALLOWED)
    if rights := gained_rights(program):
        what = f"{program} takes other rights ({rights}), so the dynamic linker preloads nothing"
        raise UserError(what, "--locks", "allowed: the user who has these rights")
    programs.refuse_sanitizer(program, "--locks")
    return headers.machine


def check_calls(program: str, warn: Warn) -> None:
    """Refuse a program that takes no such lock and brings no code that could; warn of one that can
    take one only in what it opens or starts. Nothing where the file says nothing of its calls."""
    from linewright.elf import lock_calls

    try:
        found = lock_calls.of_program(program)
    except UserError:
        return
    if found.alone and not found.calls:
        what = (
            f"{program} and its libraries call no pthread_rwlock_* and start nothing that could: "
            "its locks cannot be replaced"
        )
        raise UserError(what, "--locks", "allowed: a program that takes readers-writer locks")
    if not found.calls:
        warn(SwitchProblem("no_locks", program, ""))


def settings(library: Path, environment: Mapping[str, str]) -> list[dict[str, str]]:
    """What the environment says without and with the library; both are of one length, since an
    environment's length moves the stack."""
    more = programs.preloading([programs.name_of(library)], environment)
    before = environment.get(PRELOAD, "")
    return [more | {PRELOAD: before, BEFORE: more[PRELOAD]}, more | {BEFORE: before}]
