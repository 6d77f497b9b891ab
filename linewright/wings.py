# SPDX-License-Identifier: MIT
"""The wings, folders of the package that may be missing, and what each brings to the command.

A wing is a folder with a `wing.py` that holds `WING`. Its commands are the modules of its folder
`commands`. The core imports no wing: it asks here for what the wings that are present bring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from linewright.errors import UserError

PACKAGE = Path(__file__).parent


class TargetKind(Struct, frozen=True):
    """A kind of ``--on`` that a wing brings."""

    example: str
    """How it is written, for help and refusals."""
    opener: str
    """``MODULE:FUNCTION``, called with what stands behind the first colon; what it returns has
    `take_settings` where there are `settings`."""
    settings: dict[str, str] = {}
    """What ``--set`` takes there beside a plan's parameters, each with an example."""
    recorded_as: str = ""
    """What stands before the first colon in the records' `target`, where that is another word."""


class Wing(Struct, frozen=True, kw_only=True):
    """Everything that the core asks of wings, beside their commands. A text names what does it, as
    ``MODULE:NAME``; empty where a wing does not."""

    targets: dict[str, TargetKind] = {}
    """By the part of ``--on`` before the first colon."""
    transports: dict[str, str] = {}
    """Ways to another machine, by the same part: each a `Transport`."""
    several_machines: str = ""
    """`measure` with several ``--on``."""
    page_section: str = ""
    """Takes the files of a page; returns those that are the wing's, and the section for them."""
    extras: dict[str, tuple[str, ...]] = {}
    """Optional dependencies in pyproject.toml that its code asks for, each with its modules."""
    listing: str = ""
    """What it has by name, for `linewright list`: a heading, and what each name is."""
    schemas: str = ""
    """JSON Schema of what the wing writes, by name."""
    cell_columns: str = ""
    """Columns of a table of cells, shown where one of these has such figures."""
    cell_lines: str = ""
    """Lines about one cell's figures."""
    flags: str = ""
    """What the flags of the wing's records mean, each in a sentence."""


@cache
def wings() -> dict[str, Wing]:
    """The wings that are present, by the names of their folders."""
    names = sorted(path.parent.name for path in PACKAGE.glob("*/wing.py"))
    return {name: import_module(f"linewright.{name}.wing").WING for name in names}


def targets() -> dict[str, TargetKind]:
    """Every target of a wing, by its scheme."""
    return {scheme: target for wing in wings().values() for scheme, target in wing.targets.items()}


def transports() -> dict[str, Any]:
    """Every transport of a wing, by its scheme."""
    return {
        scheme: load(name) for wing in wings().values() for scheme, name in wing.transports.items()
    }


def scheme_of(recorded: str) -> str:
    """What ``--on`` has before the first colon where records' `target` has this."""
    return next((s for s, target in targets().items() if target.recorded_as == recorded), recorded)


def brought(field: str) -> list[Any]:
    """What every wing that is present brings in a field of `Wing`."""
    return [load(name) for wing in wings().values() if (name := getattr(wing, field))]


def load(reference: str) -> Any:
    """What a ``MODULE:NAME`` names."""
    module, _, function = reference.partition(":")
    return getattr(import_module(module), function)


_OF_THE_CORE = {"images": ("altair", "vl_convert"), "parquet": ("pyarrow",)}
_ON_PYPI = {"vl_convert": "vl-convert-python"}
_IN_DEBIAN = ("images", "calibration")
"""What the Debian package linewright-extras holds."""


def extras() -> dict[str, Sequence[str]]:
    """By the name of the optional dependencies in pyproject.toml, the modules that are asked for:
    the core's, and those of the wings that are present."""
    known: dict[str, Sequence[str]] = dict(_OF_THE_CORE)
    for wing in wings().values():
        known |= wing.extras
    return known


def need_extra(extra: str, where: str) -> None:
    """UserError in one line where a library of an extra is missing."""
    missing = [name for name in extras()[extra] if find_spec(name) is None]
    if missing:
        what = f"needs {' and '.join(missing)}, not installed here"
        packaged = extra in _IN_DEBIAN and PACKAGE.is_relative_to("/usr/lib/linewright")
        libraries = " ".join(_ON_PYPI.get(name, name) for name in missing)
        how = "apt install linewright-extras" if packaged else f"pip install {libraries}"
        raise UserError(what, where, how)
