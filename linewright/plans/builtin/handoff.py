"""Plan `handoff`: core to core, every pair or one pair of each topology class, under three stated definitions."""

from __future__ import annotations

from linewright.errors import UserError
from linewright.plans.definition import BuiltIn, Inputs, Parameter
from linewright.plans.grid import common
from linewright.schema import Cell, Plan

FORMS = ("cmpxchg_blind", "load_cmpxchg", "store_load")
MANY = 16
"""Usable CPUs above which `pairs=auto` takes one pair of each topology class instead of every pair."""

PARAMETERS = (
    Parameter(
        "pairs", "word", "auto", "every pair, one of each class, or by machine", choices=("auto", "all", "classes")
    ),
    Parameter("definitions", "words", list(FORMS), "what a handoff is taken to be", choices=FORMS),
    Parameter("work", "counts", [0], "units of work between round trips"),
    Parameter("lines", "count", 8, "lines that each cell visits", 1, 4096),
    Parameter("launches", "count", 5, "processes that each cell is run in", 1, 1000),
    Parameter("contended_window_ms", "ms", 20.0, "length of a window", 0.01, 10_000),
)


def build(inputs: Inputs) -> Plan:
    """Cells for the chosen pairs; UserError on a machine with one usable CPU."""
    values, topology = inputs.values, inputs.topology
    if not any(topology.pairs.values()):
        raise UserError("one usable CPU: a line is handed between two", "--plan handoff", "two CPUs are needed")
    every = values["pairs"] == "all" or (values["pairs"] == "auto" and len(topology.usable()) <= MANY)
    pairs = [pair for of_class in topology.pairs.values() for pair in (of_class if every else of_class[:1])]
    forms = [form for form in inputs.forms if form.operation == "handoff" and form.name in values["definitions"]]
    cells = [
        Cell(
            **common(form),
            work_iters=work,
            lines=values["lines"],
            placement=f"cpus:{pair}",
            contender="same_line",
            threads=2,
        )
        for pair in pairs
        for form in forms
        for work in values["work"]
    ]
    return inputs.plan("handoff", cells, max_windows=64)


PLAN = BuiltIn(
    name="handoff",
    summary="core to core: blind compare-and-swap, load first, plain store seen by a load; an operation"
    " is a round trip",
    parameters=PARAMETERS,
    build=build,
    budget_s=60.0,
)
