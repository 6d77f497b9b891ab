# SPDX-License-Identifier: MIT
"""wire/schema.cpp refuses what linewright/schema.py refuses, and takes what it takes: every bound,
choice and type of a plan and its cells, as the JSON Schema made of schema.py states them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from linewright.errors import UserError
from linewright.records.files import decode_plan
from linewright.schema import schemas
from support.forms import every_form
from support.places import REAL

DEFINED = schemas()["plan"]["$defs"]
FORM = next(form for form in every_form() if form.name == "empty" and form.width_bits == 64)
CELL = {"operation": FORM.operation, "form": FORM.name}
PLAN = {"linewright_plan": 2, "name": "one", "min_windows": 1, "max_windows": 100_000}
BESIDE: dict[str, dict[str, Any]] = {
    "contender_iters": {"contender": "same_line", "threads": 2},
    "threads": {"contender": "same_line"},
    "contender": {"threads": 2},
}
"""What another field has to be for this one to be free."""
BEYOND = re.compile(
    "absent or offline|no event of the kernel|more than 6 events|unknown form|does not belong to"
    "|performs|takes no parameters|threads without a contender|needs at least 2 threads"
    "|for 1 threads"
)
"""What the probe alone can refuse: contradictions between fields, forms, CPUs and events that are
not there.  None of these words is of a check of one field."""
OF_ANY_TYPE = (None, True, -1, 0.5, "", "x", "Ü", [], {}, [[]], 10**30)
LONG = 70
"""Characters and elements that no field of text or list may have."""


def bounds(field: dict) -> Iterator[Any]:
    """Values at the bounds that a field's schema states, and just beyond them."""
    yield from (field.get("enum", []))
    whole = field.get("type") == "integer"
    step = 1 if whole else 1e-9
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if name in field:
            yield from (field[name] - step, field[name], field[name] + step)
    if field.get("type") == "string":
        yield from ("a", "a" * 64, "a" * 65, "A", "a-b", "a b", "a.b", "a_0", "cpus:", "cpus:0,1")
        yield from ("cpus:0,", "cpus:,1", "auto", "cpus:0;1", "msr/aperf/", "a\n")
    if field.get("type") == "array":
        inner = field.get("items", {})
        inner = DEFINED[inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
        yield from ([value] for value in bounds(inner))
        few = [next(iter(bounds(inner)), 1) for _ in range(LONG)]
        yield from (few[:size] for size in (0, 1, 2, 3, 16, 17, LONG))


def changes() -> Iterator[tuple[str, str, Any]]:
    """Of every field but the list of cells: at its bounds, and of every type."""
    for shape in ("Plan", "Cell"):
        for name, field in DEFINED[shape]["properties"].items():
            if name in ("cells", "params"):
                continue
            for value in (*bounds(field), *OF_ANY_TYPE):
                yield shape, name, value
        yield shape, "unknown", 1
    for value in (*OF_ANY_TYPE, 0, 2**53, 2**53 + 1, "a" * 64, "a" * 65, "a,b", "A", "1.5-x+y"):
        yield "Cell", "params", {"key": value}
    for name in ("a" * 64, "a" * 65, "A", "", "a.b"):
        yield "Cell", "params", {name: 1}


def text_of(shape: str, name: str, value: Any) -> bytes:
    cell, plan = CELL, PLAN
    if shape == "Cell":
        cell = CELL | BESIDE.get(name, {}) | {name: value}
    else:
        plan = PLAN | {name: value}
    return json.dumps(plan | {"cells": [cell]}).encode()


def here(text: bytes) -> bool:
    try:
        decode_plan(text, "plan")
    except UserError:
        return False
    return True


@pytest.mark.skipif(not REAL.exists(), reason="no probe built here")
def test_both_sides_refuse_the_same_plans():
    apart, asked, taken = [], 0, 0
    for shape, name, value in changes():
        text = text_of(shape, name, value)
        done = subprocess.run([REAL, "--check"], input=text, capture_output=True)
        said = done.stderr.decode()
        there = done.returncode == 0 or BEYOND.search(said) is not None
        asked, taken = asked + 1, taken + there
        if there != here(text):
            apart.append((shape, name, str(value)[:70], said))
    assert apart == []
    assert asked > 500 and taken > 100, "few plans tell nothing"
