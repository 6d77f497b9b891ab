"""Finding the programs that the command runs: linewright-probe, which measures, -model, -workload and -torture."""

from __future__ import annotations

import os
from pathlib import Path

from linewright.errors import UserError

NAME = "linewright-probe"
WORKLOAD = "linewright-workload"
TORTURE = "linewright-torture"
SAMPLER = "linewright-find"
MODEL = "linewright-model"


def find_probe() -> Path:
    """The probe named by ``LINEWRIGHT_PROBE``, else the installed one, else the one built in this checkout."""
    return _find(NAME, "LINEWRIGHT_PROBE", "probe")


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
    """A library that `linewright find` loads into programs, ``timer`` or ``heap``, or the emulator's plugin ``exact``."""
    name = f"liblinewright_find_{part}.so"
    return _find(name, f"LINEWRIGHT_FIND_{part.upper()}_LIBRARY", "find")


def _find(name: str, variable: str, room: str) -> Path:
    named = os.environ.get(variable)
    if named:
        return _runnable(Path(named), variable, name)
    package = Path(__file__).resolve().parents[1]
    for path in (package / "bin" / name, package.parent / "build" / "native" / room / name):
        if path.is_file():
            return _runnable(path, name, name)
    raise UserError(
        "not found",
        name,
        "build it with `cmake --preset native && cmake --build --preset native`, "
        f"install the package with `pip install .`, or name it in {variable}",
    )


def _runnable(path: Path, where: str, name: str) -> Path:
    if not path.is_file():
        raise UserError(f"no such file: {path}", where, f"allowed: the path of a {name}")
    if not os.access(path, os.X_OK):
        raise UserError(f"not executable: {path}", where, f"allowed: the path of a {name}")
    return path
