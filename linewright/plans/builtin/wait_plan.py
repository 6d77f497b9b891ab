# SPDX-License-Identifier: MIT
"""Plan `wait`: how long a round of each hint of a waiting thread is, how long after a store its
waiter goes on, and what waiters cost the thread that they wait for, for each topology class."""

from __future__ import annotations

from collections.abc import Iterator

from linewright.forms import WAIT, Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, words
from linewright.plans.grid import CONTENDED, common
from linewright.schema import Cell, Plan

SLICES_MS = 50.0
"""Of a window with a preempted holder at least: some ten slices of the scheduler."""
ALONE = "held_none"
"""Stands for the holder's section alone, and beside a placebo: no waiter looks at its word."""

PARAMETERS = (
    words("operations", WAIT.operations, "rounds alone, wake-ups, sections of a lock's holder"),
    Parameter("work", "counts", [0, 200], "units of work in a holder's section"),
    Parameter("waiters", "counts", None, "threads that wait for the holder", 1, 4095),
    Parameter(
        "holder", "words", ["running"], "whether a thread of equal priority wants its CPU",
        choices=("running", "preempted"),
    ),
    Parameter("lines", "count", 4, "lines that each cell visits", 1, 4096),
    *usual(launches=5, window_ms=2.0, contended_window_ms=5.0),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """Every hint alone; with two usable CPUs, wake-ups for one pair of each topology class, and a
    holder alone, beside a placebo and with waiters."""
    values = inputs.values
    lines = {"lines": values["lines"]}
    forms = inputs.forms_of(values["operations"], "any")
    cells = [Cell(**common(form), **lines) for form in forms if form.operation == "wait_hint"]
    classes = [placement for placement, pairs in inputs.topology.pairs.items() if pairs]
    cells += [
        Cell(**common(form), placement=placement, **CONTENDED, **lines)
        for placement in classes
        for form in forms
        if form.operation == "wait_woken"
    ]
    held = [form for form in forms if form.operation == "wait_held"]
    for work in values["work"]:
        for holder in values["holder"]:
            params = {"preempted": 1} if holder == "preempted" else {}
            cells += _held(held, classes, inputs, lines | {"work_iters": work, "params": params})
    slices = {"contended_window_ms": max(SLICES_MS, values["contended_window_ms"])}
    slices |= {"window_ms": max(SLICES_MS, values["window_ms"])}
    return inputs.plan("wait", cells, **(slices if "preempted" in values["holder"] else {}))


def _held(forms: list[Form], classes: list[str], inputs: Inputs, shared: dict) -> Iterator[Cell]:
    """A section of one length: alone, then beside a placebo and with each number of waiters, one of
    each topology class, more where they find a CPU each."""
    alone = [form for form in forms if form.name == ALONE]
    yield from (Cell(**common(form), **shared) for form in alone)
    most = len(inputs.topology.usable()) - 1
    for waiters in inputs.values["waiters"] or sorted({1, most} - {0}):
        beside = shared | CONTENDED | {"threads": waiters + 1}
        for placement in classes if waiters == 1 else ["auto"] if classes else []:
            placed = beside | {"placement": placement}
            yield from (Cell(**common(f), **(placed | {"contender": "placebo"})) for f in alone)
            yield from (Cell(**common(form), **placed) for form in forms)


SUMMARY = "waiting: the length of each hint, a store and its wake-up, what waiters cost the holder"
PLAN = BuiltIn("wait", SUMMARY, PARAMETERS, build, budget_s=60.0)
