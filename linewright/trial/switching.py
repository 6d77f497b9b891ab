# SPDX-License-Identifier: MIT
"""The environment in which an already-built arm64 program runs with its outlined atomics switched,
and what is known beforehand of whether it can be."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from linewright.errors import UserError
from linewright.run.programs import AUDIT

TLS_TUNABLE = "glibc.rtld.optional_static_tls"
"""Under any auditing library the dynamic linker lays out thread-local memory before it knows the
program's libraries, and keeps 512 bytes free for theirs. That is too little for jemalloc (2,696
bytes on Debian 12): programs like redis would not start. The setting is in bytes for each thread;
glibc before 2.33 has none."""
TLS_LEAST = 16384
"""Bytes asked for even where the libraries need less: libraries that the program opens later want
some, too."""


class SwitchProblem(Struct, frozen=True):
    """What the user should know before the program starts: why it will run unchanged, or may not
    start."""

    kind: Literal[
        "libraries_missing", "no_tunable", "tunable_too_small", "other_rights", "32_bit",
        "not_arm64", "static", "unaudited", "no_locks",
    ]  # fmt: skip
    where: str
    """The program, the dynamic linker, or the bytes that the environment gives."""
    what: str
    """The libraries, the rights or the C library that it is about, or the bytes that may be
    needed."""


Warn = Callable[[SwitchProblem], None]
IGNORE: Warn = lambda problem: None
CHANGED = ("LD_AUDIT", "LINEWRIGHT_ATOMICS", "GLIBC_TUNABLES")
"""What a program's environment must say for a setting to be in force, and the program to start
under it."""


def tls_room(program: str, warn: Warn = IGNORE) -> int:
    """Bytes of thread-local memory to ask the dynamic linker for; says what it cannot know or
    do."""
    from linewright.elf import libraries

    try:
        needed = libraries.closure(program)
        sizes = {path: libraries.dynamic(path).tls_bytes for path in needed.objects}
        interpreter = libraries.dynamic(program).interpreter
    except UserError:
        return TLS_LEAST  # a script, say: what it starts is not known
    asking = {path: size for path, size in sizes.items() if size}
    if needed.missing and asking:
        warn(SwitchProblem("libraries_missing", program, ", ".join(needed.missing)))
    room = max(TLS_LEAST, sum(asking.values()) + 4096)
    if interpreter and sum(asking.values()) > 512 and not _has_tunable(interpreter):
        warn(SwitchProblem("no_tunable", interpreter, max(asking, key=asking.__getitem__)))
    return -(-room // 1024) * 1024


def _has_tunable(interpreter: str) -> bool:
    try:
        return TLS_TUNABLE.encode() in Path(interpreter).read_bytes()
    except OSError:
        return True  # it is another root's; nothing is known, nothing is said


def switched(
    environment: dict[str, str],
    atomics: str,
    library: Path,
    room: int = TLS_LEAST,
    warn: Warn = IGNORE,
) -> dict[str, str]:
    """The environment that has the dynamic linker load the auditing library, beside whichever is
    asked for already."""
    others = [
        path for path in environment.get("LD_AUDIT", "").split(":") if path and path != str(library)
    ]
    environment["LD_AUDIT"] = ":".join([*others, str(library)])
    environment["LINEWRIGHT_ATOMICS"] = atomics
    tunables = environment.get("GLIBC_TUNABLES", "")
    given = re.search(rf"{re.escape(TLS_TUNABLE)}=(\d+)", tunables)
    if TLS_TUNABLE not in tunables:
        environment["GLIBC_TUNABLES"] = f"{tunables}{':' if tunables else ''}{TLS_TUNABLE}={room}"
    elif given and int(given[1]) < room:
        warn(SwitchProblem("tunable_too_small", given[1], str(room)))
    return environment


def find_program(name: str) -> str:
    """The program's path, as a shell would find it."""
    allowed = "allowed: the path of a program, or its name in PATH"
    if not name:
        raise UserError("no program named", "PROGRAM", allowed)
    if found := shutil.which(name):
        return found
    what = "no such program"
    if os.sep in name and Path(name).exists():
        what = "a directory" if Path(name).is_dir() else "not executable"
    raise UserError(f"{what}: {name}", "PROGRAM", allowed)


def gained_rights(program: str) -> str:
    """The rights that the user gains by a program, or empty: with them the dynamic linker heeds no
    environment."""
    from linewright.elf.image import privileges

    rights = privileges(program)
    file = os.stat(program)
    gains = {
        "set-user-ID": file.st_uid != os.geteuid(),
        "set-group-ID": file.st_gid != os.getegid(),
        "file capabilities": os.getuid() != 0,
    }
    return rights if gains.get(rights) else ""


def warn_unswitched(program: str, warn: Warn) -> None:
    """Say before the program starts why it will run unchanged, where that can be known."""
    from linewright.elf.image import begin

    if rights := gained_rights(program):
        warn(SwitchProblem("other_rights", program, rights))
        return
    try:
        image = begin(program)
    except UserError:
        with open(program, "rb") as file:
            if file.read(5) == b"\x7fELF\x01":
                warn(SwitchProblem("32_bit", program, AUDIT))
        return  # a script, say: what it starts is switched
    if why := image.unswitchable:
        what = {"not_arm64": image.machine, "unaudited": image.unaudited}.get(why, "")
        warn(SwitchProblem(why, program, what))
