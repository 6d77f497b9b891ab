# SPDX-License-Identifier: MIT
"""The screen's data on machines whose truth is known: figures, answers, prices, and nothing that is
not shown."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.forms import made_of
from linewright.say.document import Topic, render, render_all
from linewright.say.machine_tables import ratio_words
from support.analysis_samples import OPERATIONS, cell, contexts_of, published, together
from support.screens import screens

X86 = {
    "lock_add": 5.2,
    "builtin_add": 5.2,
    "prefetchw_lock_add": 5.2,
    "lock_xadd": 5.2,
    "prefetchw_lock_xadd": 5.2,
    "cmpxchg_loop_read_first": 5.2,
    "prefetchw_cmpxchg_loop_read_first": 5.2,
    "cmpxchg_loop_guess_first": 10.4,
}
CONTENDED = X86 | {
    "cmpxchg_loop_read_first": 39.5,
    "prefetchw_cmpxchg_loop_read_first": 39.5,
    "cmpxchg_loop_guess_first": 37.0,
}


def costs(alone, contended, work=20):
    """Alone, with work (where the core hides four ns), and with a second CPU on the word at three
    times the cost."""
    both = dict(contender="same_line", threads=2, lines=8)
    made = []
    for form, ns in alone.items():
        kind = {"operation": OPERATIONS[form]}
        made += [(cell(form, **kind), ns), (cell(form, work_iters=work, **kind), max(0.2, ns - 4))]
    return made + [
        (cell(form, operation=OPERATIONS[form], **both), 3 * ns if ns < 20 else ns)
        for form, ns in contended.items()
    ]


def counters():
    prices = (
        ("percpu_thread_local_add", 0.3, None),
        ("percpu_rseq_add", 0.6, 0.7),
        ("percpu_shared_c11_add", 5.2, 15.6),
    )
    made = []
    for form, alone, contended in prices:
        made.append((cell(form, operation="percpu_add", params={"slots": 1}), alone))
        if contended:
            both = dict(contender="same_line", threads=2)
            made.append(
                (cell(form, operation="percpu_add", params={"slots": 1}, **both), contended)
            )
    return made


def screen(records, **context):
    contexts = contexts_of(records, **({"arch": "x86_64", "features": ["prefetchw"]} | context))
    (found,) = screens(summarise(contexts, records), contexts)
    assert msgspec.json.encode(found.document)
    return found


@pytest.fixture(scope="module")
def x86():
    return screen(
        together(
            costs(X86, CONTENDED) + counters(), np.random.default_rng(1), shared=0.03, own=0.005
        )
    )


def test_the_matrix_holds_what_was_put_in(x86):
    assert [c.key for c in x86.columns] == ["alone", "work", "contended"]
    assert [(c.scale, c.floor.pairs) for c in x86.columns] == [
        ("ratio", 1),
        ("ns", 1),
        ("ratio", 1),
    ]
    rows = x86.rows
    assert list(rows) == ["add", "fetch_add", "CAS, reads first", "CAS, guesses first"]
    assert rows["add"].entries["alone"].default.ns.median_ns == pytest.approx(5.2, rel=0.05)
    assert rows["add"].entries["work"].default.ns.median_ns == pytest.approx(1.2, abs=0.2)
    assert rows["CAS, reads first"].entries["contended"].default.ns.median_ns == pytest.approx(
        39.5, rel=0.05
    )
    versus = rows["fetch_add"].entries["alone"].versus
    assert (versus.first.form, versus.answer) == (
        "prefetchw_lock_xadd",
        "same",
    ) and versus.contrast.low < 1 < versus.contrast.high
    assert rows["CAS, guesses first"].entries["alone"].default.form == "cmpxchg_loop_guess_first"


def test_reading_first_is_advised_with_what_it_costs_contended():
    contended = CONTENDED | {"cmpxchg_loop_guess_first": 25.0}
    both = together(
        costs(X86, contended) + counters(), np.random.default_rng(1), shared=0.03, own=0.005
    )
    used = render_all(screen(both).of("uses"))
    assert any(
        "first CAS, alone: 5." in line and line.endswith("instead of 24.9 ns with a second CPU.")
        for line in used
    ), used


def test_advice_says_where_it_costs_more():
    """A counter that is cheaper alone only, and a fetch_add that is cheaper contended only."""
    slow = X86 | {"lock_xadd": 20.8, "prefetchw_lock_xadd": 20.8}
    costly = [(c, 60.0 if c.contender != "none" and ns < 1 else ns) for c, ns in counters()]
    records = together(
        costs(slow, CONTENDED) + costly, np.random.default_rng(1), shared=0.03, own=0.005
    )
    said = " ".join(render_all(screen(records).of("uses")))
    assert re.search(
        r"per-CPU words: [\d.]+ vs 5\.\d+ ns alone [^;]*, but 6[\d.]+ instead of 1[\d.]+ ns with a",
        said,
    ), said
    assert re.search(r"by fetch_add: [^;]*, but 2[\d.]+ instead of 5\.\d+ ns alone", said), said


def test_nothing_is_advised_by_a_figure_that_is_not_believed():
    costless = [(c, 0.001 if c.contender != "none" and ns < 1 else ns) for c, ns in counters()]
    records = together(costs(X86, CONTENDED) + costless, np.random.default_rng(1), shared=0.03)
    said = render_all(screen(records).of("uses"))
    assert "Count in per-CPU words: 0.6" in said[0] and "ns alone" in said[0], said


def test_an_add_that_is_not_atomic_stands_for_none():
    records = together(costs(X86 | {"plain_add": 0.3}, {}), np.random.default_rng(1))
    lacking = dict(status="unavailable", window_ns=[], window_line=[], baseline_ns=[])
    records = [
        msgspec.structs.replace(r, **lacking) if made_of(r.cell.form).base == "lock_add" else r
        for r in records
        if r.cell.form != "builtin_add"
    ]
    entry = screen(records).rows["add"].entries["alone"]
    assert (entry.default, entry.why) == (None, "unavailable")


def test_use_and_set_say_what_is_shown(x86):
    used = render_all(x86.of("uses"))
    assert (
        "Count in per-CPU words: 0.7" in used[0]
        and "Read before the first CAS, alone: 5." in used[2]
    )
    assert "Replace a CAS loop by fetch_add: " in used[1]
    assert "PREFETCHW gains nothing alone" in used[3]
    assert render_all(x86.of("settings")) == [
        "Nothing: on x86-64 there is no choice for LINEWRIGHT_ATOMICS to make."
    ]
    assert not x86.coarse and all(column.floor.size < 0.02 for column in x86.columns)


def test_the_price_list_is_in_locked_adds(x86):
    prices = x86.prices
    assert (
        prices["count: one atomic word"].reference
        and prices["count: one atomic word"].ratio is None
    )
    counter = prices["count: per-CPU word, rseq"]
    assert counter.ratio.value == pytest.approx(0.7 / 15.6, rel=0.05), "both with two CPUs"
    assert prices["count: thread-local word"].ratio.value == pytest.approx(0.3 / 5.2, rel=0.05), (
        "alone, as measured"
    )
    assert x86.of("missing") == []


def test_an_arm64_machine_gets_its_setting():
    forms = {"ldadd": 60.0, "stadd": 30.0, "prfm_strm_stadd": 5.0, "llsc_add": 30.0}
    found = screen(
        together(costs(forms, forms), np.random.default_rng(2), own=0.005),
        arch="arm64",
        features=["lse"],
    )
    assert render_all(found.of("settings"))[0].startswith(
        "LINEWRIGHT_ATOMICS=void=store,void=prefetch:"
    )
    (row,) = [r for r in found.rows.values() if r.operation == "add"]
    assert (
        row.entries["alone"].default.form == "ldadd"
        and row.entries["alone"].versus.first.form == "prfm_strm_stadd"
    )
    assert row.entries["alone"].versus.answer == "cheaper"
    assert "An atomic add: " in render_all(found.of("headline"))[0]


def test_one_launch_claims_nothing():
    found = screen(together(costs(X86, CONTENDED) + counters(), np.random.default_rng(3), count=1))
    assert (
        found.coarse
        and found.of("uses") == []
        and "nothing is claimed" in render_all(found.of("limits"))[0]
    )
    assert all(
        e.versus is None or e.versus.answer == "undecided"
        for r in found.rows.values()
        for e in r.entries.values()
    )
    assert all(p.ratio is None for p in found.prices.values())


def test_what_differs_less_than_identical_code_is_no_advice():
    forms = X86 | {"builtin_add": 5.2 * 1.4, "prefetchw_lock_add": 4.0}
    found = screen(together(costs(forms, forms), np.random.default_rng(4), shared=0.03, own=0.005))
    assert not any("prefetchw_lock_add takes" in text for text in render_all(found.of("uses")))


def test_emulated_published_and_empty_machines_say_so():
    records = together(costs(X86, CONTENDED), np.random.default_rng(5))
    emulated = screen(records, emulated=True)
    assert (
        "emulator" in render(emulated.of("warning")[0])
        and emulated.of("uses") == []
        and emulated.of("headline") == []
    )
    contexts, rows = published()
    (table,) = screens(summarise(contexts, rows), contexts)
    assert (
        render_all(table.of("run")) == ["plan published"]
        and not table.coarse
        and not render_all(table.of("limits"))
    )
    assert (
        "published" in render(table.of("warning")[0])
        and all("NOP loop" in text for text in render_all(table.of("uses")))
        and "depends" in render_all(table.of("settings"))[0]
    )
    (lone,) = screens(summarise(contexts_of(records[:1]), records[:1]), contexts_of(records[:1]))
    assert (
        "operations with work, operations with a second CPU, the price list"
        in lone.of("missing")[0].text
        and screens([], []) == []
    )


def test_a_figure_that_is_not_believed_is_not_shown_as_a_cost():
    """Twice on one CPU: "18.0 with a second CPU on its line" would be the price of sharing a
    CPU."""
    both = dict(contender="same_line", threads=2, lines=8)
    records = together(
        [(cell("lock_add"), 5.2), (cell("lock_add", **both), 10.4)], np.random.default_rng(6)
    )
    records = [
        msgspec.structs.replace(r, cpus=[0, 0]) if r.cell.threads == 2 else r for r in records
    ]
    found = screen(records)
    (row,) = found.rows.values()
    assert row.entries["contended"].default is None and row.entries["contended"].why == "same_cpu"
    assert "second CPU" not in render_all(found.of("headline"))[0]
    assert any(
        "one cell is not believed, lock_add: the contender ran" in t.lower()
        for t in render_all(found.of("limits"))
    )


def test_a_run_that_was_stopped_says_how_far_it_came_and_how_to_go_on():
    records = together(costs(X86, CONTENDED), np.random.default_rng(7), count=2)
    stopped = screen(records, launches=5)
    assert (
        "2 of 5 launches" in render_all(stopped.of("run"))
        and "--resume FILE" in render_all(stopped.of("limits"))[0]
    )
    whole = screen(records, launches=2)
    assert (
        "2 launches" in render_all(whole.of("run"))
        and "--set launches=5" in render_all(whole.of("limits"))[0]
    )


def test_launches_of_two_versions_or_two_builds_are_joined_with_a_warning():
    records = together(costs(X86, CONTENDED), np.random.default_rng(8))
    one, *others = contexts_of(records, arch="x86_64")
    for change, said in (
        ({"tool_version": "0.2.0"}, "versions 0.1.0 and 0.2.0"),
        ({"program": "b"}, "several builds"),
    ):
        contexts = [msgspec.structs.replace(one, **change), *others]
        (found,) = screens(summarise(contexts, records), contexts)
        assert said in render(found.of("warning")[0]) and "compare" in render(
            found.of("warning")[0]
        )


def test_waiting_has_two_prices_and_no_claim_whatever_the_hints_cost():
    both = dict(contender="same_line", threads=2, width_bits=32)
    waits = [
        (cell("hint_pause", operation="wait_hint", width_bits=32), 25.0),
        (cell("hint_mwaitx", operation="wait_hint", width_bits=32), 40_000.0),
        (cell("woken_pause", operation="wait_woken", **both), 180.0),
        (cell("woken_mwaitx", operation="wait_woken", **both), 60.0),
        (cell("woken_none", operation="wait_woken", **both), 90.0),
    ]
    records = together([*costs(X86, CONTENDED), *waits], np.random.default_rng(8), count=8)
    contexts = contexts_of(records, arch="x86_64", features=["monitorx"])
    (screen,) = screens(summarise(contexts, records), contexts)
    own = {name: price for name, price in screen.prices.items() if name.startswith("wait: ")}
    assert set(own) == {"wait: one PAUSE", "wait: woken and back, PAUSE"}
    assert own["wait: one PAUSE"].alone.ns.median_ns == pytest.approx(25, rel=0.1)
    assert own["wait: woken and back, PAUSE"].contended.ns.median_ns == pytest.approx(180, rel=0.1)
    assert not any(price.compared for price in own.values())
    topics = [block for block in screen.document.blocks if isinstance(block, Topic)]
    said = [render(sentence) for topic in topics for sentence in topic.lines]
    assert said and not any(hint in line for line in said for hint in ("mwaitx", "woken", "PAUSE"))


def test_a_price_of_few_launches_is_only_about():
    records = together(costs(X86, CONTENDED) + counters(), np.random.default_rng(10))
    kept = [r for r in records if not (r.cell.form == "percpu_rseq_add" and r.launch > 2)]
    found = screen(kept).prices
    assert found["count: per-CPU word, rseq"].few and not found["count: thread-local word"].few
    once = screen([r for r in records if r.launch == 0]).prices
    words = {ratio_words(price) for price in once.values() if not price.reference}
    assert words == {"no interval"}, "its own cost is no ratio to one atomic word"


def test_use_and_the_price_list_give_one_ratio_for_one_pair():
    """Two references, the matrix's add and the shared C11 atomic, once gave 46-49 and 43-48 times
    for one counter."""
    records = together(
        costs(X86, CONTENDED) + counters(), np.random.default_rng(9), shared=0.05, own=0.03
    )
    found = screen(records)
    price = found.prices["count: per-CPU word, rseq"]
    (said,) = (text for text in render_all(found.of("uses")) if "per-CPU words" in text)
    assert f"({1 / price.ratio.high:.0f} to {1 / price.ratio.low:.0f} times less)" in said
    assert not price.only_alone and found.prices["count: thread-local word"].only_alone


def test_every_sentence_of_use_names_the_cells_it_rests_on(x86):
    measured = {
        e.default.id for row in x86.rows.values() for e in row.entries.values() if e.default
    }
    measured |= {p.alone.id for p in x86.prices.values() if p.alone}
    measured |= {p.contended.id for p in x86.prices.values() if p.contended}
    assert x86.of("uses") and all(
        sentence.cells for sentence in [*x86.of("headline"), *x86.of("uses")]
    )
    for sentence in [*x86.of("headline"), *x86.of("uses")]:
        assert set(sentence.cells) & measured, sentence


@pytest.mark.parametrize("target", ["kernel", "ssh:box"])
def test_every_command_that_is_advised_measures_where_the_records_come_from(target):
    plan = [(c, ns) for c, ns in costs(X86, {}) if not c.work_iters]
    records = together(plan, np.random.default_rng(1), count=2)
    found = screen(records, target=target)
    said = msgspec.json.encode(found.document).decode()
    assert "linewright measure" in said and "MEASURE" not in said
    assert said.count("measure ") == said.count(f"measure --on {target} ")
