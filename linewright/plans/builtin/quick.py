"""Plan `quick`: every form alone, beside a placebo and contended, at a few work lengths, in under a minute."""

from __future__ import annotations

from linewright.plans.definition import BuiltIn, Inputs, Parameter
from linewright.plans.grid import matrix, richest
from linewright.schema import Plan
from linewright.target.probe import Form

OPERATIONS = ("none", "add", "fetch_add", "cmpxchg", "xchg", "read")
RICHNESS = (((0, 100), 6), ((0,), 8), ((0,), 6), ((0,), 5), ((0,), 4), ((0,), 3))
"""Contender spacings and fewest windows, richest first: the first that fits the budget is taken."""

PARAMETERS = (
    Parameter("operations", "words", list(OPERATIONS), "operations whose forms are measured", choices=OPERATIONS),
    Parameter("work", "counts", [0, 20, 200], "work iterations between operations"),
    Parameter(
        "contender_iters", "counts", None, "iterations between a contender's operations; 0, and 100 if time allows"
    ),
    Parameter("lines", "count", 32, "lines that uncontended cells visit", 1, 4096),
    Parameter("contended_lines", "count", 8, "lines that contended cells visit", 1, 4096),
    Parameter("threads", "count", 2, "threads of placebo and contended cells, the timed one included", 2, 4096),
    Parameter("launches", "count", 5, "processes that each contended cell is run in", 1, 1000),
    Parameter("window_ms", "ms", 2.0, "length of a window", 0.01, 10_000),
    Parameter("contended_window_ms", "ms", 25.0, "length of a contended window", 0.01, 10_000),
)


def build(inputs: Inputs) -> Plan:
    """The richest quick plan whose fewest windows fit the budget, else the poorest."""
    values, forms = inputs.values, _forms(inputs)
    ladder = [(spacings, values["work"], windows) for spacings, windows in RICHNESS]
    return richest(inputs, "quick", ladder, lambda spacings, works: matrix(forms, works, spacings, values))


def _forms(inputs: Inputs) -> list[Form]:
    """Forms of this architecture at its own width; those that the CPU lacks stay, to be reported as such."""
    arch, operations = inputs.topology.arch, inputs.values["operations"]
    width = 32 if arch == "i386" else 64
    return [
        form
        for form in inputs.forms
        if form.arch in ("any", "generic", arch) and form.width_bits == width and form.operation in operations
    ]


PLAN = BuiltIn(
    name="quick",
    summary="every form alone, beside a placebo and contended, at a few work lengths",
    parameters=PARAMETERS,
    build=build,
    budget_s=60.0,
)
