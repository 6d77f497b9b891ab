# SPDX-License-Identifier: MIT
"""Record files: whole lines whatever happens, one clear refusal for anything else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linewright.errors import RunError, UserError
from linewright.records import files as records
from linewright.schema import Context, Record
from support.places import EXAMPLES

CONTEXT = (
    json.dumps(json.loads((EXAMPLES / "context-valid-x86-64.json").read_text())).encode() + b"\n"
)
RECORD = json.dumps(json.loads((EXAMPLES / "record-valid-ok.json").read_text())).encode() + b"\n"
UNAVAILABLE = (
    json.dumps(json.loads((EXAMPLES / "record-valid-unavailable.json").read_text())).encode()
    + b"\n"
)
WHOLE = CONTEXT + RECORD + UNAVAILABLE


def read(path: Path, data: bytes) -> tuple[list[Context], list[Record], list[str]]:
    path.write_bytes(data)
    warnings: list[str] = []
    contexts, rows = records.read(path, warnings.append)
    return contexts, rows, warnings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.jsonl"


def test_a_file_reads_back(path: Path):
    contexts, rows, warnings = read(path, WHOLE)
    assert (len(contexts), len(rows), warnings) == (1, 2, [])


def test_files_concatenate(path: Path):
    other = CONTEXT.replace(b"0123456789abcdef", b"1123456789abcdef") + RECORD.replace(
        b"0123456789abcdef", b"1123456789abcdef"
    )
    contexts, rows, _ = read(path, WHOLE + other + WHOLE)
    assert (len(contexts), len(rows)) == (2, 5)


@pytest.mark.parametrize("cut", [1, 10, len(UNAVAILABLE) - 2])
def test_a_truncated_last_line_is_dropped_with_a_warning(path: Path, cut: int):
    _contexts, rows, warnings = read(path, CONTEXT + RECORD + UNAVAILABLE[:cut])
    assert len(rows) == 1
    assert len(warnings) == 1 and "r.jsonl:3: truncated line dropped" in warnings[0]


def test_a_last_line_that_lacks_only_its_newline_counts(path: Path):
    assert len(read(path, WHOLE[:-1])[1]) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "r.jsonl: empty file"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "r.jsonl:1: not a record file"),
        (b"form,contender\nstadd,none\n", "r.jsonl:1: not a record file"),
        (b"\n\n", "r.jsonl:1: not a record file"),
        (CONTEXT[:50], "r.jsonl:1: not a record file"),
        (b'{"benchmarks": []}\n', "r.jsonl:1: not a line of records"),
        (b"[1,2]\n", "r.jsonl:1: "),
        (b"null\n", "r.jsonl:1: "),
        (
            RECORD,
            "r.jsonl:1: record of context '0123456789abcdef', which no line before it describes",
        ),
        (CONTEXT + b"garbage\n" + RECORD, "r.jsonl:2: not JSON"),
        (CONTEXT + RECORD[:40] + b"\n" + RECORD, "r.jsonl:2: not JSON"),
        (CONTEXT + RECORD + b"{}", "r.jsonl:3: not a line of records"),
        (
            CONTEXT + RECORD.replace(b'"linewright_record": 2', b'"linewright_record": 4'),
            "r.jsonl:2: record of version 4, this program reads version 2 and 3",
        ),
        (
            CONTEXT.replace(b'"linewright_context": 2', b'"linewright_context": "x"'),
            'r.jsonl:1: context of version "x", this program reads version 2',
        ),
        (
            CONTEXT + RECORD.replace(b"18446744073709551615", b"18446744073709551616"),
            "r.jsonl:2: sum_expected overflows 64 bits",
        ),
        (CONTEXT + RECORD.replace(b"[3000, 2900]", b"[3000, 99999999999999999999]"), "r.jsonl:2: "),
        (CONTEXT + RECORD.replace(b"[25.0,", b"[NaN,"), "r.jsonl:2: "),
        (CONTEXT + RECORD.replace(b"[25.0,", b"[Infinity,"), "r.jsonl:2: "),
        (CONTEXT + RECORD.replace(b"[25.0,", b"[1e400,"), "r.jsonl:2: "),
        (
            CONTEXT + CONTEXT.replace(b"AMD", b"Not AMD"),
            "r.jsonl:2: context 0123456789abcdef occurs twice with different content",
        ),
        (b"[" * 100_000 + b"\n", "r.jsonl:1: "),
    ],
    ids=range(21),
)
def test_what_is_no_record_file_is_refused_in_one_line(path: Path, data: bytes, message: str):
    with pytest.raises(UserError) as refusal:
        read(path, data)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value) and "\x7f" not in str(refusal.value)


def test_a_missing_file_and_a_directory(tmp_path: Path):
    with pytest.raises(UserError, match="No such file"):
        records.read(tmp_path / "absent", print)
    with pytest.raises(UserError, match="is a directory"):
        records.read(tmp_path, print)


def test_a_line_longer_than_any_record_is_not_read_into_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(records, "LONGEST_LINE", 4096)
    with pytest.raises(UserError, match="line longer than 4096 bytes"):
        read(path, CONTEXT + b"x" * 10_000)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    st.integers(0, len(WHOLE)),
)
def test_mutated_files_are_read_or_refused(path: Path, changes: list[tuple[int, int]], length: int):
    data = bytearray(WHOLE)
    for position, byte in changes:
        data[position] = byte
    try:
        read(path, bytes(data[:length]))
    except UserError as error:
        assert "\n" not in str(error)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_plan_or_refused(data: bytes):
    for decode in (records.decode_plan, records.decode_line):
        with pytest.raises(UserError):
            decode(data, "here")


def test_a_writer_leaves_whole_lines(path: Path):
    writer = records.create(str(path))
    context = msgspec.json.decode(CONTEXT, type=Context)
    writer.write(context)
    assert path.read_bytes().endswith(b"\n"), "a line is on its way before the file is closed"
    writer.close()
    assert records.read(path, print)[0] == [context]


def test_a_run_that_wrote_nothing_leaves_no_file(path: Path):
    records.create(str(path)).close()
    assert not path.exists()


def test_a_full_disk_stops_the_run():
    writer = records.create("/dev/full")
    with pytest.raises(RunError, match="/dev/full: No space left"):
        writer.write(msgspec.json.decode(CONTEXT, type=Context))
    os.close(writer._fd)


@pytest.mark.parametrize("tail", [b"", b'{"linewright_rec', UNAVAILABLE[:-1]])
def test_continuing_a_file_cuts_a_truncated_line_off(path: Path, tail: bytes):
    path.write_bytes(CONTEXT + RECORD + tail)
    found = records.reopen(str(path), lambda contexts: None, lambda warning: None, write=True)
    found.writer.write(msgspec.json.decode(UNAVAILABLE, type=Record))
    found.writer.close()
    rows = records.read(path, pytest.fail)[1]
    assert len(rows) == len(found.records) + 1


def test_a_file_that_is_refused_stays_as_it_is(path: Path):
    def refuse(contexts: list[Context]) -> None:
        raise UserError("another machine")

    path.write_bytes(CONTEXT + RECORD[:30])
    with pytest.raises(UserError, match="another machine"):
        records.reopen(str(path), refuse, print, write=True)
    assert path.read_bytes() == CONTEXT + RECORD[:30]
