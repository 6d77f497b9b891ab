"""A file that a command makes for its user: an existing one is replaced on request only, and a failure names the
option."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from linewright.errors import UserError


def check_new(path: str, force: bool, where: str = "--output") -> None:
    """Refuse an existing file before the work that would fill it, unless `force` says that it may be replaced."""
    if not force and os.path.lexists(path):
        raise UserError(f"{path} exists", where, "--force replaces it")


def open_new(path: str, force: bool, mode: int = 0o666) -> BinaryIO:
    """Open `path` to write, with `mode` for a file that is new. UserError if it exists, but for `force`, or cannot be
    written."""
    try:
        return open(path, "wb" if force else "xb", opener=lambda name, flags: os.open(name, flags, mode))
    except FileExistsError:
        check_new(path, force)
        raise
    except OSError as error:
        raise cannot_write(path, error) from None


def write(path: str | Path, data: str | bytes, where: str = "--output", allowed: str = "") -> None:
    """Write a whole file, text as UTF-8. UserError where it cannot be written, with what is allowed instead."""
    try:
        Path(path).write_bytes(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise cannot_write(path, error, where, allowed) from None


def cannot_write(path: str | Path, error: OSError, where: str = "--output", allowed: str = "") -> UserError:
    """The refusal where opening or writing a file fails."""
    return UserError(f"cannot write {path}: {error.strerror}", where, allowed or "name a file that can be written")
