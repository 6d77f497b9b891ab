"""Finding linewright-probe, the program that measures."""

from __future__ import annotations

import os
from pathlib import Path

from linewright.errors import UserError

NAME = "linewright-probe"


def find_probe() -> Path:
    """The probe named by ``LINEWRIGHT_PROBE``, else the installed one, else the one built in this checkout."""
    named = os.environ.get("LINEWRIGHT_PROBE")
    if named:
        return _runnable(Path(named), "LINEWRIGHT_PROBE")
    package = Path(__file__).resolve().parent
    for path in (package / "bin" / NAME, package.parent / "build" / "native" / "probe" / NAME):
        if path.is_file():
            return _runnable(path, NAME)
    raise UserError(
        "not found",
        NAME,
        "build it with `cmake --preset native && cmake --build --preset native`, "
        "install the package with `pip install .`, or name it in LINEWRIGHT_PROBE",
    )


def _runnable(path: Path, where: str) -> Path:
    if not path.is_file():
        raise UserError(f"no such file: {path}", where, "allowed: the path of a linewright-probe")
    if not os.access(path, os.X_OK):
        raise UserError(f"not executable: {path}", where, "allowed: the path of a linewright-probe")
    return path
