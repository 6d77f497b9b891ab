# SPDX-License-Identifier: MIT
"""Small record files for the tests of the report: one for each plan, with known figures, and one
that means harm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from linewright.schema import Cell, Context, Cpu, Discards, Quantiles, Record
from support.analysis_samples import context

CPUS = [Cpu(cpu=i, core=i, l3=i // 2 * 2, socket=0, node=0) for i in range(4)]
HARM = (
    "</script><script>window.harm=1</script><img src=x "
    "onerror=window.harm=2>\"'`&{{7*7}}{%raw%}\u2028\u202e<!--"
)
"""What a record could say to a page that trusts it."""


def write(path: Path, values: Iterable[Context | Record]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in values))
    return str(path)


def run(
    cells: Iterable[tuple[Cell, float]],
    plan: str,
    machine: str = "00000000000000bb",
    launches: int = 5,
    seed: int = 1,
    **fields,
) -> list:
    """Contexts and records of some launches in which each cell has its time, give or take one
    percent."""
    rng = np.random.default_rng(seed)
    prefix = f"{abs(hash_of(plan + machine)) % 16**8:08x}"
    values: list[Context | Record] = []
    for launch in range(launches):
        name = f"{prefix}{seed:04x}{launch:04x}"
        described = {
            "cpu_model": "Sample one",
            "cpus": CPUS,
            "plan": plan,
            "launch": launch,
        } | fields
        values.append(context(name, machine, **described))
        values += [_record(cell, ns, name, plan, launch, rng) for cell, ns in cells]
    return values


def hash_of(text: str) -> int:
    """The same in every process, which the built-in one is not."""
    return sum(ord(c) * 31**i for i, c in enumerate(text))


def _record(
    cell: Cell, ns: float, name: str, plan: str, launch: int, rng: np.random.Generator
) -> Record:
    ns = float(ns)  # whole numbers would be written otherwise than they are read
    windows = [float(x) for x in ns * np.exp(rng.normal(0, 0.01, 12))]
    cpus = (
        [int(c) for c in cell.placement[5:].split(",")]
        if cell.placement.startswith("cpus:")
        else list(range(min(cell.threads, 4)))
    )
    return Record(
        linewright_record=2,
        context_id=name,
        id=cell.id,
        cell=cell,
        plan=plan,
        launch=launch,
        status="ok",
        stop="precision",
        cpus=cpus,
        placement_class="same_l3"
        if len(cpus) > 1 and cpus[0] // 2 == cpus[1] // 2
        else "other_l3"
        if len(cpus) > 1
        else "",
        window_ns=windows,
        window_line=[i % min(cell.lines, 12) for i in range(12)],
        baseline_ns=[0.3 * cell.work_iters] * 12,
        batch=Quantiles(
            of="batch_mean",
            ops_per_sample=100,
            samples=12,
            p50_ns=ns,
            p95_ns=1.2 * ns,
            p99_ns=1.5 * ns,
            max_ns=2 * ns,
            histogram=[],
        ),
        thread_ops=[
            1000 + i * (cell.contender_iters + cell.work_iters) for i in range(cell.threads)
        ],
        thread_ns=[ns] * cell.threads,
        total_mops=1000 * cell.threads / ns,
        fairness=0.9 if cell.threads > 1 else 1.0,
    )


def matrix() -> list[tuple[Cell, float]]:
    """Two forms of add that cross over between 20 and 200 iterations of work, under each
    contention."""
    cells = []
    for work in (0, 20, 200):
        for form, ns in (
            ("stadd", 8 + 0.3 * work),
            ("ldadd", (4 if work < 100 else 20) + 0.3 * work),
            ("plain_add", 1 + 0.3 * work),
        ):
            shared = {
                "operation": "fetch_add" if form == "ldadd" else "add",
                "form": form,
                "work_iters": work,
                "lines": 12,
            }
            cells.append((Cell(**shared), ns))
            cells.append((Cell(**shared, contender="placebo", threads=2), ns))
            if form != "plain_add":
                cells.append(
                    (Cell(**shared, contender="same_line", threads=2, contender_iters=1000), 2 * ns)
                )
                cells.append((Cell(**shared, contender="same_line", threads=2), 5 * ns))
    return cells


def handoff() -> list[tuple[Cell, float]]:
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    return [
        (
            Cell(
                operation="handoff",
                form=form,
                order="full",
                contender="same_line",
                threads=2,
                placement=f"cpus:{a},{b}",
            ),
            ns * (1 if a // 2 == b // 2 else 3),
        )
        for a, b in pairs
        for form, ns in (("cmpxchg_blind", 60), ("store_load", 80))
    ]


def percpu() -> list[tuple[Cell, float]]:
    return [
        (
            Cell(
                operation="percpu_add",
                form=form,
                work_iters=work,
                params={"slots": slots},
                **threads,
            ),
            ns + 0.3 * work,
        )
        for form, ns in (("percpu_rseq_add", 0.9), ("percpu_shared_lock_add", 5.0))
        for work in (0, 20)
        for slots in (1, 16)
        for threads in ({}, {"threads": 2, "contender": "same_line"})
    ]


def cache() -> list[tuple[Cell, float]]:
    """Exactly 2 ns a line, 1 ns an entry and 100 ns a wait."""
    cells = []
    for size in (64, 512, 4096, 32768):
        for entries in (64, 16):
            for wait in ("each", "once"):
                params = {
                    "wait": wait,
                    "entry_bytes": size,
                    "entries": entries,
                    "state": "dirty_beyond",
                    "align_bytes": 0,
                }
                waits = entries if wait == "each" else 1
                cells.append(
                    (
                        Cell(
                            operation="clean", form="dc_cvac", width_bits=8, lines=1, params=params
                        ),
                        size / 64 * entries * 2 + entries + waits * 100,
                    )
                )
    return cells


def wide() -> list[tuple[Cell, float]]:
    return [
        (
            Cell(
                operation="wide_read",
                form=form,
                width_bits=128,
                params={"write_percent": share},
                **threads,
            ),
            ns * (1 + share / 10),
        )
        for form, ns in (("ldp_read", 1.5), ("casp_read", 20.0))
        for share in (0, 10, 50)
        for threads in ({}, {"threads": 2, "contender": "same_line", "placement": "cpus:0,1"})
    ]


def operations() -> list[tuple[Cell, float]]:
    return [
        (
            Cell(
                operation="library_fetch_add",
                form=f"op_fetch_add_{order}",
                width_bits=width,
                order=order,
                params={"policy": policy},
            ),
            3.0 + width / 64,
        )
        for width in (32, 64)
        for order in ("relaxed", "full")
        for policy in ("default", "store+prefetch")
    ]


def readers() -> list[tuple[Cell, float]]:
    cells = []
    for form, pair, grace in (("srcu_fast", 2.0, 35000.0), ("srcu", 15.0, 400.0)):
        shared = {"form": form, "width_bits": 8, "order": "acq_rel"}
        together = {"threads": 2, "contender": "same_line"}
        cells.append((Cell(operation="readers_pair", params={"read_delay": 0}, **shared), pair))
        cells.append(
            (Cell(operation="readers_pair", params={"read_delay": 0}, **shared, **together), pair)
        )
        cells.append(
            (
                Cell(
                    operation="readers_grace",
                    params={"read_delay": 0, "updater": "synchronize"},
                    **shared,
                ),
                grace,
            )
        )
        cells.append(
            (
                Cell(
                    operation="readers_grace",
                    params={"read_delay": 0, "updater": "synchronize"},
                    **shared,
                    **together,
                ),
                2 * grace,
            )
        )
    cells.append(
        (
            Cell(
                operation="readers_floor",
                form="acqrel",
                width_bits=8,
                order="acq_rel",
                params={"read_delay": 0},
            ),
            1.0,
        )
    )
    return cells


PLANS = {
    "rmw": matrix,
    "handoff": handoff,
    "percpu": percpu,
    "cache": cache,
    "wide": wide,
    "operations": operations,
    "readers": readers,
}
SECTIONS = {
    "rmw": ["matrix", "explore"],
    "handoff": ["explore", "handoff"],
    "percpu": ["prices", "explore"],
    "cache": ["explore", "cache"],
    "wide": ["explore"],
    "operations": ["explore"],
    "readers": ["prices", "explore", "readers"],
}
"""Sections that each plan's records have something for, besides those of every page."""


def sample(plan: str, **fields) -> list[Context | Record]:
    return run(PLANS[plan](), plan, **fields)


def hostile(most: float = 1e18) -> list[Context | Record]:
    """Every free text says HARM; figures are as large as they may be; one cell is broken in each
    way."""
    values = run(
        matrix(),
        "rmw",
        cpu_model=HARM,
        kernel=HARM,
        boot_parameters=HARM,
        compiler=HARM,
        features=[HARM],
        cpu_ids=[HARM],
        governor=HARM,
        target=HARM,
        started_utc=HARM,
        rseq=HARM,
        tool_version=HARM,
    )
    name = values[0].context_id
    cell = Cell(operation="add", form="x" * 64, params={"p" * 60: "v" * 64})
    worst = dict(linewright_record=2, context_id=name, plan="rmw", launch=0)
    values.append(
        Record(
            **worst,
            id=cell.id,
            cell=cell,
            status="unreliable",
            reason=HARM,
            window_ns=[most] * 8,
            total_mops=most,
            baseline_ns=[-most] * 8,
            metrics={"m" * 64: most},
            discarded=Discards(stolen=2**53, long_batch=1),
        )
    )
    for status in ("error", "unavailable"):
        broken = Cell(operation="add", form=f"form_{status}", work_iters=20)
        values.append(
            Record(
                **worst, id=broken.id, cell=broken, status=status, reason=HARM, flags=["odd_flag"]
            )
        )
    below = Cell(operation="add", form="below_zero", work_iters=20)
    values.append(
        Record(
            **worst,
            id=below.id,
            cell=below,
            status="ok",
            window_ns=[-5.0, 0.0, 1e-300] * 4,
            baseline_ns=[1.0] * 12,
        )
    )
    return values
