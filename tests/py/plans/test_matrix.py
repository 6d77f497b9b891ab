# SPDX-License-Identifier: MIT
"""The plans of the matrix: the same grid for every form, the published cells exactly, pairs by
class, honest estimates."""

from __future__ import annotations

import pytest

from linewright import plans
from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans import definition
from linewright.plans.definition import Inputs
from linewright.plans.estimate import estimate_s
from linewright.plans.grid import SPACINGS, WORKS, partner
from linewright.schema import Cell, Cpu
from linewright.target import Topology


def form(name: str, operation: str, arch: str = "x86_64", **more) -> Form:
    return Form(name=name, operation=operation, order="full", arch=arch, width_bits=64, **more)


X86 = [
    form("plain_add", "add", atomic=False),
    form("lock_add", "add"),
    form("lock_xadd", "fetch_add"),
    form("cmpxchg_loop_read_first", "cmpxchg"),
    form("prefetchw_lock_add", "add", needs="prefetchw"),
    form("prefetchw_lock_xadd", "fetch_add", needs="prefetchw"),
    form("xchg", "xchg"),
    form("mov_read", "read"),
    form("builtin_add", "add", arch="generic"),
    form("cmpxchg_blind", "handoff"),
    form("load_cmpxchg", "handoff"),
    form("store_load", "handoff"),
    form("empty", "none", arch="any"),
]


def machine(cpus: int, pairs: dict[str, list[str]], arch: str = "x86_64") -> Topology:
    return Topology(arch=arch, cpus=[Cpu(cpu=number) for number in range(cpus)], pairs=pairs)


TWO = machine(2, {"same_l3": ["0,1"]})


def build(
    name: str,
    *settings: str,
    forms: list[Form] = X86,
    topology: Topology = TWO,
    budget_s: float | None = None,
):
    built_in = plans.find(name)
    inputs = Inputs(
        forms,
        topology,
        definition.settings(built_in, settings),
        budget_s or built_in.budget_s,
        keep=list,
    )
    return built_in.build(inputs)


def grid_of(cells: list[Cell], name: str) -> set[tuple]:
    return {
        (c.contender, c.contender_iters, c.work_iters, c.placement) for c in cells if c.form == name
    }


def test_the_full_grid_is_the_published_one_for_every_form() -> None:
    plan = build("rmw", "grid=full")
    want = {("none", 0, work, "auto") for work in WORKS} | {
        ("placebo", 0, work, "auto") for work in WORKS
    }
    uncontended = set(want)
    want |= {("same_line", spacing, work, "auto") for spacing in SPACINGS for work in WORKS}
    for one in {cell.form for cell in plan.cells}:
        assert grid_of(plan.cells, one) == (uncontended if one == "plain_add" else want)


@pytest.mark.parametrize("budget_s", [30, 60, 120, 285, 600])
def test_thinning_fits_the_budget_and_treats_forms_alike(budget_s: float) -> None:
    plan = build("rmw", budget_s=budget_s)
    assert estimate_s(plan) <= budget_s or plan.min_windows == 3
    grids = {
        frozenset(grid_of(plan.cells, one)) for one in {c.form for c in plan.cells} - {"plain_add"}
    }
    assert len(grids) == 1
    spacings = sorted({c.contender_iters for c in plan.cells if c.contender == "same_line"})
    assert spacings[0] == 0 and set(spacings) <= set(SPACINGS)


def test_more_budget_never_means_fewer_cells() -> None:
    sizes = [len(build("rmw", budget_s=budget).cells) for budget in (20, 60, 120, 300, 900)]
    assert sizes == sorted(sizes)


def test_every_cpu_in_turn_with_its_nearest_partner() -> None:
    topology = machine(4, {"smt_sibling": ["0,1", "2,3"], "same_l3": ["0,2", "1,3", "0,3", "1,2"]})
    plan = build("rmw", "timed=all", "grid=full", topology=topology)
    singles = {c.placement for c in plan.cells if c.contender == "none"}
    doubles = {c.placement for c in plan.cells if c.contender == "same_line"}
    assert singles == {f"cpus:{n}" for n in range(4)}
    assert doubles == {"cpus:0,2", "cpus:1,2", "cpus:2,0", "cpus:3,0"}
    assert partner(machine(1, {}), 0) is None


def test_cpus_all_places_two_threads_only() -> None:
    with pytest.raises(UserError, match="timed=all"):
        build("rmw", "timed=all", "threads=3")


def test_published_cells_are_those_of_the_table() -> None:
    arm = [
        form(n, "add", "arm64") for n in ("stadd", "prfm_keep_stadd", "prfm_strm_stadd", "llsc_add")
    ]
    arm.append(form("ldadd", "fetch_add", "arm64"))
    plan_machine = machine(2, {"same_l3": ["0,1"]}, "arm64")
    plan = build("published", forms=arm, topology=plan_machine)
    rows = [
        (c.form, c.contender, c.contender_iters if c.contender != "none" else None, c.work_iters)
        for c in plan.cells
    ]
    assert len(rows) == len(set(rows)) == 32
    assert ("stadd", "same_line", 10_000, 0) in rows
    assert ("ldadd", "same_line", 1, 200) in rows
    assert ("llsc_add", "none", None, 10) in rows
    assert {c.lines for c in plan.cells} == {1}
    assert {(c.work, c.work_iters > 0) for c in plan.cells} == {
        ("chain", False),
        ("nop_loop", True),
    }, "as published"
    in_memory = build("published", "work_kind=memory", forms=arm, topology=plan_machine)
    assert {c.work for c in in_memory.cells if c.work_iters} == {"memory"}
    assert any("/mem300/" in c.id for c in in_memory.cells)


def test_published_on_x86_uses_the_forms_of_the_same_role() -> None:
    assert {c.form for c in build("published").cells} == {
        "lock_add",
        "lock_xadd",
        "cmpxchg_loop_read_first",
        "prefetchw_lock_add",
        "prefetchw_lock_xadd",
    }


def test_published_on_another_architecture_is_refused() -> None:
    with pytest.raises(UserError, match="no forms"):
        build("published", topology=machine(2, {}, "generic"))


def test_handoff_takes_every_pair_or_one_of_each_class() -> None:
    pairs = {"smt_sibling": ["0,1"], "same_l3": ["0,2", "1,2"]}
    every = build("handoff", topology=machine(3, pairs))
    assert {c.placement for c in every.cells} == {"cpus:0,1", "cpus:0,2", "cpus:1,2"}
    assert {c.form for c in every.cells} == {"cmpxchg_blind", "load_cmpxchg", "store_load"}
    classes = build("handoff", "pairs=classes", topology=machine(3, pairs))
    assert {c.placement for c in classes.cells} == {"cpus:0,1", "cpus:0,2"}
    many = build("handoff", topology=machine(40, {"same_l3": [f"0,{n}" for n in range(1, 40)]}))
    assert len(many.cells) == 3


def test_handoff_needs_two_cpus() -> None:
    with pytest.raises(UserError, match="one usable CPU"):
        build("handoff", topology=machine(1, {}))


def test_full_is_the_whole_grid_and_the_handoffs() -> None:
    plan = build("full")
    ids = {cell.id for cell in plan.cells}
    assert {cell.id for cell in build("rmw", "grid=full").cells} <= ids
    assert {cell.id for cell in build("handoff").cells} <= ids


def test_a_grid_cannot_be_whole_and_chosen() -> None:
    for axis in ("work=0,5", "contender_iters=3"):
        with pytest.raises(UserError, match="contradict"):
            build("rmw", "grid=full", axis)


def test_unknown_settings_name_what_is_allowed() -> None:
    for bad in ("grid=tiny", "cpus=some", "lines=0", "nosuch=1", "contender_iters=-1", "work="):
        with pytest.raises(UserError, match="allowed|has"):
            build("rmw", bad)
