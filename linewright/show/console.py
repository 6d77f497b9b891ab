# SPDX-License-Identifier: MIT
"""Where commands print, results to standard output and everything else to standard error, and how
wide."""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import TextIO

import msgspec
from rich.console import Console

from linewright.errors import one_line

WIDEST = 100
"""Most columns of a screen, also on a wider terminal: longer lines are hard to read."""
NARROWEST = 60
"""Fewest columns of a screen."""
WIDE = 104
"""Columns from which tables of every cell, which use the whole width, show their spare columns and
do not break names."""
PIPE_COLUMNS = 118
"""Width of a table that goes to no terminal, unless COLUMNS says otherwise: the longest form fits
on one line."""


def note(text: str) -> None:
    """Print one line on standard error."""
    remark(f"linewright: {one_line(text)}")


def remark(line: str) -> None:
    """Print a line on standard error as it is.  A reader that has closed the stream does not end
    the run."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def console_for(stream: TextIO) -> Console:
    """A console that colours terminals only, and that never wraps a pipe's lines more than it
    must."""
    width = None
    if not stream.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        width = PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def width_of(console: Console) -> int:
    """The columns that a screen uses of a terminal or pipe."""
    return max(NARROWEST, min(WIDEST, console.width))


LIKE = {
    "–": "-", "—": "-", "−": "-", "×": "x", "·": "|", "…": "...", "±": "+-", "µ": "u", "√": "sqrt ",
    "↔": "<->", "↕": "^v", "→": "->", "↑": "^", "↓": "v", "≥": ">=", "≤": "<=", "≈": "~", "⁴": "^4",
    "⁶": "^6", "▶": ">", "█": "#", "░": ".", "π": "pi", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
"""What is printed for a sign of ours that an encoding lacks."""


def likeness(error: UnicodeError) -> tuple[str, int]:
    """The error handler of what is printed: a sign's likeness, a letter without its accent, and
    `?` only for what has neither."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    said = ""
    for sign in error.object[error.start : error.end]:
        bare = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
        said += LIKE.get(sign) or bare or "?"
    return said, error.end


def encodes(text: str, encoding: str) -> bool:
    """Whether an encoding can express a text."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def print_json(value: object) -> None:
    """Print a value as JSON with one member a line."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    sys.stdout.flush()
