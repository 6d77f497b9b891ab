"""Plan `percpu`: what counting on the current CPU costs, by a sequence and by everything that is used instead.

Each form is run back to back (work 0) and with work around it (what is left after the baseline loop is subtracted is
its exposed cost), on one word and going round many words, alone and with every thread counting at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linewright.errors import UserError
from linewright.plans.definition import BuiltIn, Inputs, Parameter
from linewright.plans.grid import by_point, common
from linewright.schema import Cell, Plan
from linewright.target.probe import Form

OPERATIONS = ("percpu_none", "percpu_add", "percpu_cmpxchg")
FIGHTING = ("percpu_shared_",)
"""Forms whose threads meet on one word."""
NEIGHBOURS = ("percpu_false_sharing_add", "percpu_padded_add")
"""Forms that several threads run with one word each."""

PARAMETERS = (
    Parameter("work", "counts", [0, 20, 200], "units of work between operations"),
    Parameter("slots", "counts", [1, 16], "words, a power of two up to 64, that a loop goes round", 1, 64),
    Parameter("threads", "counts", [1, 2], "threads that count at once, the timed one included", 1, 4096),
    Parameter("lines", "count", 8, "allocations that each cell visits", 1, 64),
    Parameter("launches", "count", 5, "processes that each cell is run in", 1, 1000),
    Parameter("window_ms", "ms", 2.0, "length of a window", 0.01, 10_000),
    Parameter("contended_window_ms", "ms", 10.0, "length of a window with several threads", 0.01, 10_000),
)


def build(inputs: Inputs) -> Plan:
    """Every per-CPU form of this architecture at its word's width."""
    values = inputs.values
    for slots in values["slots"]:
        if slots & (slots - 1):
            raise UserError(f"bad value {slots}", "--set slots", "allowed: a list, each a power of two from 1 to 64")
    archs, width = ("any", inputs.topology.arch), inputs.topology.word_bits
    forms = [f for f in inputs.forms if f.operation in OPERATIONS and f.width_bits == width and f.arch in archs]
    return inputs.plan("percpu", by_point(cell for form in forms for cell in _cells(form, values)), min_windows=4)


def _cells(form: Form, values: dict[str, Any]) -> Iterator[Cell]:
    for slots in values["slots"]:
        for work in values["work"]:
            shared = {**common(form), "work_iters": work, "lines": values["lines"], "params": {"slots": slots}}
            for threads in values["threads"]:
                if form.name in NEIGHBOURS and (slots > 1 or threads == 1):
                    continue
                if threads == 1:
                    yield Cell(**shared)
                elif form.operation != "percpu_none" and (slots == 1 or not form.name.startswith(FIGHTING)):
                    yield Cell(**shared, threads=threads, contender="same_line")


PLAN = BuiltIn(
    name="percpu",
    summary="counting on the current CPU: sequences against thread-local, racy, atomic and shared counters",
    parameters=PARAMETERS,
    build=build,
    budget_s=180.0,
)
