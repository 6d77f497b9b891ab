# SPDX-License-Identifier: MIT
"""Plan `spacing`: which cells, where their threads are, and what is refused."""

from __future__ import annotations

import pytest

from linewright.errors import UserError
from linewright.forms import SPACING, Form
from linewright.plans.builtin import spacing_plan
from linewright.plans.definition import Inputs, settings
from linewright.plans.estimate import blocks
from linewright.schema import Cpu, Plan
from linewright.target import Topology

FORMS = [
    Form(name=name, operation=operation, order="relaxed", arch="any", width_bits=bits)
    for name, operation in (
        ("apart_plain_add", "apart_writers"),
        ("apart_c11_add", "apart_writers"),
        ("apart_read", "apart_reader"),
        ("apart_add_beside_reader", "apart_writer"),
        ("apart_add_beside_shared", "apart_shared"),
    )
    for bits in (32, 64)
]


def build(*pairs: str, arch: str = "x86_64", classes: dict[str, list[str]] | None = None) -> Plan:
    classes = {"same_l3": ["0,1"]} if classes is None else classes
    topology = Topology(arch=arch, cpus=[Cpu(cpu=n) for n in range(4)], pairs=classes)
    values = settings(spacing_plan.PLAN, pairs)
    return spacing_plan.build(Inputs(FORMS, topology, values, 60.0, keep=list))


def test_every_kind_at_every_distance_in_either_half() -> None:
    plan = build()
    found = {}
    for cell in plan.cells:
        where = (cell.params["half"], cell.params.get("bytes_apart", 0))
        found.setdefault((cell.operation, cell.form), set()).add(where)
    distances = (0, 8, 16, 32, 64, 128, 256, 512)
    every = {(half, d) for half in ("lower", "upper") for d in distances}
    for (operation, _), where in found.items():
        if operation == "apart_shared":
            # Nearer the word comes with the line that both write, and nothing is beside a placebo.
            assert where == {(half, d) for half, d in every if d >= 64}
        else:
            assert where == every
    assert {operation for operation, _ in found} == set(SPACING.operations)
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)


def test_a_placebo_has_no_distance_and_all_have_two_threads() -> None:
    for cell in build().cells:
        assert cell.threads == 2 and cell.width_bits == 64
        assert (cell.contender == "placebo") == ("bytes_apart" not in cell.params)


def test_words_have_the_machines_width() -> None:
    assert {cell.width_bits for cell in build(arch="i386").cells} == {32}


def test_one_pair_of_each_class_and_its_distances_in_one_block() -> None:
    classes = {"smt_sibling": ["0,1"], "same_l3": ["0,2", "0,3"], "other_socket": []}
    plan = build(classes=classes)
    assert {cell.placement for cell in plan.cells} == {"smt_sibling", "same_l3"}
    own = [{cell.placement for cell in block} for block in blocks(plan, plan.cells)]
    assert own == [{"smt_sibling"}, {"same_l3"}]


def test_one_cpu_is_refused() -> None:
    with pytest.raises(UserError, match="two threads'"):
        build(classes={})


def test_distances_are_multiples_of_eight() -> None:
    assert {c.params.get("bytes_apart", 0) for c in build("bytes_apart=64,96").cells} == {0, 64, 96}
    with pytest.raises(UserError, match="12"):
        build("bytes_apart=12,64")


def test_operations_and_halves_can_be_chosen() -> None:
    plan = build("operations=apart_reader", "halves=upper")
    assert {cell.form for cell in plan.cells} == {"apart_read"}
    assert {cell.params["half"] for cell in plan.cells} == {"upper"}
