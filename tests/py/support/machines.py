# SPDX-License-Identifier: MIT
"""Eight synthetic machines whose truth is known, measured by plan `quick`: for the golden text of
the screen.

Every figure here is made up to show one situation; the CPU names say so.  No test of the statistics
rests on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from linewright.schema import Cell, Context, Cpu, Record
from support.analysis_samples import context

LAUNCHES = 5
WINDOWS = 12
WORKS = (0, 20, 200)
UNIT_NS = 0.25
"""One unit of work."""


class Form(NamedTuple):
    """What one form costs on a machine: alone back to back, and with a second CPU on its line."""

    alone: float
    contended: float
    order: str = "relaxed"
    hidden: float = 0.0
    """ns of work that run beside the operation: work of this length leaves none of its cost
    exposed."""


class Machine(NamedTuple):
    """A machine, its forms by operation, and how steady its launches are."""

    name: str
    arch: str
    cpus: int
    forms: Mapping[str, Mapping[str, Form]]
    prices: Mapping[tuple[str, str], tuple[float | None, float | None]]
    """(operation, form) of the price list to its cost alone and contended."""
    virtualised: str = "no"
    between: float = 0.01
    """Relative deviation of launches that all forms share."""
    apart: float = 0.004
    """Relative deviation of launches that each form has for itself."""
    contended_between: float = 0.05
    modes: tuple[float, ...] = ()
    """Factors of the contended figures, launch by launch: a metastable machine."""
    launches: int = LAUNCHES
    features: tuple[str, ...] = ()
    placement: str = "same_l3"
    cycle_ns: float = 0.25


def x86_forms(contended: float, alone: float = 5.2) -> dict[str, dict[str, Form]]:
    locked = Form(alone, contended, "full", hidden=alone)
    loop = Form(alone, 2.5 * contended, "full", hidden=alone)
    guess = Form(2 * alone, 2.4 * contended, "full", hidden=alone)
    return {
        "add": {"lock_add": locked, "builtin_add": locked, "prefetchw_lock_add": locked},
        "fetch_add": {
            "lock_xadd": locked,
            "builtin_fetch_add": locked,
            "prefetchw_lock_xadd": locked,
        },
        "xchg": {"xchg": locked, "builtin_xchg": locked, "prefetchw_xchg": locked},
        "cmpxchg": {
            "cmpxchg_loop_read_first": loop,
            "builtin_cmpxchg_loop_read_first": loop,
            "prefetchw_cmpxchg_loop_read_first": loop,
            "cmpxchg_loop_guess_first": guess,
            "prefetchw_cmpxchg_loop_guess_first": guess,
        },
        "read": {
            "mov_read": Form(0.26, 0.3, "acquire", 1.0),
            "builtin_read": Form(0.26, 0.3, "relaxed", 1.0),
        },
    }


def arm64_forms(store: Form, load: Form, llsc: Form) -> dict[str, dict[str, Form]]:
    """`store`: STADD and, since its value is not wanted, its like; `load`: LDADD, SWP, CAS; `llsc`:
    LL/SC loops."""
    prefetched = Form(load.alone + 0.4, 0.6 * load.contended, hidden=load.hidden)
    return {
        "add": {
            "stadd": store,
            "prfm_keep_stadd": store._replace(alone=store.alone + 0.4),
            "prfm_strm_stadd": store._replace(alone=store.alone + 0.4),
            "llsc_add": llsc,
            "prfm_strm_llsc_add": llsc._replace(contended=0.7 * llsc.contended),
        },
        "fetch_add": {
            "ldadd": load,
            "ldaddal": load._replace(alone=load.alone + 1.0, order="seq_cst"),
            "prfm_keep_ldadd": prefetched,
            "prfm_strm_ldadd": prefetched,
            "llsc_fetch_add": llsc,
        },
        "xchg": {"swp": load, "llsc_swp": llsc, "prfm_strm_swp": prefetched},
        "cmpxchg": {
            "cas_loop_read_first": load._replace(
                alone=load.alone + 1.5, contended=2 * load.contended
            ),
            "cas_loop_guess_first": load._replace(
                alone=2 * load.alone + 1.5, contended=2 * load.contended
            ),
            "llsc_cas_loop_read_first": llsc,
        },
        "read": {"ldr_read": Form(0.3, 0.5, hidden=1.0)},
    }


def prices(
    contended: float, clean: str = "clwb", alone: float = 5.2
) -> dict[tuple[str, str], tuple]:
    return {
        ("percpu_none", "percpu_empty"): (0.2, None),
        ("percpu_add", "percpu_thread_local_add"): (0.3, None),
        ("percpu_add", "percpu_rseq_add"): (0.9, 0.92),
        ("percpu_add", "percpu_shared_c11_add"): (alone, contended),
        ("percpu_add", "percpu_false_sharing_add"): (None, 0.95 * contended),
        ("percpu_add", "percpu_padded_add"): (None, alone),
        ("readers_none", "readers_empty"): (0.2, None),
        ("readers_pair", "srcu_fast"): (2.1, 2.2),
        ("readers_pair", "srcu"): (14.2, 14.4),
        ("readers_pair", "rwlock"): (2 * alone + 0.3, 5 * contended),
        ("readers_pair", "mutex"): (2 * alone, 4 * contended),
        ("readers_grace", "srcu_fast"): (None, 26_000.0),
        ("clean", clean): (118.0, None),
    }


MACHINES: dict[str, Callable[[], Machine]] = {
    "x86-vm": lambda: Machine(
        "synthetic x86-64 VM",
        "x86_64",
        2,
        x86_forms(15.5),
        prices(15.5),
        virtualised="yes",
        contended_between=0.12,
    ),
    "x86-metal": lambda: Machine(
        "synthetic x86-64 server", "x86_64", 16, x86_forms(44.0), prices(44.0)
    ),
    "arm64-near": lambda: Machine(
        "synthetic arm64, near atomics",
        "arm64",
        8,
        arm64_forms(
            Form(4.3, 44.0, hidden=4.3), Form(4.3, 44.0, hidden=4.3), Form(6.9, 130.0, hidden=2.0)
        ),
        prices(44.0, "dc_cvac", 4.3),
        features=("lse",),
    ),
    "arm64-far": lambda: Machine(
        "synthetic arm64, far store forms",
        "arm64",
        64,
        arm64_forms(
            Form(63.7, 34.0, hidden=63.7), Form(4.3, 88.0, hidden=4.3), Form(6.9, 190.0, hidden=2.0)
        ),
        prices(88.0, "dc_cvac", 4.3),
        features=("lse",),
    ),
    "x86-256": lambda: Machine(
        "synthetic x86-64, two sockets",
        "x86_64",
        256,
        x86_forms(240.0),
        prices(240.0),
        placement="other_socket",
    ),
    "one-cpu": lambda: Machine(
        "synthetic x86-64, one CPU", "x86_64", 1, x86_forms(0.0), prices(0.0)
    ),
    "metastable": lambda: Machine(
        "synthetic x86-64, metastable",
        "x86_64",
        2,
        x86_forms(25.0),
        prices(25.0),
        modes=(1.0, 1.02, 3.9, 1.01, 4.1, 1.0, 4.0, 3.95),
        launches=8,
    ),
    "undecided": lambda: Machine(
        "synthetic x86-64, noisy",
        "x86_64",
        4,
        x86_forms(20.0),
        prices(20.0),
        apart=0.2,
        contended_between=0.4,
    ),
}


def _cells(m: Machine) -> Iterator[tuple[Cell, Form]]:
    """Plan `quick`: every form alone, beside a placebo and contended; then the cells of the price
    list."""
    yield from (
        (Cell(operation="none", form="empty", work_iters=work), Form(0.2, 0.2)) for work in WORKS
    )
    for operation, forms in m.forms.items():
        for form, cost in forms.items():
            for work in WORKS:
                cell = {
                    "operation": operation,
                    "form": form,
                    "order": cost.order,
                    "work_iters": work,
                }
                yield Cell(**cell), cost
                if m.cpus > 1:
                    yield Cell(**cell, contender="placebo", threads=2), cost
                    yield Cell(**cell, contender="same_line", threads=2, lines=8), cost
    for (operation, form), (alone, contended) in m.prices.items():
        width = 8 if operation.startswith(("readers", "clean")) else 64
        params = {"slots": 1} if operation.startswith("percpu") else {"read_delay": 0}
        if operation == "readers_grace":
            params["updater"] = "synchronize"
        if operation == "clean":
            params = {
                "align_bytes": 0,
                "entries": 1,
                "entry_bytes": 64,
                "state": "dirty_l1",
                "wait": "once",
            }
        cell = {"operation": operation, "form": form, "width_bits": width, "params": params}
        if operation.startswith("clean"):
            cell["lines"] = 1
        if alone is not None:
            yield Cell(**cell), Form(alone, 0.0)
        if contended is not None and m.cpus > 1:
            yield Cell(**cell, contender="same_line", threads=2, lines=8), Form(0.0, contended)


def _ns(cell: Cell, cost: Form) -> tuple[float, float]:
    """What the loop takes, and the same loop without the operation."""
    baseline = 0.2 + UNIT_NS * cell.work_iters
    if cell.operation in ("none", "percpu_none", "readers_none"):
        return baseline, baseline
    own = cost.contended if cell.contender == "same_line" else cost.alone
    if not cell.work_iters:
        return own, baseline
    exposed = max(0.0, own - min(cost.hidden, UNIT_NS * cell.work_iters)) + 0.05
    return baseline + exposed, baseline


def records(name: str) -> list[Context | Record]:
    """Contexts and records of one of `MACHINES`, launch by launch; the same for every call."""
    m = MACHINES[name]()
    rng = np.random.default_rng(sum(map(ord, name)))
    values: list[Context | Record] = []
    for launch in range(m.launches):
        context_id = f"{sum(map(ord, name)):08x}{launch:08x}"
        values.append(_context(m, name, context_id, launch))
        luck = np.exp(rng.normal(0, m.between))
        shared = np.exp(rng.normal(0, m.contended_between)) * (
            m.modes[launch % len(m.modes)] if m.modes else 1.0
        )
        values += [
            _record(m, cell, cost, context_id, launch, luck, shared, rng)
            for cell, cost in _cells(m)
        ]
    return values


def _context(m: Machine, name: str, context_id: str, launch: int) -> Context:
    half = max(1, m.cpus // 2)
    cpus = [
        Cpu(
            cpu=i, core=i, l3=(i // 8) * 8, socket=i // half if m.placement == "other_socket" else 0
        )
        for i in range(m.cpus)
    ]
    return context(
        context_id,
        f"{sum(map(ord, name)):016x}",
        arch=m.arch,
        cpu_model=m.name,
        cpus=cpus,
        launch=launch,
        launches=m.launches,
        started_utc=f"2026-01-01T00:00:{10 * launch % 60:02d}Z",
        virtualised=m.virtualised,
        kernel="Linux 6.12",
        features=list(m.features),
        cycle_ns=m.cycle_ns,
        work_unit_ns=UNIT_NS,
        time_source="cntvct" if m.arch == "arm64" else "tsc",
    )


def _record(
    m: Machine,
    cell: Cell,
    cost: Form,
    context_id: str,
    launch: int,
    luck: float,
    shared: float,
    rng: np.random.Generator,
) -> Record:
    ns, baseline = _ns(cell, cost)
    contended = cell.contender == "same_line"
    if m.modes and cell.operation.startswith(("percpu", "readers", "clean")):
        shared = 1.0
    own = luck * np.exp(rng.normal(0, m.apart)) * (shared if contended else 1.0)
    windows = (
        baseline + (ns - baseline) * own * np.exp(rng.normal(0, 0.005, WINDOWS))
        if cell.work_iters
        else None
    )
    if windows is None:
        windows = ns * own * np.exp(rng.normal(0, 0.005, WINDOWS))
    return Record(
        linewright_record=2,
        context_id=context_id,
        id=cell.id,
        cell=cell,
        plan="quick",
        launch=launch,
        status="ok",
        started_s=0.5,
        stop="budget",
        cpus=list(range(cell.threads)),
        placement_class=m.placement if cell.threads > 1 else "",
        window_ns=[round(float(x), 4) for x in windows],
        window_line=[i % cell.lines for i in range(WINDOWS)],
        baseline_ns=[round(float(x), 4) for x in baseline * np.exp(rng.normal(0, 0.001, WINDOWS))],
        thread_ops=[10_000] * cell.threads,
        thread_ns=[ns] * cell.threads,
        total_mops=round(1000 * cell.threads / ns, 3),
    )
