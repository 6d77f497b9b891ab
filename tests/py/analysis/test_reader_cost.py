# SPDX-License-Identifier: MIT
"""Readers in words: constructed records with a known truth, through the table, the verdict and the
advice."""

from __future__ import annotations

import io
import re

import msgspec
import numpy as np
import pytest
from rich.console import Console

from linewright.analysis import reader_cost, summarise
from linewright.analysis.comparison import Comparison
from linewright.analysis.machine_answers import machines_with_answers
from linewright.analysis.questions import ask
from linewright.say.document import render_all
from linewright.say.family_sentences import reader_sentences
from linewright.say.machine_document import documents
from linewright.schema import Record
from linewright.show.terminal import print_cells
from support.analysis_samples import cell, context, launches, together
from support.said import verdict

PAIRS = {
    "srcu_fast": (0.8, 0.8),
    "srcu_fast_updown": (0.8, 0.8),
    "rwlock": (4.0, 20.0),
    "refcnt": (3.9, 21.0),
}
"""ns of one reader alone, and of each of two."""
WAITS = {"srcu_fast": 20_000.0, "srcu_fast_updown": 20_000.0, "rwlock": 30.0}


def records(pairs=PAIRS, waits=WAITS, count: int = 5, seed: int = 1) -> list[Record]:
    shared = {"width_bits": 8, "order": "acq_rel", "lines": 8}
    both = {"threads": 2, "contender": "same_line"}
    costs = []
    for form, (alone, together_ns) in pairs.items():
        own = {"operation": "readers_pair", "params": {"read_delay": 0}, **shared}
        costs += [(cell(form, **own), alone), (cell(form, **both, **own), together_ns)]
    for form, ns in waits.items():
        params = {"read_delay": 0, "updater": "synchronize"}
        costs += [
            (cell(form, operation="readers_grace", params=params, **shared), ns / 10),
            (cell(form, operation="readers_grace", params=params, **both, **shared), ns),
            (
                cell(form, operation="readers_pair", params=params, **both, **shared),
                3 * pairs[form][0],
            ),
        ]
    return together(costs, np.random.default_rng(seed), count=count, shared=0.03)


def contexts_of(made: list[Record], **changes: object):
    return [
        context(context_id=i, arch="x86_64", features=[], **changes)
        for i in sorted({r.context_id for r in made})
    ]


def advice_of(made: list[Record], **changes: object):
    contexts = contexts_of(made, **changes)
    (answer,) = documents(summarise(contexts, made), contexts, "evidence")
    return next((s for s in answer.evidence if s.name == "readers"), None)


def asked(made: list[Record]) -> list[Comparison]:
    return ask("readers", summarise(contexts_of(made), made))


def test_scaling_tells_flat_from_growing() -> None:
    made = records()
    rows = {c.first.form: c for c in reader_cost.scaling(asked(made))}
    assert rows["srcu_fast"].answer == "same"
    assert rows["rwlock"].slower
    assert rows["rwlock"].contrast.value == pytest.approx(5, rel=0.03)
    assert all(r.first.situation.threads == 2 for r in rows.values())


def test_a_cheaper_crowd_is_not_called_the_same() -> None:
    """Six tenths of the cost for one alone was once "the same as alone"."""
    made = records(pairs=PAIRS | {"srcu_fast": (0.8, 0.48)})
    rows = {c.first.form: c for c in reader_cost.scaling(asked(made))}
    assert rows["srcu_fast"].cheaper, "and neither the same nor more"


def test_each_form_is_named_with_the_readers_it_was_run_with() -> None:
    """rwlock with two readers, refcnt with four: no sentence gives one the other's number."""
    made = records()
    four = [
        msgspec.structs.replace(r, cell=(c := msgspec.structs.replace(r.cell, threads=4)), id=c.id)
        if r.cell.form == "refcnt" and r.cell.threads == 2
        else r
        for r in made
    ]
    spoken = verdict(summarise(contexts_of(four), four), contexts_of(four))
    (two,) = [s for s in spoken if s.startswith("With 2 readers:") and "alone" in s]
    (many,) = [s for s in spoken if s.startswith("With 4 readers:")]
    assert "rwlock" in two and "refcnt" not in two and "refcnt" in many


def test_the_trade_names_both_sides_and_how_many_sections_it_takes() -> None:
    made = records()
    trades = reader_cost.trades(asked(made))
    assert {(reader.cheapest.form, update.cheapest.form) for reader, update in trades} == {
        ("srcu_fast", "rwlock"),
        ("srcu_fast_updown", "rwlock"),
    }
    for trade in trades:
        truth, sections = (20_000 - 30) / (4.0 - 0.8), reader_cost.sections_per_update(trade)
        assert sections.value == pytest.approx(truth, rel=0.2), (
            "each launch has its own luck of a few percent"
        )
        assert sections.low < sections.value < sections.high
        assert trade[0].situation.threads == 1 and all(c.size.low_ns > 0 for c in trade)


def test_the_section_of_the_advice() -> None:
    section = advice_of(records())
    text = "\n".join(render_all(section.lines))
    assert "with 1 reader: back to back, readers_pair" in text and "srcu_fast_updown" in text
    assert re.search(
        "with 2 readers: srcu_fast and srcu_fast_updown cost each reader the same as alone, "
        r"within [0-9]\.[0-9] %",
        text,
    ), "what was shown, not the 10 % that are allowed"
    assert "with 2 readers: each costs more than alone: " in text and "refcnt 5." in text
    assert (
        "readers of srcu_fast pay from" in text
        and "less than one of rwlock, and an updater waits" in text
        and "longer, beside 1 busy reader" in text
    )
    assert "sections per update on (interval" in text
    assert msgspec.json.decode(msgspec.json.encode(section.data))["trades"]


def test_nothing_is_said_within_noise() -> None:
    same = {"srcu_fast": (4.0, 4.0), "srcu_fast_updown": (4.0, 4.0), "rwlock": (4.0, 4.0)}
    made = records(same, {"srcu_fast": 50.0, "srcu_fast_updown": 50.0, "rwlock": 50.0})
    section = advice_of(made)
    assert section.data["trades"] == [] and not any(
        " pay from " in line for line in render_all(section.lines)
    )
    assert any("same within" in line for line in render_all(section.lines)) and not any(
        "more" in line for line in render_all(section.lines)
    )


def test_one_launch_is_not_judged() -> None:
    made = records(count=1)
    summaries = summarise(contexts_of(made), made)
    assert reader_cost.trades(ask("readers", summaries)) == []
    assert not any(c.answer == "same" or c.differs for c in ask("readers", summaries))
    assert not any("cost more" in line for line in render_all(advice_of(made).lines))


def test_an_emulator_says_nothing() -> None:
    made = records()
    assert advice_of(made, emulated=True) is None
    contexts = contexts_of(made, emulated=True)
    (m,) = machines_with_answers(summarise(contexts, made), contexts)
    assert reader_sentences(m) == []


def test_other_sections_keep_out_of_it() -> None:
    made = records()
    contexts = contexts_of(made)
    (answer,) = documents(summarise(contexts, made), contexts, "evidence")
    assert not {"where", "code", "cores", "crossovers"} & {s.name for s in answer.evidence}


def test_verdict_and_table_show_reader_and_updater_side_by_side() -> None:
    made = records()
    known = contexts_of(made)
    said = verdict(summarise(known, made), known)
    spoken = " ".join(said)
    assert (
        "With 1 reader: back to back, readers_pair (" in spoken
        and "With 2 readers:" in spoken
        and "waits" in spoken
    )
    out = io.StringIO()
    print_cells(documents(summarise(known, made), known, "cells"), Console(file=out, width=140))
    text = out.getvalue()
    assert (
        "readers that protect a read-side critical section" in text
        and "ratio, most to fewest" in text
    )
    folded = " ".join(text.split())
    assert {line: folded.count(line) for line in said} == dict.fromkeys(said, 1)
    row = next(
        line
        for line in text.split("reader cost and grace-period cost")[1].splitlines()
        if line.startswith("rwlock")
    )
    assert len(row.split("(")) == 5, (
        "four figures with intervals: the reader, it during updates, the update alone and beside it"
    )


@pytest.mark.parametrize("delay", [0, 50])
def test_a_delay_is_taken_off_with_the_empty_loop(delay: int) -> None:
    rng = np.random.default_rng(3)
    made = launches(
        cell(
            "srcu_fast",
            operation="readers_pair",
            width_bits=8,
            order="acq_rel",
            lines=8,
            params={"read_delay": delay},
        ),
        20.0,
        rng,
        count=1,
        baseline_ns=18.0,
        between=0.0,
    )
    (summary,) = summarise(contexts_of(made), made)
    assert (summary.exposed is not None) == bool(delay)
    if delay:
        assert summary.exposed.low_ns < 2.0 < summary.exposed.high_ns
