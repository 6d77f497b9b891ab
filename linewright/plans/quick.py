"""Plan `quick`: every form alone, beside a placebo and contended, at a few work lengths, in under a minute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linewright.errors import UserError
from linewright.estimate import estimate_s
from linewright.plans import BuiltIn, Machine, Parameter
from linewright.probe import Form
from linewright.schema import Cell, Plan

OPERATIONS = ("none", "add", "fetch_add", "cmpxchg", "xchg", "read")
FILL = 0.9
"""Share of the budget that the fewest windows may take; the rest goes to cells whose intervals are still wide."""

RICHNESS = (((0, 100), 6), ((0,), 8), ((0,), 6), ((0,), 5), ((0,), 4), ((0,), 3))
"""Contender gaps and fewest windows, richest first: the first that fits the budget is taken."""

PARAMETERS = (
    Parameter("operations", "words", list(OPERATIONS), "operations whose forms are measured", choices=OPERATIONS),
    Parameter("work", "counts", [0, 20, 200], "work iterations between operations"),
    Parameter("contender_iters", "counts", None, "iterations between a contender's operations; 0, and 100 if time allows"),
    Parameter("lines", "count", 32, "lines that uncontended cells visit", 1, 4096),
    Parameter("contended_lines", "count", 8, "lines that contended cells visit", 1, 4096),
    Parameter("threads", "count", 2, "threads of placebo and contended cells, the timed one included", 2, 4096),
    Parameter("launches", "count", 5, "processes that each contended cell is run in", 1, 1000),
    Parameter("window_ms", "ms", 2.0, "length of a window", 0.01, 10_000),
    Parameter("contended_window_ms", "ms", 25.0, "length of a contended window", 0.01, 10_000),
)


def build(machine: Machine, values: dict[str, Any], budget_s: float) -> Plan:
    """The richest quick plan whose fewest windows fit the budget."""
    for gaps, windows in RICHNESS:
        if values["contender_iters"] is not None:
            gaps = tuple(values["contender_iters"])
        plan = Plan(
            linewright_plan=1,
            name="quick",
            cells=list(_cells(machine, values, gaps)) or _refuse(machine, values),
            budget_s=budget_s,
            launches=values["launches"],
            window_ms=values["window_ms"],
            contended_window_ms=values["contended_window_ms"],
            min_windows=windows,
        )
        if estimate_s(plan) <= FILL * budget_s:
            return plan
    return plan


def _cells(machine: Machine, values: dict[str, Any], gaps: tuple[int, ...]) -> Iterator[Cell]:
    width = 32 if machine.topology.arch == "i386" else 64
    arches = ("any", "generic", machine.topology.arch)
    for form in machine.forms:
        if form.arch in arches and width in form.widths and form.operation in values["operations"]:
            yield from _form_cells(form, width, values, gaps)


def _form_cells(form: Form, width: int, values: dict[str, Any], gaps: tuple[int, ...]) -> Iterator[Cell]:
    """A form's cells. A plain add loses counts when shared, and the empty loop shares nothing: neither is contended."""
    common = {"operation": form.operation, "form": form.name, "width_bits": width, "order": form.order}
    alone, shared, threads = values["lines"], values["contended_lines"], values["threads"]
    for work in values["work"]:
        yield Cell(**common, work_iters=work, lines=alone)
    if form.operation == "none":
        return
    for work in values["work"]:
        yield Cell(**common, work_iters=work, lines=alone, contender="placebo", threads=threads)
    if form.name.startswith("plain_"):
        return
    for gap in gaps:
        for work in values["work"]:
            yield Cell(**common, work_iters=work, lines=shared, contender="same_line", contender_iters=gap, threads=threads)


def _refuse(machine: Machine, values: dict[str, Any]) -> list[Cell]:
    chosen = ", ".join(values["operations"])
    raise UserError(f"the probe for {machine.topology.arch} has no form of {chosen}", "--set operations")


PLAN = BuiltIn(
    name="quick",
    summary="every form alone, beside a placebo and contended, at a few work lengths",
    parameters=PARAMETERS,
    build=build,
    budget_s=60.0,
)
