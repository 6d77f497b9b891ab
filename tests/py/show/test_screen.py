# SPDX-License-Identifier: MIT
"""The one screen: its text for eight synthetic machines, its size at every width, and records that
lack parts of it.

The golden texts are read by a person before they are kept: LINEWRIGHT_GOLDEN=write pytest
tests/py/show/test_screen.py writes them anew.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from functools import cache

import msgspec
import numpy as np
import pytest
from rich.console import Console

from linewright import numbers
from linewright.analysis import summarise
from linewright.analysis.comparison import Comparison, Side
from linewright.analysis.machine_figures import Entry, Price
from linewright.say.document import Document
from linewright.say.machine_document import documents
from linewright.say.machine_tables import matrix_table, price_table, ratio_text
from linewright.say.phrases import figure_cell
from linewright.say.verdict import verdict_sentences
from linewright.schema import Context, Interval, Record
from linewright.show import plain
from linewright.show.output import WIDEST, likeness
from linewright.show.terminal import BEYOND, LINES, bar, print_documents, scale_of
from support import machines
from support.analysis_samples import cell, contexts_of, priced, together, write
from support.places import HERE
from support.screens import Screen, screens

GOLDEN = HERE / "show" / "golden"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@cache
def seen(name: str) -> Screen:
    values = machines.records(name)
    contexts = [value for value in values if isinstance(value, Context)]
    (screen,) = screens(
        summarise(contexts, [value for value in values if isinstance(value, Record)]), contexts
    )
    return screen


def screen_of(name: str) -> Document:
    return seen(name).document


def printed(*shown: Document, width: int = 100, **options) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, highlight=False, markup=False, emoji=False, **options
    )
    print_documents(shown, console)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def compare(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("LINEWRIGHT_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", machines.MACHINES)
def test_the_text_is_the_one_that_was_read(name: str):
    compare(f"{name}.txt", printed(screen_of(name)))


@pytest.mark.parametrize("name", ["x86-vm", "arm64-far"])
def test_the_narrow_and_the_plain_text_are_the_ones_that_were_read(name: str):
    compare(f"{name}-80.txt", printed(screen_of(name), width=80))
    compare(f"{name}-plain.txt", "".join(f"{line}\n" for line in plain.lines([screen_of(name)])))


@pytest.mark.parametrize("width", [80, 90, 100, 120, 200])
@pytest.mark.parametrize("name", machines.MACHINES)
def test_it_fits_one_screen_at_every_width(name: str, width: int):
    lines = printed(screen_of(name), width=width).splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= min(width, WIDEST)
    headings = [line for line in lines if line.startswith(("ns, 64 bit", "price list"))]
    assert len(headings) == 2 and all(len(re.findall("alone", line)) == 1 for line in headings), (
        "no heading is cut"
    )
    assert not any("…" in line for line in lines)
    for row_name, row in [*seen(name).rows.items()][-5:]:
        (line,) = (line for line in lines if line.startswith(row_name + " "))
        shown = [figure_cell(entry.default).text for entry in row.entries.values() if entry.default]
        assert [f for f in shown if f not in line.removeprefix(row_name).split()] == [], (
            "no figure is cut"
        )


@pytest.mark.parametrize("name", ["x86-vm", "arm64-far"])
def test_colour_adds_nothing_that_the_text_lacks(name: str):
    coloured = printed(screen_of(name), force_terminal=True, color_system="truecolor")
    bare = [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()]
    assert "\x1b[" in coloured and bare == printed(screen_of(name)).splitlines()
    uncoloured = printed(
        screen_of(name), force_terminal=True, color_system="truecolor", no_color=True
    )
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", uncoloured)


def test_the_plain_text_says_everything_without_signs():
    lines = plain.lines([screen_of("arm64-far")])
    assert not any(sign in line for line in lines for sign in "█░▶=~×")
    assert not any("?" in line for line in lines)
    assert any(line.startswith("add, with a second CPU: 89.8") for line in lines)
    assert (
        sum(line.startswith("Use: ") for line in lines) >= 4
        and sum(line.startswith("Set: ") for line in lines) == 1
    )


# ---- what it claims ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", machines.MACHINES)
def test_plain_adds_are_not_the_price_of_false_sharing(name: str):
    """A store buffer hides a part of what they cost: advice that rests on them names them."""
    texts = plain.lines([screen_of(name)])
    advice = [text for text in texts if re.search("line (per|for each) thread|own line", text)]
    assert len(advice) == (name not in ("one-cpu", "undecided"))
    assert all(text.startswith("Use: Give plain adds a line per thread: ") for text in advice)


def test_far_store_forms_are_said_and_not_crowned():
    s = seen("arm64-far")
    texts = plain.lines([s.document])
    (by_stadd,) = (text for text in texts if "stadd for add" in text)
    assert by_stadd.endswith(", but 64.5 instead of 4.30 ns alone."), (
        "a caller has one form for both"
    )
    uses = [text for text in texts if text.startswith("Use: ")]
    assert uses[-1] == by_stadd, "what costs more elsewhere than it saves here stands last"
    assert any(
        "stadd behaves as if performed at the interconnect: back to back, stadd 64" in text
        for text in texts
    )
    add = s.rows["add"]
    assert (
        add.entries["alone"].default.form == "ldadd"
        and add.entries["alone"].versus.answer == "slower"
    )
    assert (
        add.entries["contended"].versus.answer == "cheaper"
        and "stadd" in add.entries["contended"].versus.first.form
    )


def test_findings_that_have_no_room_are_counted():
    """Of records without the matrix the first findings stand at the top: one that is left out must
    not seem not to be there."""
    rng = np.random.default_rng(1)
    forms = {"cmpxchg16b_read_once": 18.0, "movdqa_read": 1.0}
    contended = dict(
        operation="wide_read", width_bits=128, contender="same_line", threads=2, lines=8
    )
    spacings = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
    costs = [
        (cell(form, contender_iters=n, **contended), ns)
        for n in spacings
        for form, ns in forms.items()
    ]
    records = together(costs, rng)
    contexts = contexts_of(records, arch="x86_64")
    summaries = summarise(contexts, records)
    (screen,) = documents(summaries, contexts)
    every = len(verdict_sentences(summaries, contexts))
    assert every > 8 and f"{every - 8} more finding" in printed(screen)


def test_without_a_difference_nothing_is_recommended():
    rows = seen("undecided").rows
    answers = {
        e.versus.answer
        for name, row in rows.items()
        for e in row.entries.values()
        if e.versus and "guess" not in name
    }
    assert "cheaper" not in answers and "undecided" in answers
    assert not any(
        "PREFETCHW" in text
        for text in plain.lines([screen_of("undecided")])
        if text.startswith("Use")
    )


def test_one_cpu_says_nothing_of_contention():
    s = seen("one-cpu")
    assert [c.key for c in s.columns] == ["alone", "work"] and not any(
        p.contended for p in s.prices.values()
    )
    assert (
        "Not measured: operations with a second CPU, because only one CPU could be used."
        in printed(s.document)
        and "2 CPUs" not in printed(s.document)
    )


def test_a_condition_without_any_figure_has_no_column():
    s = seen("x86-vm")
    emptied = [
        msgspec.structs.replace(
            row, entries=row.entries | {"work": Entry(default=None, why="withheld")}
        )
        for row in s.rows.values()
    ]
    (_, *prices) = s.document.tables
    blocks = [matrix_table(s.columns, emptied, 64), *prices]
    text = printed(msgspec.structs.replace(s.document, blocks=blocks))
    assert "work 20" not in text and "withheld" not in text and "2 CPUs" in text


def test_several_modes_are_marked():
    s = seen("metastable")
    add = s.rows["add"]
    assert (
        add.entries["contended"].default.metastable and not add.entries["alone"].default.metastable
    )
    text = printed(s.document)
    assert "~" in text and "launches fall into separate modes" in text


def test_ratios_are_of_the_same_column():
    prices = seen("x86-metal").prices
    rseq = prices["count: per-CPU word, rseq"].ratio
    assert rseq.low < 0.92 / 44 * 1.05 and rseq.high > 0.92 / 44 * 0.95, "contended over contended"
    assert prices["flush: clean a dirty line"].ratio.value == pytest.approx(118 / 5.2, rel=0.05), (
        "alone over alone"
    )


# ---- the chart ---------------------------------------------------------------------------------


def price(
    alone: float | None, contended: float | None = None, versus: Comparison | None = None
) -> Price:
    def cost(value: float | None) -> Side | None:
        ns = Interval(median_ns=value, low_ns=value, high_ns=value) if value is not None else None
        return Side(ns=ns, id="x", form="x") if ns else None

    return Price(
        group="count", form="rwlock", alone=cost(alone), contended=cost(contended), versus=versus
    )


def test_bars_are_logarithmic():
    scale = scale_of(price_table([price(0.1), price(100.0)]), 30)
    lengths = [len(bar([value], 2000.0, scale)) for value in (0.1, 1.0, 10.0, 100.0)]
    assert lengths == [1, 10, 20, 30]
    both = bar([1.0, 10.0], 2000.0, scale), bar([10.0, 1.0], 2000.0, scale)
    assert both == ("█" * 10 + "░" * 10,) * 2
    assert scale.axis().split() == ["0.1", "1", "10", "100"] and len(scale.axis()) == 30


def test_a_wait_does_not_flatten_the_others():
    table = price_table([price(1.0), price(None, 30_000.0)])
    scale = scale_of(table, 20)
    assert scale.high <= 10.0 and bar([30_000.0], table.beyond, scale).endswith(BEYOND)


def test_bars_need_no_unicode():
    codecs.register_error("test of likeness", likeness)
    assert "█░▶".encode("ascii", "test of likeness") == b"#->"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.05, 0.07, "14–20× less"), (3.44, 3.76, "3.4–3.8× more"), (0.95, 1.05, "same"),
        (0.5, 1.5, "0.5–1.5×"),
        (2.01, 2.02, "2.0× more"), (0.0, 1.0, "no interval"), (1.0, float("inf"), "no interval"),
    ],
)  # fmt: skip
def test_a_ratio_says_more_or_less_only_where_it_is_shown(low: float, high: float, text: str):
    assert ratio_text(price(None, versus=priced(1.0, low, high))) == text


def test_a_bar_has_its_interval_or_says_that_it_has_none():
    """A wait is no operation, and published figures have no interval."""
    ns = Interval(median_ns=26e3, low_ns=24.6e3, high_ns=28.1e3)
    wait = msgspec.structs.replace(price(None), contended=Side(ns=ns, id="x", form="x"))
    assert ratio_text(wait) == "25–28 µs"
    sure = Interval(median_ns=5.01, low_ns=5.0, high_ns=5.02)
    sure = msgspec.structs.replace(price(None), alone=Side(ns=sure, id="x", form="x"))
    assert ratio_text(sure) == "", "5.0 ns beside 5.01 says nothing more"
    bare = msgspec.structs.replace(ns, confidence=0.0)
    bare = msgspec.structs.replace(price(None), alone=Side(ns=bare, id="x", form="x"))
    assert ratio_text(bare) == "no interval"


def test_a_coarse_run_claims_no_ratio():
    values = [v for v in machines.records("x86-vm") if v.launch < 3]
    contexts = [value for value in values if isinstance(value, Context)]
    records = [value for value in values if isinstance(value, Record)]
    text = printed(*documents(summarise(contexts, records), contexts))
    assert "coarse: fewer than 5 launches" in text
    assert re.search(r"\d–\d+× less \?", text) and not re.search(r"× (less|more)(?! \?)", text)


@pytest.mark.parametrize(
    ("scale", "low", "high", "signs", "in_words"),
    [
        ("ratio", 0.38, 0.39, "-62 to -61 %", "61 to 62 % less"),
        ("ratio", 0.9996, 1.009, "0.0 to +0.9 %", "0.0 % less to 0.9 % more"),
        ("ratio", 0.86, 1.09, "-14 to +9 %", "14 % less to 9 % more"),
        ("ns", 1.2, 1.4, "+1.2 to +1.4 ns", "1.2 to 1.4 ns more"),
        ("ratio", 0.6, 0.6, "-40 %", "40 % less"),
        ("ratio", 12.4, 15.2, "×12 to ×15", "12 to 15 times more"),
        ("ns", None, None, "", ""),
    ],
)
def test_a_change_reads_in_signs_and_in_words(scale, low, high, signs, in_words):
    assert numbers.change(low, high, scale) == signs
    assert numbers.change_in_words(low, high, scale) == in_words


# ---- through the command -----------------------------------------------------------------------


@pytest.fixture
def files(command) -> dict[str, str]:
    made = {}
    for name in ("x86-vm", "arm64-far"):
        values = machines.records(name)
        contexts = [value for value in values if isinstance(value, Context)]
        rows = [value for value in values if isinstance(value, Record)]
        made[name] = write(command.directory / f"{name}.jsonl", contexts, rows)
    return made


def test_show_ends_with_the_screen(command, files):
    said = command("show", files["x86-vm"]).stdout
    assert (
        "".join(f"{line.rstrip()}\n" for line in said.splitlines())
        == (GOLDEN / "x86-vm.txt").read_text()
    )
    assert (
        command("show", files["x86-vm"], "--format", "plain").stdout
        == (GOLDEN / "x86-vm-plain.txt").read_text()
    )


def test_two_machines_are_two_screens(command, files):
    said = command("show", *files.values()).stdout
    assert said.index("synthetic x86-64 VM") < said.index("synthetic arm64, far store forms")
    assert said.count("price list, ns") == 2
    beside = said[said.index("The machines beside each other") :].splitlines()
    assert "synthetic x86-64 VM synthetic arm64, far" in beside[1]
    row = next(line for line in beside if line.startswith("add, 2 CPUs"))
    assert row.split()[-4:] == ["15.9", "89.8", "4.2–7.7×", "more"]
    plain_text = command("show", *files.values(), "--format", "plain").stdout
    assert (
        "add, 2 CPUs, nanoseconds: synthetic x86-64 VM 15.9; synthetic arm64, far store forms "
        "89.8. The second takes 4.2 to 7.7 times more." in plain_text
    )


def test_a_file_without_any_figure_says_so(command):
    from support.analysis_samples import cell, context, record

    rows = [
        record(cell(form), status="unavailable", reason="this CPU lacks lse")
        for form in ("stadd", "ldadd")
    ]
    said = command("show", write(command.directory / "r.jsonl", [context()], rows)).stdout
    assert "No cell has a figure: linewright show --all FILE says why." in said
    assert "2 cells are not available, such as stadd: this CPU lacks lse." in said


def test_a_wrong_sum_is_said_before_anything_else(command):
    from support.analysis_samples import cell, context, record

    rows = [
        record(cell("stadd"), status="error", reason="the sum is wrong"),
        record(cell("ldadd"), [5.0] * 9),
    ]
    said = command("show", write(command.directory / "r.jsonl", [context()], rows)).stdout
    assert said.splitlines()[2] == "WRONG: 1 cell (stadd): the sum is wrong"


def test_records_without_the_list_say_which_plan_gives_it(command, files):
    said = command("show", files["x86-vm"], "--only", "lock_add").stdout
    assert (
        "Not measured: the price list. linewright measure --plan quick measures all of it." in said
    )
    said = command("show", files["x86-vm"], "--only", "srcu").stdout
    assert (
        "Not measured: operations alone, operations with work, operations with a second CPU."
        in said
    )


def test_all_shows_every_cell_and_explains_columns_once(command, files):
    said = command("show", files["x86-vm"], "--all").stdout
    assert said.count("prefetchw_cmpxchg_loop_guess_first") >= 9, (
        "three contentions, three work lengths"
    )
    assert said.count("issue interval: ns per operation with its work") == 1


@pytest.mark.parametrize("name", ["x86-vm", "arm64-far"])
def test_all_has_what_the_screen_sends_there_for(command, files, name):
    """Every suggestion, row, price and limit of the document, of which the screen leaves some out
    and names ``show --all``."""
    from linewright.analysis.loading import summarised
    from linewright.records.store import Store
    from linewright.say.document import render, text_of
    from linewright.say.machine_document import documents

    with Store([command.directory / files[name]], lambda *_: None, ()) as stored:
        stored.read()
        (whole,) = documents(summarised(stored).summaries, list(stored.contexts.values()))
    assert "linewright show --all FILE" in command("show", files[name]).stdout
    said = command("show", files[name], "--all").stdout
    screen, folded = said[: said.index(", target ")], " ".join(said.split())
    for topic in ("uses", "missing", "undecided", "limits"):
        for sentence in whole.of(topic):
            assert " ".join(render(sentence).split()) in folded, topic
    for table in ("matrix", "prices"):
        for row in whole.table(table).rows if whole.table(table) else []:
            assert text_of(row[0]) in screen, table
    assert "linewright show --all FILE" not in said


def test_why_shows_launches_windows_and_controls(command, files):
    cell = "add/lock_add/u64/full/same_line/ci0/w0/auto/l8/t2"
    said = command("show", files["x86-vm"], "--why", cell).stdout
    assert (
        "add by lock_add, with a second CPU" in said
        and "60 windows were kept and 0 discarded" in said
    )
    launches = [line for line in said.splitlines() if re.match(r" *[0-4] +ok +12 ", line)]
    assert len(launches) == 5
    assert (
        "It is the default for add" in said
        and "Control: identical machine code differed by" in said
    )
    assert (
        command("show", files["x86-vm"], "--why", "*/lock_add/*same_line*/w0/*").stdout == said
    ), "parts of an id name it too"


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--why", "add"], ["cells fit 'add'", "one of: add/lock_add"]),
        (["--why", "nothing"], ["no cell fits 'nothing'", "--why"]),
        (["--all", "--format", "plain"], ["--all and --format plain contradict each other"]),
        (["--all", "--format", "csv"], ["--all and --format csv contradict each other"]),
    ],
)
def test_wrong_requests_are_one_line(command, files, words, messages):
    said = command.refused("show", files["x86-vm"], *words)
    assert all(message in said for message in messages), said
