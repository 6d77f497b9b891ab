# SPDX-License-Identifier: MIT
"""Sentences that were once said of records in which they are false: each with such records."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest
from scipy import stats

from linewright import numbers
from linewright.analysis import summarise
from linewright.analysis.loading import near_far
from linewright.analysis.machine_answers import machines_with_answers
from linewright.analysis.machine_figures import Price
from linewright.analysis.questions import ask
from linewright.compare.changes import compare
from linewright.say.document import common_costs, render_all
from linewright.say.machine_document import documents
from linewright.say.machine_lines import error_text
from linewright.say.machine_tables import ratio_text
from linewright.schema import Context, Quantiles, Record
from linewright.show.terminal import legend_of, narrowed
from support import machines
from support.analysis_samples import (
    cell,
    context,
    contexts_of,
    launches,
    points,
    priced,
    record,
    together,
)
from support.said import verdict
from support.screens import screens

ARM64 = {"stadd": 64.1, "prfm_strm_stadd": 4.0, "ldadd": 4.3, "prfm_strm_ldadd": 4.3}


def screen_of(alone, contended=None, seed=1, more=(), **changes):
    records = together(
        [*points(alone, contended=contended or alone), *more],
        np.random.default_rng(seed),
        shared=0.02,
        own=0.005,
    )
    contexts = contexts_of(records, **({"arch": "arm64", "features": ["lse"]} | changes))
    (found,) = documents(summarise(contexts, records), contexts)
    return found


def test_a_prefetch_gains_nothing_only_before_the_forms_that_are_named():
    together_ns = ARM64 | {"ldadd": 40.0, "prfm_strm_ldadd": 80.0}
    uses = render_all(screen_of(ARM64, together_ns).of("uses"))
    (text,) = (text for text in uses if "gains nothing" in text)
    assert "before ldadd gains nothing alone" in text
    assert re.search(r"before stadd it does: (4.0|3.9)\d instead of 6", text)
    assert re.search(r"prfm_strm_ldadd takes (80|79)", text)


def test_a_small_gain_never_stands_before_a_large_loss():
    alone = {"ldadd": 4.29, "prfm_strm_stadd": 4.0, "stadd": 64.0}
    uses = render_all(
        screen_of(alone, alone | {"ldadd": 12.5, "prfm_strm_stadd": 123.0}).of("uses")
    )
    assert not any("prfm_strm_stadd" in text and "less)" in text for text in uses)
    uses = render_all(
        screen_of({"ldadd": 8.0, "stadd": 4.0}, {"ldadd": 12.5, "stadd": 123.0}).of("uses")
    )
    (text,) = (text for text in uses if "take stadd for" in text.lower())
    assert text == uses[-1] and re.search(r"but 12\d instead of 12", text), (
        "last, and with both figures"
    )


def test_medians_of_other_launches_never_stand_beside_what_was_compared():
    """``2.09 instead of 2.08 ns (2.6 to 4.9 % less)``: the later launches, which were faster, had
    no time for the prefetch."""
    rng, lock = np.random.default_rng(1), "lock_add"
    both = points({lock: 2.2, "prefetchw_lock_add": 2.05})
    records = together(both, rng, count=6, shared=0.0, own=0.002)
    said = []
    for more in ([], together(points({lock: 2.0}), rng, count=7, first=6, shared=0.0, own=0.002)):
        found = [*records, *more]
        contexts = contexts_of(found, arch="x86_64", features=["prefetchw"])
        (made,) = documents(summarise(contexts, found), contexts)
        said += render_all(made.of("uses"))
    assert re.fullmatch(
        r"Take prefetchw_lock_add for add, alone: 2\.0\d instead of 2\.2\d ns \(.* % less\)\.",
        said[0],
    )
    assert re.fullmatch(
        r"Take prefetchw_lock_add for add, alone: [0-9.]+ to [0-9.]+ % less than lock_add\.",
        said[1],
    )


def test_no_interval_contradicts_the_answer_beside_which_it_is_printed():
    """*Undecided* stood beside ``+1 to +7 %``: the interval was of 95 %, the answer corrected."""
    contradicted = 0
    for seed in range(12):
        forms = {"ldadd": 10.0, "stadd": 10.5, "llsc_add": 10.5, "prfm_strm_stadd": 20.0}
        costs = points(forms, contended=forms)
        records = together(costs, np.random.default_rng(seed), shared=0.02, own=0.03)
        known = contexts_of(records, features=["lse"])
        summaries = summarise(known, records)
        for c in ask("forms", summaries):
            contradicted += c.why == "wide" and c.contrast.separate
            if c.answer != "same":
                assert c.shown.separate == c.differs, (c.words(), c.ids)
            ends = [c.shown.low, c.shown.high]
            assert c.change() == numbers.change(*ends, c.shown.scale)
    assert contradicted > 5, "the records are such that a plain interval says otherwise"


@pytest.mark.parametrize("count", [2, 4])
def test_what_few_launches_showed_is_not_said_to_remain_possible(count: int):
    costs = points({"ldadd": 10.0, "stadd": 20.0})
    records = together(costs, np.random.default_rng(1), count=count, own=0.002)
    known = contexts_of(records, features=["lse"])
    (c,) = {c.words() for c in ask("forms", summarise(known, records)) if c.figure == "issue"}
    assert re.fullmatch(rf"undecided, .* more in {count} launches", c)


@pytest.mark.parametrize(
    ("alone", "contended", "first"), [(4.0, 125.0, "worse"), (6.0, 1.2, "better")]
)
def test_of_gain_and_loss_the_larger_is_said_first(alone: float, contended: float, first: str):
    """A setting that gains 7 % alone once hid that it costs ten times as much contended."""
    costs = points({"ldadd": 4.3, "stadd": alone}, contended={"ldadd": 12.5, "stadd": contended})
    records = together(costs, np.random.default_rng(3), own=0.005)
    known = contexts_of(records, features=["lse"])
    (answer,) = documents(summarise(known, records), known, "evidence")
    (classes,) = (topic for topic in answer.evidence if topic.name == "classes")
    said = [line for line in render_all(classes.lines) if "=void=store is" in line]
    assert f"is {first} than the default" in said[0] and len(said) == 2


def test_measuring_more_is_not_asked_for_what_depends_on_the_program():
    """Exchanges are open, additions depend on contention: more launches would change nothing."""
    rng = np.random.default_rng(2)
    sure = together(
        points({"stadd": 4.0, "ldadd": 8.0}, contended={"stadd": 80.0, "ldadd": 20.0}),
        rng,
        own=0.005,
    )
    wide = together(
        points({"swp": 5.0, "llsc_swp": 5.5}, contended={"swp": 9.0, "llsc_swp": 9.0}), rng, own=0.4
    )
    records = [*sure, *wide]
    known = contexts_of(records, features=["lse"])
    (answer,) = documents(summarise(known, records), known, "evidence")
    (classes,) = (topic for topic in answer.evidence if topic.name == "classes")
    assert {c.why for c in classes.data} == {"depends", "measure_more"}
    assert (
        answer.decision.why == "depends"
        and "depends on contention" in answer.decision.sentence.text
    )


def in_two_states(visits: int, seed: int):
    """Windows that are slow at random moments, on whatever line."""
    rng, records = np.random.default_rng(seed), []
    for launch in range(5):
        lines = rng.permutation(np.tile(np.arange(16), visits))
        slow = rng.random(lines.size) < 0.5
        ns = np.where(slow, 50.0, 20.0) * np.exp(rng.normal(0, 0.01, lines.size))
        records.append(
            record(cell(lines=16), ns, f"{launch:016x}", launch, window_line=lines.tolist())
        )
    return records


@pytest.mark.parametrize("visits", [1, 3, 8])
def test_states_of_time_are_no_home_nodes(visits):
    flagged = 0
    for seed in range(20):
        records = in_two_states(visits, seed)
        (summary,) = summarise(contexts_of(records), records)
        flagged += "bimodal_lines" in summary.flags
    assert flagged == 0


def test_launches_that_are_slow_as_a_whole_are_no_lines_at_the_interconnect():
    rng, records = np.random.default_rng(4), []
    for launch in range(5):
        lines = rng.permutation(np.tile(np.arange(16), 4))
        for form, ns in (("stadd", 64.0 if launch < 2 else 4.0), ("prfm_strm_stadd", 4.0)):
            windows = ns * np.exp(rng.normal(0, 0.01, lines.size))
            records.append(
                record(
                    cell(form, lines=16),
                    windows,
                    f"{launch:016x}",
                    launch,
                    window_line=lines.tolist(),
                    cpus=[3],
                )
            )
    contexts = {c.context_id: c for c in contexts_of(records, features=["lse"])}
    (found,) = (
        c
        for c in near_far(contexts, summarise(contexts, records))
        if c.comparison.first.form == "stadd"
    )
    assert found.where == "undecided" and found.near and found.far


def test_where_every_form_is_far_none_is_singled_out():
    alone = {"stadd": 64.0, "ldadd": 62.0, "prfm_strm_stadd": 4.0, "prfm_strm_ldadd": 4.0}
    (text,) = (t for t in render_all(screen_of(alone).of("headline")) if "interconnect" in t)
    assert "stadd and ldadd behave as if performed at the interconnect" in text


def test_a_ratio_of_few_launches_is_its_interval():
    versus = priced(1 / 3.5, 1 / 7.4, 1 / 1.7, launches=3)
    price = Price(group="read", alone=None, contended=None, versus=versus)
    assert price.few and ratio_text(price) == "1.7–7.4× less ?"


def test_readers_are_not_advised_without_what_their_updater_waits():
    both = dict(contender="same_line", threads=2, width_bits=8, params={"read_delay": 0})
    costs = [
        (cell("srcu_fast", operation="readers_pair", **both), 2.2),
        (cell("rwlock", operation="readers_pair", **both), 90.0),
    ]
    wait = cell(
        "srcu_fast",
        operation="readers_grace",
        **both | {"params": {"read_delay": 0, "updater": "synchronize"}},
    )
    for more, said in (
        ([(wait, 34_000.0)], "its updater waits 3"),
        ([], "what its updater waits was not measured"),
    ):
        uses = render_all(screen_of({"ldadd": 5.0}, more=costs + more).of("uses"))
        (text,) = (text for text in uses if "under SRCU" in text)
        assert said in text


def test_figures_that_agree_by_luck_are_no_surer_than_identical_code():
    rng = np.random.default_rng(5)
    both = dict(contender="same_line", threads=2, lines=8)
    records = launches(cell("lock_add"), 5.0, rng)
    records += launches(cell("lock_add", **both), 20.8, rng, between=0.001, within=0.01)
    records += launches(cell("builtin_add", **both), 24.7, rng, between=0.4)
    contexts = contexts_of(records, arch="x86_64")
    (found,) = screens(summarise(contexts, records), contexts)
    shown = found.rows["add"].entries["contended"].default.ns
    assert shown.high_ns > 24 and f"to {shown.high_ns:.0f})" in render_all(found.of("headline"))[0]


def test_figures_that_agree_by_luck_borrow_doubt_where_no_code_is_identical():
    """Of ldadd nothing else has the machine code: the other forms say how far launches lie apart
    there."""
    rng, both = np.random.default_rng(5), dict(contender="same_line", threads=2, lines=8)
    records = launches(cell("ldadd"), 5.0, rng)
    records += launches(cell("ldadd", **both), 20.8, rng, between=0.001, within=0.01)
    for form in ("stadd", "prfm_strm_ldadd", "llsc_fetch_add"):
        records += launches(cell(form, **both), 24.0, rng, between=0.4)
    (found,) = screens(summarise(contexts := contexts_of(records), records), contexts)
    shown = found.rows["add"].entries["contended"].default
    assert shown.form == "ldadd" and shown.ns.low_ns < 16 and shown.ns.high_ns > 27
    assert (
        f"({shown.ns.low_ns:.0f} to {shown.ns.high_ns:.0f})" in render_all(found.of("headline"))[0]
    )


def test_what_is_called_an_interval_is_no_range_of_launches():
    """Of 40 launches the median is known far better than the launches lie apart; the heading was
    "range"."""
    rng, both = np.random.default_rng(8), dict(contender="same_line", threads=2)
    records = launches(cell("ldadd", **both), 20.0, rng, count=40, between=0.3)
    medians = [np.median(r.window_ns) for r in records]
    (found,) = screens(summarise(contexts := contexts_of(records), records), contexts)
    ns = found.rows["add"].entries["contended"].default.ns
    assert min(medians) < 0.8 * ns.low_ns and max(medians) > 1.2 * ns.high_ns
    names = found.document.table("matrix").headings
    assert "95 %" in names and "range" not in names


@pytest.mark.parametrize("slow", [1.6, 1 / 1.6])
def test_two_machines_beside_each_other_have_a_winner_in_each_operation(slow: float):
    """In both directions, and none where their intervals overlap."""
    faster_adds = {"ldadd": 20.0, "swp": 30.0, "cas_loop_read_first": 40.0}
    other = {"ldadd": 20.0 * slow, "swp": 30.0 / slow, "cas_loop_read_first": 40.4}
    screens = [screen_of(costs, seed=seed) for seed, costs in enumerate((faster_adds, other))]
    said = {row.name: row.ratio for row in common_costs(screens)}
    more, less = ("more", "less") if slow > 1 else ("less", "more")
    assert said["fetch_add, alone"].endswith(more) and said["exchange, alone"].endswith(less)
    assert said["CAS, reads first, alone"] == ""


def test_a_mark_of_doubt_stands_beside_an_interval_with_zero_and_is_explained():
    """The answer is corrected for all comparisons, and so is the interval."""
    rng = np.random.default_rng(11)
    forms = {"lock_add": 10.0, "lock_xadd": 10.4, "prefetchw_lock_add": 10.6, "builtin_add": 10.0}
    seen = 0
    for _ in range(20):
        records = together(points(forms), rng, own=0.03)
        contexts = contexts_of(records, arch="x86_64", features=["prefetchw"])
        (found,) = screens(summarise(contexts, records), contexts)
        entries = [e for r in found.rows.values() for e in r.entries.values() if e.versus]
        legend = legend_of(*narrowed(found.document.table("matrix")))
        doubted = any(e.versus.answer == "undecided" for e in entries)
        assert doubted == ("? undecided, corrected for all comparisons" in legend)
        for versus in (e.versus for e in entries if e.versus.answer == "undecided"):
            assert versus.shown.low <= 1 <= versus.shown.high
            seen += versus.contrast.separate
    assert seen


def test_what_remains_possible_covers_every_undecided_comparison():
    values = machines.records("undecided")
    contexts = [value for value in values if isinstance(value, Context)]
    summaries = summarise(contexts, [value for value in values if isinstance(value, Record)])
    (m,) = machines_with_answers(summaries, contexts)
    (line,) = documents(summaries, contexts)[0].of("undecided")
    rows = [row for f in m.findings for row in f.of("undecided")]
    assert {i for row in rows for i in row.ids} == set(line.cells)
    assert f"undecided: {len(rows)} comparisons: " in line.text
    said = {
        unit: (float(low), float(high))
        for low, high, unit in re.findall(r"(-?[\d.]+) to \+?([\d.]+) (%|ns)", line.text)
    }
    for c in (row.shown for row in rows):
        ratio = c.scale == "ratio"
        low, high = said["%" if ratio else "ns"]
        ends = [100 * (end - 1) for end in (c.low, c.high)] if ratio else [c.low, c.high]
        assert low - 0.5 <= ends[0] < ends[1] <= high + 0.5, (c, line.text)


def test_a_crossover_without_spacing_has_no_iterations():
    records = together(
        points({"stadd": 3.0, "ldadd": 5.0}, (0, 200), {"stadd": 60.0, "ldadd": 20.0}),
        np.random.default_rng(6), own=0.005,
    )  # fmt: skip
    contexts = contexts_of(records)
    assert not any(
        "every 0 iterations" in text for text in verdict(summarise(contexts, records), contexts)
    )


def test_equal_published_medians_have_no_ratio():
    costs = {"p50_ns": 5.0, "p95_ns": 5.1, "p99_ns": 5.2, "max_ns": 5.3, "histogram": []}

    batch = Quantiles(of="batch_means", ops_per_sample=1, samples=10, **costs)
    records = [record(cell(form), (), batch=batch) for form in ("stadd", "ldadd")]
    contexts = contexts_of(records)
    texts = verdict(summarise(contexts, records), contexts)
    assert not any("1 times" in text for text in texts)


def test_two_machines_share_no_drift():
    """A machine that is 1.6 times as slow, each with a trend of its own inside its run."""
    for slow in (1.6, 1 / 1.6):
        sides = []
        for name, factor in (("aa", 1.0), ("bb", slow)):
            rng = np.random.default_rng(7)
            records = together([(cell("ldadd"), 20.0 * factor)], rng, shared=0.03, prefix=name)
            known = [
                context(context_id=i, machine_id=name * 8, started_utc=f"2026-01-01T00:00:{n:02d}Z")
                for n, i in enumerate(dict.fromkeys(r.context_id for r in records))
            ]
            sides.append((known, summarise(known, records)))
        (knew, before), (now, after) = sides
        ((change,),) = compare(before, [after], [*knew, *now])
        c = change.contrast
        assert change.answer == ("slower" if slow > 1 else "cheaper")
        assert c.low < slow < c.high and c.high / c.low < 1.25


def in_states(rng, count, share=0.3):
    """A prefetch that halves the cost alone; contended it costs the same in most launches, and
    twice as much in a share of them."""
    slow, records = rng.random(count) < share, []
    alone, contended = ({"ldadd": ns, "prfm_strm_ldadd": prefetched}
                        for ns, prefetched in ((60.0, 30.0), (80.0, 80.0)))  # fmt: skip
    for r in together(points(alone, contended=contended), rng, count=count):
        if slow[r.launch] and r.cell.contender != "none" and r.cell.form != "ldadd":
            r = msgspec.structs.replace(r, window_ns=[2.0 * ns for ns in r.window_ns])
        records.append(r)
    return records


@pytest.mark.parametrize("count", [5, 11])
def test_a_state_that_the_launches_cannot_exclude_is_said(count):
    """Five launches miss a state of 30 % of launches in one run of six, eleven in one of fifty."""
    harmful = supported = 0
    for seed in range(60):
        records = in_states(np.random.default_rng([count, seed]), count)
        known = contexts_of(records, features=["lse"])
        (answer,) = documents(summarise(known, records), known, "evidence")
        supported += answer.decision.supported
        said = (
            "5 launches can miss a state of up to 45 % of launches" in answer.decision.sentence.text
        )
        harmful += answer.decision.supported and not said
        assert not said or "--set launches=11" in answer.decision.sentence.text
    assert supported > 0 or count == 11, "some runs see no slow launch"
    unseen = 0.0 if count == 5 else 0.7**11
    assert stats.binom.sf(harmful - 1, 60, unseen) > 1e-3, f"{harmful} of 60"


def test_a_simulation_has_no_state_that_its_launches_can_miss():
    """Launches of a model differ by their random numbers alone."""
    said = {"simulated:arm64-server-2025": 0, "local": 0}
    for seed in range(20):
        records = in_states(np.random.default_rng([5, seed]), 5)
        for target in said:
            known = contexts_of(records, features=["lse"], target=target)
            (answer,) = documents(summarise(known, records), known, "evidence")
            text = answer.decision.sentence.text
            said[target] += answer.decision.supported
            assert ("can miss a state" in text) == (answer.decision.supported and target == "local")
            assert target == "local" or "--set launches=11" not in text
    assert min(said.values()) > 0


def test_of_two_settings_that_are_as_good_the_simpler_is_advised():
    """Store and load forms behind a prefetch cost the same: `void=prefetch` changes one thing."""
    chosen = set()
    for seed in range(20):
        forms = {"ldadd": 60.0, "stadd": 64.0, "prfm_strm_ldadd": 6.0, "prfm_strm_stadd": 6.0}
        records = together(
            points(forms, contended=forms), np.random.default_rng(seed), shared=0.05, own=0.03
        )
        known = contexts_of(records, features=["lse"])
        (answer,) = documents(summarise(known, records), known, "evidence")
        chosen |= set(answer.decision.value.split(",")) & {"void=store", "void=prefetch"}
    assert chosen == {"void=prefetch"}


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_screen_suggests_one_number_of_launches(count):
    """What is undecided, the setting and the limits ask for the same."""
    rng = np.random.default_rng(9)
    forms = {"ldadd": 10.0, "stadd": 10.5, "prfm_strm_ldadd": 10.0}
    records = together(points(forms, contended=forms), rng, count=count, own=0.2)
    (found,) = screens(summarise(known := contexts_of(records), records), known)
    text = " ".join(
        render_all([*found.of("settings"), *found.of("undecided"), *found.of("limits")])
    )
    asked = set(re.findall(r"launches=(\d+)|about (\d+) launches", text))
    assert len({a or b for a, b in asked}) == 1, text


@pytest.mark.parametrize("ns", [5.0, 60.0])
def test_the_same_of_an_exposed_cost_is_said_to_be_as_wide_as_it_is_judged(ns):
    """A twentieth of 60 ns is 3 ns; what was the same within that was said to be within 0.5."""
    forms = {"lock_add": ns, "builtin_add": ns, "prefetchw_lock_add": ns * 1.02}
    records = together(
        points(forms, works=(0, 20)), np.random.default_rng(3), shared=0.001, own=0.001
    )
    contexts = contexts_of(records, arch="x86_64", features=["prefetchw"])
    (found,) = screens(summarise(contexts, records), contexts)
    versus = found.rows["add"].entries["work"].versus
    assert versus.answer == "same" and versus.same == pytest.approx(max(0.5, ns / 20), rel=0.02)
    legend = legend_of(*narrowed(found.document.table("matrix")))
    assert f"{numbers.within(versus.same, 'ns')} (work 20)" in legend


def test_a_model_that_missed_in_both_directions_says_times_of_what():
    """\"0.8 to 12 times than was measured\"."""
    assert error_text(0.8, 12.0) == "the model says 0.8 to 12 times what was measured"
    assert error_text(0.8, 0.9).endswith("10 to 20 % less than was measured")
