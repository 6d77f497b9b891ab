# SPDX-License-Identifier: MIT
"""Finding the programs that the command runs: linewright-probe, which measures, -workload and
-torture; a wing adds its own."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from linewright.architectures import of_machine
from linewright.errors import UserError

NAME = "linewright-probe"
WORKLOAD = "linewright-workload"
TORTURE = "linewright-torture"
AUDIT = "liblinewright_audit.so"
RWLOCK = "liblinewright-rwlock.so"


def finder(name: str, room: str) -> Callable[..., Path]:
    """How a program is found: the environment names it (``LINEWRIGHT_`` and its own name, such as
    ``LINEWRIGHT_PROBE``), it is installed, or it was built in this checkout. Called with an
    architecture, it finds the static program of that one, which ``LINEWRIGHT_PROBE_ARM64`` names;
    this machine's own is the plain one, unless another is named."""
    variable = name.upper().replace("-", "_")
    return lambda arch="": _find(name, variable, room, arch)


find_probe = finder(NAME, "probe")
find_workload = finder(WORKLOAD, "workload")
find_torture = finder(TORTURE, "torture")


def find_preload(part: str, arch: str = "") -> Path:
    """A library that is loaded into a user's program, ``timer`` or ``heap``, or the emulator's
    plugin ``exact``."""
    name, variable = f"liblinewright_find_{part}.so", f"LINEWRIGHT_FIND_{part.upper()}_LIBRARY"
    return _find(name, variable, "find", arch)


def find_audit(arch: str = "") -> Path:
    """The auditing library of `linewright run`."""
    return _find(AUDIT, "LINEWRIGHT_AUDIT", "src/outline", arch, "lib")


def find_rwlock(arch: str = "") -> Path:
    """The library whose readers-writer locks stand in for a program's."""
    return _find(RWLOCK, "LINEWRIGHT_RWLOCK_LIBRARY", "src", arch)


def _find(name: str, variable: str, room: str, arch: str = "", folder: str = "bin") -> Path:
    package = Path(__file__).resolve().parents[1]
    named = f"{variable}_{arch.upper()}"
    if arch and (arch != of_machine(platform.machine()) or os.environ.get(named)):
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


def _first(places: Sequence[Path], variable: str, name: str, advice: str) -> Path:
    """The program that the environment names, else the first that is there."""
    named = os.environ.get(variable)
    if named:
        return _runnable(
            Path(named).absolute(), variable, name
        )  # without a folder it would be looked for in PATH
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
