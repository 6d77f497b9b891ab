"""Plan `quick`: every form alone, beside a placebo and contended, at a few work lengths, and the price list, in a
minute."""

from __future__ import annotations

from linewright.plans.definition import BuiltIn, Inputs, Parameter
from linewright.plans.grid import Step, matrix, richest
from linewright.plans.prices import cells
from linewright.schema import Plan
from linewright.target.probe import Form

OPERATIONS = ("none", "add", "fetch_add", "cmpxchg", "xchg", "read")
LAUNCHES = 5
"""What a claim from a run takes; a budget that is too short for them gets fewer, and a coarser answer."""
STEPS = (((0, 100), 6, LAUNCHES), ((0,), 6, LAUNCHES), ((0,), 5, LAUNCHES), ((0,), 4, LAUNCHES), ((0,), 3, LAUNCHES),
         ((0,), 3, 4), ((0,), 3, 3), ((0,), 3, 2), ((0,), 2, 2), ((0,), 2, 1))  # fmt: skip
"""Contender spacings, fewest windows and launches, richest first: the first that fits the budget is taken."""

PARAMETERS = (
    Parameter("operations", "words", list(OPERATIONS), "operations whose forms are measured", choices=OPERATIONS),
    Parameter("prices", "word", "yes", "counters, readers, locks and a cache line beside them", choices=("no", "yes")),
    Parameter("work", "counts", [0, 20, 200], "units of work between operations"),
    Parameter(
        "contender_iters", "counts", None, "iterations between a contender's operations; 0, and 100 if time allows"
    ),
    Parameter("lines", "count", 4, "lines that uncontended cells visit in each launch", 1, 4096),
    Parameter("line_windows", "count", None, "fewest windows on each line; 3 on arm64, to tell near from far", 1, 1000),
    Parameter("contended_lines", "count", 8, "lines that contended cells visit", 1, 4096),
    Parameter("threads", "count", 2, "threads of placebo and contended cells, the timed one included", 2, 4096),
    Parameter(
        "launches", "count", None, "processes that each cell is run in; 5, fewer if the budget is short", 1, 1000
    ),
    Parameter("window_ms", "ms", 2.0, "length of a window", 0.01, 10_000),
    Parameter("contended_window_ms", "ms", 12.0, "length of a contended window", 0.01, 10_000),
)


def build(inputs: Inputs) -> Plan:
    """The richest quick plan whose fewest windows fit the budget, else the poorest."""
    values, forms = inputs.values, _forms(inputs)
    ladder = [
        Step(spacings, values["work"], windows, values["launches"] or launches) for spacings, windows, launches in STEPS
    ]
    prices = list(cells(inputs.forms, inputs.topology, values["lines"])) if values["prices"] == "yes" else []
    return richest(inputs, "quick", ladder, lambda spacings, works: [*matrix(forms, works, spacings, values), *prices])


def _forms(inputs: Inputs) -> list[Form]:
    """Forms of this architecture at its own width; those that the CPU lacks stay, to be reported as such."""
    arch, operations, width = inputs.topology.arch, inputs.values["operations"], inputs.topology.word_bits
    return [
        form
        for form in inputs.forms
        if form.arch in ("any", "generic", arch) and form.width_bits == width and form.operation in operations
    ]


PLAN = BuiltIn(
    name="quick",
    summary="every form alone, beside a placebo and contended; what counters, readers and locks cost instead",
    parameters=PARAMETERS,
    build=build,
    budget_s=60.0,
)
