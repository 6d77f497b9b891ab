"""Where commands print: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
from typing import TextIO

import msgspec
from rich.console import Console

from linewright.errors import one_line

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
