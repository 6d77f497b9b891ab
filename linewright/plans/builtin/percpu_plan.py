# SPDX-License-Identifier: MIT
"""Plan `percpu`: what counting on the current CPU costs, by a sequence and by everything that is
used instead.

Each form is run back to back (work 0) and with work around it (what is left after the baseline loop
is subtracted is its exposed cost), on one word and going round many words, alone and with every
thread counting at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual
from linewright.plans.grid import by_point, common
from linewright.schema import Cell, Plan

OPERATIONS = ("percpu_none", "percpu_add", "percpu_cmpxchg")
NEIGHBOURS = ("percpu_false_sharing_add", "percpu_padded_add")
"""Forms that several threads run with one word each."""

PARAMETERS = (
    *usual(work=[0, 20, 200]),
    Parameter(
        "slots", "counts", [1, 16], "words, a power of two up to 64, that a loop goes round", 1, 64
    ),
    Parameter(
        "threads", "counts", [1, 2], "threads that count at once, the timed one included", 1, 4096
    ),
    Parameter("lines", "count", 8, "allocations that each cell visits", 1, 64),
    *usual(launches=5, window_ms=2.0, contended_window_ms=10.0),
)


def build(inputs: Inputs) -> Plan:
    """Every per-CPU form of this architecture at its word's width."""
    values = inputs.values
    for slots in values["slots"]:
        if slots & (slots - 1):
            allowed = "allowed: a list, each a power of two from 1 to 64"
            raise UserError(f"bad value {slots}", "--set slots", allowed)
    forms = inputs.forms_of(OPERATIONS, "any", word=True)
    return inputs.plan(
        "percpu", by_point(cell for form in forms for cell in _cells(form, values)), min_windows=4
    )


def _cells(form: Form, values: dict[str, Any]) -> Iterator[Cell]:
    for slots in values["slots"]:
        for work in values["work"]:
            shared = common(form) | {"work_iters": work, "lines": values["lines"]}
            shared["params"] = {"slots": slots}
            for threads in values["threads"]:
                if form.name in NEIGHBOURS and (slots > 1 or threads == 1):
                    continue
                one_word = slots == 1 or form.made_of.whose != "shared"
                if threads == 1:
                    yield Cell(**shared)
                elif form.operation != "percpu_none" and one_word:
                    yield Cell(**shared, threads=threads, contender="same_line")


SUMMARY = (
    "counting on the current CPU: sequences against thread-local, racy, atomic and shared counters"
)
PLAN = BuiltIn("percpu", SUMMARY, PARAMETERS, build, budget_s=180.0)
