"""Plan `full`: the whole grid of `rmw` and every pair of `handoff`, for a night or a publication."""

from __future__ import annotations

from dataclasses import replace

from linewright.plans.builtin import handoff, rmw
from linewright.plans.definition import BuiltIn, Inputs, Parameter, settings
from linewright.schema import Plan

PARAMETERS = (
    Parameter("cpus", "word", "first", "timed CPU: the first usable one, or each in turn", choices=("first", "all")),
    Parameter("launches", "count", 5, "processes that each cell is run in", 1, 1000),
)


def build(inputs: Inputs) -> Plan:
    """Both plans' cells under one budget."""
    chosen = [f"launches={inputs.values['launches']}"]
    matrix = replace(
        inputs, values=settings(rmw.PLAN, [*chosen, "grid=full", f"cpus={inputs.values['cpus']}"]), keep=list
    )
    plan = rmw.build(matrix)
    cells = plan.cells
    if any(inputs.topology.pairs.values()):
        cells = cells + handoff.build(replace(inputs, values=settings(handoff.PLAN, chosen), keep=list)).cells
    return inputs.plan("full", cells, launches=plan.launches, window_ms=plan.window_ms)


PLAN = BuiltIn(
    name="full",
    summary="the whole grid of rmw and every pair of handoff",
    parameters=PARAMETERS,
    build=build,
    budget_s=3600.0,
)
