"""Libraries that only a part of the command needs: what brings each, said where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from linewright.errors import UserError

EXTRAS = {
    "images": ("altair", "vl_convert"),
    "parquet": ("pyarrow",),
    "fleet": ("distributed", "scipy"),
    "calibration": ("emcee", "scipy"),
}
"""By the name of the optional dependencies in pyproject.toml, the modules that are asked for."""


def need(extra: str, where: str) -> None:
    """UserError in one line where a library of an extra is missing."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        what = f"needs {' and '.join(missing)}, not installed here"
        raise UserError(what, where, f"pip install 'linewright[{extra}]'")
