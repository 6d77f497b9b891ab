# SPDX-License-Identifier: MIT
"""Finding the programs that the command runs (linewright-probe, which measures, -workload and
-torture; a wing adds its own), and the libraries that the dynamic linker is to load before a
program's own.

`LD_PRELOAD` names such a library so that what the program starts runs, too; some programs cannot
have one."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from linewright.errors import UserError
from linewright.schema import architecture_of_machine

NAME = "linewright-probe"
WORKLOAD = "linewright-workload"
TORTURE = "linewright-torture"
AUDIT = "liblinewright_audit.so"
RWLOCK = "liblinewright-rwlock.so"


def finder(
    name: str, room: str, variable: str = "", loaded_by: str = "", folder: str = "bin"
) -> Callable[..., Path]:
    """How a program or library is found: the environment names it (in `variable`, else
    ``LINEWRIGHT_`` and its own name, such as ``LINEWRIGHT_PROBE``), it is installed, or it was
    built in this checkout. Called with an architecture, it finds the one of that, which
    ``LINEWRIGHT_PROBE_ARM64`` names; this machine's own is the plain one, unless another is named.
    UserError, too, where the variable of the dynamic linker that a library is `loaded_by` cannot
    name its path."""
    variable = variable or name.upper().replace("-", "_")

    def found(arch: str) -> Path:
        package = Path(__file__).resolve().parents[1]
        named = f"{variable}_{arch.upper()}"
        if arch and (arch != architecture_of_machine(platform.machine()) or os.environ.get(named)):
            stem, dot, suffix = name.partition(".")
            places = (
                package / "bin" / f"{stem}-{arch}{dot}{suffix}",
                package.parent / "build" / arch / room / name,
            )
            target = stem.removeprefix("lib").replace("-", "_") if suffix else name
            advice = (
                f"build it with `cmake --preset {arch} && cmake --build --preset {arch} --target "
                f"{target}`, or name it in {named}"
            )
            return _first(places, named, f"{name} for {arch}", advice)
        advice = (
            "build it with `cmake --preset native && cmake --build --preset native`, "
            f"install the package with `pip install .`, or name it in {variable}"
        )
        places = (package / folder / name, package.parent / "build" / "native" / room / name)
        return _first(places, variable, name, advice)

    def find(arch: str = "") -> Path:
        path = found(arch)
        if loaded_by:
            check(path, name, loaded_by, f"allowed: any other path; {variable} names it")
        return path

    return find


find_probe = finder(NAME, "probe")
find_workload = finder(WORKLOAD, "workload")
find_torture = finder(TORTURE, "torture")
find_audit = finder(AUDIT, "src/outline", "LINEWRIGHT_AUDIT", "LD_AUDIT", "lib")
find_rwlock = finder(RWLOCK, "src", "LINEWRIGHT_RWLOCK_LIBRARY", "LD_PRELOAD")


def find_preload(part: str, arch: str = "") -> Path:
    """A library that is loaded into a user's program, ``timer`` or ``heap``, or the emulator's
    plugin ``exact``."""
    name, variable = f"liblinewright_find_{part}.so", f"LINEWRIGHT_FIND_{part.upper()}_LIBRARY"
    return finder(name, "find", variable)(arch)


def _first(places: Sequence[Path], variable: str, name: str, advice: str) -> Path:
    """The program that the environment names, else the first that is there."""
    named = os.environ.get(variable)
    if named:  # absolute: without a folder it would be looked for in PATH
        return _runnable(Path(named).absolute(), variable, name)
    for path in places:
        if path.is_file():
            return _runnable(path, name, name)
    raise UserError("not found", name, advice)


def _runnable(path: Path, where: str, name: str) -> Path:
    if not path.is_file():
        raise UserError(f"no such file: {path}", where, f"allowed: the path of a {name}")
    if not path.suffix and not os.access(path, os.X_OK):
        raise UserError(f"not executable: {path}", where, f"allowed: the path of a {name}")
    return path


VARIABLE = "LD_PRELOAD"
_ASAN = "ASAN_OPTIONS"
_AT_PLATFORM = 15
_REFUSED = {VARIABLE: (": $", "':', '$' or a space"), "LD_AUDIT": (":$", "':' or '$'")}


def check(path: Path | str, where: str, variable: str = VARIABLE, allowed: str = "") -> None:
    """Refuse a path that the dynamic linker would read as several, or put its own words into, as
    for $ORIGIN."""
    signs, named = _REFUSED[variable]
    if any(sign in str(path) for sign in signs):
        raise UserError(f"{variable} cannot name a path with {named}: {path}", where, allowed)


def preloading(libraries: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What an environment must say to have libraries before those that it preloads anyway. A child
    that is compiled with AddressSanitizer ends itself where its library is not the first, unless an
    option says not to look."""
    others = filter(None, [environment.get(VARIABLE)])
    options = filter(None, [environment.get(_ASAN), "verify_asan_link_order=0"])
    return {VARIABLE: ":".join([*libraries, *others]), _ASAN: ":".join(options)}


def name_of(library: Path) -> str:
    """What to write into the variable. Beside a library is a folder for each name that a dynamic
    linker of glibc may have for its platform, with the library or an empty one (`lw_preloaded` in
    cmake/Linewright.cmake): a child of another architecture loads the empty one, and a child of
    musl, which fills in nothing, finds no file and goes on."""
    here = _platform()
    if here and (library.parent / here / library.name).is_file():
        return str(library.parent / "$PLATFORM" / library.name)
    return str(library)


def _platform() -> str:
    """The kernel's name for this machine; some sandboxes have none."""
    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
    return (ctypes.string_at(ask(_AT_PLATFORM)) if ask(_AT_PLATFORM) else b"").decode()


def refuse_sanitizer(program: str, where: str) -> None:
    """Refuse a program whose sanitizer is a library. A script says nothing of what it starts."""
    from linewright.elf import libraries

    try:
        what = libraries.sanitizer(libraries.closure(program))
    except UserError:
        return
    if what:
        raise UserError(f"{program} {what}", where, "allowed: the program compiled without it")
