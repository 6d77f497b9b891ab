# SPDX-License-Identifier: MIT
"""Plan `quick`: what the screen and the advice show, in a minute: every form alone, with work and
with a second CPU on its line, and the price list, a few cells each of what may stand in for a
locked operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from linewright.forms import IDENTICAL, USUAL_HINTS, WAIT, Form, default_of, family_of
from linewright.forms import READERS as READER_FAMILY
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word
from linewright.plans.grid import CONTENDED, Step, common, matrix, richest
from linewright.schema import Cell, Plan, architecture_of
from linewright.target import Topology

KERNEL = ("this_cpu_add", "preempt_this_cpu_add", "irq_this_cpu_add")
"""Counters that exist inside the kernel alone."""
COUNTERS = ("percpu_rseq_add", "percpu_shared_c11_add")
"""One word for each CPU, and one for all."""
ALONE = ("percpu_empty", "percpu_thread_local_add", *COUNTERS, *KERNEL)
"""Counters of one thread, and their baseline loop."""
TOGETHER = (*COUNTERS, "percpu_false_sharing_add", "percpu_padded_add", *KERNEL)
"""Counters of two threads; two of them have one for each thread, on one line and on lines of their
own."""
READERS = ("rcu", "srcu_fast", "srcu", "biased_rwlock", "rwlock", "rwsem", "mutex")
WAITED = (("rcu",), ("srcu_fast", "srcu"))
"""Readers whose updaters are timed, of each kind the first that there is."""
CLEANING = ("clwb", "dc_cvac", "clflushopt")
"""Instructions that write a line back, the first that the CPU has."""
ONE_LINE = {"align_bytes": 0, "entries": 1, "entry_bytes": 64, "state": "dirty_l1", "wait": "once"}


def cells(forms: Sequence[Form], topology: Topology, lines: int) -> Iterator[Cell]:
    """Counters, readers with the wait of an updater, and one cache line's clean, on `lines` lines
    each."""
    word = {form.name: form for form in forms if form.width_bits == topology.word_bits}
    reader = {form.name: form for form in forms if family_of(form.operation) is READER_FAMILY}
    beside = CONTENDED | {"lines": lines}
    counter, section = {"params": {"slots": 1}}, {"params": {"read_delay": 0}}
    yield from _known(ALONE, word, lines=lines, **counter)
    yield from _known(("readers_empty", *READERS), reader, lines=lines, **section)
    own = [f for f in forms if f.arch == topology.arch]
    waiting = [f for f in own if family_of(f.operation) is WAIT]
    waiting = [f for f in waiting if f.name.partition("_")[2] in USUAL_HINTS]
    yield from (Cell(**common(f), lines=1) for f in waiting if f.operation == "wait_hint")
    usable = {f.name: f for f in own if f.available}
    clean = next((usable[name] for name in CLEANING if name in usable), None)
    if clean:
        yield Cell(**common(clean), lines=1, params=ONE_LINE)
    if len(topology.usable()) < 2:
        return
    yield from _known(TOGETHER, word, **beside, **counter)
    yield from _known(READERS, reader, **beside, **section)
    yield from (Cell(**common(f), **beside) for f in waiting if f.operation == "wait_woken")
    for names in WAITED:
        waited = next((reader[name] for name in names if name in reader), None)
        if waited:
            grace = common(waited) | {"operation": "readers_grace"}
            yield Cell(**grace, **beside, params={"read_delay": 0, "updater": "synchronize"})


def _known(names: Sequence[str], forms: Mapping[str, Form], **fields: Any) -> Iterator[Cell]:
    """A cell of each form that there is."""
    return (Cell(**common(forms[name]), **fields) for name in names if name in forms)


OPERATIONS = ("none", "add", "fetch_add", "cmpxchg", "xchg", "read")
LAUNCHES = 11
"""So many show a state that three launches in ten are in, and time goes where it is needed after
each of `LOOKS`."""
LOOKS = (5, 8)
"""Launches after which what is decided is measured no more."""
STEPS = ((6, LAUNCHES), (6, 8), (6, 5), (4, 5), (3, 5), (3, 4), (3, 3), (3, 2), (2, 2), (2, 1))
"""Fewest windows and launches, richest first: the first that fits the budget is taken."""
WORKS = (0, 20)
FAR_WORK = 200
"""Where a locked operation may be performed far away: work that hides it, alone and contended."""

PARAMETERS = (
    Parameter(
        "operations", "words", list(OPERATIONS[:-1]), "operations whose forms are measured",
        choices=OPERATIONS,
    ),
    word("prices", "yes no", "counters, readers, locks and a cache line beside them"),
    Parameter(
        "work", "counts", None, "units of work between operations; 0 and 20, and 200 on arm64"
    ),
    Parameter("contender_iters", "counts", [0], "iterations between a contender's operations"),
    *usual(lines=4, line_windows=None, contended_lines=8, threads=2),
    Parameter(
        "launches", "count", None,
        "processes that each cell is run in; 11, fewer if the budget is short", 1, 1000,
    ),
    *usual(window_ms=2.0, contended_window_ms=2.5),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """The richest quick plan whose fewest windows fit the budget, else the poorest."""
    values = inputs.values
    far = architecture_of(inputs.topology.arch).far_atomics
    forms = inputs.forms_of(values["operations"], "any", "generic", word=True)
    works = values["work"] or [*WORKS, *([FAR_WORK] if far else [])]
    ladder = [
        Step(values["contender_iters"], works, windows, values["launches"] or launches)
        for windows, launches in STEPS
    ]
    priced = values["prices"] == "yes"
    prices = list(cells(inputs.forms, inputs.topology, values["lines"])) if priced else []
    # The control of contention: a second thread that never touches the line, beside one form.
    named = {f.name: f for f in forms if f.atomic and f.available and f.operation != "none"}
    beside = default_of(next(iter(named.values())).operation, named) if named else ""

    copies = {name for pair in IDENTICAL.get(inputs.topology.arch, ()) for name in pair[1:]}

    def shown(cell: Cell) -> bool:
        if cell.contender == "placebo":
            return cell.form == beside and cell.work_iters == min(works)
        return cell.contender == "none" or bool(values["work"]) or cell.work_iters != WORKS[1]

    def cells_of(spacings: Sequence[int], works: Sequence[int]) -> list[Cell]:
        grid = [cell for cell in matrix(forms, works, spacings, values) if shown(cell)]
        # Identical code is measured once alone and once contended, on either scale: what it differs
        # by is taken for all situations of that kind.
        once = {(c.form, c.contender, c.work_iters > 0): c.id for c in reversed(grid)}
        grid = [c for c in grid if c.form not in copies or c.id in once.values()]
        # Contended cells come last: they get the time that the others leave.
        last = [cell for cell in grid if cell.contender == "same_line"]
        return [*(cell for cell in grid if cell.contender != "same_line"), *prices, *last]

    plan = richest(inputs, "quick", ladder, cells_of)
    looks = [look for look in LOOKS if look < plan.launches]
    return msgspec.structs.replace(plan, extra_windows=1, looks=looks)


SUMMARY = "every form alone, with work and contended; what counters, readers and locks cost instead"
PLAN = BuiltIn("quick", SUMMARY, PARAMETERS, build, budget_s=60.0)
