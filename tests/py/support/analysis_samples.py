# SPDX-License-Identifier: MIT
"""Synthetic records and contexts whose truth is known, for the tests of linewright.analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from linewright.analysis.comparison import Comparison, Side, compared, judge
from linewright.analysis.contrast import ENDS, Contrast, with_model_error
from linewright.analysis.questions import QUESTIONS
from linewright.schema import Cell, Context, DrawnCosts, Record
from support import published as tables


def context(
    context_id: str = "00000000000000aa", machine_id: str = "00000000000000bb", **changes: object
) -> Context:
    fields: dict = dict(
        linewright_context=2,
        context_id=context_id,
        machine_id=machine_id,
        started_utc="2026-01-01T00:00:00Z",
        target="local",
        plan="quick",
        launch=0,
        tool_version="0.1.0",
        compiler="gcc",
        arch="arm64",
        cpu_model="synthetic",
        cpu_ids=[],
        features=["lse"],
        kernel="6.1",
        virtualised="no",
        emulated=False,
        cpus=[],
        line_bytes=64,
        page_bytes=4096,
        time_source="cntvct",
        tick_ns=1.0,
        timer_cost_ns=10.0,
        work_unit_ns=0.31,
        work_linearity=0.01,
        work_spread=0.01,
        nop_iter_ns=0.31,
        cycle_ns=0.31,
        governor="",
        smt="off",
        counters="unavailable",
        rseq="libc",
        locked_memory=False,
        realtime=False,
    )
    return Context(**(fields | changes))


OPERATIONS = {
    "stadd": "add",
    "llsc_add": "add",
    "ldadd": "fetch_add",
    "prfm_keep_stadd": "add",
    "prfm_strm_stadd": "add",
    "plain_add": "add",
    "lock_add": "add",
    "lock_xadd": "fetch_add",
    "prfm_strm_ldadd": "fetch_add",
    "prfm_keep_ldadd": "fetch_add",
    "llsc_fetch_add": "fetch_add",
    "prfm_strm_llsc_fetch_add": "fetch_add",
    "ldaddal": "fetch_add",
    "builtin_add": "add",
    "prefetchw_lock_add": "add",
    "prfm_strm_llsc_add": "add",
    "swp": "xchg",
    "prfm_strm_swp": "xchg",
    "llsc_swp": "xchg",
    "xchg": "xchg",
    "prefetchw_lock_xadd": "fetch_add",
    "builtin_fetch_add": "fetch_add",
    "builtin_xchg": "xchg",
    "prefetchw_xchg": "xchg",
    "prefetchw_cmpxchg_loop_read_first": "cmpxchg",
    "cmpxchg_loop_read_first": "cmpxchg",
    "cmpxchg_loop_guess_first": "cmpxchg",
    "builtin_cmpxchg_loop_read_first": "cmpxchg",
    "cas_loop_read_first": "cmpxchg",
    "prfm_strm_cas_loop_read_first": "cmpxchg",
    "llsc_cas_loop_read_first": "cmpxchg",
    "prfm_strm_llsc_cas_loop_read_first": "cmpxchg",
}


def cell(form: str = "stadd", **changes: object) -> Cell:
    return Cell(**(dict(operation=OPERATIONS.get(form, "add"), form=form) | changes))


def record(
    a_cell: Cell,
    windows: Sequence[float] = (),
    context_id: str = "00000000000000aa",
    launch: int = 0,
    **changes: object,
) -> Record:
    fields: dict = dict(
        linewright_record=2,
        context_id=context_id,
        id=a_cell.id,
        cell=a_cell,
        plan="quick",
        launch=launch,
        status="ok",
        window_ns=[float(x) for x in windows],
        window_line=[i % a_cell.lines for i in range(len(windows))],
    )
    return Record(**(fields | changes))


def launches(
    a_cell: Cell,
    median_ns: float,
    rng: np.random.Generator,
    count: int = 5,
    windows: int = 40,
    between: float = 0.03,
    within: float = 0.02,
    baseline_ns: float | None = None,
    prefix: str = "",
) -> list[Record]:
    """`count` launches of a cell: log-normal launch luck (`between`) and window noise (`within`),
    both relative."""
    answers = []
    for launch in range(count):
        luck = np.exp(rng.normal(0, between))
        values = median_ns * luck * np.exp(rng.normal(0, within, windows))
        extra = {}
        if baseline_ns is not None:
            extra["baseline_ns"] = list(baseline_ns * np.exp(rng.normal(0, within / 4, windows)))
        answers.append(
            record(a_cell, values, prefix + f"{launch:x}".zfill(16 - len(prefix)), launch, **extra)
        )
    return answers


def contexts_of(records: Sequence[Record], **changes: object) -> list[Context]:
    return [context(context_id=i, **changes) for i in dict.fromkeys(r.context_id for r in records)]


def correlated(
    rng: np.random.Generator, count: int, relative: float, correlation: float = 0.0
) -> np.ndarray:
    """Noise of successive windows (logarithms) with a lag-1 autocorrelation."""
    steps = rng.normal(0, relative, count)
    for i in range(1, count):
        steps[i] = correlation * steps[i - 1] + np.sqrt(1 - correlation**2) * steps[i]
    return steps


def together(
    costs: Sequence[tuple[Cell, float]],
    rng: np.random.Generator,
    count: int = 5,
    shared: float = 0.05,
    own: float = 0.01,
    within: float = 0.02,
    windows: int = 12,
    drift: float = 0.0,
    correlation: float = 0.0,
    unit_ns: float = 0.25,
    states: float = 1.0,
    prefix: str = "",
    first: int = 0,
) -> list[Record]:
    """Cells run together in `count` launches, each at its true exposed cost in ns (back to back:
    its issue interval).

    A launch has luck that falls on every cell of it (`shared`), luck of each cell's own (`own`), a
    drift from launch to launch, and with `states` above 1 each cell is slower by that factor in
    half of the launches, by chance.  With work the baseline loop takes `unit_ns` a unit."""
    answers = []
    for launch in range(first, first + count):
        luck = drift * launch + rng.normal(0, shared)
        for a_cell, cost in costs:
            factor = np.exp(luck + rng.normal(0, own)) * states ** rng.integers(0, 2)
            noise = np.exp(correlated(rng, windows, within, correlation))
            loop = a_cell.work_iters * unit_ns * np.exp(luck + rng.normal(0, within / 8, windows))
            extra = {
                "baseline_ns": (loop if a_cell.work_iters else loop + unit_ns).tolist(),
                "cpus": list(range(a_cell.threads)),
            }
            answers.append(
                record(
                    a_cell,
                    loop + cost * factor * noise,
                    prefix + f"{launch:x}".zfill(16 - len(prefix)),
                    launch,
                    **extra,
                )
            )
    return answers


def points(
    forms: Mapping[str, float],
    works: Sequence[int] = (0,),
    contended: Mapping[str, float] | None = None,
) -> list[tuple[Cell, float]]:
    """Cells of forms with their costs: alone at some work lengths, and with a second thread on the
    line."""
    cells = [(cell(form, work_iters=work), ns) for work in works for form, ns in forms.items()]
    shared = dict(contender="same_line", threads=2, lines=8)
    return cells + [
        (cell(form, work_iters=w, **shared), ns)
        for w in works
        for form, ns in (contended or {}).items()
    ]


def published() -> tuple[list[Context], list[Record]]:
    """The published arm64 server table as records."""
    return tables.published.from_table(tables.TABLE.read_text(), tables.TABLE.name)


def constructed(
    medians_ns: dict[str, float], machine_id: str, seed: int = 1
) -> tuple[list[Context], list[Record]]:
    """A machine made of published medians alone, alone and contended alike: five launches with an
    assumed 1 % noise."""
    costs = points(medians_ns, contended=medians_ns)
    records = together(
        costs,
        np.random.default_rng(seed),
        shared=0.01,
        own=0.005,
        within=0.01,
        prefix=machine_id[-2:],
    )
    name = "constructed from published medians, assumed noise 1 %"
    return contexts_of(
        records, machine_id=machine_id, target="constructed", cpu_model=name
    ), records


def slow_states(times_s: Sequence[float], dwell_s: float, rng: np.random.Generator) -> np.ndarray:
    """State (0 or 1) at rising times of a machine that changes between two states, each lasting
    `dwell_s` on average."""
    gaps = np.diff(times_s, prepend=times_s[0])
    changed = rng.random(len(times_s)) < (1 - np.exp(-2 * gaps / dwell_s)) / 2
    changed[0] = rng.random() < 0.5
    return np.cumsum(changed) % 2


def timed_launches(
    a_cell: Cell, medians_ns: Sequence[float], times_s: Sequence[float], rng: np.random.Generator
) -> list[Record]:
    """One launch for each median, begun at the time beside it, with 2 % noise between its
    windows."""
    return [
        record(
            a_cell, median * np.exp(rng.normal(0, 0.02, 12)), f"{i:016x}", i, started_s=float(time)
        )
        for i, (median, time) in enumerate(zip(medians_ns, times_s, strict=True))
    ]


def write(path: Path, contexts: list[Context], rows: list[Record]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in [*contexts, *rows]))
    return path.name


SIMULATED: dict = {"target": "simulated:mine", "features": ["lse"]}
"""Changes of the contexts of records that a model made."""


def simulation(
    costs: Sequence[tuple[Cell, float, DrawnCosts | None]], seed: int = 1, count: int = 5
) -> list[Record]:
    """Cells as a model records them: launches that differ by random numbers alone, 0.05 %, and the
    draws of the constants, of which the band is."""
    rng = np.random.default_rng(seed)
    known = {a_cell.id: drawn for a_cell, _, drawn in costs}
    quiet = dict(shared=0.0, own=0.0005, within=0.001)
    records = together([(a_cell, ns) for a_cell, ns, _ in costs], rng, count=count, **quiet)
    return [as_simulated(r, known[r.id]) for r in records]


def as_simulated(a_record: Record, drawn: DrawnCosts | None) -> Record:
    """A record as if a model had made it."""
    metrics = {}
    if drawn is not None:
        ends = np.percentile(with_model_error(drawn.ns, drawn.misses), ENDS)
        metrics = dict(zip(("p05_ns", "p95_ns"), map(float, ends), strict=True))
    return msgspec.structs.replace(a_record, flags=["simulated"], metrics=metrics, drawn=drawn)


def priced(
    value: float, low: float, high: float, launches: int = 5, over: str = "launches"
) -> Comparison:
    """A ratio as the price list compares it, with its interval."""
    p = 0.001 if not low <= 1 <= high else 0.5
    c = Contrast(
        scale="ratio", value=value, low=low, high=high, launches=launches, paired=True, p=p,
        spread=0.1, leverage=0.5, degrees=4.0, over=over,
    )  # fmt: skip
    side, asked = Side(id="", form="", ns=None), QUESTIONS["price"]
    judgement = judge(c, p, alpha=asked.alpha, same=asked.same.share)
    return compared(judgement, "price", side, side)
