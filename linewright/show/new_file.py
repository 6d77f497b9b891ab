# SPDX-License-Identifier: MIT
"""A file that a command makes for its user: an existing one is never replaced, and a failure names
the option."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import BinaryIO

from linewright.errors import RunError, UserError, cannot_write
from linewright.records.files import is_special


def check_new(path: str, where: str = "--output") -> None:
    """Refuse an existing file before the work that would fill it."""
    if os.path.lexists(path) and not is_special(path):
        raise UserError(f"{path} exists", where, "remove it or name another file")


def open_new(path: str, mode: int = 0o666) -> BinaryIO:
    """Open `path` to write, with `mode` for a file that is new. UserError if it exists or cannot be
    written."""
    how = "wb" if is_special(path) else "xb"
    try:
        return open(path, how, opener=lambda name, flags: os.open(name, flags, mode))
    except FileExistsError:
        check_new(path)
        raise
    except OSError as error:
        raise cannot_write(path, error) from None


def check_folder(path: str, where: str = "--output") -> None:
    """Refuse a file in a directory that is missing before the work that would fill it."""
    if not Path(path).parent.is_dir():
        raise UserError(
            f"cannot write {path}: no such directory", where, "name a file in one that exists"
        )


@contextmanager
def written(path: str) -> Iterator[None]:
    """Write what is printed meanwhile into a new file, or for `-` to standard output. What fails
    before its end leaves no file."""
    if path == "-":
        yield
        return
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(printed):
        yield
        printed.flush()
    try:
        with open_new(path) as file:
            file.write(printed.buffer.getvalue())
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from None


def write(path: str | Path, data: str | bytes, where: str = "--output", allowed: str = "") -> None:
    """Write a whole file, text as UTF-8. UserError where it cannot be written, with what is allowed
    instead."""
    try:
        Path(path).write_bytes(data.encode() if isinstance(data, str) else data)
    except OSError as error:
        raise cannot_write(path, error, where, allowed) from None
