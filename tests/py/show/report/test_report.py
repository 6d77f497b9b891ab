# SPDX-License-Identifier: MIT
"""The report: which sections appear, what is escaped, how large it is, what is refused."""

from __future__ import annotations

import base64
import gzip
import html.parser
import json
import os
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import altair as alt
import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.analysis.machine_answers import MachineAnswers
from linewright.errors import UserError
from linewright.find.results import note
from linewright.records import files as records
from linewright.say.machine_document import documents
from linewright.say.page_material import gather
from linewright.schema import Cell
from linewright.show.report import charts, report_page
from support import analysis_samples as analysis
from support import find_results, machines, waiting
from support import report_samples as samples
from support.places import HERE, ROOT

VEGA = "/* stands for Vega */"


class Page(html.parser.HTMLParser):
    """A page as a browser's parser would see it: sections, scripts, everything that could run or
    fetch."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source, self.sections, self.figures, self.scripts, self.handlers, self.fetched = (
            text,
            [],
            [],
            [],
            [],
            [],
        )
        self.words: list[str] = []
        self.data: dict[str, str] = {}
        self.policy = ""
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        self.handlers += [name for name in given if name.startswith("on")]
        self.fetched += [
            value
            for name, value in given.items()
            if name in ("src", "href", "action", "data") and not (value or "").startswith("#")
        ]
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag == "section":
            self.sections.append(given["id"])
        if tag == "figure":
            self.figures.append(given["data-figure"])
        if tag in ("script", "style"):
            self._open = given.get("id") or given.get("type") or tag
            self.scripts.append(given.get("type", "text/javascript")) if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, text: str) -> None:
        if self._open:
            self.data[self._open] = self.data.get(self._open, "") + text
        else:
            self.words.append(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def content(self) -> dict:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is no JSON")

        return json.loads(self.data["data"], parse_constant=refuse)

    @property
    def records(self) -> bytes:
        return gzip.decompress(base64.b64decode(self.data["records"]))


@pytest.fixture(autouse=True)
def without_vega(monkeypatch):
    """Bundling Vega takes seconds and is tested with the browser."""
    monkeypatch.setattr(report_page, "_vega", lambda: VEGA)


@cache
def made(*paths: str) -> Page:
    """The page of some files; no two tests have files of one path."""
    material = gather(paths, lambda text: None)
    return Page(report_page.render(material))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("plans")
    return {
        plan: samples.write(folder / f"{plan}.jsonl", samples.sample(plan))
        for plan in samples.PLANS
    }


@pytest.mark.parametrize("plan", samples.PLANS)
def test_a_section_appears_only_when_its_plan_was_run(plan, files):
    sections = samples.SECTIONS[plan]
    priced = [name for name in sections if name == "prices"]
    expected = [
        "warnings",
        "verdict",
        *priced,
        "findings",
        *(name for name in sections if name != "prices"),
        "context",
        "cells",
    ]
    assert made(files[plan]).sections == expected


def test_everything_in_one_report(files):
    report = made(*files.values())
    order = [
        "warnings",
        "verdict",
        "prices",
        "findings",
        "matrix",
        "explore",
        "handoff",
        "readers",
        "cache",
        "context",
        "cells",
    ]
    assert report.sections == order
    assert len(report.figures) == len(set(report.figures))
    assert set(report.figures) == {*report.content["figures"], "explore"}
    assert report.content["cells"] and len(report.content["columns"]) == len(
        report.content["cells"][0]
    )


def test_one_point_is_no_chart(tmp_path):
    """One grace period was measured: the price list has it, and two machines have two points."""
    one, two = (
        samples.write(tmp_path / f"{name}.jsonl", machines.records(name))
        for name in ("x86-metal", "arm64-near")
    )
    assert [f for f in made(one).figures if f.startswith("readers")] == ["readers-pair"]
    assert "SRCU updater" in made(one).source
    assert "readers-grace" in made(one, two).figures


@pytest.mark.slow
def test_every_chart_is_one_by_vega_lites_schema(files):
    content = made(*files.values()).content
    assert len(content["figures"]) > 6 and len(content["explorer"]["figures"]) == 5
    for figure in [*content["figures"].values(), *content["explorer"]["figures"]]:
        alt.Chart.from_dict(figure["spec"])


def test_a_result_of_find_is_a_section_of_its_own(files, tmp_path):
    hot = find_results.line(object="counter<b>")
    result = find_results.result(hot, blind=[note("rare")])
    path = tmp_path / "find.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    report = made(files["rmw"], str(path))
    assert (
        "lines" in report.sections
        and "counter<b>" in report.text
        and "50 % (40 to 60)" in report.text
    )
    assert "blind to: rare lines" in report.text
    with pytest.raises(UserError, match="no records"):
        gather([str(path)], lambda text: None)
    path.write_bytes(path.read_bytes().replace(b'"timer"', b"timer"))
    with pytest.raises(UserError, match="no result of find"):
        gather([files["rmw"], str(path)], lambda text: None)


def test_warnings_come_first_then_the_decision_prices_and_what_was_found_by_area(files):
    report = made(files["rmw"], files["percpu"])
    text = report.text
    order = [
        report.source.index(f'<section id="{name}"')
        for name in ("warnings", "verdict", "prices", "findings", "matrix", "context")
    ]
    assert order == sorted(order)
    assert text.index("Atomics on one line") < text.index("Back to back, percpu_add")
    assert "percpu_rseq_add takes 0.90 ns" in text


def test_the_matrix_of_the_page_is_that_of_the_screen(tmp_path):
    """Which names another form only where it is shown to cost less."""
    for name in ("arm64-far", "x86-vm"):
        path = samples.write(tmp_path / f"{name}.jsonl", machines.records(name))
        text = made(path).text
        for line in (HERE / f"show/golden/{name}.txt").read_text().splitlines():
            if line.startswith(("add ", "exchange ", "CAS, reads")):
                assert " ".join(line.split()) in text


def test_the_crossover_is_told(files):
    assert "is cheaper up to 20 units of work" in made(files["rmw"]).text


def test_the_page_names_the_crossovers_of_the_advice_and_no_others(tmp_path):
    """One correction covers all of a machine's comparisons. With the chart's cells alone a form
    would seem to overtake another that, among all cells, is undecided."""
    costs = analysis.points({"stadd": 8.0, "ldadd": 4.0}, (0, 20))
    costs += analysis.points({"stadd": 8.0, "ldadd": 16.0}, (200,))
    costs += [
        (Cell(operation="wide_read", form=form, width_bits=128, params={"write_percent": share}), 9)
        for form in ("ldp_read", "casp_read")
        for share in range(40)
    ]
    rows = analysis.together(costs, np.random.default_rng(1), own=0.2)
    contexts = analysis.contexts_of(rows)
    summaries = summarise(contexts, rows)
    shown = [s for s in summaries if s.cell.operation in ("add", "fetch_add")]
    assert len(MachineAnswers(contexts, shown).crossovers) == 1, "which the page once showed"
    (advice,) = documents(summaries, contexts, "evidence")
    assert not [topic for topic in advice.evidence if topic.name == "crossovers"]
    report = made(samples.write(tmp_path / "many.jsonl", [*contexts, *rows]))
    assert report.content["explorer"] and "is cheaper up to" not in report.text


def test_the_fit_says_what_was_put_in(files):
    words = made(files["cache"]).text
    found = re.search(
        r"dirty, beyond the caches 0 ([0-9.]+) \(.*?\) ([0-9.-]+) \(.*?\) ([0-9.]+) \(", words
    )
    assert found, words
    line, entry, wait = map(float, found.groups())
    assert (
        line == pytest.approx(2, rel=0.05)
        and wait == pytest.approx(100, rel=0.05)
        and abs(entry - 1) < 2
    )


def test_readers_stand_beside_what_they_cost_the_updater(files):
    spec = made(files["readers"]).content["figures"]["readers-both"]["spec"]
    points = {
        row["form"]: (round(row["pair"]), round(row["grace"], -2))
        for data in spec["datasets"].values()
        for row in data
    }
    assert set(points) == {"srcu_fast", "srcu"}
    assert points["srcu_fast"][0] == 2 and points["srcu_fast"][1] == pytest.approx(70_000, rel=0.05)


def test_size_without_the_data(files, monkeypatch):
    monkeypatch.undo()
    report = made.__wrapped__(files["rmw"])
    assert len(report.source) - len(report.data["data"]) - len(report.data["records"]) < 2_000_000
    assert len(report.scripts) == 4 and "vegaEmbed" in report.source


def test_the_records_inside_are_the_records(files):
    report = made(files["rmw"], files["handoff"])
    assert report.records == b"".join(Path(files[plan]).read_bytes() for plan in ("rmw", "handoff"))


def test_the_same_input_gives_the_same_page(files, tmp_path):
    """Also in another process with another order of its sets."""
    first = made(files["rmw"], files["percpu"]).source
    assert made.__wrapped__(files["rmw"], files["percpu"]).source == first
    program = (
        "import sys; from linewright.show.report import report_page; from "
        "linewright.say.page_material import "
        "gather\n"
        f"report_page._vega = lambda: {VEGA!r}\n"
        "material = gather(sys.argv[1:], print); sys.stdout.write(report_page.render(material))"
    )
    again = waiting.run(
        [sys.executable, "-c", program, files["rmw"], files["percpu"]],
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        check=True,
    )
    assert again.stdout == first


# ---- the explorer ------------------------------------------------------------------------------


def test_any_figure_of_any_cell_can_be_asked_for_along_every_axis(files):
    """Each cell of the records is there with its figure, at its place, and what is held names all
    that tells it from other cells of its form."""
    asked = made(*files.values()).content["explorer"]
    assert [figure["name"] for figure in asked["figures"]] == [
        "ns",
        "exposed",
        "p99",
        "rate",
        "jain",
    ]
    axes = {axis["name"]: axis for axis in asked["axes"]}
    assert {"who", "work", "threads", "spacing", "distance", "write_percent", "policy"} <= set(axes)
    assert axes["work"]["places"] == ["0", "20", "200"], "by size"
    assert axes["who"]["places"][0] == "alone"
    own = [r for r in asked["rows"] if (r["operation"], r["form"]) == ("fetch_add", "ldadd")]
    over = {r["at"]["work"][0]: r["ns"] for r in own if r["at"]["work"][1] == "with a second CPU"}
    assert over == {
        work: pytest.approx(5 * ns, rel=0.05) for work, ns in (("0", 4), ("20", 10), ("200", 80))
    }
    counts = [r for r in asked["rows"] if r["operation"] == "percpu_add"]
    assert {r["at"]["work"][1] for r in counts} == {
        f"{who}, slots {slots}" for who in ("alone", "with a second CPU") for slots in (1, 16)
    }
    for name in axes:
        places = [
            (r["operation"], r["form"], *r["at"][name]) for r in asked["rows"] if name in r["at"]
        ]
        assert len(places) == len(set(places)), name


def test_a_colour_is_one_forms_wherever_it_is_drawn(tmp_path):
    """Two machines with other forms for the same operations: none of them share a colour."""
    files = [
        samples.write(tmp_path / f"{n}.jsonl", machines.records(n)) for n in ("x86-vm", "arm64-far")
    ]
    content = made(*files).content
    colours = content["explorer"]["colours"]
    by_operation: dict[str, set[str]] = {}
    for row in content["explorer"]["rows"]:
        by_operation.setdefault(row["operation"], set()).add(row["form"])
    assert len(by_operation["add"]) == 8
    for forms in by_operation.values():
        assert len({colours[form] for form in forms}) == len(forms)
    uses = [list(colours.values()).count(n) for n in range(8)]
    assert max(uses) - min(uses) <= 1, "no colour stands for many forms while another is free"
    drawn = json.dumps([figure["spec"] for figure in content["figures"].values()])
    domains = re.findall(r'"color": \{"field": "form".*?"domain": (\[.*?\])', drawn)
    assert domains
    for domain in map(json.loads, domains):
        known = [(place, form) for place, form in enumerate(domain) if not form.startswith("(")]
        assert all(colours[form] == place for place, form in known)


# ---- what is seen first ------------------------------------------------------------------------


def test_a_bar_is_as_long_as_its_figure(tmp_path):
    """A wait of tens of µs among operations of a few ns, which a terminal ends in an arrow."""
    spec = made(samples.write(tmp_path / "a.jsonl", machines.records("x86-vm"))).content["figures"][
        "prices"
    ]["spec"]
    (rows,) = (rows for rows in spec["datasets"].values())
    longest = max(row["ns"] for row in rows)
    bars = next(layer["encoding"] for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    assert longest > 20_000 and bars["x"]["field"] == "ns"
    assert bars["x"]["scale"]["domain"][1] >= longest


def test_a_bar_of_a_metastable_cell_has_the_lengths_of_its_modes(tmp_path):
    """No launch costs what lies between: neither the bar nor what is said of it ends there."""
    page = made(samples.write(tmp_path / "a.jsonl", machines.records("metastable")))
    ((*_, bar),) = (
        [row for row in rows if row["text"] == "25.3~103"]
        for rows in page.content["figures"]["prices"]["spec"]["datasets"].values()
    )
    ends = pytest.approx(25.3, abs=0.05), pytest.approx(103, abs=0.5)
    assert (bar["ns"], bar["ns_high"]) == ends and bar["low"] == bar["ns"]
    assert "lock_add takes 25.3 or 103 ns;" in page.text
    assert "ns exposed, a median between modes" in page.text


def test_only_what_is_drawn_is_explained(tmp_path):
    """Of one CPU, which is steady, there is no second CPU, no placebo and no mark of doubt."""
    one, two = (
        made(samples.write(tmp_path / f"{name}.jsonl", machines.records(name))).source
        for name in ("one-cpu", "metastable")
    )
    for words, count in (
        ("~ marks metastable cells", 2),
        ("with a second CPU that does the same", 1),
        ("A placebo is", 1),
        ("Own words take plain adds, part of whose cost a store buffer hides", 1),
        ("? marks unreliable cells", 0),
    ):
        assert (one.count(words), two.count(words)) == (0, count), words


def test_the_title_says_what_the_page_is(files):
    report = made(files["rmw"])
    assert "<title>What operations cost on Sample one – Linewright report</title>" in report.source
    assert "What operations cost on Sample one" in report.text


def test_no_line_ends_between_a_number_and_its_unit(files):
    body = made(*files.values()).source.partition("<body>")[2].partition("<script")[0]
    prose = re.findall(r"<(?:li|dd|p class=\"headline\")>(.*?)</", body)
    assert len(prose) > 10 and not [text for text in prose if re.search(r"\d (%|ns|µs)", text)]


def test_every_logarithmic_axis_has_numbers(files, tmp_path):
    """Two at least in what is drawn, intervals included; also where medians lie close together."""
    machine = samples.write(tmp_path / "m.jsonl", machines.records("x86-vm"))
    axes = 0
    for report in (made(*files.values()), made(machine)):
        for name, figure in report.content["figures"].items():
            spec = figure["spec"]
            rows = [row for data in spec["datasets"].values() for row in data]
            for layer in spec.get("layer", []):
                for at in ("x", "y"):
                    channel = layer["encoding"].get(at, {})
                    values = channel.get("axis", {}).get("values")
                    if channel.get("scale", {}).get("type") != "log" or not isinstance(
                        values, list
                    ):
                        continue
                    ends = [
                        row.get(channel["field"] + end)
                        for row in rows
                        for end in ("", "_from", "_to")
                    ]
                    known = [end for end in ends if end]
                    inside = [v for v in values if min(known) <= v <= max(known)]
                    assert len(inside) >= 2, (name, at)
                    axes += 1
    assert axes > 5


def test_figures_stand_in_the_first_columns(files):
    """And a column whose cells all say the same is shown on request."""
    content = made(files["percpu"]).content
    chosen = [column for column in content["columns"] if column["first"] is not None]
    first = [column["name"] for column in sorted(chosen, key=lambda column: column["first"])]
    assert first[:5] == ["issue_median_ns", "issue_low_ns", "issue_high_ns", "form", "situation"]
    assert "width_bits" not in first


def test_no_level_of_headings_is_skipped(files, tmp_path):
    several = samples.write(
        tmp_path / "two.jsonl", samples.sample("rmw", machine="00000000000000cc", cpu_model="two")
    )
    for report in (made(*files.values()), made(files["rmw"], several)):
        levels = [int(level) for level in re.findall(r"<h([1-6])", report.source)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_situation_is_told_once(files):
    """Also where several claims hold in it."""
    leads = re.findall(r'<p class="lead">(.*?)</p>|<div>()', made(*files.values()).source)
    by_area = " ".join(lead or "|" for lead, _ in leads).split("|")
    for area in by_area:
        found = re.findall(r"With \d+ readers?|Alone", area)
        assert len(found) == len(set(found))


# ---- several runs ------------------------------------------------------------------------------


def test_machines_are_overlaid(tmp_path):
    one = samples.write(tmp_path / "one.jsonl", samples.sample("rmw"))
    two = samples.write(
        tmp_path / "two.jsonl",
        samples.sample("rmw", machine="00000000000000cc", cpu_model="Sample two"),
    )
    report = made(one, two)
    rows = report.content["explorer"]["rows"]
    assert {row["series"] for row in rows} == {"Sample one", "Sample two"}
    assert {"matrix-0", "matrix-1"} <= set(report.figures)
    assert "cells of 2 machines or runs" in report.text


def test_two_runs_of_one_plan_on_one_machine_are_told_apart_by_their_files(tmp_path):
    before = samples.write(tmp_path / "before.jsonl", samples.sample("rmw"))
    after = samples.write(tmp_path / "after.jsonl", samples.sample("rmw", seed=2))
    assert [series.label for series in gather([before, after], print).series] == ["before", "after"]


def test_different_plans_on_one_machine_are_one_series(files):
    material = gather([files["rmw"], files["handoff"]], print)
    assert [series.label for series in material.series] == ["Sample one"]
    assert material.plans == ["rmw", "handoff"]


def test_a_file_given_twice_counts_once(files):
    once, twice = gather([files["rmw"]], print), gather([files["rmw"], files["rmw"]], print)
    launches = [[row["launches"] for row in pages.series[0].cells] for pages in (once, twice)]
    assert launches[0] == launches[1]
    assert twice.archive == once.archive


@pytest.mark.parametrize(
    "target, kind", [("simulated:server", "simulated"), ("published", "published")]
)
def test_figures_that_were_not_measured_are_marked(target, kind, tmp_path):
    report = made(samples.write(tmp_path / "a.jsonl", samples.sample("rmw", target=target)))
    assert f"Sample one {kind}" in report.text
    assert {
        "simulated": "Simulated: ",
        "published": "Target published",
    }[kind] in report.text


def test_doubts_are_told(tmp_path):
    values = samples.sample("rmw", virtualised="yes", governor="powersave")
    lost = [
        msgspec.structs.replace(v, discarded=msgspec.structs.replace(v.discarded, stolen=2))
        if isinstance(v, records.Record)
        else v
        for v in values
    ]
    text = made(samples.write(tmp_path / "a.jsonl", lost)).text
    for words in (
        "A virtual machine",
        "governor was powersave",
        "Hardware counters unavailable",
        "because the hypervisor took a CPU away (stolen time)",
    ):
        assert words in text


# ---- safety ------------------------------------------------------------------------------------


def test_text_of_records_stays_text(tmp_path):
    report = made(samples.write(tmp_path / "<img src=x onerror=alert(1)>.jsonl", samples.hostile()))
    assert report.scripts == [
        "application/json",
        "application/octet-stream",
        "text/javascript",
        "text/javascript",
    ]
    assert report.handlers == []
    assert report.fetched == []
    assert "window.harm=1" in report.text, "it is shown as what it is"
    assert "{{7*7}}" in report.text, "nor is it a template"
    assert [
        raw for raw in ("<img", "<script>window", "\u2028", "\u202e") if raw in report.source
    ] == []
    assert all(c not in report.data["data"] for c in "<>&'")


def test_only_the_pages_own_scripts_may_run(files):
    policy = made(files["rmw"]).policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    script = policy.split("script-src")[1].split(";")[0]
    assert "unsafe" not in script and script.count("sha256-") == 2


def test_figures_that_overflow_are_left_out(tmp_path):
    """NaN never comes out of a record file; figures whose statistics overflow are not shown."""
    content = made(samples.write(tmp_path / "a.jsonl", samples.hostile(1.7e308))).content
    names = [column["name"] for column in content["columns"]]
    row = next(row for row in content["cells"] if row[names.index("form")] == "x" * 64)
    assert row[names.index("issue_median_ns")] is None
    assert row[names.index("status")] == "unreliable"


def test_json_in_a_page_cannot_end_its_element():
    assert (
        report_page.safe_json({"a": "</script><!--'&\u2028"})
        == '{"a":"\\u003c/script\\u003e\\u003c!--\\u0027\\u0026\\u2028"}'
    )
    with pytest.raises(ValueError):
        report_page.safe_json(float("nan"))


# ---- the command -------------------------------------------------------------------------------


def test_the_command_writes_a_page(command, tmp_path):
    samples.write(tmp_path / "a.jsonl", samples.sample("handoff"))
    done = command("report", "a.jsonl", "-o", "a.html")
    assert (done.returncode, done.stdout) == (0, "") and "the report is a.html" in done.stderr
    assert Page((tmp_path / "a.html").read_text()).sections[:5] == [
        "warnings",
        "verdict",
        "findings",
        "explore",
        "handoff",
    ]


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "No such file"),
        (b"", "empty file"),
        (b"hello\n", "not a record file"),
        (b'{"benchmarks": []}\n', "not a line of records"),
        (b"\x00\xff" * 99, "not a record file"),
    ],
)
def test_input_that_is_no_record_file_is_refused(content, said, command, tmp_path):
    if content is not None:
        (tmp_path / "a.jsonl").write_bytes(content)
    assert said in command.refused("report", "a.jsonl")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("low", "high"),
    [(210, 524), (240, 1050), (118, 470), (5, 5.1), (0.26, 0.31), (1, 1500), (1, 1e6), (400, 9800)],
)
def test_a_logarithmic_axis_shows_two_places_at_least(low, high):
    places = charts.ticks([low, None, -1, high])
    assert places == sorted(places) and sum(low <= place <= high for place in places) >= 2


def test_a_wide_matrix_is_laid_out_in_rows(tmp_path):
    """Nine classes of contention abreast are wider than screens and paper; the script needs the
    size of one."""
    path = samples.write(tmp_path / "a.jsonl", samples.sample("rmw"))
    spec = made.__wrapped__(path).content["figures"]["matrix"]["spec"]
    assert (
        spec["columns"] <= 3 and spec["usermeta"]["abreast"] > 40 and spec["usermeta"]["left"] > 100
    )


def test_a_run_without_a_finished_cell_is_refused(command, tmp_path):
    samples.write(tmp_path / "a.jsonl", samples.sample("rmw")[:1])
    assert "no finished cell" in command.refused("report", "a.jsonl")


def test_places_that_cannot_be_written_are_refused(command, tmp_path):
    samples.write(tmp_path / "a.jsonl", samples.sample("handoff"))
    (tmp_path / "folder").mkdir()
    assert "it is a directory" in command.refused("report", "a.jsonl", "-o", "folder")
    assert "no such directory" in command.refused("report", "a.jsonl", "-o", "nowhere/a.html")
    assert "one of the record files" in command.refused("report", "a.jsonl", "-o", "./a.jsonl")
    assert "it is no regular file" in command.refused("report", "a.jsonl", "-o", "/dev/null")


def test_an_interrupted_report_leaves_the_older_one_alone(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C between writing and replacing: nothing lies beside the page."""
    from linewright.commands import report

    def interrupted(*paths: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "r.html").write_text("old")
    monkeypatch.setattr(report.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report._write(str(tmp_path / "r.html"), "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_an_older_report_is_replaced_and_records_are_left_alone(command, tmp_path):
    path = samples.write(tmp_path / "a.jsonl", samples.sample("handoff"))
    before = Path(path).read_bytes()
    (tmp_path / "report.html").write_text("old")
    assert command("report", "a.jsonl").returncode == 0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert Path(path).read_bytes() == before


# ---- make measure ------------------------------------------------------------------------------


def measure(folder: Path, report: str) -> subprocess.CompletedProcess[str]:
    """scripts/measure.sh in a checkout whose command measures nothing and reports as told."""
    (folder / "scripts").mkdir()
    for name in ("measure.sh", "lib.sh"):
        (folder / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (folder / "scripts/measure.sh").chmod(0o755)
    (folder / "build/native").mkdir(parents=True)
    (folder / "build/native/build.ninja").touch()
    tools = folder / "tools"
    tools.mkdir()
    (folder / ".venv/bin").mkdir(parents=True)
    for path, text in (
        (tools / "cmake", "exit 0"),
        (
            folder / ".venv/bin/linewright",
            f'case $1 in measure) echo record >"$5"; exit 3 ;; report) {report} ;; esac',
        ),
    ):
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PLAN": "quick"}
    return waiting.run(["scripts/measure.sh"], cwd=folder, env=env)


def test_measuring_ends_with_a_report_and_with_the_codes_of_measuring(tmp_path):
    done = measure(tmp_path, 'echo "reported $2 in $4"')
    assert done.returncode == 3
    assert "reported results/quick.jsonl in results/quick.html" in done.stdout


def test_measuring_survives_a_report_that_fails(tmp_path):
    done = measure(tmp_path, "exit 2")
    assert done.returncode == 3
    assert "the records are whole" in done.stderr
    assert (tmp_path / "results/quick.jsonl").read_text() == "record\n"


def test_more_records_than_a_page_can_hold_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = samples.write(tmp_path / "r.jsonl", samples.sample("rmw"))
    size = Path(path).stat().st_size
    monkeypatch.setattr("linewright.say.page_material.MOST_BYTES", 2 * size)
    assert gather([path, path], lambda _: None).series  # the same lines count once
    monkeypatch.setattr("linewright.say.page_material.MOST_BYTES", size // 2)
    with pytest.raises(UserError, match="too many records for one page"):
        gather([path], lambda _: None)
