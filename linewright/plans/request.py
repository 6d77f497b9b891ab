"""From what the user asked to a plan that a target can run: names, overrides, CPUs, time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from linewright import plans, units
from linewright.errors import UserError
from linewright.plans.definition import Inputs, settings
from linewright.records import select as patterns
from linewright.schema import Plan
from linewright.target.estimate import estimate_s
from linewright.target.local import Target
from linewright.target.probe import Topology
from linewright.units import cpu_text, duration_text

DEFAULT_PLAN = "quick"
LAUNCH = "LINEWRIGHT_LAUNCH"
"""The environment variable that stands for `measure --launch`: launches that are taken in turns are numbered by it."""
PAIR = 2
OPTIONS = ("--plan", "--budget", "--precision", "--only", "--cpus", "--set", "--seed", "--counters", "--launch")
"""Options of `measure` that shape the plan."""


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
    """Options of `measure` that shape the plan, each with its value behind it, parsed; ValueError where one is none of
    them."""
    given: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option not in OPTIONS:
            raise ValueError(f"{option} does not shape a plan")
        given.setdefault(option, []).append(value)

    def parsed(option: str, parse: Callable[[str, str], Any], otherwise: Any = None) -> Any:
        return parse(given[option][-1], option) if option in given else otherwise

    return Request(
        plan=given.get("--plan", [DEFAULT_PLAN])[-1],
        budget_s=parsed("--budget", units.duration_s),
        precision=parsed("--precision", units.fraction),
        only=given.get("--only", ()),
        cpus=parsed("--cpus", units.cpu_list, ()),
        settings=given.get("--set", ()),
        seed=parsed("--seed", lambda text, _: int(text)),
        counters=parsed("--counters", units.event_list, ()),
        launch=parsed("--launch", lambda text, _: int(text)),
    )


def resolve(request: Request, target: Target) -> Plan:
    """The plan with every override applied and every CPU checked; UserError says what cannot be."""
    plan = build(request, target)
    target.check(plan)
    return plan


def build(request: Request, target: Target) -> Plan:
    """The same without asking the target's own check."""
    topology = target.topology()
    check_cpus(request.cpus, topology)
    if plans.is_file(request.plan):
        plan, asked = _from_file(request), True
    else:
        plan, asked = _from_registry(request, target, topology), bool(request.settings or request.cpus)
    changes = {
        "precision": request.precision,
        "seed": request.seed,
        "cpus": list(request.cpus) or None,
        "counters": list(request.counters) or None,
    }
    plan = msgspec.structs.replace(plan, **{key: value for key, value in changes.items() if value is not None})
    if request.launch is not None:
        share = plan.budget_s / plan.launches
        plan = msgspec.structs.replace(plan, launch=request.launch, launches=1, budget_s=share)
    check_cpus(plan.cpus, topology, "plan.cpus")
    if asked:
        check_threads(plan, topology)
    return plan


def _from_file(request: Request) -> Plan:
    plan = plans.load(request.plan)
    if request.settings:
        raise UserError("a plan file has no parameters", "--set", "they belong to built-in plans")
    plan = msgspec.structs.replace(plan, cells=patterns.choose(plan.cells, request.only))
    return plan if request.budget_s is None else msgspec.structs.replace(plan, budget_s=request.budget_s)


def _from_registry(request: Request, target: Target, topology: Topology) -> Plan:
    built_in = plans.find(request.plan)
    inputs = Inputs(
        forms=target.forms(),
        topology=topology,
        values=settings(built_in, request.settings),
        budget_s=request.budget_s or built_in.budget_s,
        keep=lambda cells: patterns.choose(cells, request.only),
    )
    return built_in.build(inputs)


def check_cpus(cpus: Sequence[int], topology: Topology, where: str = "--cpus") -> None:
    """Every CPU listed exists, is online, may be used and occurs once."""
    online, usable = {cpu.cpu for cpu in topology.cpus}, set(topology.usable())
    for cpu in cpus:
        if cpu not in online:
            raise UserError(f"CPU {cpu} is absent or offline", where, f"allowed: {cpu_text(usable)}")
        if cpu not in usable:
            raise UserError(f"CPU {cpu} may not be used by this process", where, f"allowed: {cpu_text(usable)}")
    if len(set(cpus)) != len(cpus):
        raise UserError("CPU named twice", where, "each CPU once")


def check_threads(plan: Plan, topology: Topology) -> None:
    """No cell pins more threads than there are CPUs: two pinned to one would show exactly doubled times.

    Pairs of threads are the plans' own: where a machine or cpuset has one CPU, the probe leaves those cells out and
    says so.
    """
    usable = list(plan.cpus) or topology.usable()
    widest = max(plan.cells, key=lambda cell: cell.threads)
    if widest.threads > (len(usable) if plan.cpus else max(len(usable), PAIR)):
        raise UserError(
            f"{widest.threads} pinned threads, but {len(usable)} CPU{'s' if len(usable) > 1 else ''} to pin them to",
            widest.id,
            f"usable: {cpu_text(usable)}",
        )


def check_time(needed_s: float, plan: Plan) -> None:
    """The budget holds the fewest windows of every cell."""
    if needed_s > plan.budget_s:
        raise UserError(
            f"plan {plan.name} needs at least {duration_text(needed_s)} for {len(plan.cells)} cells",
            f"--budget {plan.budget_s:g}s",
            f"allowed: {int(needed_s) + 1}s or more, or fewer cells by --only or --set",
        )


def is_simulated(target: str) -> bool:
    """Whether a target of this name is a model: it takes what time it needs, whatever the plan's windows last."""
    return target.startswith("model:")


def plan_text(plan: Plan, target: str = "local") -> list[str]:
    """A plan's size, times and precision on a target, in two lines; a simulation has no times."""
    launches = f", each in {plan.launches} launches" if plan.launches > 1 else ""
    size = f"plan {plan.name}: {len(plan.cells)} cell{'s' if len(plan.cells) > 1 else ''}{launches}"
    if is_simulated(target):
        return [f"{size}, simulated by {target}"]
    return [
        size,
        f"at least {duration_text(estimate_s(plan))}, at most about {duration_text(plan.budget_s)} "
        f"to reach ±{plan.precision * 100:g} % of each median",
    ]
