# SPDX-License-Identifier: MIT
"""Every parameter of every built-in plan at the ends of what it takes, and beyond them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from linewright import plans
from linewright.commands import sweep, torture, trial
from linewright.commands.measure import SETTINGS_OF_TARGETS
from linewright.errors import UserError
from linewright.model import simulated_target
from linewright.model.commands import calibrate
from linewright.plans.definition import WITH_UNIT, Inputs, Parameter, settings
from linewright.plans.request import GENERAL
from linewright.schema import Cpu, Plan
from linewright.target import Topology
from support.forms import every_form

MACHINES = {
    arch: Topology(arch=arch, cpus=[Cpu(cpu=0), Cpu(cpu=1)], pairs={"same_l3": ["0,1"]})
    for arch in ("x86_64", "arm64")
}
EACH = [(name, p.name) for name in plans.built_in() for p in plans.find(name).parameters]

COMMANDS = (sweep, torture, trial, calibrate)
OTHERS = [
    pytest.param(p, id=p.name)
    for owner in (*(command.PARAMETERS for command in COMMANDS), simulated_target.SETTINGS)
    for p in owner
    if p.kind not in ("text", *WITH_UNIT)
]
"""What commands that have no plan take, but for texts and what has a unit."""


def build(plan: str, setting: str, topology: Topology) -> Plan:
    built_in = plans.find(plan)
    values = settings(built_in, [setting])
    forms = [form for form in every_form() if form.arch in (topology.arch, "generic")]
    return built_in.build(Inputs(forms, topology, values, built_in.budget_s, keep=list))


def number(parameter: Parameter, value: float) -> str:
    return str(value if parameter.kind == "ms" else int(value))


def right(parameter: Parameter) -> Iterator[str]:
    if parameter.choices:
        yield from parameter.choices
        if parameter.kind == "words":
            yield ",".join(reversed(parameter.choices))
    else:
        yield from (number(parameter, end) for end in (parameter.low, parameter.high))
        if parameter.kind == "counts":
            yield f"{int(parameter.high)},{int(parameter.low)}"


def wrong(parameter: Parameter) -> Iterator[str]:
    yield from ("", "x", "-1", "1e3", "\N{ARABIC-INDIC DIGIT THREE}", "1,,2")
    if parameter.choices:
        yield f"{parameter.choices[0]},{parameter.choices[0]}"
    else:
        yield from ("7,7", number(parameter, parameter.high + 1))
        if parameter.low >= 1:
            yield number(parameter, parameter.low - 1)


@pytest.mark.parametrize("arch", MACHINES)
@pytest.mark.parametrize(("plan", "name"), EACH)
def test_the_ends_make_a_plan_or_are_refused_for_what_they_are(plan, name, arch) -> None:
    (parameter,) = (p for p in plans.find(plan).parameters if p.name == name)
    for value in right(parameter):
        try:
            cells = build(plan, f"{name}={value}", MACHINES[arch]).cells
        except UserError as error:
            assert name in str(error), (value, error)
        else:
            assert len({cell.id for cell in cells}) == len(cells), value


def test_none_has_the_name_of_a_setting_that_every_plan_or_target_takes() -> None:
    """Such a parameter could not be set: `--set` takes it for the other."""
    taken = {*GENERAL, *SETTINGS_OF_TARGETS}
    assert not [(plan, name) for plan, name in EACH if name in taken]


@pytest.mark.parametrize(("plan", "name"), EACH)
def test_what_lies_beyond_is_refused_by_name(plan, name) -> None:
    (parameter,) = (p for p in plans.find(plan).parameters if p.name == name)
    for value in wrong(parameter):
        with pytest.raises(UserError, match=f"^--set {name}: "):
            build(plan, f"{name}={value}", MACHINES["x86_64"])


@pytest.mark.parametrize("parameter", OTHERS)
def test_what_a_command_sets_is_taken_at_its_ends_and_refused_beyond(parameter: Parameter) -> None:
    ends = list(right(parameter))
    for value in ends:
        assert parameter.text(parameter.parse(value)) == value
    for value in wrong(parameter):
        with pytest.raises(UserError, match=f"^--set {parameter.name}: ") as refused:
            parameter.parse(value)
        assert all(end in str(refused.value) for end in ends[:2]), "each end as it is written"
