"""A result of `linewright find --json` in a file: told from other files by how it begins, checked
as it is read."""

from __future__ import annotations

import msgspec

from linewright.errors import UserError
from linewright.find.sharing_schema import Result
from linewright.records import bounded

_MARK = b'"linewright_find_result"'
_MOST_BYTES = 64 << 20


def is_result(path: str) -> bool:
    """Whether a file begins as such a result does, of whatever version; an unreadable one is
    none."""
    try:
        with open(path, "rb") as file:
            return file.read(256).lstrip()[1:].lstrip().startswith(_MARK)
    except OSError:
        return False


def read(path: str) -> Result:
    """The result in a file. UserError for one that is damaged, of another version, or far too
    large."""
    expected = "expected what `linewright find --json` prints"
    data = bounded.read(path, _MOST_BYTES, expected)
    try:
        return msgspec.json.decode(data, type=Result)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UserError(f"no result of find: {error}", path, expected) from None
