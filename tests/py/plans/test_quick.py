"""Plan quick and the estimate of a plan's time, for machines that are not at hand."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linewright import plans
from linewright.errors import UserError
from linewright.output.progress import PlanMeter
from linewright.plans import definition
from linewright.plans.builtin import quick
from linewright.records.select import choose
from linewright.schema import Cell, Cpu, Plan
from linewright.target.estimate import blocks, cells_s, estimate_s
from linewright.target.local import Progress, launch_plans
from linewright.target.probe import Form, Topology


def forms(arch: str, count: int) -> list[Form]:
    width = 32 if arch == "i386" else 64
    made = [Form(name="empty", operation="none", order="relaxed", arch="any", width_bits=width)]
    made += [Form(name="plain_add", operation="add", order="relaxed", arch=arch, width_bits=width, atomic=False)]
    made += [
        Form(name=f"form_{i}", operation="fetch_add", order="full", arch=arch, width_bits=width) for i in range(count)
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
    arch: str = "arm64", count: int = 16, budget_s: float = 60.0, only: tuple[str, ...] = (), **values: object
) -> Plan:
    topology = Topology(arch=arch, cpus=[Cpu(cpu=0), Cpu(cpu=1)])
    inputs = definition.Inputs(
        forms=forms(arch, count),
        topology=topology,
        values=definition.settings(quick.PLAN, []) | values,
        budget_s=budget_s,
        keep=lambda cells: choose(cells, only),
    )
    return quick.PLAN.build(inputs)


@pytest.mark.parametrize("arch", ["x86_64", "arm64", "i386", "generic"])
def test_every_form_alone_beside_a_placebo_and_contended(arch: str):
    plan = build(arch, 3)
    assert {cell.width_bits for cell in plan.cells} == {32 if arch == "i386" else 64}
    found = {}
    for cell in plan.cells:
        found.setdefault(cell.form, set()).add((cell.contender, cell.work_iters, cell.threads, cell.lines))
    alone = {("none", work, 1, 4) for work in (0, 20, 200)}
    placebo = {("placebo", work, 2, 4) for work in (0, 20, 200)}
    contended = {("same_line", work, 2, 8) for work in (0, 20, 200)}
    assert found["form_0"] == found["stadd"] == alone | placebo | contended, "a form that the CPU lacks is planned too"
    assert found["plain_add"] == alone | placebo, "two threads would lose its counts"
    assert found["empty"] == alone


@pytest.mark.parametrize("count", [3, 10, 16, 22])
def test_it_fits_a_minute_and_leaves_room_for_wide_intervals(count: int):
    plan = build(count=count)
    assert estimate_s(plan) <= 0.9 * 60 and plan.launches >= 5 and plan.min_windows >= 3


def test_a_larger_budget_buys_gaps_and_windows():
    spacings = {budget: {cell.contender_iters for cell in build(budget_s=budget).cells} for budget in (60.0, 600.0)}
    assert spacings == {60.0: {0}, 600.0: {0, 100}}
    assert {cell.contender_iters for cell in build(contender_iters=[7]).cells if cell.contender == "same_line"} == {7}


def test_what_is_left_out_makes_room():
    plan = build(count=22, only=("form_1",))
    assert {cell.form for cell in plan.cells} == {"form_1"} and {cell.contender_iters for cell in plan.cells} == {
        0,
        100,
    }
    assert {cell.contender_iters for cell in build(budget_s=1, only=("ci100",)).cells} == {100}
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
            Cell(operation="add", form=f"f{i}", contender="same_line" if i % 2 else "none", lines=lines)
            for i in range(cells)
        ]
        base = {"launches": launches, "window_ms": window, "contended_window_ms": contended, "min_windows": least}
        return Plan(linewright_plan=2, name="p", cells=made, **(base | changes))

    whole = estimate_s(plan())
    windows_s = sum(launches * (least * contended if i % 2 else max(least, lines) * window) / 1e3 for i in range(cells))
    assert whole > windows_s, "at least the windows themselves"
    assert estimate_s(plan(min_windows=least + 1)) >= whole
    assert estimate_s(plan(window_ms=window * 2)) > whole
    assert estimate_s(plan(launches=launches + 1)) >= whole


def test_launches_and_what_is_done_already():
    plan = build(count=1)
    whole = launch_plans(plan, ())
    assert [p.launch for p in whole] == list(range(5))
    assert whole[0].cells == whole[3].cells == plan.cells, "alone or contended"
    some = launch_plans(plan, {(cell.id, 3) for cell in plan.cells[1:]})
    assert some[3].cells == plan.cells[:1] and some[3].launch == 3
    assert [p.launch for p in launch_plans(plan, {(cell.id, 3) for cell in plan.cells})] == [0, 1, 2, 4]
    one = msgspec.structs.replace(plan, launch=7, launches=1)
    assert [p.launch for p in launch_plans(one, ())] == [7]


def test_the_forms_of_a_point_stay_in_one_block():
    plan = build(count=30)
    for block in blocks(plan, plan.cells):
        points = {(cell.contender, cell.work_iters) for cell in block}
        for point in points:
            members = [cell for cell in plan.cells if (cell.contender, cell.work_iters) == point]
            assert all(cell in block for cell in members)
    many = msgspec.structs.replace(plan, cells=[Cell(operation="add", form=f"f{i}") for i in range(600)])
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
            definition.settings(quick.PLAN, [pair])
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
    assert meter.cells_done == meter.cells_total == sum(len(each.cells) for each in launches)
    assert cells_s(plan, plan.cells) > 0


def test_a_run_beyond_its_budget_has_the_time_left_of_its_pace():
    launches, now = launch_plans(build(count=2), ()), [0.0]
    meter = PlanMeter(launches, 60.0, clock=lambda: now[0])
    meter.take(Progress(0, "cell", 1, 2, 0, 10))
    now[0] = 120.0
    assert meter.left_s == pytest.approx(120.0 * (1 / meter.share - 1)) and "0.0 s left" not in meter.text("cell", 0)
