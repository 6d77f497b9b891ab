# SPDX-License-Identifier: MIT
"""`linewright compare` as users run it: what differs, what does not, what must not be compared, and
pages that run nothing."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from linewright.compare.compared_files import FIELDS, differences
from linewright.schema import Context, Cpu, DrawnCosts, Record
from support import waiting
from support.analysis_samples import (
    SIMULATED,
    cell,
    context,
    launches,
    record,
    simulation,
    together,
    write,
)
from support.places import ROOT

PLANTED = {0: 1.0, 20: 1.5, 100: 0.8, 200: 1.0}
"""Contender spacing of each cell, and what the second run's times are multiplied by."""


def spaced(iters: int):
    return cell("stadd", contender="same_line", contender_iters=iters, threads=2)


def run(
    directory: Path, name: str, factors: dict[int, float], seed: int, extra=(), **changes: object
) -> str:
    rng = np.random.default_rng(seed)
    rows: list[Record] = [
        r
        for iters, factor in factors.items()
        for r in launches(
            spaced(iters), (10 + iters) * factor, rng, between=0.005, prefix=f"{seed:x}"
        )
    ]
    rows += list(extra)
    contexts = [context(context_id=i, **changes) for i in dict.fromkeys(r.context_id for r in rows)]
    return write(directory / name, contexts, rows)


@pytest.fixture
def pair(command) -> tuple[str, str]:
    same = dict.fromkeys(PLANTED, 1.0)
    return run(command.directory, "a.jsonl", same, 1), run(command.directory, "b.jsonl", PLANTED, 2)


def test_planted_changes_come_first_and_the_rest_is_the_same(command, pair):
    answer = command("compare", *pair)
    assert answer.returncode == 1, answer.stderr
    table = answer.stdout[answer.stdout.index("  change") :]
    assert table.index("spacing 20") < table.index("spacing 100") and "spacing 200" not in table
    decision = answer.stdout[: answer.stdout.index("  change")]
    assert (
        "1 slower, 1 cheaper, 2 the same" in decision and "corrected for 4 comparisons" in decision
    )
    assert "spacing 200" in flat(command("compare", *pair, "--all").stdout)


def test_a_run_against_itself_has_no_difference(command, pair):
    answer = command("compare", pair[0], pair[0])
    assert (
        answer.returncode == 0 and "4 the same" in answer.stdout and "2 slower" not in answer.stdout
    )
    assert "compared with itself" in answer.stdout and "in turns" not in answer.stdout


def test_json_and_csv_say_the_same(command, pair):
    told = json.loads(command("compare", *pair, "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(command("compare", *pair, "--format", "csv").stdout)))
    assert [r["id"] for r in told["rows"]] == [r["id"] for r in rows]
    assert [r["answer"] for r in rows] == ["slower", "cheaper", "same", "same"]
    first = told["rows"][0]
    assert first["ratio_low"] < 1.5 < first["ratio_high"] and float(
        rows[0]["ratio"]
    ) == pytest.approx(first["ratio"])
    assert first["difference_low"] < 15 < first["difference_high"], "ns: half of 30"
    assert told["verdict"] and [f["id"] for f in told["failing"]] == [r["id"] for r in rows[:2]]


@pytest.mark.parametrize(
    ("limit", "code", "said"),
    [
        ("5%", 1, "FAILED: 1 shown to be more than 5 % worse, or wrong"),
        ("0.9", 0, "passed: all that was compared is shown to be no more than 90 % worse"),
    ],
)
def test_a_limit_decides_the_exit_code(command, pair, limit, code, said):
    answer = command("compare", *pair, "--fail-above", limit)
    assert (answer.returncode, said in answer.stdout) == (code, True), answer.stdout


def test_a_cell_that_became_faster_breaks_no_limit(command, pair):
    assert (
        command("compare", *reversed(pair), "--fail-above", "0%", "--only", "ci20").returncode == 0
    )


def test_a_cell_that_became_wrong_fails_whatever_the_limit(command, pair):
    wrong = [record(spaced(0), (), "f" * 16, 9, status="error", reason="lost")]
    name = run(command.directory, "wrong.jsonl", dict.fromkeys(PLANTED, 1.0), 3, wrong)
    answer = command("compare", pair[0], name, "--fail-above", "100%")
    assert (
        answer.returncode == 1 and "1 wrong now" in answer.stdout and "WRONG NOW" in answer.stdout
    )
    assert "Wrong now, 1 of them: after: status error (lost)." in answer.stdout
    assert "not comparable" not in answer.stdout.lower()


def test_a_cell_without_a_figure_now_is_not_shown_to_be_within_a_limit(command, pair):
    lost = [record(spaced(0), (), "f" * 16, 9, status="unavailable", reason="lost")]
    kept = dict.fromkeys(PLANTED.keys() - {0}, 1.0)
    name = run(command.directory, "lost.jsonl", kept, 3, lost)
    answer = command("compare", pair[0], name, "--fail-above", "100%,undecided")
    assert answer.returncode == 1 and "but 1 is not shown to be within it" in flat(answer.stdout)


def test_a_cell_that_a_file_lacks_is_not_shown_to_be_within_a_limit(command, pair):
    """A run that ended early passed with the cells that it had come to."""
    name = run(command.directory, "short.jsonl", dict.fromkeys(PLANTED.keys() - {0}, 1.0), 3)
    short = ("compare", pair[0], name, "--fail-above")
    told = json.loads(command(*short, "100%", "--json").stdout)
    assert told["undecided"] == [{"file": name, "id": spaced(0).id}]
    assert command(*short, "100%").returncode == 0
    answer = command(*short, "100%,undecided")
    assert answer.returncode == 1 and "but 1 is not shown to be within it" in flat(answer.stdout)


def test_several_files_share_one_baseline_and_one_correction(command, pair):
    third = run(command.directory, "c.jsonl", {0: 1.0, 7: 1.0}, 4)
    answer = command("compare", *pair, third, "--json")
    told = json.loads(answer.stdout)
    assert [side["file"] for side in told["others"]] == ["b.jsonl", "c.jsonl"]
    assert sum(row["p"] is not None for row in told["rows"]) == 5
    assert len(told["others"][1]["missing"]) == 3 and len(told["others"][1]["added"]) == 1
    alone = json.loads(command("compare", *pair, "--json").stdout)
    by_id = {r["id"]: r["p"] for r in alone["rows"]}
    assert all(r["p"] >= by_id[r["id"]] for r in told["rows"] if r["file"] == "b.jsonl"), (
        "more comparisons, less certain"
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"governor": "powersave"}, "governor none before, powersave after"),
        ({"kernel": "Linux 7", "machine_id": "c" * 16}, "kernel 6.1 before, Linux 7 after"),
        ({"machine_id": "c" * 16}, "machine_id 00000000000000bb before"),
        (
            {"tool_version": "0.2.0", "compiler": "clang"},
            "tool_version 0.1.0 before, 0.2.0 after; compiler gcc before",
        ),
        (
            {
                "cpus": [Cpu(cpu=0)],
                "smt": "on",
                "rseq": "none",
                "realtime": True,
                "cpu_model": "other",
            },
            "and 2 more",
        ),
    ],
)
def test_unlike_conditions_are_refused_unless_told(command, pair, changes, named):
    other = run(command.directory, "other.jsonl", dict.fromkeys(PLANTED, 1.0), 5, **changes)
    said = command.refused("compare", pair[0], other)
    assert named in said and "--unlike compares them nevertheless" in said
    if "kernel" in changes:
        assert "machine_id" not in said, "the kernel is part of it"
    answer = command("compare", pair[0], other, "--unlike")
    assert answer.returncode == 0 and "Unlike, as you allowed: " in answer.stdout


def test_what_each_launch_measures_anew_is_no_condition():
    one = context()
    assert (
        differences(
            [one],
            [
                msgspec.structs.replace(
                    one,
                    context_id="1" * 16,
                    started_utc="later",
                    plan="rmw",
                    launch=3,
                    tick_ns=0.5,
                    cycle_ns=0.4,
                )
            ],
        )
        == []
    )
    judgement = set(FIELDS) | {"machine_id"}
    measured = {
        "tick_ns",
        "timer_cost_ns",
        "work_unit_ns",
        "work_linearity",
        "work_spread",
        "nop_iter_ns",
        "loop_offset_bytes",
        "launches",
        "cycle_ns",
        "linewright_context",
        "context_id",
        "started_utc",
        "plan",
        "launch",
    }
    told = {"counters", "counters_reason", "other_probe", "other_load"}
    told |= {"command", "program", "plan_digest"}
    assert judgement | measured | told >= set(Context.__struct_fields__), (
        "a new field of the context is a condition or is none: say which"
    )


def test_another_frequency_is_told(command, pair):
    slow = run(command.directory, "slow.jsonl", dict.fromkeys(PLANTED, 1.0), 6, cycle_ns=0.62)
    assert "frequency changed by -50 %" in command("compare", pair[0], slow).stdout


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["a.jsonl"], ["one file", "BASELINE"]),
        (["a.jsonl", "b.jsonl", "b.jsonl"], ["b.jsonl is named twice"]),
        (["a.jsonl", "absent.jsonl"], ["absent.jsonl", "No such file"]),
        (["a.jsonl", "b.jsonl", "--fail-above", "5"], ["--fail-above", "'5'", "0% to 100%"]),
        (["a.jsonl", "b.jsonl", "--fail-above", "nan"], ["--fail-above", "'nan'"]),
        (["a.jsonl", "b.jsonl", "--format", "xml"], ["--format", "table, csv"]),
        (["a.jsonl", "b.jsonl", "--only", "ldadd"], ["--only", "'ldadd'"]),
        (["never.jsonl", "b.jsonl", "--html", "absent/c.html"], ["--html", "cannot write"]),
        (["a.jsonl", "two.jsonl"], ["two.jsonl", "2 machines"]),
        (["a.jsonl", "nothing.jsonl"], ["no cell in common"]),
        (["a.jsonl", "lost.jsonl"], ["nothing could be compared", "no lse"]),
        (["a.jsonl", "trial.jsonl"], ["a.jsonl holds records and trial.jsonl a trial"]),
    ],
)
def test_wrong_requests_are_one_line(command, pair, words, messages):
    rows = [record(cell("stadd"), [5.0] * 9, c * 16) for c in "ab"]
    write(
        command.directory / "two.jsonl",
        [context("a" * 16, "1" * 16), context("b" * 16, "2" * 16)],
        rows,
    )
    run(command.directory, "nothing.jsonl", {77: 1.0}, 7)
    write(
        command.directory / "lost.jsonl",
        [context()],
        [record(spaced(0), status="unavailable", reason="no lse")],
    )
    (command.directory / "trial.jsonl").write_text('{"linewright_trial": 1}\n')
    said = command.refused("compare", *words)
    assert all(message in said for message in messages), said


class Page(html.parser.HTMLParser):
    """Tags, and texts that a browser shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_a_page_never_takes_the_place_of_the_records(command, pair):
    written = command.directory / pair[1]
    before = written.read_bytes()
    for path, why in ((pair[1], "is one of the record files"), (".", "it is a directory")):
        assert why in command.refused("compare", *pair, "--html", path)
    assert written.read_bytes() == before


def test_the_page_stands_alone_and_runs_nothing(command, pair):
    attack = "<script>alert(1)</script>\x1b[2J\x9b31m\u202e\"'><img src=x onerror=alert(1)>"
    hostile = run(
        command.directory,
        "hostile<b>.jsonl",
        PLANTED,
        8,
        [record(spaced(0), (), "e" * 16, 9, status="error", reason=attack)],
        cpu_model=attack,
    )
    answer = command("compare", pair[0], hostile, "--unlike", "--html", "c.html")
    assert answer.returncode == 1, answer.stderr
    text = (command.directory / "c.html").read_text()
    page = Page(text)
    assert not {"script", "img", "link", "iframe", "b"} & {tag for tag, _ in page.tags}
    assert not [
        a for _, attributes in page.tags for a in attributes if a.startswith(("on", "src", "href"))
    ]
    assert "alert(1)" in page.text, "shown as text"
    for shown in (text, answer.stdout):
        assert not set("\x1b\x9b\u202e") & set(shown)
    assert "default-src 'none'" in text and "http" not in text.replace("http-equiv", "")
    assert "+5" in page.text and "2 undecided" not in page.text and len(text) < 50_000


# ---- a check with three answers ----------------------------------------------------------------


def flat(text: str) -> str:
    """A text without the line breaks of its terminal."""
    return " ".join(text.split())


def noisy(directory: Path, name: str, seed: int, between: float, factor: float = 1.0) -> str:
    rng = np.random.default_rng(seed)
    rows = [
        r
        for i in (0, 10)
        for r in launches(spaced(i), 12.0 * factor, rng, between=between, prefix=f"{seed:x}")
    ]
    return write(
        directory / name,
        [context(context_id=i) for i in dict.fromkeys(r.context_id for r in rows)],
        rows,
    )


def test_undecided_cells_never_pass_for_the_same(command):
    names = [noisy(command.directory, f"{seed}.jsonl", seed, between=0.1) for seed in (1, 2)]
    answer = command("compare", *names, "--fail-above", "5%,undecided")
    assert answer.returncode == 1 and "passed" not in flat(answer.stdout).split("check:")[1]
    assert "check: UNDECIDED, counted as failed: " in flat(answer.stdout)
    relaxed = command("compare", *names, "--fail-above", "5%")
    assert (
        relaxed.returncode == 0
        and "check: UNDECIDED, counted as passed: " in flat(relaxed.stdout)
        and "within it; --fail-above 5%,undecided counts them as failed" in flat(relaxed.stdout)
        and "check: passed" not in flat(relaxed.stdout)
    )
    told = json.loads(command("compare", *names, "--fail-above", "5%", "--json").stdout)
    assert len(told["undecided"]) == 2 and told["failing"] == []
    for wrong in ("5%,", "5%,maybe", "undecided"):
        assert "--fail-above" in command.refused("compare", *names, "--fail-above", wrong)


@pytest.mark.parametrize("between", [0.01, 0.017, 0.1])
def test_equal_runs_leave_with_0_under_the_documented_command(command, between):
    """Once exit 1 in 60 of 60 pairs whose launches were 1 to 1.7 % apart: none was shown to be
    worse, but five launches cannot show that none is."""
    names = [noisy(command.directory, f"{seed}.jsonl", seed, between) for seed in (1, 2)]
    answer = command("compare", *names, "--fail-above", "5%")
    assert answer.returncode == 0, answer.stdout
    assert "UNDECIDED, counted as passed" in flat(answer.stdout) or ": passed" in answer.stdout


def test_a_contended_change_of_almost_three_times_fails(command):
    """Once "3 no difference … passed" on bare metal with 1 % between launches."""
    names = [
        noisy(command.directory, f"{seed}.jsonl", seed, 0.01, factor)
        for seed, factor in ((3, 1.0), (4, 2.9))
    ]
    answer = command("compare", *names, "--fail-above", "5%")
    assert answer.returncode == 1 and "FAILED: 2 shown to be more than 5 % worse, or wrong" in flat(
        answer.stdout
    )


def test_two_short_runs_of_a_virtual_machine_claim_nothing_of_a_second_cpu(command):
    """Its states outlast such runs, and passed for changes."""
    names = [
        run(
            command.directory,
            f"{minute}.jsonl",
            dict.fromkeys(PLANTED, factor),
            minute,
            virtualised="yes",
            started_utc=f"2026-01-01T00:{minute:02d}:00Z",
        )
        for minute, factor in ((10, 1.0), (20, 4.8))
    ]
    answer = command("compare", *names, "--fail-above", "5%")
    said = flat(answer.stdout)
    assert answer.returncode == 0 and "UNDECIDED, counted as passed" in said
    assert "othing is claimed of 4 with a second CPU" in said and "met too few" in said
    told = json.loads(command("compare", *names, "--json").stdout)
    assert {(row["answer"], row["why"]) for row in told["rows"]} == {("undecided", "few_states")}
    assert len(told["undecided"]) == 0 == len(told["failing"])


def test_more_launches_are_asked_for_only_where_they_would_tell(command):
    close = [noisy(command.directory, f"{seed}.jsonl", seed, between=0.02) for seed in (5, 6)]
    assert "launches would decide them" in flat(command("compare", *close).stdout)
    wild = [noisy(command.directory, f"{seed}.jsonl", seed, between=0.5) for seed in (7, 8)]
    said = flat(command("compare", *wild).stdout)
    assert "even 40 launches would show no" in said and "would decide" not in said
    assert (
        "can pass for a difference; `linewright compare --measure` takes the launches in turns"
        in said
    )


def test_a_change_of_the_machine_between_two_runs_is_warned_of_once(command, pair):
    third = run(command.directory, "c.jsonl", dict.fromkeys(PLANTED, 1.0), 3)
    said = flat(command("compare", *pair, third).stdout)
    assert said.count("can pass for a difference") == 1


@pytest.mark.parametrize(
    ("first", "said"), [("0 2 4 6 8", "mixed in time"), ("0 3 4 7 8", "in pairs")]
)
def test_the_order_of_the_launches_is_said(command, first, said):
    """A B A B … gives every drift to one side; in A B B A A B … it falls on both."""
    moments = (
        [int(moment) for moment in first.split()],
        [s for s in range(10) if str(s) not in first.split()],
    )
    paths = []
    for name, seconds in zip("ab", moments, strict=True):
        path = command.directory / run(
            command.directory, f"{name}.jsonl", dict.fromkeys(PLANTED, 1.0), 5 + len(paths)
        )
        lines = path.read_text().splitlines()
        began = iter(seconds)
        path.write_text(
            "".join(
                json.dumps(
                    line | {"started_utc": f"2026-01-01T00:00:{next(began):02d}Z"}
                    if "started_utc" in line
                    else line
                )
                + "\n"
                for line in map(json.loads, lines)
            )
        )
        paths.append(str(path))
    assert said in flat(command("compare", *paths).stdout)


# ---- sentences that were said of files in which they are false ----------------------------------


def written(of, name: str, rows: list[Record], **changes: object) -> str:
    contexts = [context(context_id=i, **changes) for i in dict.fromkeys(r.context_id for r in rows)]
    return write(of.directory / name, contexts, rows)


@pytest.mark.parametrize("how", [[], ["--json"], ["--format", "csv"], ["--fail-above", "5%"]])
def test_a_reader_that_is_gone_hides_no_difference(command, pair, how):
    """`compare … | head -1` under pipefail had the exit code of no difference."""
    words = command.arguments("compare", *pair, *how)
    script = 'exec 3> >(exit 0); wait $!; "$@" >&3'
    environment = {"env": command.environment(), "cwd": command.directory}
    done = waiting.run(["bash", "-c", script, "sh", *words], **environment)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_figure_of_nothing_and_few_launches_are_the_reason(command):
    """They were undecided without a word why."""
    for count, said in ((5, "1 have a launch at 0 ns"), (2, "2 have fewer than 5 launches")):
        rng, names = np.random.default_rng(1), []
        for side, ns in enumerate((0.0 if count > 2 else 12.0, 12.0)):
            cells = ((spaced(0), ns), (spaced(10), 20.0))
            rows = [r for c, t in cells for r in launches(c, t, rng, count, prefix=f"{side}")]
            names.append(written(command, f"{count}{side}.jsonl", rows))
        answer = command("compare", *names, "--html", f"{count}.html")
        page = Page((command.directory / f"{count}.html").read_text()).text
        assert said in flat(answer.stdout) and said in flat(page), answer.stdout


def exposed(command, name: str, ns: float, own: float = 0.001) -> str:
    costs, rng = [(cell("stadd", work_iters=20), ns)], np.random.default_rng(int(name[0]))
    rows = together(costs, rng, shared=0.0, own=own, within=0.002, prefix=name[0])
    return written(command, name, rows)


def test_what_is_the_same_of_an_exposed_cost_is_said_as_it_is_judged(command):
    """2 ns of 100 are the same within 5 %, which was said to be 0.5 ns; 0.3 ns of 1 pass a limit
    of 5 %, which were said to be no more than 5 %."""
    names = [exposed(command, f"{n}.jsonl", ns) for n, ns in enumerate((100.0, 102.0, 1.0, 1.3))]
    told = json.loads(command("compare", *names[:2], "--json").stdout)
    (row,) = told["rows"]
    assert row["answer"] == "same" and row["difference_low"] > 0.5
    assert "exposed within 5 % or 0.5 ns" in told["what"]
    answer = command("compare", *names[2:], "--fail-above", "5%")
    assert "no more than 5 % worse (of an exposed cost 0.5 ns where that is more)" in flat(
        answer.stdout
    )


def test_what_undecided_exposed_costs_may_differ_by_is_said(command):
    names = [exposed(command, f"{n}.jsonl", 50.0, own=0.3) for n in (4, 5)]
    said = flat(command("compare", *names).stdout)
    assert re.search(r"may differ by -[\d.]+ to [+][\d.]+ ns", said)


def simulated(command, name: str, machine: str, draws: DrawnCosts | None, options: str = "") -> str:
    rows = [
        msgspec.structs.replace(r, context_id=f"{len(name)}{r.context_id[2:]}".zfill(16))
        for r in simulation([(spaced(0), 10.0, draws)], seed=len(name))
    ]
    changes = {**SIMULATED, "cpu_model": f"simulated: {machine}", "command": options}
    return written(command, name, rows, **changes)


def test_the_page_of_two_simulations_has_its_own_rule(command):
    """No draws, no interval, no correction by Holm."""
    names = [simulated(command, name, "mine", None) for name in ("a.jsonl", "bb.jsonl")]
    command("compare", *names, "--html", "c.html")
    page = Page((command.directory / "c.html").read_text()).text
    assert "Holm" not in page and "Changes are exact" in page


def test_machines_of_other_names_have_no_draw_in_common(command):
    draws = DrawnCosts(ns=[10.0 + n / 100 for n in range(40)], misses=[])
    first, same, other = (
        simulated(command, f"{'x' * n}.jsonl", machine, draws)
        for n, machine in enumerate(("mine", "mine", "yours"), start=1)
    )
    assert "which both sides have alike" in flat(command("compare", first, same).stdout)
    seeded = simulated(command, "seed.jsonl", "mine", draws, "--set seed=7")
    for apart in (other, seeded):
        said = flat(command("compare", first, apart).stdout)
        assert "which both sides have alike" not in said and "have nothing in common" in said


def test_the_guide_names_every_condition():
    guide = (ROOT / "docs/guide/compare.md").read_text()
    assert [name for name in FIELDS if f"`{name}`" not in guide] == []
