# SPDX-License-Identifier: MIT
"""The layouts of published tables: their figures as records with what they lack marked, our records
in their columns."""

from __future__ import annotations

import csv
import io
import subprocess

import pytest

from linewright.analysis import findings, summarise
from linewright.errors import UserError
from linewright.schema import Cell, Record
from support.published import FUTEX_TABLE, PROGRAM, TABLE, published

COLUMNS, FUTEX_COLUMNS = published.COLUMNS, published.FUTEX_COLUMNS
from_percpu_bench, from_table = published.from_percpu_bench, published.from_table
HEAD, FUTEX_HEAD = ",".join(COLUMNS), ",".join(FUTEX_COLUMNS)


def line(name, c, d, p50, spread=0.5):
    """One line as the upstream tool prints it."""
    figures = "\t".join(
        f"  {p}: {p50 + i * spread:06.2f} ns" for i, p in enumerate(("p50", "p95", "p99"))
    )
    return f"{name:15s} (c {c:16d}, d {d:16d}): {figures}"


UPSTREAM = "\n".join(
    [
        "ARM64 Per-CPU Atomic Add Benchmark",
        "===================================",
        "Running percentile measurements (100 iterations)...",
        "Detected 72 CPUs",
        "",
        " CPU: 0 - Latency Percentiles:",
        "====================",
        line("LSE (stadd)", 0, 0, 63.65),
        line("LSE (stadd)", 10, 0, 115.33),
        line("LL/SC", 0, 0, 5.66),
        line("LL/SC", 10, 0, 11.32),
        line("LDADD", 0, 100, 32.15),
        line("PFRM_KEEP+STADD", 0, 0, 3.97),
        line("PFRM_STRM+STADD", 1000000, 0, 21.83),
        "",
        " CPU: 1 - Latency Percentiles:",
        "====================",
        line("LSE (stadd)", 0, 0, 45.79),
        "",
        "=== Benchmark Complete ===",
    ]
)


def test_the_published_table_becomes_records_that_say_what_they_lack():
    (context,), records = from_table(TABLE.read_text(), TABLE.name)
    assert (context.target, context.arch, context.virtualised) == ("published", "arm64", "unknown")
    assert len(records) == 32 and all(
        r.batch and not r.window_ns and "published" in r.reason for r in records
    )
    (far,) = [
        r
        for r in records
        if (r.cell.form, r.cell.contender, r.cell.work_iters) == ("stadd", "none", 0)
    ]
    assert (far.batch.p50_ns, far.batch.p99_ns, far.batch.ops_per_sample) == (
        63.65,
        65.32,
        10_000_000,
    )
    assert {r.cell.work for r in records if r.cell.work_iters} == {"nop_loop"}
    assert from_table(TABLE.read_text(), TABLE.name) == ([context], records), (
        "the same table gives the same records"
    )


def test_the_upstream_tools_own_output():
    (context,), records = from_percpu_bench(UPSTREAM, "out.txt")
    rows = {
        (r.cell.form, r.cell.contender, r.cell.contender_iters, r.cell.work_iters, r.cpus[0]): r
        for r in records
    }
    assert (
        rows[("stadd", "none", 0, 0, 0)].batch.p50_ns == 63.65
        and rows[("stadd", "none", 0, 0, 1)].batch.p50_ns == 45.79
    )
    assert rows[("stadd", "same_line", 10, 0, 0)].cell.placement == "cpus:0,32"
    assert rows[("ldadd", "none", 0, 100, 0)].batch.p95_ns == 32.65
    assert rows[("prfm_strm_stadd", "same_line", 1_000_000, 0, 0)].batch.p50_ns == 21.83
    assert len(records) == 8 and context.target == "published"


def test_the_first_version_of_the_tool_had_no_contention():
    _, records = from_percpu_bench(
        " CPU: 3 - Latency Percentiles:\n LL/SC:   p50: 7.32 ns     p95: 7.32 ns    p99: 7.33 ns\n"
        " LSE  :   p50: 5.01 ns     p95: 5.01 ns    p99: 5.03 ns\n", "mail.txt",
    )  # fmt: skip
    assert [(r.cell.form, r.batch.p50_ns, r.cpus) for r in records] == [
        ("llsc_add", 7.32, [3]),
        ("stadd", 5.01, [3]),
    ]


def test_on_x86_the_tool_keeps_its_names_and_the_forms_are_others():
    text = UPSTREAM.replace("ARM64 Per-CPU", "x86_64 Per-CPU")
    (context,), records = from_percpu_bench(text, "out.txt")
    assert context.arch == "x86_64"
    assert {r.cell.form for r in records} == {"lock_add", "cmpxchg_loop_read_first", "lock_xadd"}
    assert all(
        r.cell.operation
        == {"lock_add": "add", "lock_xadd": "fetch_add"}.get(r.cell.form, "cmpxchg")
        for r in records
    )


def test_a_contender_on_the_same_cpu_is_flagged_and_left_out():
    """Exactly 2.00 times the uncontended figure: CPU 32 did not exist, and the contender stayed
    where it was."""
    contexts, records = from_percpu_bench(UPSTREAM, "out.txt")
    flagged = [r for r in records if r.flags]
    assert [(r.cell.form, r.cell.contender, r.flags) for r in flagged] == [
        ("llsc_add", "same_line", ["same_cpu"])
    ]
    contended = [
        f for f in findings(summarise(contexts, records)) if f.situation.contender == "same_line"
    ]
    assert not any("llsc_add" in (f.default, *(r.first.form for r in f.rows)) for f in contended)
    doubled = (
        f"{HEAD}\nstadd,none,,0,5,5,5\n"
        "stadd,same_line,10,0,10.01,11,12\nstadd,same_line,30,0,10.9,11,12\n"
    )
    assert [r.flags for r in from_table(doubled, "t.csv")[1]] == [[], ["same_cpu"], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a published table"),
        ("form,ns\nstadd,5\n", "not a published table"),
        (f"{HEAD}\nstadd,none,,0,5,5\n", "line 2"),
        (f"{HEAD}\nstadd,maybe,,0,5,5,5\n", "line 2"),
        (f"{HEAD}\nstadd,same_line,x,0,5,5,5\n", "line 2"),
        (f"{HEAD}\nstadd,none,,0,nan,5,5\n", "line 2"),
        (f"{HEAD}\nSTADD!,none,,0,5,5,5\n", "line 2"),
        (f"{HEAD}\nstadd,none,,0,5,5,5\nstadd,none,,0,6,6,6\n", "two rows of one cell"),
    ],
)
def test_what_is_no_table_is_refused_in_a_line(text, message):
    with pytest.raises(UserError, match=message):
        from_table(text, "t.csv")


def test_text_without_a_result_is_refused():
    with pytest.raises(UserError, match="nor a line of percpu_bench"):
        from_percpu_bench("hello\n CPU: 0\n", "out.txt")
    with pytest.raises(UserError, match="not a time"):
        from_percpu_bench("LDADD : p50: 1.2.3 ns p95: 1 ns p99: 1 ns", "out.txt")


def test_records_in_the_columns_of_the_table():
    cells = {
        "a": Cell(operation="add", form="stadd", lines=1),
        "b": Cell(
            operation="add",
            form="stadd",
            lines=1,
            contender="same_line",
            contender_iters=10,
            threads=2,
        ),
        "p": Cell(operation="add", form="stadd", lines=1, contender="placebo", threads=2),
    }
    records = [
        Record(
            linewright_record=2,
            context_id="0",
            id=cell.id,
            cell=cell,
            plan="published",
            status="ok",
            window_ns=[float(n) for n in range(1, 101)],
        )
        for cell in cells.values()
    ]
    rows = list(csv.reader(io.StringIO(published.as_csv(records))))
    assert rows[0] == [
        "form",
        "contender",
        "contender_iters",
        "work_iters",
        "p50_ns",
        "p95_ns",
        "p99_ns",
    ]
    assert rows[1] == ["stadd", "none", "", "0", "50.50", "95.05", "99.01"]
    assert rows[2][:4] == ["stadd", "same_line", "10", "0"]
    assert len(rows) == 3


def test_the_option_s_table_says_what_was_published():
    rows = published.futex_from_table(FUTEX_TABLE.read_text(), FUTEX_TABLE.name)
    assert len(rows) == 11 and {program for program, _ in rows} == set(published.PROGRAMS)
    changes = {
        threads: rows["futex-wake", threads].change for threads in (1, 48, 96, 160, 192, 256)
    }
    figures = {1: 4.76, 48: 16.10, 96: 15.62, 160: 16.72, 192: 10.88, 256: 10.82}
    for threads, percent in figures.items():
        assert changes[threads] == pytest.approx(-percent / 100, abs=6e-5)
    assert rows["futex-hash", None].change == pytest.approx(-0.0082, abs=5e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a table"),
        ("program,off,on\n", "not a table"),
        (f"{FUTEX_HEAD}\n", "without rows"),
        (f"{FUTEX_HEAD}\nfutex-wake,1,ms,0.1\n", "line 2 is no row"),
        (f"{FUTEX_HEAD}\nmutex,1,ms,0.1,0.2\n", "line 2 is no row"),
        (f"{FUTEX_HEAD}\nfutex-wake,0,ms,0.1,0.2\n", "line 2 is no row"),
        (f"{FUTEX_HEAD}\nfutex-wake,1,s,0.1,0.2\n", "line 2 is no row"),
        (f"{FUTEX_HEAD}\n# x\nfutex-wake,1,ms,0,0.2\n", "line 3 is no row"),
        (f"{FUTEX_HEAD}\nfutex-wake,1,ms,nan,0.2\n", "line 2 is no row"),
        (f"{FUTEX_HEAD}\nfutex-wake,1,ms,1,2\nfutex-wake,1,ms,1,2\n", "twice"),
    ],
)
def test_what_is_no_table_of_the_option_is_refused_by_its_line(text, message):
    with pytest.raises(UserError, match=message):
        published.futex_from_table(text, "t.csv")


def ask(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True)


def test_the_script_writes_what_the_commands_take(command):
    (command.directory / "out.txt").write_text(UPSTREAM)
    upstream, table = command.directory / "up.jsonl", command.directory / "table.jsonl"
    upstream.write_text(ask("records", command.directory / "out.txt").stdout)
    table.write_text(ask("records", TABLE).stdout)
    assert "63.65" in command("show", table, "--format", "csv").stdout
    assert "published medians, work included" in command("show", table, "--json").stdout
    assert command("report", table, upstream, "-o", "r.html").returncode == 0
    assert "only percentiles" in command.refused("compare", table, table)
    assert "futex-wake,48,ms,0.0907,0.0761,-16.1" in ask("futex", FUTEX_TABLE).stdout
    assert ask("rows", table).stdout.startswith(HEAD)


def test_the_script_refuses_in_a_line(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "other").write_text("hello\n")
    for words, message in {
        ("records", tmp_path / "absent.csv"): "No such file",
        ("records", tmp_path / "other"): "neither a published table",
        ("records", tmp_path / "bytes"): "UTF-8",
    }.items():
        answer = ask(*words)
        assert answer.returncode == 2 and message in answer.stderr and not answer.stdout
        assert answer.stderr.count("\n") == 1
