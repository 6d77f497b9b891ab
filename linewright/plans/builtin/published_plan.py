# SPDX-License-Identifier: MIT
"""Plan `published`: exactly the cells of the table posted to linux-arm-kernel on 5 November 2025
("Overhead of arm64 LSE per-CPU atomics?", a Neoverse V2 class server), so that a machine's rows can
be laid beside it. Its work is a loop around one NOP, and so it is here; a loop in memory stands for
code that a posted store competes with."""

from __future__ import annotations

from linewright.errors import UserError
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word
from linewright.plans.grid import CONTENDED, OPERATIONS, common
from linewright.schema import Cell, Plan

CELLS: dict[str, tuple[tuple[int | None, int], ...]] = {
    "stadd": ((None, 0), (None, 100), (None, 200), (10, 0), (10, 300), (30, 0), (10_000, 0)),
    "llsc_add": (
        (None, 0), (None, 10), (10, 0), (10, 10), (1000, 0), (1_000_000, 0), (1_000_000, 10),
    ),
    "ldadd": (
        (None, 0), (None, 100), (None, 300), (1, 100), (1, 200),
        (10, 0), (10, 200), (10, 300), (100, 0), (100, 10),
    ),
    "prfm_keep_stadd": ((None, 0), (10, 0), (1_000_000, 0), (1_000_000, 100)),
    "prfm_strm_stadd": ((None, 0), (1_000_000, 0), (1_000_000, 100), (1_000_000, 200)),
}  # fmt: skip
"""Form, then (contender_iters, work_iters) of each published row; None is no contender."""

X86 = {
    "stadd": "lock_add",
    "llsc_add": "cmpxchg_loop_read_first",
    "ldadd": "lock_xadd",
    "prfm_keep_stadd": "prefetchw_lock_add",
    "prfm_strm_stadd": "prefetchw_lock_xadd",
}
"""x86 has no such forms: the nearest in role, so that the grid at least can be compared."""

PARAMETERS = (
    *usual(launches=1),
    word(
        "work_kind", "nop_loop memory",
        "what stands between operations: the published loop, or one that counts in memory",
    ),
    Parameter("means", "count", 100, "means that the percentiles are of, as published", 2, 100_000),
    Parameter(
        "window_ms", "ms", 20.0,
        "length of each mean's window; published: 10,000,000 operations", 0.01, 10_000,
    ),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """The published rows with this architecture's forms; one line and, unless told otherwise, one
    launch, as published."""
    values, arch = inputs.values, inputs.topology.arch
    if arch not in ("arm64", "x86_64", "i386"):
        what = f"no forms on {arch} that the published rows could be run with"
        raise UserError(what, "--plan published")
    forms = {form.name: form for form in inputs.forms_of(OPERATIONS, word=True)}
    if lacking := set(CELLS if arch == "arm64" else X86.values()) - set(forms):
        raise UserError(f"no forms {', '.join(sorted(lacking))} here", "--plan published")
    cells = []
    for name, points in CELLS.items():
        form = forms[name if arch == "arm64" else X86[name]]
        for spacing, work in points:
            where = {} if spacing is None else CONTENDED | {"contender_iters": spacing}
            kind = {"work_iters": work, "work": values["work_kind"]} if work else {}
            cells.append(Cell(**common(form), lines=1, **kind, **where))
    means = values["means"]
    return inputs.plan(
        "published", cells, contended_window_ms=values["window_ms"],
        min_windows=means, max_windows=max(512, means * 2),
    )  # fmt: skip


SUMMARY = "the cells of the arm64 table of November 2025"
PLAN = BuiltIn("published", SUMMARY, PARAMETERS, build, budget_s=300.0)
