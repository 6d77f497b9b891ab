# SPDX-License-Identifier: MIT
"""The table, on terminals and in pipes, and what it says of cells that have no figure."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from linewright.analysis import summarise
from linewright.say import cell_rows
from linewright.say.machine_document import documents, for_programs
from linewright.say.machine_lines import describe
from linewright.schema import Cell, Context, Record
from linewright.show.output import PIPE_COLUMNS, csv_of
from linewright.show.terminal import NARROW_NAME, print_cells
from support.places import EXAMPLES

CONTEXT = msgspec.json.decode((EXAMPLES / "context-valid-x86-64.json").read_bytes(), type=Context)


def record(
    base: float = 5.0, launch: int = 0, status: str = "ok", reason: str = "", **fields: object
) -> Record:
    cell = Cell(**({"operation": "add", "form": "lock_add", "order": "full"} | fields))
    values = {
        "window_ns": [base + 0.001 * i for i in range(32)],
        "window_line": list(range(32)),
        "baseline_ns": [0.5] * 32,
    }
    return Record(
        linewright_record=2,
        context_id=CONTEXT.context_id,
        id=cell.id,
        cell=cell,
        plan="one",
        launch=launch,
        status=status,
        reason=reason,
        cpus=[0],
        total_mops=200.0,
        **(values if status in ("ok", "unreliable") else {}),
    )


def printed(records: list[Record], width: int = 80, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    print_cells(documents(summarise([CONTEXT], records), [CONTEXT], "cells"), console)
    return stream.getvalue()


def test_launches_are_counted_by_process_and_not_by_second():
    again = msgspec.structs.replace(CONTEXT, context_id="0123456789abcdee")
    assert "2 launches from " in describe([CONTEXT, again])[1].text


LONG = "prefetchw_cmpxchg_loop_guess_first"


@pytest.mark.parametrize("width", [80, 100, 118, 200])
@pytest.mark.parametrize("terminal", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, terminal: bool):
    text = printed(
        [record(), record(form=LONG, contender="placebo", threads=2, work_iters=20)],
        width,
        terminal,
    )
    lines = list(text.splitlines())
    assert max(len(strip(line)) for line in lines) <= width
    assert "5.02" in text and "4.52" in text, "issue and exposed cost"


def test_a_long_form_is_broken_at_its_joints_on_a_narrow_terminal():
    lines = printed(
        [record(work_iters=work, form=LONG) for work in (0, 20)], 80, terminal=True
    ).splitlines()
    column = [
        strip(line).split(" ")[0]
        for line in lines
        if strip(line).startswith(("prefetchw", "guess", "loop"))
    ]
    assert "".join(column) == LONG and max(map(len, column)) <= NARROW_NAME


def strip(line: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def test_a_pipe_gets_no_colours_and_every_line_its_form():
    records = [record(work_iters=work, form=LONG) for work in (0, 20, 200)]
    text = printed(records, PIPE_COLUMNS)
    assert "\x1b" not in text and text.count(LONG) >= 3


def test_rows_are_ordered_by_contender_gap_and_work():
    cells = [
        ("same_line", 100, 0),
        ("none", 0, 20),
        ("placebo", 0, 0),
        ("same_line", 0, 20),
        ("none", 0, 0),
    ]
    records = [
        record(
            contender=kind, contender_iters=gap, work_iters=work, threads=1 if kind == "none" else 2
        )
        for kind, gap, work in cells
    ]
    rows = [
        line.split() for line in printed(records, 118).splitlines() if line.startswith("lock_add ")
    ]
    assert [row[1] for row in rows] == ["none", "none", "placebo", "same_line", "same_line"]
    assert [row[2] for row in rows[:2]] == ["0", "20"]


def test_cells_without_figures_are_said_once_per_reason():
    lacking = [
        record(form=f"stadd_{i}", status="unavailable", reason="this CPU lacks lse")
        for i in range(6)
    ]
    noisy = [
        record(
            work_iters=i, status="unreliable", reason=f"{i + 3} of {i + 4} windows were disturbed"
        )
        for i in range(3)
    ]
    text = printed(
        [
            *lacking,
            *noisy,
            record(form="xchg", operation="xchg", status="error", reason="the sum is wrong"),
        ],
        118,
    )
    # The screen, which comes first, gives one example.
    assert text.count("6 cells are not available, such as stadd_0: this CPU lacks lse") == 1
    assert text.count("this CPU lacks lse") == 2 and "stadd_3 and 2 other forms (6 cells)" in text
    assert (
        text.count("windows were disturbed") == 3
        and "lock_add (3 cells): 3 to 5 of 4 to 6 windows" in text
    )
    assert "error: xchg/xchg/u64/full/none/ci0/w0/auto/l32/t1: the sum is wrong" in text


def test_metastable_cells_show_their_modes():
    records = [
        record(base, launch, contender="same_line", threads=2)
        for launch, base in enumerate([25, 25, 25, 25, 100, 101, 100, 100])
    ]
    text = printed(records, 118)
    assert "metastable" in text and "25.0 ns in 50 % and 100 ns in 50 %" in text


def test_hostile_text_cannot_drive_the_terminal():
    text = printed(
        [record(), record(form="xchg", status="error", reason="\x1b[2J[red]gone[/red]\nnext")], 118
    )
    assert "\x1b" not in text and "[red]gone[/red]" in text


def test_rows_for_programs_have_units_and_no_invented_figures():
    summaries = summarise(
        [CONTEXT], [record(), record(form="stadd", status="unavailable", reason="no lse")]
    )
    measured, missing = cell_rows.of_cells(summaries)
    assert (
        measured["issue_median_ns"] == pytest.approx(5.0155)
        and measured["machine_id"] == CONTEXT.machine_id
    )
    assert (
        missing["issue_median_ns"] is None
        and missing["total_mops"] is None
        and missing["reason"] == "no lse"
    )
    assert for_programs(summaries, [CONTEXT])["cells"] == [measured, missing]
    assert csv_of([measured, missing]).count("\n") == 3 and csv_of([]) == ""


@pytest.mark.parametrize("width", [80, 118])
def test_rows_that_differ_in_a_parameter_say_so(width: int):
    cell = {"operation": "percpu_add", "form": "percpu_rseq_add", "order": "relaxed"}
    records = [
        record(**cell, params={"slots": slots}, work_iters=work)
        for slots in (16, 1, 2)
        for work in (0, 20)
    ]
    text = printed(records, width, terminal=True)
    shown = [strip(line) for line in text.splitlines() if "slots=" in line]
    assert [line.split("slots=")[1].split()[0] for line in shown] == ["1", "2", "16"], (
        "in order, once for each group of rows"
    )
    assert "slots" not in printed([record(**cell, params={"slots": 1})], width), (
        "nothing to tell apart"
    )


def test_each_machine_has_its_own_signs_and_verdict_below_its_tables():
    own = [record(launch=launch) for launch in range(2)]
    other = msgspec.structs.replace(CONTEXT, context_id="f" * 16, machine_id="another")
    beside = [msgspec.structs.replace(r, context_id=other.context_id) for r in own]
    contexts, stream = [CONTEXT, other], io.StringIO()
    shown = documents(summarise(contexts, [*own, *beside]), contexts, "cells")
    print_cells(shown, Console(file=stream, width=118))
    machines = stream.getvalue().split("target local")[1:]
    assert len(machines) == 2
    for said in machines:
        order = [
            said.index(text) for text in ("lock_add", "median: issue interval", "No two forms")
        ]
        assert order == sorted(order), said
    assert all(block.audience == "cells" for block in shown[0].blocks[-2:])
