# SPDX-License-Identifier: MIT
"""The two ways a command fails: the request was wrong (exit 2), or the run could not be completed
(exit 3)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

DONE = 0
DIFFERENT = 1
BAD_REQUEST = 2
INCOMPLETE = 3
LONGEST_MESSAGE = 4000
"""Characters. Messages quote text from files, and a hostile file must not flood the terminal."""


def one_line(text: str) -> str:
    """Text on one line, without the control characters that a hostile file could use to drive a
    terminal."""
    spaced = " ".join(text.split())
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c
        for c in spaced
    )


class LinewrightError(Exception):
    """A failure that the user reads as one line; `exit_code` says whether the request or the run
    was at fault."""

    exit_code = INCOMPLETE

    def __init__(self, message: str) -> None:
        text = one_line(message)
        super().__init__(text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} …")


class UserError(LinewrightError):
    """The request was wrong: what, where it was said, and what would have been right."""

    exit_code = BAD_REQUEST

    def __init__(self, what: str, where: str = "", allowed: str = "") -> None:
        prefix = f"{where}: " if where else ""
        suffix = f" ({allowed})" if allowed else ""
        super().__init__(f"{prefix}{what}{suffix}")


def contradiction(one: str, other: str, where: str, allowed: str) -> UserError:
    """The refusal of two things that cannot be asked for at once."""
    return UserError(f"{one} and {other} contradict each other", where, allowed)


def choice(what: str, given: str, where: str, allowed: Iterable[str]) -> str:
    """One of the allowed words, or the refusal that lists them; `what` a word stands for."""
    if given not in (known := tuple(allowed)):
        raise UserError(f"no {what} {given!r}", where, f"allowed: {', '.join(known)}")
    return given


def check_range(value: int, least: int, most: int, where: str) -> int:
    """A number from `least` to `most`, or the refusal of one outside."""
    if not least <= value <= most:
        raise UserError(f"out of range: {value}", where, f"allowed: {least} to {most}")
    return value


def nothing_finished(where: str, what: str) -> UserError:
    """The refusal of records in which no cell is finished; `what` was to be done with them."""
    allowed = "the run ended before its first block of cells did"
    return UserError(f"no finished cell to {what}", where, allowed)


def cannot_read(path: object, error: Exception, expected: str) -> UserError:
    """The refusal where opening or reading a file fails; what was expected to be in it."""
    why = getattr(error, "strerror", None) or str(error)
    why = "is a directory" if isinstance(error, IsADirectoryError) else why
    return UserError(why, str(path), expected)


def cannot_write(
    path: object, error: OSError, where: str = "--output", allowed: str = ""
) -> UserError:
    """The refusal where opening or writing a file fails."""
    allowed = allowed or "name a file that can be written"
    return UserError(f"cannot write {path}: {error.strerror}", where, allowed)


class RunError(LinewrightError):
    """The run stopped before its end; every record finished until then is kept."""
