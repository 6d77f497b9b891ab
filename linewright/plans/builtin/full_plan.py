# SPDX-License-Identifier: MIT
"""Plan `full`: the whole grid of `rmw` and every pair of `handoff`, for a night or a
publication."""

from __future__ import annotations

from dataclasses import replace

from linewright.plans.builtin import handoff_plan, rmw_plan
from linewright.plans.definition import BuiltIn, Inputs, settings, usual, word
from linewright.schema import Plan

PARAMETERS = (
    word("timed", "first all", "timed CPU: the first usable one, or each in turn"),
    *usual(launches=5),
)


def build(inputs: Inputs) -> Plan:
    """Both plans' cells under one budget."""
    chosen = [f"launches={inputs.values['launches']}"]
    grid = settings(rmw_plan.PLAN, [*chosen, "grid=full", f"timed={inputs.values['timed']}"])
    plan = rmw_plan.build(replace(inputs, values=grid, keep=list))
    cells = plan.cells
    if any(inputs.topology.pairs.values()):
        pairs = settings(handoff_plan.PLAN, chosen)
        cells = cells + handoff_plan.build(replace(inputs, values=pairs, keep=list)).cells
    return inputs.plan("full", cells, launches=plan.launches, window_ms=plan.window_ms)


SUMMARY = "the whole grid of rmw and every pair of handoff"
PLAN = BuiltIn("full", SUMMARY, PARAMETERS, build, budget_s=3600.0)
