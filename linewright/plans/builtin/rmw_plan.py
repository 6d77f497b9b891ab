# SPDX-License-Identifier: MIT
"""Plan `rmw`: the published matrix of form, contention and work, the same grid for every form, with
its controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from linewright.errors import UserError
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word, words
from linewright.plans.grid import (
    OPERATIONS,
    SPACINGS,
    THINNED,
    WORKS,
    Step,
    matrix,
    partner,
    richest,
)
from linewright.schema import Cell, Plan

PARAMETERS = (
    word("grid", "thinned full", "the published grid whole, or thinned to the budget"),
    word("timed", "first all", "timed CPU: the first usable one, or each in turn"),
    words("operations", OPERATIONS, "operations whose forms are measured"),
    word("generic", "no yes", "compiler builtins beside the named forms"),
    Parameter("work", "counts", None, "units of work, instead of the grid's"),
    Parameter(
        "contender_iters", "counts", None,
        "iterations between a contender's operations, instead of the grid's",
    ),
    *usual(
        lines=8, line_windows=None, contended_lines=8, threads=2,
        launches=8, window_ms=2.0, contended_window_ms=14.0,
    ),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """The richest thinning whose fewest windows fit the budget; the whole grid when it is asked
    for."""
    values = inputs.values
    for axis in ("work", "contender_iters"):
        if values["grid"] == "full" and values[axis] is not None:
            allowed = "the whole grid, or values of your own"
            raise UserError(f"grid=full and {axis}= contradict each other", "--set", allowed)
    thinned = THINNED if values["grid"] == "thinned" else ((SPACINGS, WORKS, 4),)
    ladder = [
        Step(spacings, works, windows, values["launches"]) for spacings, works, windows in thinned
    ]
    return richest(inputs, "rmw", ladder, lambda spacings, works: _cells(inputs, spacings, works))


def _cells(inputs: Inputs, spacings: Sequence[int], works: Sequence[int]) -> Iterator[Cell]:
    values = inputs.values
    generic = ("generic",) if values["generic"] == "yes" else ()
    forms = inputs.forms_of(values["operations"], *generic, word=True)
    for single, double in _placements(inputs, values):
        yield from matrix(forms, works, spacings, values, single, double)


def _placements(inputs: Inputs, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Placement of one thread and of two, for every CPU to be timed."""
    if values["timed"] == "first":
        yield "auto", "auto"
        return
    if values["threads"] != 2:
        allowed = "allowed with timed=all: 2"
        raise UserError("timed=all places two threads", "--set threads", allowed)
    for cpu in inputs.topology.usable():
        other = partner(inputs.topology, cpu)
        yield f"cpus:{cpu}", "auto" if other is None else f"cpus:{cpu},{other}"


SUMMARY = (
    "the matrix: every form on one grid of contention and work, with placebo, many lines and both "
    "sides"
)
PLAN = BuiltIn("rmw", SUMMARY, PARAMETERS, build, budget_s=285.0)
