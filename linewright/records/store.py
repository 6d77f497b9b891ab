# SPDX-License-Identifier: MIT
"""Record files of any size: read once to check and index them, then one cell's records at a time;
and cells chosen by their canonical ids, for --only."""

from __future__ import annotations

import difflib
import os
import stat
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import BinaryIO

from linewright.errors import UserError, cannot_read
from linewright.records.files import Reader, bounded_lines, stored_record
from linewright.schema import Cell, Context, Record

_FIELDS = ("operations", "forms", "widths", "orders", "contenders", "contender_iters", "work_iters")


def matches(cell_id: str, pattern: str) -> bool:
    """Whether a shell glob fits the whole id, or fits a run of whole parts between slashes.

    ``lock_add``, ``same_line/ci0``, ``prefetchw_*`` and ``add/*/w0/*`` are patterns; ``lock`` is
    none of ``lock_add``."""
    if fnmatchcase(cell_id, pattern):
        return True
    wanted, parts = pattern.strip("/").split("/"), cell_id.split("/")
    runs = (parts[start:] for start in range(len(parts) - len(wanted) + 1))
    return any(all(map(fnmatchcase, run, wanted)) for run in runs)


def choose(cells: Sequence[Cell], patterns: Sequence[str], where: str = "--only") -> list[Cell]:
    """Cells that fit any of the patterns, in plan order; a pattern that fits no cell is refused."""
    if not patterns:
        return list(cells)
    ids = [cell.id for cell in cells]
    unmatched(ids, patterns, where)
    named = zip(cells, ids, strict=True)
    return [cell for cell, name in named if any(matches(name, pattern) for pattern in patterns)]


def unmatched(ids: Sequence[str], patterns: Sequence[str], where: str = "--only") -> None:
    """Refuse a pattern that fits none of the ids."""
    for pattern in patterns:
        if not any(matches(cell_id, pattern) for cell_id in ids):
            raise UserError(f"no cell fits {pattern!r}", where, _what_exists(ids, pattern))


def _what_exists(ids: Sequence[str], pattern: str) -> str:
    """The nearest parts to a pattern, then every value of each field, on one line."""
    columns = [sorted({cell_id.split("/")[i] for cell_id in ids}) for i in range(len(_FIELDS))]
    near = difflib.get_close_matches(
        pattern, {part for column in columns for part in column}, n=3, cutoff=0.6
    )
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    listed = "; ".join(
        f"{name}: {' '.join(values)}" for name, values in zip(_FIELDS, columns, strict=False)
    )
    return f"{hint}patterns are shell globs on ids or on their parts, which are {listed}"


class Store:
    """Records of several files by machine and cell; use it in a ``with``.

    In memory are the contexts, a few bytes for each record, and one cell's records at a time.
    Everything in the files is checked before the first record is handed out.  What cannot be read
    twice (a pipe) is copied to a temporary file."""

    def __init__(
        self, paths: Sequence[str], warn: Callable[[str], None], only: Sequence[str] = ()
    ) -> None:
        self.paths = list(paths)
        self.contexts: dict[str, Context] = {}
        self.cells: dict[str, Cell] = {}
        self._only = list(only)
        self._warn = warn
        self._streams: list[BinaryIO] = []
        self._index: dict[tuple[str, str], array] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self) -> None:
        """Check and index every file."""
        wanted: dict[str, bool] = {}
        for number, path in enumerate(self.paths):
            stream = self._stack.enter_context(_seekable(path))
            self._streams.append(stream)
            reader = Reader(path, stream)
            for line in reader:
                if isinstance(line.value, Context):
                    self._take_context(line.value, path)
                    continue
                record = line.value
                if record.id not in wanted:
                    wanted[record.id] = not self._only or any(
                        matches(record.id, pattern) for pattern in self._only
                    )
                if wanted[record.id]:
                    self._take(record, number, line.start, line.end - line.start)
            for warning in reader.warnings:
                self._warn(warning)
        if wanted:
            unmatched(list(wanted), self._only)

    def _take_context(self, context: Context, path: str) -> None:
        known = self.contexts.setdefault(context.context_id, context)
        if known != context:
            earlier = "differs from the one with the same id in an earlier file"
            raise UserError(f"context {context.context_id} {earlier}", path)

    def _take(self, record: Record, file: int, start: int, length: int) -> None:
        machine = self.contexts[record.context_id].machine_id
        key = (machine, record.id)
        places = self._index.get(key)
        if places is None:
            self.cells.setdefault(record.id, record.cell)
            places = self._index[key] = array("Q")
        places.extend((file, start, length))

    def __len__(self) -> int:
        """Cells times machines."""
        return len(self._index)

    @property
    def machines(self) -> list[str]:
        return list(dict.fromkeys(machine for machine, _ in self._index))

    def groups(self) -> Iterator[tuple[str, list[Record]]]:
        """A machine's id with all records of one of its cells, in the order of first appearance."""
        repeated = 0
        for (machine, cell_id), places in self._index.items():
            members: dict[str, Record] = {}
            for i in range(0, len(places), 3):
                record = self._record(*places[i : i + 3])
                known = members.setdefault(record.context_id, record)
                if known != record:
                    twice = f"occurs twice with different content in launch {record.context_id}"
                    raise UserError(f"{cell_id} {twice}", self.paths[places[i]])
                repeated += known is not record
            yield machine, list(members.values())
        if repeated:
            self._warn(
                f"{repeated} records occur more than once and count once: a file is named "
                "twice, or in another one too"
            )

    def records(self) -> Iterator[Record]:
        """Every record, cell by cell."""
        for _, members in self.groups():
            yield from members

    def _record(self, file: int, start: int, length: int) -> Record:
        stream = self._streams[file]
        stream.seek(start)
        return stored_record(stream.read(length), self.paths[file])


def _seekable(path: str) -> BinaryIO:
    """The file itself where it can be read twice, else a temporary copy of it."""
    try:
        stream = open(path, "rb")
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return stream
        with stream:
            copy = tempfile.TemporaryFile(prefix="linewright-")
            for data in bounded_lines(stream, path):  # /dev/zero has no end
                copy.write(data)
            copy.seek(0)
            return copy
    except OSError as error:
        raise cannot_read(path, error, "expected a record file") from None
