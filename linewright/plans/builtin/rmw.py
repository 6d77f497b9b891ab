"""Plan `rmw`: the published matrix of form, contention and work, the same grid for every form, with its controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from linewright.errors import UserError
from linewright.plans.definition import BuiltIn, Inputs, Parameter
from linewright.plans.grid import (
    OPERATIONS,
    SPACINGS,
    THINNED,
    WORKS,
    Step,
    matrix,
    partner,
    richest,
    single_line_forms,
)
from linewright.schema import Cell, Plan

PARAMETERS = (
    Parameter(
        "grid", "word", "thinned", "the published grid whole, or thinned to the budget", choices=("thinned", "full")
    ),
    Parameter("cpus", "word", "first", "timed CPU: the first usable one, or each in turn", choices=("first", "all")),
    Parameter("operations", "words", list(OPERATIONS), "operations whose forms are measured", choices=OPERATIONS),
    Parameter("generic", "word", "no", "compiler builtins beside the named forms", choices=("no", "yes")),
    Parameter("work", "counts", None, "units of work, instead of the grid's"),
    Parameter("contender_iters", "counts", None, "iterations between a contender's operations, instead of the grid's"),
    Parameter("lines", "count", 8, "lines that uncontended cells visit in each launch", 1, 4096),
    Parameter("line_windows", "count", None, "fewest windows on each line; 3 on arm64, to tell near from far", 1, 1000),
    Parameter("contended_lines", "count", 8, "lines that contended cells visit", 1, 4096),
    Parameter("threads", "count", 2, "threads of placebo and contended cells, the timed one included", 2, 4096),
    Parameter("launches", "count", 8, "processes that each cell is run in", 1, 1000),
    Parameter("window_ms", "ms", 2.0, "length of a window", 0.01, 10_000),
    Parameter("contended_window_ms", "ms", 14.0, "length of a contended window", 0.01, 10_000),
)


def build(inputs: Inputs) -> Plan:
    """The richest thinning whose fewest windows fit the budget; the whole grid when it is asked for."""
    values = inputs.values
    for axis in ("work", "contender_iters"):
        if values["grid"] == "full" and values[axis] is not None:
            raise UserError(
                f"grid=full and {axis}= contradict each other", "--set", "the whole grid, or values of your own"
            )
    thinned = THINNED if values["grid"] == "thinned" else ((SPACINGS, WORKS, 4),)
    ladder = [Step(spacings, works, windows, values["launches"]) for spacings, works, windows in thinned]
    return richest(inputs, "rmw", ladder, lambda spacings, works: _cells(inputs, spacings, works))


def _cells(inputs: Inputs, spacings: Sequence[int], works: Sequence[int]) -> Iterator[Cell]:
    values = inputs.values
    forms = [
        form
        for form in single_line_forms(inputs.forms, inputs.topology, values["generic"] == "yes")
        if form.operation in values["operations"]
    ]
    for single, double in _placements(inputs, values):
        yield from matrix(forms, works, spacings, values, single, double)


def _placements(inputs: Inputs, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Placement of one thread and of two, for every CPU to be timed."""
    if values["cpus"] == "first":
        yield "auto", "auto"
        return
    if values["threads"] != 2:
        raise UserError("cpus=all places two threads", "--set threads", "allowed with cpus=all: 2")
    for cpu in inputs.topology.usable():
        other = partner(inputs.topology, cpu)
        yield f"cpus:{cpu}", "auto" if other is None else f"cpus:{cpu},{other}"


PLAN = BuiltIn(
    name="rmw",
    summary="the matrix: every form on one grid of contention and work, with placebo, many lines and both sides",
    parameters=PARAMETERS,
    build=build,
    budget_s=285.0,
)
