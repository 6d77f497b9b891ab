"""The wings, folders of the package that may be missing, and what each brings to the command.

A wing is a folder with a `wing.py` that holds `WING`. Its commands are the modules of its folder
`commands`. The core imports no wing: it asks here for what the wings that are present bring."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from linewright.errors import UserError

PACKAGE = Path(__file__).parent


class TargetKind(Struct, frozen=True):
    """A kind of ``--on`` that a wing brings."""

    example: str
    """How it is written, for refusals."""
    opener: str
    """``MODULE:FUNCTION``, called with what stands behind the first colon."""


class Wing(Struct, frozen=True, kw_only=True):
    """What one wing brings beside its commands."""

    targets: dict[str, TargetKind] = {}
    """By the part of ``--on`` before the first colon."""
    services: dict[str, str] = {}
    """What the core does by a wing where that is present, as ``MODULE:FUNCTION``."""


@cache
def wings() -> dict[str, Wing]:
    """The wings that are present, by the names of their folders."""
    names = sorted(path.parent.name for path in PACKAGE.glob("*/wing.py"))
    return {name: import_module(f"linewright.{name}.wing").WING for name in names}


def targets() -> dict[str, TargetKind]:
    """Every target of a wing, by its scheme."""
    return {scheme: target for wing in wings().values() for scheme, target in wing.targets.items()}


def service(name: str, where: str) -> Callable[..., Any]:
    """The function that a wing brings under a name; UserError where no wing that is present has
    it."""
    for function in services(name):
        return function
    raise UserError(f"no part of this installation can do this: {name}", where)


def services(name: str) -> list[Callable[..., Any]]:
    """What every wing that is present brings under a name."""
    return [load(wing.services[name]) for wing in wings().values() if name in wing.services]


def load(reference: str) -> Callable[..., Any]:
    """The function that a ``MODULE:FUNCTION`` names."""
    module, _, function = reference.partition(":")
    return getattr(import_module(module), function)
