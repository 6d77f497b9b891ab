# SPDX-License-Identifier: MIT
"""Where commands print, results to standard output and everything else to standard error, and how
wide; what a result is shown as; and the files that a command makes for its user: an existing one is
never replaced, and a failure names the option.

CSV has a heading line with the units in the names, then one line per row, empty where there is no
figure; Parquet has typed columns, and the contexts in the file's metadata.  pyarrow is optional and
imported where it is used."""

from __future__ import annotations

import csv
import io
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import BinaryIO, TextIO

import msgspec
from rich.console import Console

from linewright.errors import RunError, UserError, cannot_write, choice, contradiction, one_line
from linewright.records.files import is_special
from linewright.schema import Context

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


@contextmanager
def answer_beside() -> Iterator[None]:
    """Print what the exit code answers, too: a reader that has closed the stream changes no
    answer."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # which Rich makes of it
        unread()


def unread() -> None:
    """Send the rest of standard output, which its reader closed, to /dev/null: Python would
    complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


LIKE = {
    "–": "-", "—": "-", "−": "-", "×": "x", "·": "|", "…": "...", "±": "+-", "µ": "u", "√": "sqrt ",
    "↔": "<->", "↕": "^v", "→": "->", "↑": "^", "↓": "v", "≥": ">=", "≤": "<=", "≈": "~", "⁴": "^4",
    "⁶": "^6", "▶": ">", "█": "#", "░": "-", "π": "pi", "“": '"', "”": '"', "’": "'",
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


def print_json(value: object) -> None:
    """Print a value as JSON with one member a line."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    sys.stdout.flush()


FORMATS = ("table", "plain", "csv")
PARQUET = "parquet"


def asked_format(
    form: str,
    as_json: bool,
    where: str,
    formats: Sequence[str] = FORMATS,
    every: bool = False,
    why: bool = False,
) -> str:
    """What ``--format``, ``--json``, ``--all`` and ``--why`` name together: one of the formats, or
    ``json``, ``all`` or ``why``; UserError for two of them."""
    choice("format", form, "--format", formats)
    asked = {"--all": every, "--why": why, "--json": as_json, f"--format {form}": form != "table"}
    named = [option for option, given in asked.items() if given] or ["table"]
    if len(named) > 1:
        raise contradiction(named[0], named[1], where, "name one of them")
    return named[0].split()[-1].removeprefix("--")


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


def check_page(path: str, files: Iterable[str], where: str = "--output") -> None:
    """Refuse before reading, which takes minutes of large files, what cannot be written, and never
    replace the records themselves."""
    page = Path(path)
    if page.is_dir():
        raise UserError(f"cannot write {path}: it is a directory", where, "name a file")
    check_folder(path, where)
    if page.exists() and not page.is_file():
        raise UserError(f"cannot write {path}: it is no regular file", where, "name a file")
    if page.exists() and any(Path(name).exists() and page.samefile(name) for name in files):
        raise UserError(f"{path} is one of the record files", where, "name another file")


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


_FORMULA = ("=", "+", "-", "@")
"""What makes a spreadsheet run a text field instead of showing it."""


def csv_of(rows: Sequence[dict[str, object]]) -> str:
    """One line per row, with the columns of the first; empty without rows."""
    return csv_text(rows, list(rows[0])) if rows else ""


def csv_text(rows: Iterable[dict[str, object]], columns: Sequence[str]) -> str:
    """A heading line and the rows. Text that a spreadsheet would take for a formula gets an
    apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def parquet_of(contexts: Sequence[Context], rows: list[dict[str, object]]) -> bytes:
    """The rows as in the CSV; a column without any figure is one of numbers. The contexts go
    into the metadata as JSON under ``linewright_contexts``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, out = pa.Table.from_pylist(rows), io.BytesIO()
    typed = [f.with_type(pa.float64()) if pa.types.is_null(f.type) else f for f in table.schema]
    metadata = {"linewright_contexts": msgspec.json.encode(contexts)}
    pq.write_table(table.cast(pa.schema(typed, metadata=metadata)), out)
    return out.getvalue()
