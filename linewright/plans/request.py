# SPDX-License-Identifier: MIT
"""From what the user asked to a plan that a target can run: names, overrides, CPUs, time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from linewright import plans, units
from linewright.errors import UserError
from linewright.numbers import cpu_text
from linewright.plans.definition import Inputs, Parameter, settings, values_of
from linewright.plans.estimate import estimate_s
from linewright.records.store import choose
from linewright.schema import Plan
from linewright.target import Target, Topology
from linewright.units import duration_text

DEFAULT_PLAN = "quick"
LAUNCH = "LINEWRIGHT_LAUNCH"
"""The environment variable that stands for `measure --set launch=N`: launches that are taken in
turns are numbered by it."""
PAIR = 2
OPTIONS = ("--plan", "--budget", "--only", "--set")
"""Options of `measure` that shape the plan."""
GENERAL = ("precision", "cpus", "seed", "counters", "launch")
"""What ``--set`` takes beside a plan's own parameters, whatever the plan."""
LAUNCHES = Parameter("launches", "count", None, "processes that each cell is run in", 1, 1000)
"""The one parameter of a plan file: more launches decide what a run left undecided."""


@dataclass(frozen=True)
class Request:
    """Options of `measure` that shape the plan, parsed; None where the user said nothing."""

    plan: str
    budget_s: float | None = None
    precision: float | None = None
    only: Sequence[str] = ()
    cpus: Sequence[int] = ()
    settings: Sequence[str] = ()
    seed: int | None = None
    counters: Sequence[str] = ()
    launch: int | None = None
    """The only launch to run."""


def request_of(words: Sequence[str]) -> Request:
    """Options of `measure` that shape the plan, each with its value behind it, parsed; ValueError
    where one is none of them."""
    given: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option not in OPTIONS:
            raise ValueError(f"{option} does not shape a plan")
        name, _, text = value.partition("=")
        if option == "--set" and name in GENERAL:
            option, value = f"--set {name}", text
        given.setdefault(option, []).append(value)

    def parsed(option: str, parse: Callable[[str, str], Any], otherwise: Any = None) -> Any:
        return parse(given[option][-1], option) if option in given else otherwise

    return Request(
        plan=given.get("--plan", [DEFAULT_PLAN])[-1],
        budget_s=parsed("--budget", units.duration_s),
        precision=parsed("--set precision", units.fraction),
        only=given.get("--only", ()),
        cpus=parsed("--set cpus", units.cpu_list, ()),
        settings=given.get("--set", ()),
        seed=parsed("--set seed", partial(_number, most=2**53 - 2000)),
        counters=parsed("--set counters", units.event_list, ()),
        launch=parsed("--set launch", partial(_number, most=1000)),
    )


def options_of_run(command: str) -> list[tuple[str, str]]:
    """What contexts keep of the options of `measure`, in pairs; none where it is not understood."""
    try:
        words = shlex.split(command)
        request_of(words)
    except (ValueError, UserError):
        return []
    return list(zip(words[::2], words[1::2], strict=True))


def _number(text: str, where: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,16}", text, re.ASCII) or int(text) > most:
        raise UserError(f"bad value {text!r}", where, f"allowed: a whole number from 0 to {most}")
    return int(text)


def resolve(request: Request, target: Target) -> Plan:
    """The plan with every override applied and every CPU checked; UserError says what cannot be."""
    plan = build(request, target)
    target.check(plan)
    return plan


def build(request: Request, target: Target) -> Plan:
    """The same without asking the target's own check."""
    topology = target.topology()
    check_cpus(request.cpus, topology)
    of_file = plans.is_file(request.plan)
    plan = _from_file(request) if of_file else _from_registry(request, target, topology)
    if not plan.cells:
        what = f"plan {plan.name} has no operations for {target.name}"
        raise UserError(what, f"--plan {plan.name}", "`linewright list` lists the others")
    given = {"cpus": list(request.cpus) or None, "counters": list(request.counters) or None}
    given |= {"precision": request.precision, "seed": request.seed}
    changes = {key: value for key, value in given.items() if value is not None}
    plan = msgspec.structs.replace(plan, **changes)
    if request.launch is not None:
        share = plan.budget_s / plan.launches
        plan = msgspec.structs.replace(plan, launch=request.launch, launches=1, budget_s=share)
    check_cpus(plan.cpus, topology, "plan.cpus")
    if of_file or request.settings or request.cpus:
        check_threads(plan, topology)
    return plan


def _from_file(request: Request) -> Plan:
    plan = plans.load(request.plan)
    launches = values_of((LAUNCHES,), request.settings, "a plan file")["launches"] or plan.launches
    cells, budget_s = choose(plan.cells, request.only), request.budget_s or plan.budget_s
    return msgspec.structs.replace(plan, cells=cells, launches=launches, budget_s=budget_s)


def _from_registry(request: Request, target: Target, topology: Topology) -> Plan:
    built_in = plans.find(request.plan)
    inputs = Inputs(
        forms=target.forms(),
        topology=topology,
        values=settings(built_in, request.settings),
        budget_s=request.budget_s or built_in.budget_s,
        keep=lambda cells: choose(cells, request.only),
    )
    return built_in.build(inputs)


def check_cpus(cpus: Sequence[int], topology: Topology, where: str = "--set cpus") -> None:
    """Every CPU listed exists, is online, may be used and occurs once."""
    online, usable = {cpu.cpu for cpu in topology.cpus}, set(topology.usable())
    for cpu in set(cpus) - usable:
        why = "may not be used by this process" if cpu in online else "is absent or offline"
        raise UserError(f"CPU {cpu} {why}", where, f"allowed: {cpu_text(usable)}")
    if len(set(cpus)) != len(cpus):
        raise UserError("CPU named twice", where, "each CPU once")


def check_threads(plan: Plan, topology: Topology) -> None:
    """No cell pins more threads than there are CPUs: two pinned to one would show exactly doubled
    times.

    Pairs of threads are the plans' own: where a machine or cpuset has one CPU, the probe leaves
    those cells out and says so."""
    usable = list(plan.cpus) or topology.usable()
    widest = max(plan.cells, key=lambda cell: cell.threads)
    if widest.threads > (len(usable) if plan.cpus else max(len(usable), PAIR)):
        cpus = f"{len(usable)} CPU{'s' if len(usable) > 1 else ''}"
        what = f"{widest.threads} pinned threads, but {cpus} to pin them to"
        raise UserError(what, widest.id, f"usable: {cpu_text(usable)}")


def check_time(needed_s: float, plan: Plan) -> None:
    """The budget holds the fewest windows of every cell."""
    if needed_s > plan.budget_s:
        needed = f"needs at least {duration_text(needed_s)} for {len(plan.cells)} cells"
        allowed = f"allowed: {int(needed_s) + 1}s or more, or fewer cells by --only or --set"
        raise UserError(f"plan {plan.name} {needed}", f"--budget {plan.budget_s:g}s", allowed)


def plan_text(plan: Plan, target: Target) -> list[str]:
    """A plan's size, times and precision on a target, in two lines; a simulation has no times."""
    launches = f", each in {plan.launches} launches" if plan.launches > 1 else ""
    size = f"plan {plan.name}: {len(plan.cells)} cell{'s' if len(plan.cells) > 1 else ''}{launches}"
    if target.simulates:
        return [f"{size}, simulated by {target.name}"]
    return [
        size,
        f"at least {duration_text(estimate_s(plan))}, at most about {duration_text(plan.budget_s)} "
        f"to reach ±{plan.precision * 100:g} % of each median",
    ]
