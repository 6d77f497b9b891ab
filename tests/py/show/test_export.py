"""`linewright export`: Google Benchmark's own tool takes what we write; CSV and Parquet hold the
same rows."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from linewright.schema import Record
from support import waiting
from support.analysis_samples import cell, context, launches, record, write

GOOGLES_COMPARE = Path("/usr/share/benchmark/compare.py")
"""Debian's libbenchmark-tools."""


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


NUMBERS = {
    "real_time": float,
    "cpu_time": float,
    "iterations": int,
    "repetitions": int,
    "threads": int,
    "family_index": int,
    "per_family_instance_index": int,
}


def test_googles_shape(command, made):
    told = json.loads(command("export", made, "--format", "google-benchmark").stdout)
    assert told["context"].keys() >= {
        "date",
        "host_name",
        "executable",
        "num_cpus",
        "mhz_per_cpu",
        "cpu_scaling_enabled",
        "caches",
        "load_avg",
        "library_build_type",
        "json_schema_version",
    }
    runs = [
        b for b in told["benchmarks"] if b["run_type"] == "iteration" and "error_occurred" not in b
    ]
    for b in told["benchmarks"]:
        assert all(isinstance(b[name], kind) for name, kind in NUMBERS.items()), b
        assert (
            b["time_unit"] == "ns"
            and b["name"].startswith(b["run_name"])
            and b["run_type"] in ("iteration", "aggregate")
        )
    contended = [b for b in runs if "same_line" in b["name"]]
    assert [b["repetition_index"] for b in contended] == list(range(5)) and {
        b["repetitions"] for b in contended
    } == {5}
    assert len(runs) == 5 + 32, "launches, and lines of the cell that ran in one launch"
    by_name = {
        b["aggregate_name"]: b
        for b in told["benchmarks"]
        if b["run_type"] == "aggregate" and "same_line" in b["name"]
    }
    times = [b["real_time"] for b in contended]
    assert by_name["median"]["real_time"] == pytest.approx(np.median(times)) and by_name["stddev"][
        "real_time"
    ] == pytest.approx(np.std(times, ddof=1))
    assert by_name["cv"]["aggregate_unit"] == "percentage" and by_name["mean"]["name"].endswith(
        "_mean"
    )
    assert (
        by_name["median"]["issue_low_ns"]
        <= by_name["median"]["real_time"]
        <= by_name["median"]["issue_high_ns"]
    )
    (failed,) = [b for b in told["benchmarks"] if b.get("error_occurred")]
    assert (
        failed["error_message"].startswith("unavailable: =cmd")
        and "\x1b" not in failed["error_message"]
    )


@pytest.mark.skipif(not GOOGLES_COMPARE.exists(), reason="libbenchmark-tools is not installed")
def test_googles_own_tool_compares_two_exports(command, made):
    for name in ("a.json", "b.json"):
        assert (
            command(
                "export", made, "--format", "google-benchmark", "-o", name, "--only", "stadd"
            ).returncode
            == 0
        )
    said = waiting.run(
        [sys.executable, GOOGLES_COMPARE, "--no-color", "benchmarks", "a.json", "b.json"],
        cwd=command.directory,
    )
    assert said.returncode == 0, said.stderr
    assert (
        "add/stadd/u64/relaxed/same_line" in said.stdout
        and "U Test, Repetitions: 5 vs 5" in said.stdout
    )


def test_csv_is_what_show_prints(command, made):
    assert command("export", made, "--format", "csv", "-o", "r.csv").returncode == 0
    text = (command.directory / "r.csv").read_text()
    assert text == command("show", made, "--format", "csv").stdout
    reasons = [row["reason"] for row in csv.DictReader(io.StringIO(text))]
    assert any(reason.startswith("'=cmd") for reason in reasons), "a spreadsheet must not run it"
    assert "\x1b" not in text


def test_parquet_holds_the_same_rows_with_types(command, made):
    pq = pytest.importorskip("pyarrow.parquet")
    assert command("export", made, "--format", "parquet", "-o", "r.parquet").returncode == 0
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
        (["--format", "xml"], ["no format 'xml'", "csv, parquet, google-benchmark"]),
        (["--format", "csv", "-o", "r.jsonl"], ["r.jsonl exists", "remove it"]),
        (["--format", "csv", "-o", "absent/r.csv"], ["cannot write absent/r.csv"]),
        (["--format", "csv", "--only", "nothing"], ["--only", "'nothing'"]),
    ],
)
def test_wrong_requests_are_one_line(command, made, words, messages):
    said = command.refused("export", made, *words)
    assert all(message in said for message in messages), said


def test_google_describes_one_machine(command):
    rows = [record(cell("stadd"), [5.0] * 9, c * 16) for c in "ab"]
    name = write(
        command.directory / "two.jsonl",
        [context("a" * 16, "1" * 16), context("b" * 16, "2" * 16)],
        rows,
    )
    assert "2 machines" in command.refused("export", name, "--format", "google-benchmark")
    assert command("export", name, "--format", "csv").returncode == 0


def test_a_full_disk_is_no_finished_export(command, made):
    answer = command("export", made, "--format", "csv", "-o", "/dev/full")
    assert answer.returncode == 3 and "No space left" in answer.stderr
