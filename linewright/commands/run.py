"""`linewright run`: a program as it is, with its outlined atomics switched."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from linewright import policy
from linewright.errors import UserError
from linewright.output.console import note
from linewright.target.programs import AUDIT as LIBRARY

ORDER = 70
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}
TLS_TUNABLE = "glibc.rtld.optional_static_tls"
"""Under any auditing library the dynamic linker lays out thread-local memory before it knows the program's libraries,
and keeps 512 bytes free for theirs. That is too little for jemalloc (2,696 bytes on Debian 12): programs like redis
would not start. The setting is in bytes for each thread; glibc before 2.33 has none."""
TLS_LEAST = 16384
"""Bytes asked for even where the libraries need less: libraries that the program opens later want some, too."""
CHANGED = ("LD_AUDIT", "LINEWRIGHT_ATOMICS", "GLIBC_TUNABLES")
"""What a program's environment must say for a setting to be in force, and the program to start under it."""


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- PROGRAM [ARGS…]", help="The program and its arguments.", show_default=False),
    ],
    atomics: Annotated[str, typer.Option(help="The setting, as in LINEWRIGHT_ATOMICS.")] = "prefetch",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="List objects and helpers, found and changed, on standard error.")
    ] = False,
) -> int:
    """Run an already-built arm64 program with its outlined atomics in another form.

    Nothing is written to the program's files. The program takes this command's place: signals reach it, and its exit
    code is the answer.
    """
    policy.check(atomics, "--atomics")
    program = find_program(command[0])
    machine = platform.machine()
    if machine == "aarch64":
        warn_unswitched(program)
        environment = switched(dict(os.environ), atomics, verbose, find_library(), tls_room(program))
    else:
        note(
            f"this machine is {machine}, where each operation has one form: nothing to switch;"
            f" {command[0]} runs unchanged"
        )
        environment = dict(os.environ)
    sys.stdout.flush()
    for name in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and what is ignored stays so in the program
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise UserError(f"cannot run {program}: {error.strerror}", "PROGRAM") from None


def tls_room(program: str) -> int:
    """Bytes of thread-local memory to ask the dynamic linker for; says what it cannot know or do."""
    from linewright.elf import libraries

    try:
        needed = libraries.closure(program)
        asking = {path: size for path in needed.objects if (size := libraries.dynamic(path).tls_bytes)}
        interpreter = libraries.dynamic(program).interpreter
    except UserError:
        return TLS_LEAST  # a script, say: what it starts is not known
    if needed.missing and asking:
        note(f"not found, so their thread-local memory is not provided for: {', '.join(needed.missing)}")
    room = max(TLS_LEAST, sum(asking.values()) + 4096)
    if interpreter and sum(asking.values()) > 512 and not _has_tunable(interpreter):
        largest = max(asking, key=asking.__getitem__)
        note(
            f"{interpreter} knows no {TLS_TUNABLE} (glibc before 2.33): the program may stop at its start with "
            f"'cannot allocate memory in static TLS block', first for {largest}"
        )
    return -(-room // 1024) * 1024


def _has_tunable(interpreter: str) -> bool:
    try:
        return TLS_TUNABLE.encode() in Path(interpreter).read_bytes()
    except OSError:
        return True  # it is another root's; nothing is known, nothing is said


def switched(
    environment: dict[str, str], atomics: str, verbose: bool, library: Path, room: int = TLS_LEAST
) -> dict[str, str]:
    """The environment that has the dynamic linker load the auditing library, beside whichever is asked for already."""
    others = [path for path in environment.get("LD_AUDIT", "").split(":") if path and path != str(library)]
    environment["LD_AUDIT"] = ":".join([*others, str(library)])
    environment["LINEWRIGHT_ATOMICS"] = atomics
    tunables = environment.get("GLIBC_TUNABLES", "")
    if TLS_TUNABLE not in tunables:
        environment["GLIBC_TUNABLES"] = f"{tunables}{':' if tunables else ''}{TLS_TUNABLE}={room}"
    elif (given := re.search(rf"{re.escape(TLS_TUNABLE)}=(\d+)", tunables)) and int(given[1]) < room:
        note(f"GLIBC_TUNABLES gives {given[1]} bytes of thread-local memory; this program may need {room}")
    if verbose:
        environment["LINEWRIGHT_VERBOSE"] = "1"
    return environment


def find_library() -> Path:
    """The auditing library that ``LINEWRIGHT_AUDIT`` names, else the installed one, else the one built here."""
    if named := os.environ.get("LINEWRIGHT_AUDIT"):
        path = Path(named).absolute()
        if not path.is_file():
            raise UserError(f"no such file: {path}", "LINEWRIGHT_AUDIT", f"allowed: the path of a {LIBRARY}")
        return _usable(path)
    package = Path(__file__).resolve().parents[1]
    for path in (package / "lib" / LIBRARY, package.parent / "build" / "native" / "src" / "outline" / LIBRARY):
        if path.is_file():
            return _usable(path)
    raise UserError(
        "not found",
        LIBRARY,
        "build it with `cmake --preset native && cmake --build --preset native`, or name it in LINEWRIGHT_AUDIT",
    )


def _usable(path: Path) -> Path:
    """LD_AUDIT is a list with colons, and the dynamic linker puts its own words for $ORIGIN and the like."""
    if ":" in str(path) or "$" in str(path):
        raise UserError(
            f"LD_AUDIT cannot name a path with ':' or '$': {path}",
            LIBRARY,
            "allowed: any other path; LINEWRIGHT_AUDIT names it",
        )
    return path


def find_program(name: str) -> str:
    """The program's path, as a shell would find it."""
    if not name:
        raise UserError("no program named", "PROGRAM")
    found = shutil.which(name)
    if found:
        return found
    if os.sep in name and Path(name).exists():
        raise UserError(f"{'a directory' if Path(name).is_dir() else 'not executable'}: {name}", "PROGRAM")
    raise UserError(f"no such program: {name}", "PROGRAM")


def warn_unswitched(program: str) -> None:
    """Say before the program starts why it will run unchanged, where that can be known."""
    from linewright.elf.image import begin, privileges

    rights = privileges(program)
    file = os.stat(program)
    gains = {
        "set-user-ID": file.st_uid != os.geteuid(),
        "set-group-ID": file.st_gid != os.getegid(),
        "file capabilities": os.getuid() != 0,
    }
    if gains.get(rights):
        note(f"{program} takes other rights ({rights}), so the dynamic linker ignores the setting: it runs unchanged")
        return
    try:
        image = begin(program)
    except UserError:
        if _is_32_bit(program):
            note(f"{program} is a 32-bit program, which cannot load the 64-bit {LIBRARY}: it runs unchanged")
        return  # a script, say: what it starts is switched
    if image.machine != "arm64":
        note(f"{program} is no arm64 program: it runs unchanged")
    elif not image.needs_dynamic_linker:
        note(f"{program} is statically linked, so nothing can be switched at run time: it runs unchanged")
    elif image.unaudited:
        note(f"{program} is made for {image.unaudited}, whose dynamic linker knows no auditing: it runs unchanged")


def _is_32_bit(program: str) -> bool:
    with open(program, "rb") as file:
        return file.read(5) == b"\x7fELF\x01"
