# SPDX-License-Identifier: MIT
"""Record files from strangers: any size in bounded memory, nothing run, nothing that drives a
terminal, one clear refusal."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linewright.analysis import loading, merge, summarise
from linewright.compare import from_files as compare_files
from linewright.errors import LinewrightError, UserError
from linewright.records import files as records
from linewright.records import store
from linewright.say import cell_rows, comparison_document
from linewright.say import machine_document as advice
from linewright.say.machine_document import for_programs
from linewright.schema import Context
from linewright.show.output import csv_of
from support.analysis_samples import cell, context, record, write

ATTACK = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e$(touch owned)`touch owned`[red]=1+1[/red]<script>\0\n\r"
)
DRIVES = set("\x1b\x07\x9b\u202e\0\r")


def hostile_context(**changes: object) -> Context:
    texts = dict.fromkeys(
        (
            "cpu_model",
            "kernel",
            "governor",
            "compiler",
            "tool_version",
            "boot_parameters",
            "rseq",
            "counters_reason",
            "started_utc",
            "target",
        ),
        ATTACK,
    )
    return context(**texts, cpu_ids=[ATTACK], features=[ATTACK], **changes)


def test_no_text_of_a_file_drives_the_terminal(command):
    rows = [
        record(cell("stadd"), [5.0, 5.1] * 9),
        record(cell("ldadd"), status="unavailable", reason=ATTACK, placement_class=ATTACK),
    ]
    name = write(command.directory / "r.jsonl", [hostile_context()], rows)
    said = [
        command("show", name),
        command("show", name, "--format", "csv"),
        command("show", name, "--json"),
        command("advise", name),
        command("compare", name, name, "--all"),
    ]
    said += [
        command("show", name, "--format", "csv"),
    ]
    for answer in said:
        assert answer.returncode == 0, answer.stderr
        assert not DRIVES & set(answer.stdout + answer.stderr), answer.args
    assert "[red]=1+1[/red]" in said[0].stdout, "markup is text"
    assert not (command.directory / "owned").exists()


def test_a_hostile_name_in_an_error_is_quoted_short_and_harmless(command):
    (command.directory / "r.jsonl").write_bytes(
        msgspec.json.encode(context())
        + b"\n"
        + json.dumps({"linewright_record": 2, "x" * 90_000 + ATTACK: 1}).encode()
    )
    said = command.refused("show", "r.jsonl")
    assert len(said) < 5000 and not DRIVES & set(said)


def test_a_line_of_half_a_gigabyte_is_refused_and_not_read(tmp_path: Path):
    path = tmp_path / "r.jsonl"
    with path.open("wb") as file:
        file.write(msgspec.json.encode(context()) + b"\n")
        file.truncate(500 * 2**20)  # no newline in it, and no disk under it
    tracemalloc.start()
    with pytest.raises(
        UserError, match=f"r.jsonl:2: line longer than {records.LONGEST_LINE} bytes"
    ):
        loading.load([str(path)], print)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * records.LONGEST_LINE


def many_runs(path: Path, runs: int, windows: int = 64, cells: int = 24) -> int:
    """A file of `runs` launches of `cells` cells each; its size in bytes."""
    rng = np.random.default_rng(1)
    values = [float(f"{v:.6g}") for v in 10 + rng.random(windows)]
    with path.open("wb") as file:
        for run in range(runs):
            file.write(msgspec.json.encode(context(context_id=f"{run:016x}")) + b"\n")
            for number in range(cells):
                one = cell("stadd", work_iters=number, contender="same_line", threads=2)
                file.write(
                    msgspec.json.encode(record(one, values, f"{run:016x}", baseline_ns=values))
                    + b"\n"
                )
    return path.stat().st_size


def test_memory_is_bounded_whatever_the_size_of_the_file(tmp_path: Path):
    """Ten times the file: what is held grows by the index and the contexts only, by far less than
    the file did."""
    peaks, sizes = [], []
    for runs in (10, 100):
        sizes.append(many_runs(tmp_path / f"{runs}.jsonl", runs))
        tracemalloc.start()
        with store.Store([str(tmp_path / f"{runs}.jsonl")], print) as stored:
            stored.read()
            assert sum(len(members) for _, members in stored.groups()) == runs * 24
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 2, (peaks, sizes)


def quantiles(bucket: int) -> dict:
    """Percentiles whose histogram has one sample, in the given bucket."""
    times = dict.fromkeys(("p50_ns", "p95_ns", "p99_ns", "max_ns"), 1.0)
    return {
        "of": "batch_mean",
        "ops_per_sample": 1,
        "samples": 1,
        **times,
        "histogram": [[bucket, 1]],
    }


def test_the_last_bucket_is_one():
    """Its middle is a finite time; the buckets behind it would take numbers of any size to say
    theirs."""
    line = msgspec.json.encode(
        msgspec.to_builtins(record(cell("stadd"), [5.0] * 9))
        | {"batch": quantiles(records.MOST_BUCKET)}
    )
    (summary,) = summarise([context()], [records.decode_line(line, "here")])
    assert summary.batch.p99_ns == pytest.approx(2**64 / 1000, rel=0.01)
    assert merge.bucket_bounds(records.MOST_BUCKET)[1] == 2**64 - 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch": quantiles(7424)}, "batch.histogram has a bucket beyond 7423"),
        ({"small_batch": quantiles(2**53)}, "small_batch.histogram has a bucket beyond 7423"),
    ],
)
def test_a_bucket_beyond_the_last_is_refused(changed: dict, message: str):
    line = msgspec.json.encode(msgspec.to_builtins(record(cell("stadd"), [5.0] * 9)) | changed)
    with pytest.raises(UserError, match=message):
        records.decode_line(line, "here")


def test_a_file_named_twice_counts_once(tmp_path: Path):
    many_runs(tmp_path / "r.jsonl", 3, windows=8, cells=2)
    said: list[str] = []
    twice = loading.load([str(tmp_path / "r.jsonl")] * 2, said.append)
    assert [s.launches for s in twice.summaries] == [
        3,
        3,
    ] and "6 records occur more than once and count once" in said[0]


def test_files_that_contradict_each_other_are_refused(tmp_path: Path):
    write(tmp_path / "a.jsonl", [context()], [record(cell("stadd"), [5.0] * 9)])
    write(tmp_path / "b.jsonl", [context()], [record(cell("stadd"), [6.0] * 9)])
    write(tmp_path / "c.jsonl", [context(kernel="another")], [record(cell("stadd"), [5.0] * 9)])
    with pytest.raises(UserError, match="occurs twice with different content"):
        loading.load([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], print)
    with pytest.raises(UserError, match="differs from the one with the same id in an earlier file"):
        loading.load([str(tmp_path / "a.jsonl"), str(tmp_path / "c.jsonl")], print)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path):
    path = tmp_path / "r.jsonl"
    many_runs(path, 2, windows=8, cells=2)
    with store.Store([str(path)], print) as stored:
        stored.read()
        with path.open("r+b") as file:
            file.write(b"x" * 2000)
        with pytest.raises(UserError, match="changed while it was read"):
            list(stored.groups())


def test_a_pipe_is_read_too(command):
    many_runs(command.directory / "r.jsonl", 2, windows=8, cells=2)
    read, written = os.pipe()
    with open(command.directory / "r.jsonl", "rb") as file, os.fdopen(written, "wb") as pipe:
        pipe.write(file.read())
    answer = command("show", f"/dev/fd/{read}", "--format", "csv")
    os.close(read)
    assert (
        answer.returncode == 0
        and answer.stdout == command("show", "r.jsonl", "--format", "csv").stdout
    )


WHOLE = [
    msgspec.to_builtins(value)
    for value in (
        context(),
        record(cell("stadd"), [5.0, 5.5, 6.0] * 4, baseline_ns=[1.0] * 12),
        record(cell("ldadd", work_iters=20), [9.0, 9.5] * 6, baseline_ns=[8.0] * 12),
    )
]
NASTY = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2**53,
        2**64,
        10**400,
        1e308,
        -1e308,
        5e-324,
        "",
        "x" * 5000,
        ATTACK,
        "ok",
        [],
        [[]],
        {},
        {"a": {}},
        [1e308, -1e308, 0.0],
        [0] * 12,
        "NaN",
        "Infinity",
    ]
)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """Paths to everything inside a JSON value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [found for key, child in inner for found in [(*path, key), *places(child, (*path, key))]]


PLACES = [(number, *path) for number, line in enumerate(WHOLE) for path in places(line)]


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.sampled_from(PLACES), NASTY), min_size=1, max_size=3), st.booleans())
def test_any_value_in_any_place_is_shown_or_refused(
    tmp_path: Path, changes: list[tuple], twice: bool
):
    lines = json.loads(json.dumps(WHOLE))
    for path, nasty in changes:
        at = lines
        for key in path[:-1]:
            at = (
                at[key]
                if isinstance(at, (dict, list))
                and (key in at if isinstance(at, dict) else isinstance(key, int) and key < len(at))
                else None
            )
        if isinstance(at, dict) or (
            isinstance(at, list) and isinstance(path[-1], int) and path[-1] < len(at)
        ):
            at[path[-1]] = nasty
    text = (
        "\n".join(json.dumps(line) for line in lines)
        .replace('"NaN"', "NaN")
        .replace('"Infinity"', "Infinity")
    )
    path = tmp_path / "r.jsonl"
    path.write_text(
        text + "\n" + (text + "\n" if twice else ""), encoding="utf-8", errors="surrogatepass"
    )
    try:
        with np.errstate(all="ignore"):
            loaded = loading.load([str(path)], lambda text: None)
            contexts = list(loaded.contexts.values())
            told = (
                csv_of(cell_rows.of_cells(loaded.summaries))
                + msgspec.json.encode(for_programs(loaded.summaries, contexts)).decode()
            )
            advice.documents(loaded.summaries, contexts, "evidence")
            found = compare_files.compare(
                [str(path), str(path)], compare_files.CompareOptions(0.05), lambda text: None
            )
            told += msgspec.json.encode(comparison_document.for_programs(found)).decode()
    except LinewrightError as error:
        told = str(error)
    assert not DRIVES & set(told)


@pytest.mark.parametrize(
    "data",
    [
        b'{"linewright_record":2,"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'{"linewright_record":2,"metrics":' + b"[" * 200_000,
        b'{"linewright_record":2,"linewright_record":2,"linewright_context":2}',
        b'{"linewright_record":2,"reason":"\xff\xfe"}',
        b'{"linewright_record":2,"reason":"\\ud800"}',
        b'{"linewright_record":2,"total_mops":1e999}',
        b'{"linewright_record":2,"launch":' + b"9" * 5000 + b"}",
        b'{"linewright_record":1e0}',
        b'{"linewright_record":true}',
        b"\xef\xbb\xbf{}",
        b"\0" * 100,
    ],
    ids=range(11),
)
def test_odd_json_is_refused_in_a_line(data: bytes):
    for decode in (records.decode_line, records.decode_plan):
        with pytest.raises(UserError) as refusal:
            decode(data, "here:1")
        assert "\n" not in str(refusal.value) and not DRIVES & set(str(refusal.value))
