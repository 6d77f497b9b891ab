# SPDX-License-Identifier: MIT
"""Plan `readers`: what entering and leaving a read-side critical section costs, alone and with many
readers at once, what stands beside it, and what an updater waits who has to be sure that no reader
is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, words
from linewright.plans.grid import common
from linewright.schema import Cell, Plan

OPERATIONS = ("readers_none", "readers_pair", "readers_shape", "readers_floor", "readers_lookup")
KINDS = ("pair", "shape", "floor", "lookup")
WAITING = ("refcnt",)
"""Protecting forms that no updater can wait for: a count that readers keep above zero."""
EXPEDITED = (
    "rcu", "srcu", "srcu_signal_safe", "srcu_nmisafe", "srcu_fast", "srcu_fast_updown",
    "srcu_fast_updown_defined", "srcu_fast_updown_irqsave",
)  # fmt: skip
"""Forms whose updaters have a way that costs more and waits less."""

PARAMETERS = (
    Parameter("readers", "counts", None, "readers at once", 1, 4096),
    Parameter("read_delay", "counts", [0, 200], "units of work in a read-side critical section"),
    Parameter(
        "updater", "words", ["synchronize"], "how an updater waits beside the readers",
        choices=("none", "synchronize", "expedited"),
    ),
    words("kinds", KINDS, "read-side critical sections, increments, floors, lookups"),
    Parameter("instances", "count", 64, "objects that lookups find, a power of two", 1, 1 << 14),
    Parameter("lines", "count", 8, "domains, locks and counters that each cell visits", 1, 64),
    *usual(launches=5, window_ms=2.0, contended_window_ms=10.0),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """Readers alone and together, then each updater beside them."""
    values = inputs.values
    if values["instances"] & (values["instances"] - 1):
        allowed = "allowed: a power of two from 1 to 16384"
        raise UserError(f"bad value {values['instances']}", "--set instances", allowed)
    if "none" in values["updater"] and len(values["updater"]) > 1:
        allowed = "allowed: none, or a list of synchronize, expedited"
        raise UserError("none and an updater", "--set updater", allowed)
    usable = max(len(inputs.topology.usable()), 1)
    readers = values["readers"] or _by_machine(usable)
    forms = [f for f in inputs.forms_of(OPERATIONS, "any") if _wanted(f, values["kinds"])]
    cells = list(_alone_and_together(forms, readers, values))
    for updater in values["updater"]:
        if updater != "none":
            cells += _beside_updater(forms, _room(readers, values, usable), updater, values)
    return inputs.plan("readers", cells, min_windows=4)


def _by_machine(usable: int) -> list[int]:
    """1, the powers of two, and all CPUs."""
    return sorted({1, usable, *(1 << k for k in range(usable.bit_length()) if 1 << k <= usable)})


def _room(readers: Sequence[int], values: dict[str, Any], usable: int) -> list[int]:
    """Readers that leave a CPU for the updater; those the user named are kept, so that the probe
    can say what it lacks."""
    if values["readers"]:
        return list(readers)
    return sorted({min(count, usable - 1) for count in readers if usable > 1})


def _wanted(form: Form, kinds: Sequence[str]) -> bool:
    return (
        form.name == "readers_empty"
        or form.operation in (f"readers_{kind}" for kind in kinds)
        or (form.name == "lookup_empty" and "lookup" in kinds)
    )


def _params(form: Form, delay: int, values: dict[str, Any]) -> dict[str, Any]:
    lookup = form.operation == "readers_lookup" or form.name == "lookup_empty"
    return {"read_delay": delay} | ({"instances": values["instances"]} if lookup else {})


def _alone_and_together(
    forms: Sequence[Form], readers: Sequence[int], values: dict[str, Any]
) -> Iterator[Cell]:
    """Cells that differ in nothing but the form stand together: they share blocks, so drift, and
    their baseline loops."""
    for count in readers:
        for delay in values["read_delay"]:
            for form in forms:
                params = _params(form, delay, values)
                shared = common(form) | {"lines": values["lines"], "params": params}
                if count == 1:
                    yield Cell(**shared)
                else:
                    yield Cell(**shared, threads=count, contender="same_line")


def _beside_updater(
    forms: Sequence[Form], readers: Sequence[int], updater: str, values: dict[str, Any]
) -> Iterator[Cell]:
    """The updater timed, alone and against readers; then the readers timed while it runs. Both only
    where an updater can wait."""
    possible = (f for f in forms if f.operation == "readers_pair" and f.name not in WAITING)
    waited = [f for f in possible if updater != "expedited" or f.name in EXPEDITED]
    params = {"updater": updater}
    for form in waited:
        grace = {**common(form), "operation": "readers_grace", "lines": values["lines"]}
        yield Cell(**grace, params={"read_delay": values["read_delay"][0], **params})
    for count in readers:
        for delay in values["read_delay"]:
            for operation in ("readers_grace", "readers_pair"):
                for form in waited:
                    shared = {"lines": values["lines"], "contender": "same_line"}
                    shared |= {"threads": count + 1, "params": {"read_delay": delay, **params}}
                    yield Cell(**(common(form) | {"operation": operation}), **shared)


SUMMARY = (
    "read-side critical sections: domains, locks, counts and what they are made of, with what "
    "updaters wait"
)
PLAN = BuiltIn("readers", SUMMARY, PARAMETERS, build, budget_s=240.0)
