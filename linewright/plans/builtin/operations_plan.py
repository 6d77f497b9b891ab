# SPDX-License-Identifier: MIT
"""Plan `operations`: the library's operations as a program calls them, by class, width, order and
policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linewright.forms import Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word, words
from linewright.plans.grid import CONTENDED, common
from linewright.schema import Cell, Plan, architecture_of

OPERATIONS = ("library_add", "library_fetch_add", "library_xchg", "library_cmpxchg")
"""One for each class that a policy names: void, fetch, xchg, cas."""

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "full")

POLICIES = {
    "library_add": (
        "default", "store", "load", "llsc",
        "prefetch", "store+prefetch", "load+prefetch", "llsc+prefetch",
    ),
    None: ("default", "llsc", "prefetch", "llsc+prefetch"),
}  # fmt: skip
"""Settings that differ for a class; operations that return a value have no store form. '+' stands
for the comma."""

PARAMETERS = (
    words("operations", OPERATIONS, "operations that are measured"),
    Parameter("widths", "counts", [8, 16, 32, 64], "operand sizes in bits", 8, 64),
    words("orders", ORDERS, "memory orders"),
    word("policies", "machine all default", "all where forms differ, or the default alone"),
    *usual(work=[0, 200]),
    word("contended", "no yes", "a contender on the same line beside the uncontended cells"),
    *usual(lines=32, contended_lines=8, launches=5, window_ms=1.0, contended_window_ms=20.0),
)


def build(inputs: Inputs) -> Plan:
    """Every wanted operation, width, order, policy and work; the table is long, so windows are few
    and short."""
    values = inputs.values
    cells = [
        cell
        for form in inputs.forms
        if form.operation in values["operations"]
        and form.width_bits in values["widths"]
        and form.order in values["orders"]
        for cell in _cells(form, inputs.topology.arch, values)
    ]
    cells.sort(key=lambda cell: (cell.contender, cell.work_iters, cell.width_bits))
    return inputs.plan("operations", cells, block_cells=64, min_windows=4)


def policies_of(operation: str, arch: str, wanted: str) -> tuple[str, ...]:
    """The settings worth a cell: on architectures with one form per operation they are all the same
    code."""
    if wanted == "default" or (wanted == "machine" and not architecture_of(arch).forms_differ):
        return ("default",)
    return POLICIES.get(operation, POLICIES[None])


def _cells(form: Form, arch: str, values: dict[str, Any]) -> Iterator[Cell]:
    for policy in policies_of(form.operation, arch, values["policies"]):
        for work in values["work"]:
            shared = {**common(form), "work_iters": work, "params": {"policy": policy}}
            yield Cell(**shared, lines=values["lines"])
            if values["contended"] == "yes":
                yield Cell(**shared, lines=values["contended_lines"], **CONTENDED)


SUMMARY = "the library's operations by class, width, order and policy, back to back and exposed"
PLAN = BuiltIn("operations", SUMMARY, PARAMETERS, build, budget_s=120.0)
