# SPDX-License-Identifier: MIT
"""Files that are read whole: whatever a user names may be large, a directory, or not there."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from linewright.errors import UserError, cannot_read

T = TypeVar("T")
MOST_BYTES = 64 * 1024 * 1024
"""Of a text: what is published or saved as one has kilobytes."""


def read_text(path: str) -> str:
    """A file of UTF-8 text. UserError if it is none, or cannot be read."""
    try:
        return read(path, MOST_BYTES, "expected a text file").decode("utf-8")
    except UnicodeDecodeError:
        raise UserError("is no UTF-8 text", path, "expected a text file") from None


def read(path: str, most: int, expected: str) -> bytes:
    """Everything in a file. UserError, which says what was expected, if it cannot be read or has
    more than `most` bytes."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise cannot_read(path, error, expected) from None
    if len(data) > most:
        raise UserError(f"larger than {most >> 20} MiB", path, expected)
    return data


def table(
    text: str, columns: Sequence[str], where: str, what: str, row: Callable[..., T]
) -> list[T]:
    """The rows of a CSV table as `row` makes them of its fields; lines that start with # are
    comments. UserError where `columns` is not its first line, or names the line for which `row`
    raises ValueError or msgspec's ValidationError."""
    named = ",".join(columns)
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines or lines[0][1].strip() != named:
        raise UserError(f"not {what}", where, f"first line: {named}")
    rows = []
    for number, line in lines[1:]:
        try:
            (fields,) = csv.reader([line])
            if len(fields) != len(columns):
                raise ValueError(f"{len(fields)} fields")
            rows.append(row(*fields))
        except (ValueError, csv.Error, msgspec.ValidationError) as error:
            message = f"line {number} is no row of {what}: {error}: {line[:80]}"
            raise UserError(message, where, named) from None
    if not rows:
        raise UserError("a table without rows", where, named)
    return rows
