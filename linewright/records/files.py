# SPDX-License-Identifier: MIT
"""Record files: JSON lines, written so that a kill loses nothing finished, read one line at a time
and checked."""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from linewright.errors import RunError, UserError, cannot_read, cannot_write, one_line
from linewright.forms import learn
from linewright.schema import VERSIONS, Context, Cpu, Plan, Record

LONGEST_LINE = 8 * 1024 * 1024
"""Bytes. A record of 100 000 windows is below 4 MB; a longer line is no record and is not read into
memory."""
MOST_BUCKET = (57 << 7) + 127
"""Histogram bucket of 2⁶⁴ - 1 ps: the last one that a probe has."""
MOST_DEVIATION = 1e6
"""Share of a time by which it may deviate; a probe writes a few hundredths."""

U64_MAX = 2**64 - 1


DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
"""What decoding raises for bytes that are not the JSON asked for."""


class _Shapes(Struct):
    """The field that each shape announces itself by; everything else in the line is skipped."""

    linewright_context: Raw | UnsetType = UNSET
    linewright_record: Raw | UnsetType = UNSET
    linewright_plan: Raw | UnsetType = UNSET
    linewright_trial: Raw | UnsetType = UNSET
    linewright_trial_run: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Shapes).decode


def kind_of(data: bytes) -> tuple[str, str]:
    """``context``, ``record``, ``plan``, ``trial`` or ``trial_run``, and the version's text; two
    empty texts for others.

    `DECODE_ERRORS` for what is no JSON object.
    """
    fields = msgspec.structs.asdict(_decode(data))
    named = [(name, value) for name, value in fields.items() if value is not UNSET]
    if len(named) != 1:
        return "", ""
    name, version = named[0]
    return name.removeprefix("linewright_"), bytes(version).decode("utf-8", "replace")[:20]


_decode_context = msgspec.json.Decoder(Context).decode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_plan = msgspec.json.Decoder(Plan).decode


class RecordLine(NamedTuple):
    """One checked line of a record file, its byte offset and the one just behind it."""

    value: Context | Record
    start: int
    end: int


def decode_plan(data: bytes, where: str) -> Plan:
    """A plan from one JSON object; anything else is refused with the field that is wrong."""
    if _kind(data, where) != "plan":
        shape = 'one JSON object with "linewright_plan": 2; see linewright schema plan'
        raise UserError("not a plan", where, f"a plan is {shape}")
    try:
        plan = _decode_plan(data)
    except DECODE_ERRORS as error:
        raise UserError(str(error), where, "see linewright schema plan") from None
    seen: set[str] = set()
    for index, cell in enumerate(plan.cells):
        if "" in cell.params.values():
            raise UserError(f"cells[{index}].params: empty value", where)
        if cell.id in seen:
            raise UserError(f"cell named twice: {cell.id}", where, "each cell once")
        seen.add(cell.id)
    return plan


def decode_line(data: bytes, where: str) -> Context | Record:
    """A context or a record from one line; anything else is refused."""
    kind = _kind(data, where)
    if kind not in ("context", "record"):
        shape = 'a JSON object with "linewright_context": 2 or "linewright_record": 3'
        raise UserError("not a line of records", where, f"each line is {shape}")
    try:
        value = _decode_context(data) if kind == "context" else _decode_record(data)
    except DECODE_ERRORS as error:
        raise UserError(str(error), where, f"see linewright schema {kind}") from None
    if isinstance(value, Record):
        _check_record(value, where)
        if value.made_of:
            learn(value.cell.form, value.made_of)
    else:
        _check_context(value, where)
    return _cleaned(value)


def stored_record(data: bytes, where: str) -> Record:
    """A record from a line that was checked before; only a file that changed meanwhile can be wrong
    here."""
    try:
        value = decode_line(data, where)
    except UserError:
        value = None
    if not isinstance(value, Record):
        raise UserError("changed while it was read", where)
    return value


_FREE = ("reason", "placement_class")
"""The fields of a record that hold free text."""


def _cleaned(value: Context | Record) -> Context | Record:
    """The same without characters that drive a terminal or turn text around: what goes on from here
    is plain text.

    Names are checked by the schema and need no cleaning; here are the fields that hold free text.
    """
    plain: dict[str, object] = {}
    for name in _FREE if isinstance(value, Record) else value.__struct_fields__:
        content = getattr(value, name)
        if isinstance(content, str) and not content.isprintable():
            plain[name] = one_line(content)
        elif name in ("cpu_ids", "features") and not all(map(str.isprintable, content)):
            plain[name] = list(map(one_line, content))
    return msgspec.structs.replace(value, **plain) if plain else value


def _kind(data: bytes, where: str) -> str:
    """``context``, ``record``, ``plan`` or nothing; one of another version is refused."""
    try:
        kind, version = kind_of(data)
    except DECODE_ERRORS as error:
        raise UserError(f"not JSON of Linewright: {error}", where) from None
    if kind not in ("context", "record", "plan"):
        return ""
    if version not in map(str, VERSIONS[kind]):
        read = f"this program reads version {' and '.join(map(str, VERSIONS[kind]))}"
        raise UserError(f"{kind} of version {one_line(version)}, {read}", where)
    return kind


def _check_context(context: Context, where: str) -> None:
    """What the shape alone cannot say: deviations are shares of a time."""
    for name in ("work_linearity", "work_spread"):
        if not 0 <= (getattr(context, name) or 0.0) <= MOST_DEVIATION:
            raise UserError(f"{name} is no share of a time", where, "expected as 0.02 for 2 %")


def _check_record(record: Record, where: str) -> None:
    """What the shape alone cannot say: the id fits the cell, counts fit 64 bits, lists fit each
    other."""
    if record.id != record.cell.id:
        what = f"id {record.id!r} is not that of its cell"
        raise UserError(what, where, f"the cell's is {record.cell.id}")
    for name in ("sum_expected", "sum_found"):
        if getattr(record, name) > U64_MAX:
            raise UserError(f"{name} overflows 64 bits", where)
    for name in ("batch", "small_batch"):
        part = getattr(record, name)
        if part and any(bucket > MOST_BUCKET for bucket, _ in part.histogram):
            last = f"a bucket beyond {MOST_BUCKET}, the last"
            raise UserError(f"{name}.histogram has {last}", where)
    for name in ("window_line", "window_round"):
        if len(getattr(record, name)) not in (0, len(record.window_ns)):
            raise UserError(f"{name} and window_ns differ in length", where)


def bounded_lines(stream: BinaryIO, path: str) -> Iterator[bytes]:
    """The lines of a file as they are. UserError for one that is too long to be of ours, before
    all of it is in memory."""
    number = 0
    while data := stream.readline(LONGEST_LINE):
        number += 1
        if not data.endswith(b"\n") and len(data) >= LONGEST_LINE:
            what = f"line longer than {LONGEST_LINE} bytes"
            raise UserError(what, f"{path}:{number}", "not a record file")
        yield data


class Reader:
    """Lines of one record file in order, each checked. `warnings` collects what was tolerated.

    A last line without a newline that is no JSON is what a kill leaves behind: it is dropped with a
    warning. Memory is bounded by the longest line and the contexts.  `stream`, when given, is what
    is read instead of opening the path; it is left open."""

    def __init__(self, path: Path | str, stream: BinaryIO | None = None) -> None:
        self.path = str(path)
        self._stream = stream
        self.warnings: list[str] = []
        self.contexts: dict[str, Context] = {}
        self._cpus: dict[str, list[Cpu]] = {}
        self.good_end = 0
        """Byte offset behind the last good line; what follows it is a truncated line."""
        self.ends_with_newline = True

    def __iter__(self) -> Iterator[RecordLine]:
        if self._stream is not None:
            yield from self._lines(self._stream)
            return
        try:
            with open(self.path, "rb") as stream:
                yield from self._lines(stream)
        except OSError as error:
            raise cannot_read(self.path, error, "expected a record file") from None

    def _lines(self, stream: BinaryIO) -> Iterator[RecordLine]:
        number = 0
        for number, data in enumerate(bounded_lines(stream, self.path), 1):
            where = f"{self.path}:{number}"
            whole = data.endswith(b"\n")
            if not data.strip() and self.good_end:
                self.good_end += len(data)
                continue
            if not _is_json(data):
                if whole or not self.good_end:
                    raise _no_json(where, first=not self.good_end)
                why = "the run was killed while writing it"
                self.warnings.append(f"{where}: truncated line dropped ({why})")
                return
            value = self._accept(decode_line(data, where), where)
            start, self.good_end = self.good_end, self.good_end + len(data)
            self.ends_with_newline = whole
            yield RecordLine(value, start, self.good_end)
        if number == 0:
            raise UserError("empty file", self.path, "expected a record file")

    def _accept(self, value: Context | Record, where: str) -> Context | Record:
        if isinstance(value, Record):
            if value.context_id not in self.contexts:
                what = f"record of context {value.context_id!r}"
                raise UserError(f"{what}, which no line before it describes", where)
            return value
        known = self.contexts.get(value.context_id)
        if known is None:
            known = self.contexts[value.context_id] = self._shared(value)
        if known != value:
            twice = "occurs twice with different content"
            raise UserError(f"context {value.context_id} {twice}", where)
        return known

    def _shared(self, value: Context) -> Context:
        """The same with the list of CPUs of the machine's earlier launch, where it is equal: it is
        most of a context."""
        cpus = self._cpus.setdefault(value.machine_id, value.cpus)
        return msgspec.structs.replace(value, cpus=cpus) if cpus == value.cpus else value


def _is_json(data: bytes) -> bool:
    try:
        kind_of(data)
    except msgspec.ValidationError:
        return True
    except DECODE_ERRORS:
        return False
    return True


def _no_json(where: str, first: bool) -> UserError:
    if first:
        allowed = 'a record file starts with {"linewright_context":2, …'
        return UserError("not a record file", where, f"its first line is not JSON; {allowed}")
    return UserError("not JSON", where, "a record file holds one JSON object a line")


def read(path: Path | str, warn: Callable[[str], None]) -> tuple[list[Context], list[Record]]:
    """Every context and record of one file; what was tolerated goes to `warn` as one line each."""
    reader = Reader(path)
    return _whole(reader, warn)


def _whole(reader: Reader, warn: Callable[[str], None]) -> tuple[list[Context], list[Record]]:
    records = [line.value for line in reader if isinstance(line.value, Record)]
    for warning in reader.warnings:
        warn(warning)
    return list(reader.contexts.values()), records


class Writer:
    """Appends lines to a file, each with one write, so that whatever kills the program leaves whole
    lines.

    A kill of the program loses nothing that `write` returned from; `sync` (called at block ends)
    makes the lines survive a crash of the machine too."""

    def __init__(self, fd: int, name: str, created: bool) -> None:
        self.name = name
        self._fd = fd
        self._created = created
        self._lines = 0
        self._unsynced = False

    def write(self, value: Context | Record) -> None:
        data = msgspec.json.encode(value) + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise RunError(f"{self.name}: {error.strerror}") from None
        self._lines += 1
        self._unsynced = True

    def sync(self) -> None:
        """Ask the disk to keep what was written; a pipe or terminal has nothing to keep."""
        if self._unsynced:
            self._unsynced = False
            with contextlib.suppress(OSError):
                os.fsync(self._fd)

    def close(self) -> None:
        """Sync and close; a file made for a run that wrote nothing is removed again."""
        self.sync()
        if self._fd > 2:
            os.close(self._fd)
        if self._created and not self._lines:
            Path(self.name).unlink(missing_ok=True)


def create(path: str, where: str = "--output", otherwise: str = "") -> Writer:
    """A writer to a new file, opened before anything is measured; ``-`` is standard output.
    `otherwise`: what else can be done where the file exists.

    An existing file is refused; a device or pipe is written to.
    """
    if path == "-":
        return Writer(1, "standard output", created=False)
    existed = os.path.lexists(path)
    new = 0 if existed and is_special(path) else os.O_EXCL
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | new
    try:
        return Writer(os.open(path, flags, 0o666), path, created=not existed)
    except OSError as error:
        if isinstance(error, FileExistsError) and not os.path.isdir(path):
            allowed = f"remove it or name another file{otherwise}"
            raise UserError(f"{path} exists", where, allowed) from None
        why, allowed = error.strerror, "name a file that can be written"
        if isinstance(error, FileExistsError):
            why, allowed = "it is a directory", "name a file"
        elif isinstance(error, FileNotFoundError):
            why, allowed = "no such directory", "name a file in a directory that exists"
        raise UserError(f"cannot write {path}: {why}", where, allowed) from None


def is_special(path: str) -> bool:
    """Whether a name leads to a device, pipe or socket, which writing does not replace."""
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)


def new_path(stem: str, where: str = "--output") -> str:
    """``results/STEM.jsonl`` in the current directory, with its folder made."""
    try:
        Path("results").mkdir(exist_ok=True)
    except OSError as error:
        what = f"cannot make results/ here: {error.strerror}"
        raise UserError(what, where, "name a file") from None
    return f"results/{stem}.jsonl"


def moment() -> str:
    """The time as part of a file's name: ``20261122T053000Z``."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")


class PartialFile(NamedTuple):
    """An interrupted record file: what it holds, and a writer that continues it."""

    contexts: list[Context]
    records: list[Record]
    writer: Writer | None


def reopen(
    path: str, check: Callable[[list[Context]], None], warn: Callable[[str], None], write: bool
) -> PartialFile:
    """Read a file to be continued and, when `write` and `check` agree, open it for appending.

    `check` sees the contexts and refuses another machine's by raising; only then is a truncated
    last line cut off."""
    reader = Reader(path)
    contexts, records = _whole(reader, warn)
    check(contexts)
    if not write:
        return PartialFile(contexts, records, None)
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        if reader.warnings:
            os.ftruncate(fd, reader.good_end)
        if not reader.ends_with_newline:
            os.write(fd, b"\n")
    except OSError as error:
        raise cannot_write(path, error, "--resume") from None
    return PartialFile(contexts, records, Writer(fd, path, created=False))
