# SPDX-License-Identifier: MIT
"""Plan quick and the estimate of a plan's time, for machines that are not at hand."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linewright import plans
from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans import definition
from linewright.plans.builtin import quick_plan
from linewright.plans.estimate import blocks, cell_s, cells_s, estimate_s
from linewright.records.store import choose
from linewright.run.launches import in_turn, launch_plans, measured_together
from linewright.schema import Cell, Cpu, Plan, Record
from linewright.show.progress import PlanMeter
from linewright.target import Progress, Topology


def forms(arch: str, count: int) -> list[Form]:
    width = 32 if arch == "i386" else 64
    made = [Form(name="empty", operation="none", order="relaxed", arch="any", width_bits=width)]
    made += [
        Form(
            name="plain_add",
            operation="add",
            order="relaxed",
            arch=arch,
            width_bits=width,
            atomic=False,
        )
    ]
    made += [
        Form(name=f"form_{i}", operation="fetch_add", order="full", arch=arch, width_bits=width)
        for i in range(count)
    ]
    made += [
        Form(
            name="stadd",
            operation="add",
            order="relaxed",
            arch=arch,
            width_bits=width,
            needs="lse",
            available=False,
            reason="no lse",
        )
    ]
    return [*made, Form(name="wide", operation="add", order="full", arch=arch, width_bits=128)]


def build(
    arch: str = "arm64",
    count: int = 16,
    budget_s: float = 60.0,
    only: tuple[str, ...] = (),
    more: tuple[Form, ...] = (),
    **values: object,
) -> Plan:
    topology = Topology(arch=arch, cpus=[Cpu(cpu=0), Cpu(cpu=1)])
    inputs = definition.Inputs(
        forms=[*forms(arch, count), *more],
        topology=topology,
        values=definition.settings(quick_plan.PLAN, []) | values,
        budget_s=budget_s,
        keep=lambda cells: choose(cells, only),
    )
    return quick_plan.PLAN.build(inputs)


@pytest.mark.parametrize("arch", ["x86_64", "arm64", "i386", "generic"])
def test_every_form_under_what_the_screen_and_the_advice_show(arch: str):
    plan = build(arch, 3)
    assert {cell.width_bits for cell in plan.cells} == {32 if arch == "i386" else 64}
    found = {}
    for cell in plan.cells:
        found.setdefault(cell.form, set()).add(
            (cell.contender, cell.work_iters, cell.threads, cell.lines)
        )
    far = [200] if arch == "arm64" else []
    alone = {("none", work, 1, 4) for work in (0, 20, *far)}
    contended = {("same_line", work, 2, 8) for work in (0, *far)}
    assert found["form_1"] == found["stadd"] == alone | contended, (
        "a form that the CPU lacks is planned too"
    )
    assert found["plain_add"] == alone, "two threads would lose its counts"
    assert found["empty"] == alone
    placebo = [cell for cell in plan.cells if cell.contender == "placebo"]
    assert [cell.form for cell in placebo] == ["form_0"], "one control of contention"
    assert plan.cells[-1].contender == "same_line", "contended cells get the time that is left"


def test_the_minute_is_spent_on_what_the_screen_shows():
    """Of the fewest windows: the loops alone, a plain add, the placebo and short extra windows are
    controls."""
    plan = build("x86_64", 15)
    controls = [c for c in plan.cells if c.form in ("empty", "plain_add")]
    controls += [c for c in plan.cells if c.contender == "placebo"]
    bare = msgspec.structs.replace(plan, extra_windows=0)
    beside = cells_s(plan, plan.cells) - cells_s(bare, plan.cells)
    assert (sum(cell_s(bare, c) for c in controls) + beside) / (60 / plan.launches) < 0.1


@pytest.mark.parametrize("arch", ["x86_64", "arm64"])
def test_identical_code_is_measured_in_one_condition_of_a_kind(arch: str):
    names = ("mov_read" if arch == "x86_64" else "ldr_read", "builtin_read")
    fields = {"operation": "read", "order": "relaxed", "arch": arch, "width_bits": 64}
    pair = tuple(Form(name=name, **fields) for name in names)
    for values in ({}, {"work": [0, 20, 100, 300], "contender_iters": [0, 10]}):
        plan = build(arch, 3, more=pair, **values)
        kinds = [
            [(c.contender, c.work_iters > 0) for c in plan.cells if c.form == name]
            for name in names
        ]
        assert len(kinds[1]) == len(set(kinds[1])) and set(kinds[1]) == set(kinds[0])


@pytest.mark.parametrize("count", [3, 10, 16, 22])
def test_it_fits_a_minute_and_leaves_room_for_wide_intervals(count: int):
    plan = build(count=count)
    assert estimate_s(plan) <= 0.9 * 60 and plan.launches >= 5 and plan.min_windows >= 3


def test_a_larger_budget_buys_launches_and_windows():
    steps = [build(budget_s=budget) for budget in (3.0, 20.0, 60.0)]
    taken = [(plan.launches, plan.min_windows, plan.looks) for plan in steps]
    assert taken == sorted(taken) and taken[0][0] < 5
    assert taken[-1] == (11, 6, [5, 8]) and all(n < p.launches for p in steps for n in p.looks)
    spaced = build(contender_iters=[7]).cells
    assert {c.contender_iters for c in spaced if c.contender == "same_line"} == {7}


def test_what_is_left_out_makes_room():
    plan = build(count=22, only=("form_1",), budget_s=9)
    assert {cell.form for cell in plan.cells} == {"form_1"} and plan.launches == 11
    assert build(count=22, budget_s=9).launches < 11
    assert {cell.work_iters for cell in build(work=[3], only=("w3",)).cells} == {3}
    with pytest.raises(UserError, match="no cell fits"):
        build(only=("ci7",))


def test_cells_that_differ_in_the_form_alone_stand_together():
    cells = build().cells
    points = [(cell.contender, cell.contender_iters, cell.work_iters) for cell in cells]
    assert len(set(points)) == sum(a != b for a, b in itertools.pairwise(points)) + 1
    assert len({cell.id for cell in cells}) == len(cells)


@settings(deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.floats(0.1, 100),
    st.floats(0.1, 100),
    st.integers(1, 64),
    st.integers(1, 64),
)
def test_an_estimate_grows_with_everything(
    cells: int, launches: int, window: float, contended: float, least: int, lines: int
):
    def plan(**changes: object) -> Plan:
        made = [
            Cell(
                operation="add",
                form=f"f{i}",
                contender="same_line" if i % 2 else "none",
                lines=lines,
            )
            for i in range(cells)
        ]
        base = {
            "launches": launches,
            "window_ms": window,
            "contended_window_ms": contended,
            "min_windows": least,
        }
        return Plan(linewright_plan=2, name="p", cells=made, **(base | changes))

    whole = estimate_s(plan())
    windows_s = sum(
        launches * (least * contended if i % 2 else max(least, lines) * window) / 1e3
        for i in range(cells)
    )
    assert whole > windows_s, "at least the windows themselves"
    assert estimate_s(plan(min_windows=least + 1)) >= whole
    assert estimate_s(plan(window_ms=window * 2)) > whole
    assert estimate_s(plan(launches=launches + 1)) >= whole


def test_launches_and_what_is_done_already():
    plan = build(count=1)
    whole = launch_plans(plan, ())
    assert [p.launch for p in whole] == list(range(11))
    assert whole[0].cells == whole[3].cells == plan.cells, "alone or contended"
    some = launch_plans(plan, {(cell.id, 3) for cell in plan.cells[1:]})
    assert some[3].cells == plan.cells[:1] and some[3].launch == 3
    left = [p.launch for p in launch_plans(plan, {(cell.id, 3) for cell in plan.cells})]
    assert left == [0, 1, 2, *range(4, 11)]
    one = msgspec.structs.replace(plan, launch=7, launches=1)
    assert [p.launch for p in launch_plans(one, ())] == [7]


def test_what_is_done_meanwhile_is_left_out_of_later_launches():
    plan = msgspec.structs.replace(build(count=2), launches=4)
    done, ran = set(), []

    def run(launch, interrupts):
        ran.append(launch)
        if launch.launch == 1:
            done.update((cell.id, later) for cell in plan.cells[3:] for later in (2, 3))
        yield Progress(launch.launch, "cell", 1, 1, 1, 1)

    assert len(list(in_turn(plan, done, run))) == 4
    assert [len(p.cells) for p in ran] == [len(plan.cells)] * 2 + [3, 3]
    assert ran[3].budget_s > 2 * ran[0].budget_s, "the time goes to what is left"


def test_a_launch_is_completed_with_all_that_is_compared_in_it():
    """A record that a launch lacks is measured again with its partners: only what one process
    measured pairs up, across lines and parameters too."""
    plan = msgspec.structs.replace(build(count=2), launches=2)
    context_of = {0: "0" * 16, 1: "1" * 16}
    records = [
        Record(
            linewright_record=2, context_id=context_of[launch], id=cell.id, cell=cell,
            plan="quick", launch=launch, status="unavailable" if cell.form == "stadd" else "ok",
        )
        for launch in (0, 1)
        for cell in plan.cells
    ]  # fmt: skip
    able = {(cell.id, n) for cell in plan.cells for n in (0, 1) if cell.form != "stadd"}
    assert measured_together(plan, records, set()) == able
    lost = next(r for r in records if r.launch == 1 and r.cell.contender == "same_line")
    left = able - measured_together(plan, [r for r in records if r is not lost], set())
    together = [c for c in plan.cells if c.contender == "same_line" and c.form != "stadd"]
    same = [c for c in together if c.work_iters == lost.cell.work_iters]
    assert left == {(c.id, 1) for c in same} and len(same) > 1
    beyond = {(lost.id, 1)}
    assert measured_together(plan, [r for r in records if r is not lost], beyond) == able


def test_the_forms_of_a_point_stay_in_one_block():
    plan = build(count=30)
    for block in blocks(plan, plan.cells):
        points = {(cell.contender, cell.work_iters) for cell in block}
        for point in points:
            members = [cell for cell in plan.cells if (cell.contender, cell.work_iters) == point]
            assert all(cell in block for cell in members)
    many = msgspec.structs.replace(
        plan, cells=[Cell(operation="add", form=f"f{i}") for i in range(600)]
    )
    assert [len(block) for block in blocks(many, many.cells)] == [256, 256, 88]


def test_every_built_in_plan_states_what_its_parameters_take():
    for plan in plans.built_in().values():
        assert plan.summary and plan.budget_s > 0
        for parameter in plan.parameters:
            assert parameter.help and parameter.allowed
            if parameter.default is not None:
                assert parameter.parse(parameter.text(parameter.default)) == parameter.default


@given(st.text(max_size=30))
def test_any_setting_is_taken_or_refused(text: str):
    for pair in (text, f"work={text}", f"window_ms={text}", f"operations={text}"):
        try:
            definition.settings(quick_plan.PLAN, [pair])
        except UserError as error:
            assert "\n" not in str(error)


def test_progress_never_goes_back_and_knows_the_time_left():
    plan = build(count=2)
    launches = launch_plans(plan, ())
    now = [0.0]
    meter = PlanMeter(launches, 60.0, clock=lambda: now[0])
    seen = []
    for launch in launches:
        total = len(launch.cells)
        for done in range(total + 1):
            now[0] += 60.0 / sum(len(each.cells) for each in launches)
            meter.take(Progress(launch.launch, "cell", done * 9, total * 10, done, total))
            seen.append(meter.share)
            assert meter.left_s is None or 0 <= meter.left_s <= 60
    assert seen == sorted(seen) and seen[-1] == pytest.approx(1.0)
    assert cells_s(plan, plan.cells) > 0


def test_a_run_beyond_its_budget_has_the_time_left_of_its_pace():
    launches, now = launch_plans(build(count=2), ()), [0.0]
    meter = PlanMeter(launches, 60.0, clock=lambda: now[0])
    meter.take(Progress(0, "cell", 1, 2, 0, 10))
    now[0] = 120.0
    assert (
        meter.left_s == pytest.approx(120.0 * (1 / meter.share - 1))
        and "0.0 s left" not in meter.text()
    )
