# SPDX-License-Identifier: MIT
"""Plan `wide`: reads and writes wider than a register, 8 bytes on i386 and 16 elsewhere, in every
share of writes; and the experiment of 2009: N threads that do nothing but read one location."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans.definition import BuiltIn, Inputs, Parameter, usual, word, words
from linewright.plans.grid import CONTENDED, by_point, common
from linewright.schema import Cell, Plan
from linewright.target import Topology

OPERATIONS = ("wide_read", "wide_write", "wide_add")

PUBLISHED = ("read_twice_cmpxchg8b_verify", "cmpxchg8b_read_once", "movq_read", "fild_read")
"""The two reads of 2009 and what user space has besides."""
PUBLISHED_128 = (
    "read_twice_cmpxchg16b_verify", "cmpxchg16b_read_once", "movdqa_read",
    "ldxp_stxp_read", "casp_read", "ldp_read",
)  # fmt: skip
"""The same question asked of 16 bytes."""

READ_NS = 20.0
"""What a read of the published experiment is taken to cost per thread when the length of its
windows is chosen."""

PARAMETERS = (
    word("experiment", "mix published", "the mix of reads and writes, or the reads of 2009"),
    words("operations", OPERATIONS, "forms of which operations are measured"),
    Parameter(
        "writes", "counts", [0, 1, 10, 50, 100], "writes among a hundred operations", 0, 100
    ),
    Parameter(
        "threads", "counts", [1, 2],
        "threads, the timed one included, that all run the same mix", 1, 4096,
    ),
    Parameter(
        "reads", "count", 10_000_000,
        "reads of each thread in the published experiment", 1000, 10_000_000_000,
    ),
    word("rounds", "yes no", "cells that count failed rounds, beside those that are timed"),
    Parameter("lines", "count", 8, "lines that each cell visits", 1, 4096),
    *usual(launches=5, contended_window_ms=20.0),
)  # fmt: skip


def build(inputs: Inputs) -> Plan:
    """The mix, or the published experiment; UserError where there is nothing wider than a register
    to run."""
    forms = [form for form in inputs.forms if form.operation in OPERATIONS]
    if not forms:
        what = "no wide forms on this architecture"
        raise UserError(what, "--plan wide", "x86_64, i386 and arm64 have them")
    values = inputs.values
    if values["experiment"] == "published":
        return _published(inputs, forms)
    cells = [
        cell
        for form in forms
        if form.operation in values["operations"]
        for share in values["writes"]
        if _says_something(form, share)
        for cell in _of_share(form, share, values, inputs.topology)
    ]
    return inputs.plan("wide", by_point(cells), min_windows=4, max_windows=64)


def _says_something(form: Form, share: int) -> bool:
    """Whether the form is run at all: reads where something is read, writes and adds where
    something is written."""
    return share < 100 if form.operation == "wide_read" else share > 0


def _of_share(form: Form, share: int, values: dict[str, Any], topology: Topology) -> Iterator[Cell]:
    shared = {**common(form), "lines": values["lines"], "params": {"write_percent": share}}
    for threads in values["threads"]:
        if threads == 1:
            yield Cell(**shared)
            continue
        for placement in _placements(topology, threads):
            contended = shared | CONTENDED | {"placement": placement, "threads": threads}
            yield Cell(**contended)
            if values["rounds"] == "yes" and form.made_of.retries:
                yield Cell(**{**contended, "params": {"write_percent": share, "rounds": "counted"}})


def _placements(topology: Topology, threads: int) -> list[str]:
    """One pair of each class of nearness for two threads; more threads stand where the probe puts
    them."""
    if threads != 2:
        return ["auto"]
    return [f"cpus:{pairs[0]}" for pairs in topology.pairs.values() if pairs] or ["auto"]


def _published(inputs: Inputs, forms: list[Form]) -> Plan:
    values = inputs.values
    by_name = {form.name: form for form in forms}
    names = PUBLISHED if inputs.topology.arch == "i386" else PUBLISHED_128
    asked = values["threads"] != [1, 2]
    threads = max(values["threads"]) if asked else max(len(inputs.topology.usable()), 1)
    shared = {"lines": 1, "threads": threads, "params": {"write_percent": 0}}
    shared["contender"] = "same_line" if threads > 1 else "none"
    cells = [Cell(**common(by_name[name]), **shared) for name in names if name in by_name]
    window_ms = min(10_000.0, values["reads"] * READ_NS * threads / 1e6)
    return inputs.plan(
        "wide", cells, window_ms=window_ms, contended_window_ms=window_ms,
        min_windows=1, max_windows=3,
    )  # fmt: skip


SUMMARY = (
    "8 bytes on i386, 16 elsewhere: every form in every share of writes, or the 2009 experiment "
    "(experiment=published)"
)
PLAN = BuiltIn("wide", SUMMARY, PARAMETERS, build, budget_s=240.0)
