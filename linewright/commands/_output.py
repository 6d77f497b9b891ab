"""A file that a command makes for its user: an existing one is replaced on request only."""

from __future__ import annotations

import os
from typing import BinaryIO

from linewright.errors import UserError


def open_new(path: str, force: bool, mode: int = 0o666) -> BinaryIO:
    """Open `path` to write, with `mode` for a file that is new. UserError if it exists, but for `force`, or cannot be written."""
    try:
        return open(path, "wb" if force else "xb", opener=lambda name, flags: os.open(name, flags, mode))
    except FileExistsError:
        raise UserError(f"{path} exists", "--output", "--force replaces it") from None
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: str, error: OSError) -> UserError:
    """The refusal where opening or writing the file fails."""
    return UserError(f"cannot write {path}: {error.strerror}", "--output", "name a file that can be written")
