"""Finding the programs that the command runs: linewright-probe, which measures, -model, -workload and -torture."""

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
SAMPLER = "linewright-find"
MODEL = "linewright-model"
AUDIT = "liblinewright_audit.so"


def find_probe() -> Path:
    """The probe named by ``LINEWRIGHT_PROBE``, else the installed one, else the one built in this checkout."""
    return _find(NAME, "LINEWRIGHT_PROBE", "probe")


def find_probe_for(arch: str) -> Path:
    """The static probe of one architecture: named by ``LINEWRIGHT_PROBE_ARCH``, installed, or built in this checkout.

    This machine's own is the one that `find_probe` finds, unless another is named.
    """
    return _find_for(arch, NAME, "LINEWRIGHT_PROBE", "probe", find_probe)


def find_workload_for(arch: str) -> Path:
    """The same for the program of `linewright workload`."""
    return _find_for(arch, WORKLOAD, "LINEWRIGHT_WORKLOAD", "workload", find_workload)


def find_sampler_for(arch: str) -> Path:
    """The same for the sampler of `linewright find`."""
    return _find_for(arch, SAMPLER, "LINEWRIGHT_FIND", "find", find_sampler)


def find_preload_for(part: str, arch: str) -> Path:
    """The same for a library that `find_preload` finds."""
    name = f"liblinewright_find_{part}.so"
    return _find_for(arch, name, _preload_variable(part), "find", lambda: find_preload(part))


def find_audit_for(arch: str, own: Callable[[], Path]) -> Path:
    """The same for the auditing library of `linewright run`, whose own one the caller finds."""
    return _find_for(arch, AUDIT, "LINEWRIGHT_AUDIT", "src/outline", own)


def _find_for(arch: str, name: str, variable: str, room: str, own: Callable[[], Path]) -> Path:
    variable = f"{variable}_{arch.upper()}"
    if arch == of_machine(platform.machine()) and not os.environ.get(variable):
        return own()
    package = Path(__file__).resolve().parents[1]
    stem, dot, suffix = name.partition(".")
    places = (package / "bin" / f"{stem}-{arch}{dot}{suffix}", package.parent / "build" / arch / room / name)
    target = stem.removeprefix("lib") if suffix else name
    advice = (
        f"build it with `cmake --preset {arch} && cmake --build --preset {arch} --target {target}`, or"
        f" name it in {variable}"
    )
    return _first(places, variable, f"{name} for {arch}", advice)


def find_workload() -> Path:
    """The same for the program of `linewright workload`, named by ``LINEWRIGHT_WORKLOAD``."""
    return _find(WORKLOAD, "LINEWRIGHT_WORKLOAD", "workload")


def find_torture() -> Path:
    """The same for the program of `linewright torture`, named by ``LINEWRIGHT_TORTURE``."""
    return _find(TORTURE, "LINEWRIGHT_TORTURE", "torture")


def find_sampler() -> Path:
    """The same for the sampler of `linewright find`, named by ``LINEWRIGHT_FIND``."""
    return _find(SAMPLER, "LINEWRIGHT_FIND", "find")


def find_model() -> Path:
    """The same for the program that simulates machines, named by ``LINEWRIGHT_MODEL``."""
    return _find(MODEL, "LINEWRIGHT_MODEL", "model")


def find_preload(part: str) -> Path:
    """A library that `linewright find` loads into programs, ``timer`` or ``heap``, or the emulator's plugin
    ``exact``."""
    return _find(f"liblinewright_find_{part}.so", _preload_variable(part), "find")


def _preload_variable(part: str) -> str:
    return f"LINEWRIGHT_FIND_{part.upper()}_LIBRARY"


def _find(name: str, variable: str, room: str) -> Path:
    package = Path(__file__).resolve().parents[1]
    places = (package / "bin" / name, package.parent / "build" / "native" / room / name)
    advice = (
        "build it with `cmake --preset native && cmake --build --preset native`, "
        f"install the package with `pip install .`, or name it in {variable}"
    )
    return _first(places, variable, name, advice)


def _first(places: Sequence[Path], variable: str, name: str, advice: str) -> Path:
    """The program that the environment names, else the first that is there."""
    named = os.environ.get(variable)
    if named:
        return _runnable(Path(named).absolute(), variable, name)  # without a folder it would be looked for in PATH
    for path in places:
        if path.is_file():
            return _runnable(path, name, name)
    raise UserError("not found", name, advice)


def _runnable(path: Path, where: str, name: str) -> Path:
    if not path.is_file():
        raise UserError(f"no such file: {path}", where, f"allowed: the path of a {name}")
    if not os.access(path, os.X_OK):
        raise UserError(f"not executable: {path}", where, f"allowed: the path of a {name}")
    return path
