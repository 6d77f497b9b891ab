# SPDX-License-Identifier: MIT
"""The report in headless Chromium: charts, controls, no request, no hostile script, no complaint of
axe."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from linewright.say.page_material import gather
from linewright.show.report import report_page
from support import report_samples as samples
from support import waiting
from support.places import HERE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ATTEMPTS = 3
"""Chromium may hang when it starts on a machine that is short of time; what it finds is never tried
again."""


def made(path: Path, *files: str) -> str:
    material = gather(files, lambda text: None)
    path.write_text(report_page.render(material), encoding="utf-8")
    return str(path)


def attempt(chromium: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    """One run of the browser in a process group of its own; None when it had to be ended."""
    script = HERE / "support" / "report_in_browser.py"
    process = subprocess.Popen(
        [sys.executable, str(script), *words],
        env=os.environ | {"CHROMIUM": chromium},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, error = waiting.finish(process)
    except AssertionError:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return subprocess.CompletedProcess(words, process.returncode, out, error)


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict:
    """What happened in the browser, once for all tests here."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    assert chromium, "no Chromium to test the report with; scripts/setup.sh rest installs it"
    folder = tmp_path_factory.mktemp("report")
    files = [
        samples.write(
            folder / f"{plan}.jsonl", samples.sample(plan, cpu_model="Sample x86-64 machine")
        )
        for plan in samples.PLANS
    ]
    report = made(folder / "report.html", *files)
    hostile = made(
        folder / "hostile.html", samples.write(folder / "hostile.jsonl", samples.hostile())
    )
    for _ in range(ATTEMPTS):
        done = attempt(chromium, report, hostile, str(folder))
        if done is not None:
            assert done.returncode == 0 or done.stdout.endswith("}\n"), done.stderr[-3000:]
            return json.loads(done.stdout) | {
                "folder": folder,
                "records": b"".join(Path(f).read_bytes() for f in files),
            }
    pytest.fail(f"Chromium hung in {ATTEMPTS} attempts")


def test_every_chart_is_drawn(seen):
    assert len(seen["marks"]) > 7
    assert [figure for figure, count in seen["marks"].items() if count == 0] == []


@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_every_text_of_a_chart_can_be_read(width, seen):
    assert seen[f"unreadable, {width}"] == []


def test_dashes_of_a_legend_can_be_told_apart(seen):
    """Each shows its pattern at least once."""
    dashed = [(length, pattern) for length, pattern in seen["strokes"] if pattern > 1]
    assert dashed and [pair for pair in dashed if pair[0] < pair[1]] == []


def test_a_narrow_table_of_every_number_shows_numbers_and_what_they_are_of(seen):
    assert seen["first columns, narrow"][:4] == ["median ns", "low", "high", "form"]


def test_no_caption_of_a_table_is_cut(seen):
    assert seen["captions, narrow"] == []


def test_no_word_of_the_title_ends_on_another_line(seen):
    """At 400 px it ended in "x86-"."""
    assert seen["title, narrow"] == []


@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_a_bar_is_as_long_as_its_number_says(width, seen):
    """On a logarithmic scale; also one that is ten thousand times another."""
    scales = [length / math.log(times) for length, times in seen[f"bars, {width}"] if times > 1.1]
    assert len(scales) > 10
    assert scales == [pytest.approx(scales[0], rel=0.01)] * len(scales)


def test_every_control_changes_a_chart(seen):
    assert len(seen["controls"]) >= 3
    assert [control for control, changed in seen["controls"].items() if not changed] == []


def test_the_explorer_shows_what_is_asked_for(seen):
    """Each choice by keyboard; the chart's text alternative has the figures of the records."""
    explorer = seen["explorer"]
    assert explorer["first"][0] == [
        "form",
        "alone",
        "beside a placebo",
        "with a second CPU",
        "with a second CPU, spacing 1000",
    ]
    assert {row[0] for row in explorer["first"][1:]} == {"stadd", "plain_add"}
    assert explorer["axis units"] and explorer["figure exp"]
    assert explorer["caption"] == "fetch add: exposed cost, ns per operation"
    (heading, (form, *figures)) = explorer["last"]
    assert heading == ["form", "20", "200"] and form == "ldadd"
    # Planted: 4 and 20 ns beside work of 0.3 ns a unit.
    assert [float(text.split()[0]) for text in figures] == [
        pytest.approx(4, abs=0.2),
        pytest.approx(20, abs=1),
    ]
    assert (
        explorer["said"] == "1 form, 2 places along units of work between operations; held: alone."
    )


def test_nothing_is_said_on_the_console_and_nothing_fetched(seen):
    assert seen["said"] == seen["said, narrow"] == []
    assert len(seen["asked"]) == 1 and seen["asked"][0].startswith("file:")


@pytest.mark.parametrize("how", ["axe, light, wide", "axe, dark, narrow"])
def test_axe_has_no_serious_finding(how, seen):
    assert seen[how] == []


def test_the_page_never_scrolls_sideways(seen):
    assert seen["overflow"] <= 0


def test_colours_follow_the_system_and_the_reader(seen):
    assert seen["theme of the system"] == "dark"
    assert (
        sum(map(int, seen["background when dark"].removeprefix("rgb(").rstrip(")").split(", ")))
        < 120
    )


def test_the_table_filters_and_sorts(seen):
    table = seen["table"]
    assert table["filtered"] == [["ldadd"], 3]
    assert table["count"].startswith("3 of ")
    assert 0 < table["contended"] < table["all"]
    assert (
        table["ascending"] == sorted(table["ascending"]) and table["ascending said"] == "ascending"
    )
    assert (
        table["descending"] == sorted(table["descending"], reverse=True)
        and table["descending said"] == "descending"
    )
    assert table["columns"][1] > table["columns"][0]
    assert seen["data rows"] > 10


def test_pictures_records_and_rows_can_be_saved(seen):
    svg, png, records, rows = (seen["folder"] / name for name in seen["saved"])
    assert svg.read_bytes().startswith(b"<svg") and png.read_bytes().startswith(b"\x89PNG")
    assert records.read_bytes() == seen["records"]
    assert rows.read_text().startswith("machine,machine_id,id,operation,")


def test_print_leaves_the_tools_out(seen):
    assert set(seen["printed"]) == {"none"}


def test_paper_has_the_colours_of_the_light_theme(seen):
    """Heat too, whose order an inverted picture would turn round."""
    assert seen["inks, printed from dark"] == seen["inks, light"] != seen["inks, dark"]
    assert seen["inks, after it"] == seen["inks, dark"]


def test_print_keeps_headings_with_their_charts_and_repeats_heads_of_tables(seen):
    """Chromium prints neither the text of a button nor what is sticky on later pages."""
    assert seen["parted"] == []
    assert {tuple(head) for head in seen["heads"]} == {("static", "contents")}


def test_nothing_in_a_record_runs(seen):
    assert seen["harm"] is None
    assert seen["hostile, said"] == []
    assert len(seen["hostile, asked"]) == 1
    assert seen["hostile, images"] == 0
