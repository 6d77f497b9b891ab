# SPDX-License-Identifier: MIT
"""By which hint threads wait: named where wake-ups are sooner and no holder pays for it, else
nothing."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.analysis.machine_answers import hint_choice, machines_with_answers
from linewright.forms import WAIT
from linewright.say.document import render
from linewright.say.family_sentences import wait_sentences
from linewright.say.machine_document import topics
from support.analysis_samples import cell, contexts_of, together
from support.said import verdict

PLACES = ("same_l3", "smt_sibling")
WORKS = (0, 200)
USUAL = {("woken", place): 180.0 for place in PLACES} | {
    ("held", place, work): 20.0 for place in PLACES for work in WORKS
}
"""Costs of the usual hint at every point."""


def points(hint: str, costs: dict, **more: object) -> list:
    shared = dict(contender="same_line", threads=2, width_bits=32) | more
    return [
        (
            cell(
                f"{kind}_{hint}", operation=f"wait_{kind}", placement=place,
                work_iters=work[0] if work else 0, **shared,
            ),
            ns,
        )
        for (kind, place, *work), ns in costs.items()
    ]  # fmt: skip


def machine(hints: dict[str, dict], seed: int = 46, usual: str = "pause", **changes: object):
    costs = [point for hint, own in {usual: USUAL, **hints}.items() for point in points(hint, own)]
    records = together(costs, np.random.default_rng(seed), count=8)
    contexts = contexts_of(records, arch="x86_64", **changes)
    (found,) = machines_with_answers(summarise(contexts, records), contexts)
    return found


SOONER = {key: ns / 2 if key[0] == "woken" else ns for key, ns in USUAL.items()}
AT_ONE_PLACE = SOONER | {("woken", "smt_sibling"): 180.0}
HOLDER_PAYS = SOONER | {("held", "same_l3", 200): 26.0}
NOT_EVERYWHERE = {key: ns for key, ns in SOONER.items() if key[:2] != ("held", "smt_sibling")}
LATER = {key: ns * 1.5 if key[0] == "woken" else ns / 2 for key, ns in USUAL.items()}


@pytest.mark.parametrize("usual", ["pause", "isb"])
def test_a_hint_that_wakes_sooner_and_costs_the_holder_nothing_is_named(usual: str) -> None:
    m = machine({"none": SOONER, "mwaitx": USUAL}, usual=usual)
    found = hint_choice(m)
    assert found and found.hint == "none" and len(found.woken) == 2 and len(found.held) == 4
    (said,) = map(render, wait_sentences(m))
    assert said.startswith("LINEWRIGHT_WAIT=none: two wake-ups take ") and f" by {usual} " in said
    assert "2.0 times less" in said or "1.9 to 2.1 times less" in said
    assert "at 4 points measured" in said and "power was not measured" in said
    assert set(wait_sentences(m)[0].cells) == {
        i for c in (*found.woken, *found.held) for i in c.ids
    }
    assert said in "\n".join(verdict(m.summaries, m.contexts))


@pytest.mark.parametrize(
    "other", [USUAL, AT_ONE_PLACE, HOLDER_PAYS, NOT_EVERYWHERE, LATER],
    ids=["equal", "at_one_place", "holder_pays", "not_everywhere", "later"],
)  # fmt: skip
def test_in_doubt_nothing_is_said(other: dict) -> None:
    m = machine({"none": other})
    assert hint_choice(m) is None and wait_sentences(m) == []
    assert "nothing is compared" not in "\n".join(verdict(m.summaries, m.contexts))


def test_a_holder_and_its_waiters_have_no_shares() -> None:
    assert {s.cell.operation for s in machine({}).summaries if s.equal_loops} == {"wait_woken"}


def test_without_the_usual_hint_or_by_an_emulator_nothing_is_compared() -> None:
    assert machine({"none": SOONER}, usual="yield").select("hints") == []
    m = machine({"none": SOONER}, emulated=True)
    assert wait_sentences(m) == []


def test_of_two_that_are_better_the_one_with_the_greater_least_gain_is_named() -> None:
    more = SOONER | {("woken", "same_l3"): 60.0, ("woken", "smt_sibling"): 80.0}
    found = hint_choice(machine({"none": SOONER, "mwaitx": more}))
    assert found and found.hint == "mwaitx"
    assert found.woken[0].situation.placement == "smt_sibling", "the least gain first"


def test_a_preempted_holder_decides_nothing() -> None:
    costs = [*points("pause", USUAL), *points("none", SOONER)]
    costs += points("pause", {("held", "same_l3", 0): 40.0}, params={"preempted": 1})
    costs += points("none", {("held", "same_l3", 0): 90.0}, params={"preempted": 1})
    records = together(costs, np.random.default_rng(3), count=8)
    contexts = contexts_of(records, arch="x86_64")
    (m,) = machines_with_answers(summarise(contexts, records), contexts)
    assert not any(c.situation.params for c in m.select("hints"))
    assert hint_choice(m).hint == "none"


def test_cells_that_doubt_themselves_decide_nothing() -> None:
    costs = [*points("pause", USUAL), *points("none", SOONER)]
    records = [
        msgspec.structs.replace(r, flags=["doubled"] * (r.cell.form == "held_none"))
        for r in together(costs, np.random.default_rng(4), count=8)
    ]
    contexts = contexts_of(records, arch="x86_64")
    (m,) = machines_with_answers(summarise(contexts, records), contexts)
    assert {c.operation for c in m.select("hints")} == {"wait_woken"} and hint_choice(m) is None


def test_programs_read_the_choice_with_its_comparisons() -> None:
    (topic,) = (t for t in topics(machine({"none": SOONER})) if t.title == WAIT.title)
    data = json.loads(msgspec.json.encode(topic))["data"]
    assert data["hint"] == "none" and (len(data["woken"]), len(data["held"])) == (2, 4)


def test_five_equal_hints_are_seldom_named() -> None:
    """One in 20 runs may name one by mistake; the need of both places makes it far less."""
    others = ("none", "tpause", "umwait", "mwaitx")
    named = sum(
        hint_choice(machine(dict.fromkeys(others, USUAL), seed=seed)) is not None
        for seed in range(12)
    )
    assert named <= 2
