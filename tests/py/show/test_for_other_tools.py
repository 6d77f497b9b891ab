# SPDX-License-Identifier: MIT
"""`linewright show --format`: CSV and Parquet hold the same rows."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from linewright.schema import Record
from support.analysis_samples import cell, context, launches, published, record, write


@pytest.fixture
def made(command) -> str:
    """A contended cell of five launches, one that ran in one launch, and one without figures whose
    reason attacks."""
    rng = np.random.default_rng(1)
    rows: list[Record] = launches(cell("stadd", contender="same_line", threads=2), 40.0, rng)
    rows += launches(cell("ldadd"), 5.0, rng, count=1, windows=64)
    rows.append(
        record(cell("plain_add"), status="unavailable", reason="=cmd|' /c calc'!A0\x1b[31m<b>")
    )
    return write(
        command.directory / "r.jsonl",
        [context(context_id=i) for i in dict.fromkeys(r.context_id for r in rows)],
        rows,
    )


def test_csv_is_what_show_prints(command, made):
    assert command("show", made, "--format", "csv", "-o", "r.csv").returncode == 0
    text = (command.directory / "r.csv").read_text()
    assert text == command("show", made, "--format", "csv").stdout
    reasons = [row["reason"] for row in csv.DictReader(io.StringIO(text))]
    assert any(reason.startswith("'=cmd") for reason in reasons), "a spreadsheet must not run it"
    assert "\x1b" not in text


def test_parquet_holds_the_same_rows_with_types(command, made):
    pq = pytest.importorskip("pyarrow.parquet")
    assert command("show", made, "--format", "parquet", "-o", "r.parquet").returncode == 0
    table = pq.read_table(command.directory / "r.parquet")
    rows = list(csv.DictReader(io.StringIO(command("show", made, "--format", "csv").stdout)))
    assert table.column_names == list(rows[0]) and table.num_rows == len(rows)
    assert table.column("issue_median_ns").to_pylist() == [
        float(row["issue_median_ns"]) if row["issue_median_ns"] else None for row in rows
    ]
    assert json.loads(table.schema.metadata[b"linewright_contexts"])[0]["cpu_model"] == "synthetic"


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--format", "xml"], ["no format 'xml'", "csv, parquet"]),
        (["--format", "csv", "-o", "r.jsonl"], ["r.jsonl exists", "remove it"]),
        (["--format", "csv", "-o", "absent/r.csv"], ["cannot write absent/r.csv"]),
        (["--format", "csv", "--only", "nothing"], ["--only", "'nothing'"]),
    ],
)
def test_wrong_requests_are_one_line(command, made, words, messages):
    said = command.refused("show", made, *words)
    assert all(message in said for message in messages), said


def test_a_full_disk_leaves_nothing_finished(command, made):
    answer = command("show", made, "--format", "csv", "-o", "/dev/full")
    assert answer.returncode == 3 and "No space left" in answer.stderr


def test_a_published_median_has_no_interval(command):
    """Both ends were the median: an interval of no width."""
    name = write(command.directory / "p.jsonl", *published())
    rows = list(csv.DictReader(io.StringIO(command("show", name, "--format", "csv").stdout)))
    ends = {(row["issue_low_ns"], row["issue_high_ns"]) for row in rows}
    assert ends == {("", "")} and all(float(row["issue_median_ns"]) > 0 for row in rows)
    told = json.loads(command("show", name, "--json").stdout)["cells"]
    assert {row["issue_low_ns"] for row in told} == {None}
