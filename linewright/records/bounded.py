"""Files that are read whole: whatever a user names may be large, a directory, or not there."""

from __future__ import annotations

from linewright.errors import UserError


def read(path: str, most: int, expected: str) -> bytes:
    """Everything in a file. UserError, which says what was expected, if it cannot be read or has more than `most`
    bytes."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise UserError(error.strerror or str(error), path, expected) from None
    if len(data) > most:
        raise UserError(f"larger than {most >> 20} MiB", path, expected)
    return data
