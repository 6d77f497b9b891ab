"""Libraries that only a part of the command needs: what brings each, said where it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from linewright.errors import UserError
from linewright.wings import wings

_OF_THE_CORE = {"images": ("altair", "vl_convert"), "parquet": ("pyarrow",)}


def extras() -> dict[str, Sequence[str]]:
    """By the name of the optional dependencies in pyproject.toml, the modules that are asked for:
    the core's, and those of the wings that are present."""
    known: dict[str, Sequence[str]] = dict(_OF_THE_CORE)
    for wing in wings().values():
        known |= wing.extras
    return known


def need(extra: str, where: str) -> None:
    """UserError in one line where a library of an extra is missing."""
    missing = [name for name in extras()[extra] if find_spec(name) is None]
    if missing:
        what = f"needs {' and '.join(missing)}, not installed here"
        raise UserError(what, where, f"pip install 'linewright[{extra}]'")
