# SPDX-License-Identifier: MIT
"""Plan `wait`: how long a round of each hint of a waiting thread is, and how long after a store its
waiter goes on, for one pair of CPUs of each topology class."""

from __future__ import annotations

from linewright.forms import WAIT
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, words
from linewright.plans.grid import CONTENDED, common
from linewright.schema import Cell, Plan

PARAMETERS = (
    words("operations", WAIT.operations, "rounds alone, wake-ups between two threads"),
    Parameter("lines", "count", 4, "lines that each cell visits", 1, 4096),
    *usual(launches=5, window_ms=2.0, contended_window_ms=5.0),
)


def build(inputs: Inputs) -> Plan:
    """Every hint alone; with two usable CPUs, wake-ups for one pair of each topology class."""
    lines = {"lines": inputs.values["lines"]}
    forms = inputs.forms_of(inputs.values["operations"], "any")
    cells = [Cell(**common(form), **lines) for form in forms if form.operation == "wait_hint"]
    cells += [
        Cell(**common(form), placement=placement, **CONTENDED, **lines)
        for placement, of_class in inputs.topology.pairs.items()
        if of_class
        for form in forms
        if form.operation == "wait_woken"
    ]
    return inputs.plan("wait", cells)


SUMMARY = "waiting: the length of each hint, and a store, the waiter's answer and its wake-up"
PLAN = BuiltIn("wait", SUMMARY, PARAMETERS, build, budget_s=30.0)
