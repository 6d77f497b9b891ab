# SPDX-License-Identifier: MIT
"""Every operation of the form table belongs to one family, and a family names only forms that
exist."""

from __future__ import annotations

import re

import pytest

from linewright.forms import FAMILIES, FLOORS, IDENTICAL, default_of, family_of
from support.forms import every_form
from support.places import ROOT

KERNEL = "".join(path.read_text() for path in (ROOT / "kmod").glob("*.c"))
"""The module's sources: their tables are no part of wire/forms."""
PER_CPU = re.findall(r"EXPLICIT_ROWS\((\w+)", KERNEL)
FORMS = (
    {form.name for form in every_form()}
    | {f"percpu_{where}_{form}" for form in PER_CPU for where in ("own", "shared")}
    | set(re.findall(r"PERCPU_LOOP\(loop_(\w+)", KERNEL))
)
DMA = set(re.findall(r'"(dma_(?!sg)\w+)"', KERNEL))


def test_every_operation_is_in_exactly_one_family():
    table = {form.operation for form in every_form()} | {"readers_grace"} | DMA
    named = [o for f in FAMILIES for o in (*f.operations, f.baseline_loop) if o]
    assert sorted(named) == sorted(set(named)), "an operation belongs to two families"
    assert set(named) == table, (
        "an operation of wire/forms has no family, or a family names one that does not exist"
    )


def test_defaults_floors_and_identical_forms_exist():
    defaults = {form for f in FAMILIES for forms in f.defaults.values() for form in forms} - {
        "default"
    }
    assert defaults <= FORMS and FLOORS <= FORMS and not defaults & FLOORS
    assert {form for groups in IDENTICAL.values() for group in groups for form in group} <= FORMS


@pytest.mark.parametrize(
    "operation", [o for f in FAMILIES if f.verdict == "forms" for o in f.operations]
)
def test_an_operation_has_a_default(operation):
    wanted = family_of(operation).defaults[operation]
    assert default_of(operation, ["another", wanted[-1]]) == wanted[-1]
    assert default_of(operation, ["one", "two"]) == "one", (
        "the order of the records decides, never the figures"
    )
