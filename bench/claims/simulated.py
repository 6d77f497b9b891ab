# SPDX-License-Identifier: MIT
"""Machines whose truth is known: records with launch luck, drift, states and autocorrelated
windows, by one description."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from linewright.schema import Cell, Context, Record

WINDOWS = 12
PLACES = 4
"""Placements of code that launches take in turn, as the probe's do."""
UNIT_NS = 0.25
"""Time of one unit of work."""
FORMS = {
    "x86_64": {
        "lock_add": "add",
        "builtin_add": "add",
        "prefetchw_lock_add": "add",
        "lock_xadd": "fetch_add",
        "builtin_fetch_add": "fetch_add",
        "prefetchw_lock_xadd": "fetch_add",
        "xchg": "xchg",
        "builtin_xchg": "xchg",
        "prefetchw_xchg": "xchg",
        "cmpxchg_loop_read_first": "cmpxchg",
        "builtin_cmpxchg_loop_read_first": "cmpxchg",
        "prefetchw_cmpxchg_loop_read_first": "cmpxchg",
        "cmpxchg_loop_guess_first": "cmpxchg",
    },
    "arm64": {
        "ldadd": "fetch_add",
        "prfm_strm_ldadd": "fetch_add",
        "stadd": "add",
        "prfm_strm_stadd": "add",
        "llsc_add": "add",
        "swp": "xchg",
        "prfm_strm_swp": "xchg",
        "cas_loop_read_first": "cmpxchg",
        "prfm_strm_cas_loop_read_first": "cmpxchg",
    },
}
"""Forms of plan `quick` on one line, with their operations."""


@dataclass(frozen=True)
class Noise:
    """How launches differ.  Deviations are relative (of the logarithm)."""

    shared: float = 0.10
    """Between launches, on every cell of a launch alike: frequency, pages, neighbours."""
    own: float = 0.033
    """Between launches, on each cell by itself: placement of its own lines and code."""
    drift: float = 0.0
    """From launch to launch, on every cell alike."""
    within: float = 0.02
    """Between windows of one launch."""
    correlation: float = 0.0
    """Lag-1 autocorrelation of those."""
    rounds: float = 0.0
    """Between rounds of one launch, on every cell of a round alike."""
    rounds_correlation: float = 0.0
    """Lag-1 autocorrelation of those."""
    contended: float = 1.0
    """Deviations of windows and rounds are this many times as large where the line is contended."""
    lost: float = 0.0
    """Share of windows that are discarded, each by its own chance."""
    windows: int = WINDOWS
    """Rounds of a launch."""
    states: float = 1.0
    """Contended cells are this many times slower in half of the launches, each cell by its own
    chance."""
    placed: float = 0.0
    """Between placements of code, on each cell by itself: a placement comes again every `PLACES`
    launches."""
    unequal: float = 1.0
    """Own deviation of one cell in `every`, spread over forms and conditions, is this many times as
    large."""
    every: int = 3
    anew: bool = False
    """In rule.py, where these are the same forms under every condition: drawn for each instead."""


RECORDED_VM = Noise(
    own=0.03, within=0.03, rounds=0.028, rounds_correlation=0.5, contended=9, lost=0.15, windows=28
)  # fmt: skip
"""A Zen 3 VM with two CPUs: the logarithm of a form's contended windows has a standard deviation of
0.37, of 0.27 after what all forms of a round share, whose lag-1 autocorrelation is 0.3 to 0.7;
launches add little. A neighbour takes some of the windows, of which plan `quick` has 28 and more a
launch where something is open."""


def noise_of(
    spread: float, own_share: float = 1 / 3, inside: Noise = Noise(), **more: float
) -> Noise:
    """A spread between launches of which a third (or `own_share`) is each cell's own and the rest
    falls on all alike, and the noise that `inside` has in a launch."""
    own = spread * own_share
    return replace(inside, shared=(spread**2 - own**2) ** 0.5, own=own, **more)


def cells(
    arch: str, works: Sequence[int] = (0, 20, 200), spacings: Sequence[int] = (0, 100)
) -> list[Cell]:
    """The cells of plan `quick` on one line: every form alone and with a second thread, at each
    work length."""
    made = []
    for work in works:
        for form, operation in FORMS[arch].items():
            made.append(Cell(operation=operation, form=form, work_iters=work))
            for spacing in spacings:
                made.append(
                    Cell(
                        operation=operation,
                        form=form,
                        work_iters=work,
                        contender="same_line",
                        contender_iters=spacing,
                        threads=2,
                        lines=8,
                    )
                )
    return made


def priced_cells() -> list[Cell]:
    """The cells of the price list that have both an alone and a contended figure."""
    forms = {
        "percpu_add": (
            "percpu_rseq_add",
            "percpu_shared_c11_add",
            "percpu_false_sharing_add",
            "percpu_padded_add",
        ),
        "readers_pair": ("srcu_fast", "srcu", "rwlock", "mutex"),
    }
    params = {"percpu_add": {"slots": 1}, "readers_pair": {"read_delay": 0}}
    return [
        Cell(
            operation=operation,
            form=form,
            params=params[operation],
            contender=contender,
            threads=threads,
            lines=8,
        )
        for operation, names in forms.items()
        for form in names
        for contender, threads in (("none", 1), ("same_line", 2))
    ]


def context(context_id: str, arch: str, started_s: int, place: int = 0) -> Context:
    features = ["lse"] if arch == "arm64" else ["prefetchw"]
    return Context(
        linewright_context=2,
        context_id=context_id,
        machine_id="00000000000000bb",
        target="local",
        started_utc=f"2026-01-01T{started_s // 3600:02d}:{started_s // 60 % 60:02d}"
        f":{started_s % 60:02d}Z",
        plan="quick",
        launch=0,
        tool_version="0.1.0",
        compiler="none",
        arch=arch,
        cpu_model="simulated",
        cpu_ids=[],
        features=features,
        kernel="none",
        virtualised="no",
        emulated=False,
        cpus=[],
        line_bytes=64,
        page_bytes=4096,
        time_source="tsc",
        tick_ns=1.0,
        timer_cost_ns=10.0,
        work_unit_ns=UNIT_NS,
        nop_iter_ns=UNIT_NS,
        cycle_ns=UNIT_NS,
        governor="",
        smt="off",
        counters="unavailable",
        rseq="libc",
        locked_memory=False,
        realtime=False,
        loop_offset_bytes=16 * place,
    )


def series(rng: np.random.Generator, shape: tuple[int, ...], correlation: float) -> np.ndarray:
    """Autoregressive along the last axis, standard deviation 1."""
    x = rng.standard_normal(shape)
    for i in range(1, shape[-1]) if correlation else ():
        x[..., i] = correlation * x[..., i - 1] + np.sqrt(1 - correlation**2) * x[..., i]
    return x


def launch(
    plan: Sequence[Cell],
    costs: Mapping[str, float],
    noise: Noise,
    rng: np.random.Generator,
    state: float,
    named: tuple[str, str, int, int],
    place: tuple[int, Mapping[str, float]],
) -> tuple[Context, list[Record]]:
    """One launch in a machine's state (a logarithm that falls on every cell); `named`: context,
    architecture, number, start; `place`: which placement of code, and each cell's luck there."""
    context_id, arch, number, at = named
    luck = noise.drift * number + state
    records = []
    shape = (noise.windows,)
    rounds = noise.rounds * series(rng, shape, noise.rounds_correlation)
    loops = {
        work: work * UNIT_NS * np.exp(luck + rng.normal(0, 0.002, noise.windows))
        for work in {cell.work_iters for cell in plan}
    }
    for cell in plan:
        own = noise.own * (
            noise.unequal if zlib.crc32(cell.id.encode()) % noise.every == 0 else 1.0
        )
        slow = noise.states ** rng.integers(0, 2) if cell.contender == "same_line" else 1.0
        cost = costs[cell.id] * slow * np.exp(luck + rng.normal(0, own) + place[1][cell.id])
        loop, scale = loops[cell.work_iters], noise.contended if cell.contender != "none" else 1.0
        within = noise.within * series(rng, shape, noise.correlation)
        windows = loop + cost * np.exp(scale * (rounds + within))
        kept = np.flatnonzero(rng.random(noise.windows) >= noise.lost)
        records.append(
            Record(
                linewright_record=2,
                context_id=context_id,
                id=cell.id,
                cell=cell,
                plan="quick",
                launch=number,
                status="ok",
                cpus=list(range(cell.threads)),
                window_ns=windows[kept].tolist(),
                window_round=kept.tolist(),
                window_line=[int(i) % cell.lines for i in kept],
                baseline_ns=(loop if cell.work_iters else loop + UNIT_NS)[kept].tolist(),
            )
        )
    return context(context_id, arch, at, place[0]), records


def run(
    plan: Sequence[Cell],
    costs: Mapping[str, float],
    noise: Noise,
    rng: np.random.Generator,
    arch: str,
    numbers: Sequence[int] = range(5),
    prefix: str = "a",
    states: Sequence[float] | None = None,
) -> tuple[list[Context], list[Record]]:
    """Launches at these numbers in the machine's drift and time (10 s each), each in a state of its
    own or in the given."""
    contexts, records = [], []
    places = [
        {cell.id: rng.normal(0, noise.placed) if noise.placed else 0.0 for cell in plan}
        for _ in range(PLACES)
    ]
    for i, number in enumerate(numbers):
        state = rng.normal(0, noise.shared) if states is None else states[i]
        name = prefix + f"{i:x}".zfill(15)
        place = i % PLACES
        made, rows = launch(
            plan,
            costs,
            noise,
            rng,
            state,
            (name, arch, number, 10 * number),
            (place, places[place]),
        )
        contexts.append(made)
        records += rows
    return contexts, records
