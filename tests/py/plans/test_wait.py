# SPDX-License-Identifier: MIT
"""Plan `wait`: which cells, and the two of them that plan `quick` has."""

from __future__ import annotations

import pytest

from linewright.forms import FLOORS, WAIT, Form
from linewright.plans.builtin import quick_plan, wait_plan
from linewright.plans.definition import Inputs, settings
from linewright.schema import Cpu, Plan
from linewright.target import Topology
from support.forms import forms_of

ARCHES = {"x86_64": "pause", "i386": "pause", "arm64": "isb"}


def build(module, *pairs: str, arch: str = "x86_64", classes: dict[str, list[str]]) -> Plan:
    topology = Topology(arch=arch, cpus=[Cpu(cpu=n) for n in range(4)], pairs=classes)
    inputs = Inputs(list(forms_of(arch)), topology, settings(module.PLAN, pairs), 60.0, keep=list)
    return module.build(inputs)


TWO = {"smt_sibling": ["0,1"], "same_l3": ["0,2", "0,3"], "other_socket": []}


@pytest.mark.parametrize("arch", ARCHES)
def test_every_hint_alone_and_for_one_pair_of_each_class(arch: str) -> None:
    cells = build(wait_plan, arch=arch, classes=TWO).cells
    alone = [c for c in cells if c.operation == "wait_hint"]
    woken = [c for c in cells if c.operation == "wait_woken"]
    assert {c.contender for c in alone} == {"none"} and {c.threads for c in alone} == {1}
    assert {(c.contender, c.threads) for c in woken} == {("same_line", 2)}
    assert {c.placement for c in woken} == {"smt_sibling", "same_l3"}
    hints = {c.form.removeprefix("hint_") for c in alone}
    assert ARCHES[arch] in hints
    # One that does nothing has no length, and wakes.
    assert {c.form.removeprefix("woken_") for c in woken} == hints | {"none"}
    assert len({c.id for c in cells}) == len(cells)


def test_one_usable_cpu_has_the_hints_and_a_holder_alone() -> None:
    cells = build(wait_plan, classes={}).cells
    assert {(c.operation, c.contender) for c in cells} == {
        ("wait_hint", "none"),
        ("wait_held", "none"),
    }


@pytest.mark.parametrize("arch", ARCHES)
def test_a_holder_alone_beside_a_placebo_and_with_waiters_of_every_hint(arch: str) -> None:
    plan = build(wait_plan, arch=arch, classes=TWO)
    held = [c for c in plan.cells if c.operation == "wait_held"]
    assert {c.work_iters for c in held} == {0, 200} and not any(c.params for c in held)
    assert {c.form for c in held if c.contender != "same_line"} == {"held_none"}
    waited = {(c.placement, c.threads) for c in held if c.contender == "same_line"}
    assert waited == {("smt_sibling", 2), ("same_l3", 2), ("auto", 4)}
    assert waited == {(c.placement, c.threads) for c in held if c.contender == "placebo"}
    by_place: dict[tuple, set[str]] = {}
    for c in held:
        if c.contender == "same_line":
            hints = by_place.setdefault((c.placement, c.work_iters), set())
            hints.add(c.form.removeprefix("held_"))
    woken = {c.form for c in plan.cells if c.operation == "wait_woken"}
    assert len(by_place) == 6
    assert all(own == {form.removeprefix("woken_") for form in woken} for own in by_place.values())
    assert plan.contended_window_ms == 5


def test_a_preempted_holder_has_windows_of_some_slices() -> None:
    chosen = ("operations=wait_held", "holder=running,preempted", "work=20", "waiters=2")
    plan = build(wait_plan, *chosen, classes=TWO)
    assert {tuple(c.params.items()) for c in plan.cells} == {(), (("preempted", 1),)}
    assert plan.contended_window_ms == 50 and plan.window_ms == 50
    assert {(c.threads, c.placement) for c in plan.cells if c.contender != "none"} == {(3, "auto")}
    longer = build(wait_plan, *chosen, "contended_window_ms=80", classes=TWO)
    assert longer.contended_window_ms == 80


def test_operations_may_be_chosen() -> None:
    cells = build(wait_plan, "operations=wait_woken", classes=TWO).cells
    assert {c.operation for c in cells} == {"wait_woken"}


@pytest.mark.parametrize("arch", ARCHES)
def test_no_form_is_ever_a_side_of_a_comparison(arch: str) -> None:
    own: list[Form] = [form for form in forms_of(arch) if form.operation in WAIT.operations]
    assert own and {form.name for form in own} <= FLOORS


@pytest.mark.parametrize("arch", ARCHES)
def test_quick_has_the_usual_hint_alone_and_waking(arch: str) -> None:
    cells = build(quick_plan, arch=arch, classes=TWO).cells
    own = [c for c in cells if c.operation in WAIT.operations]
    assert {(c.form, c.contender) for c in own} == {
        (f"hint_{ARCHES[arch]}", "none"),
        (f"woken_{ARCHES[arch]}", "same_line"),
    }
