# SPDX-License-Identifier: MIT
"""Plan `spacing`: how many bytes apart two threads' words have to lie: two writers, and a writer
and a reader, near and far, in one pair of lines and in two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linewright.errors import UserError
from linewright.forms import SPACING, Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, words
from linewright.plans.estimate import MOST_OF_A_BLOCK
from linewright.plans.grid import CONTENDED, by_point, common
from linewright.schema import Cell, Plan

DISTANCES = (8, 16, 32, 64, 128, 256, 512)
SHARED = "apart_shared"
LINE = 64
"""Bytes that two words need to lie on different lines: a word nearer than that to one which both
threads write is on its line, and comes with it."""

PARAMETERS = (
    Parameter(
        "bytes_apart", "counts", list(DISTANCES),
        "distances of the two words, multiples of 8; the others are compared with the largest",
        8, 512,
    ),
    words("halves", ("lower", "upper"), "half of a pair of lines that the timed word lies in"),
    words("operations", SPACING.operations, "what the two threads do"),
    Parameter("lines", "count", 8, "places that each cell visits, a page each", 1, 2048),
    *usual(launches=8, contended_window_ms=2.5),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """Cells for one pair of CPUs of each topology class; UserError on a machine with one usable
    CPU, and for distances that cannot be."""
    values, pairs = inputs.values, inputs.topology.pairs
    if not any(pairs.values()):
        what = "one usable CPU: words apart are two threads'"
        raise UserError(what, "--plan spacing", "two CPUs are needed")
    for distance in values["bytes_apart"]:
        if distance % 8:
            allowed = "allowed: a list, each a multiple of 8 from 8 to 512"
            raise UserError(f"bad value {distance}", "--set bytes_apart", allowed)
    forms = inputs.forms_of(values["operations"], "any", word=True)
    classes = [
        by_point(cell for form in forms for cell in _cells(form, placement, values))
        for placement, of_class in pairs.items()
        if of_class
    ]
    return inputs.plan(
        "spacing",
        [cell for of_class in classes for cell in of_class],
        # All distances of a class in one block: they are compared within rounds.
        block_cells=min(MOST_OF_A_BLOCK, max(map(len, classes))),
        window_ms=values["contended_window_ms"],
        min_windows=max(4, values["lines"]),
        line_windows=1,
        extra_windows=0,
        max_windows=64,
    )


def _cells(form: Form, placement: str, values: dict[str, Any]) -> Iterator[Cell]:
    """A form at every distance, and beside a placebo where its second thread does not work on the
    timed thread's account."""
    shared = common(form) | CONTENDED | {"placement": placement, "lines": values["lines"]}
    for half in values["halves"]:
        if form.operation != SHARED:
            yield Cell(**(shared | {"contender": "placebo"}), params={"half": half})
        for distance in sorted(values["bytes_apart"]):
            if form.operation != SHARED or distance >= LINE:
                yield Cell(**shared, params={"bytes_apart": distance, "half": half})


SUMMARY = "how many bytes apart two threads' words have to lie, in one pair of lines and in two"
PLAN = BuiltIn("spacing", SUMMARY, PARAMETERS, build, budget_s=60.0)
