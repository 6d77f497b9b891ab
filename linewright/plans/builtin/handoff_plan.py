# SPDX-License-Identifier: MIT
"""Plan `handoff`: core to core, every pair or one pair of each topology class, under three stated
definitions."""

from __future__ import annotations

from linewright.errors import UserError
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word, words
from linewright.plans.grid import CONTENDED, common
from linewright.schema import Cell, Plan

FORMS = ("cmpxchg_blind", "load_cmpxchg", "store_load")
MANY = 16
"""Usable CPUs above which `pairs=auto` takes one pair of each topology class instead of every
pair."""

PARAMETERS = (
    word("pairs", "auto all classes", "every pair, one of each class, or by machine"),
    words("definitions", FORMS, "what a handoff is taken to be"),
    Parameter("work", "counts", [0], "units of work between round trips"),
    Parameter("lines", "count", 8, "lines that each cell visits", 1, 4096),
    *usual(launches=5, contended_window_ms=20.0),
)


def build(inputs: Inputs) -> Plan:
    """Cells for the chosen pairs; UserError on a machine with one usable CPU."""
    values, topology = inputs.values, inputs.topology
    if not any(topology.pairs.values()):
        what = "one usable CPU: a line is handed between two"
        raise UserError(what, "--plan handoff", "two CPUs are needed")
    few = values["pairs"] == "auto" and len(topology.usable()) <= MANY
    most = None if few or values["pairs"] == "all" else 1
    pairs = [pair for of_class in topology.pairs.values() for pair in of_class[:most]]
    handoffs = (form for form in inputs.forms if form.operation == "handoff")
    forms = [form for form in handoffs if form.name in values["definitions"]]
    shared = CONTENDED | {"lines": values["lines"]}
    cells = [
        Cell(**common(form), work_iters=work, placement=f"cpus:{pair}", **shared)
        for pair in pairs
        for form in forms
        for work in values["work"]
    ]
    return inputs.plan("handoff", cells, max_windows=64)


SUMMARY = (
    "core to core: blind compare-and-swap, load first, plain store seen by a load; an operation is "
    "a round trip"
)
PLAN = BuiltIn("handoff", SUMMARY, PARAMETERS, build, budget_s=60.0)
