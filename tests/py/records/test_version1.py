"""Records and contexts of version 1, as its probe wrote them, read as the present version's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linewright.errors import UserError
from linewright.records import files, store
from linewright.schema import VERSION
from support.places import DATA

FILE = DATA / "version1.jsonl"
LINES = [json.loads(line) for line in FILE.read_text().splitlines()]
ALONE, AMONG_WORK, READER, CONTENDED = LINES[1:]


def test_every_value_arrives_under_its_present_name() -> None:
    (context,), records = files.read(FILE, pytest.fail)
    assert context.linewright_context == VERSION
    assert context.nop_iter_ns == LINES[0]["work_iter_ns"] and context.work_unit_ns is None
    for old, new in zip(LINES[1:], records, strict=True):
        assert new.linewright_record == VERSION
        assert new.baseline_ns == old["empty_ns"] and new.window_ns == old["window_ns"]
        assert new.completion_baseline_ns == old["completion_empty_ns"]
        assert new.discarded.long_batch == old["discarded"]["gap"]
        assert new.id == new.cell.id
    assert records[0].completion_baseline_ns


def test_work_of_version_1_is_the_nop_loop_and_the_id_says_so() -> None:
    _, records = files.read(FILE, pytest.fail)
    assert [record.cell.work for record in records] == ["chain", "nop_loop", "nop_loop", "chain"]
    assert records[0].id == ALONE["id"] and records[3].id == CONTENDED["id"], "no work, no difference"
    assert records[1].id == AMONG_WORK["id"].replace("/w20/", "/nop20/")
    assert records[2].id == READER["id"].replace("/w0/", "/nop0/"), "the work stands inside the section"


def test_a_store_reads_it_a_second_time() -> None:
    with store.Store([str(FILE)], pytest.fail) as stored:
        stored.read()
        assert [record.cell.work for record in stored.records()] == ["chain", "nop_loop", "nop_loop", "chain"]


@pytest.mark.parametrize(
    ("line", "changes", "message"),
    [
        (1, {"baseline_ns": [1.0]}, "unknown field `baseline_ns`"),
        (1, {"nosuch": 1}, "unknown field `nosuch`"),
        (1, {"empty_ns": "x"}, "baseline_ns"),
        (2, {"id": AMONG_WORK["id"].replace("/w20/", "/nop20/")}, "is not that of its cell"),
        (2, {"cell": AMONG_WORK["cell"] | {"work": "nop_loop"}}, "unknown field `work`"),
        (1, {"discarded": {"long_batch": 1}}, "unknown field `long_batch`"),
        (0, {"nop_iter_ns": 1.0}, "unknown field `nop_iter_ns`"),
    ],
)
def test_what_version_1_did_not_have_is_refused(tmp_path: Path, line: int, changes: dict, message: str) -> None:
    data = json.dumps(LINES[line] | changes).encode()
    with pytest.raises(UserError, match=message):
        files.decode_line(data, "here:1")


def test_a_plan_of_version_1_is_refused_naming_both() -> None:
    with pytest.raises(UserError, match="plan of version 1, this program reads version 2"):
        files.decode_plan(b'{"linewright_plan":1,"name":"n","cells":[]}', "here")
