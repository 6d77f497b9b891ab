# SPDX-License-Identifier: MIT
"""Records of plan `spacing` on machines that are made up: what each operation costs at each
distance is stated, and launches and windows have luck."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from linewright.schema import Cell, Context, Record
from support.analysis_samples import contexts_of, together

DISTANCES = (8, 16, 32, 64, 128, 256, 512)
FORMS = {
    "apart_plain_add": ("apart_writers", 1.3, 25.0),
    "apart_c11_add": ("apart_writers", 5.0, 60.0),
    "apart_read": ("apart_reader", 0.4, 6.0),
    "apart_add_beside_reader": ("apart_writer", 1.3, 12.0),
    "apart_add_beside_shared": ("apart_shared", 120.0, 180.0),
}
"""Each form with its operation, and its ns far from the other thread's word and near it."""
Near = Callable[[str, str, int], bool | float]
"""Of a form, a half and a distance: whether it costs what it does near, or how many times what it
does far."""


def line_of(form: str, half: str, distance: int, bytes_: int = 64) -> bool:
    """The usual machine: words are near where they share a line."""
    return distance < bytes_


def costs(
    near: Near, halves: Sequence[str] = ("lower", "upper"), placebo: float = 1.0
) -> list[tuple[Cell, float]]:
    """Cells of every form with their costs; beside a placebo they cost `placebo` times as much as
    far apart."""
    answers = []
    for form, (operation, far_ns, near_ns) in FORMS.items():
        for half in halves:
            fields = {"operation": operation, "form": form, "threads": 2, "lines": 8}
            if operation != "apart_shared":
                beside = Cell(**fields, contender="placebo", params={"half": half})
                answers.append((beside, far_ns * placebo))
            for distance in DISTANCES:
                if operation == "apart_shared" and distance < 64:
                    continue
                params = {"bytes_apart": distance, "half": half}
                cell = Cell(**fields, contender="same_line", params=params)
                found = near(form, half, distance)
                times = found if not isinstance(found, bool) else near_ns / far_ns if found else 1.0
                answers.append((cell, far_ns * times))
    return answers


def machine(
    near: Near = line_of, seed: int = 1, count: int = 8, **more
) -> tuple[list[Context], list[Record]]:
    """Such a machine's contexts and records; `halves` and `placebo` as of `costs`, and the noise of
    `together`."""
    shape = {name: more.pop(name) for name in ("halves", "placebo") if name in more}
    records = together(costs(near, **shape), np.random.default_rng(seed), count=count, **more)
    return contexts_of(records, arch="x86_64", features=[], plan="spacing"), records
