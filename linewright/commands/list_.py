# SPDX-License-Identifier: MIT
"""`linewright list`: what can be measured by name: plans, workloads, described machines."""

from __future__ import annotations

import sys
import textwrap
from typing import Annotated, Any

import typer

from linewright import plans as registry
from linewright import wings
from linewright.commands._options import AsJson, plans_named
from linewright.commands.workload import KINDS
from linewright.errors import DONE, UserError
from linewright.numbers import ABSENT
from linewright.plans.estimate import estimate_s
from linewright.plans.request import Request, build, plan_text, resolve
from linewright.run.registry import open_target
from linewright.show.output import console_for, print_json, width_of
from linewright.target import Target
from linewright.units import duration_text

ORDER = 4


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN",
            help="Show this plan's parameters and cells.",
            show_default="list all",
            autocompletion=plans_named,
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the plans, workloads and described machines, or show one plan for this machine; its JSON
    is what `measure --plan FILE` takes."""
    if name is None:
        target = open_target("local")
        entries = [_entry(plan_name, target) for plan_name in registry.built_in()]
        named = [("Workloads, for `workload NAME`", KINDS)]
        named += [of_wing() for of_wing in wings.brought("listing")]
        if as_json:
            others = {heading.partition(",")[0].lower(): about for heading, about in named}
            print_json({"plans": entries, **others})
            return DONE
        print("Plans, for `measure --plan NAME`; `list NAME` shows one:")
        _print_plans(entries)
        for heading, about in named:
            _print_named(heading, about)
        return DONE
    built_in = registry.find(name, "list")
    target = open_target("local")
    plan = resolve(Request(plan=built_in.name), target)
    if as_json:
        print_json(plan)
        return DONE
    print(f"{built_in.name}: {built_in.summary}")
    for line in plan_text(plan, target):
        print(line)
    print("parameters (--set name=value):")
    for p in built_in.parameters:
        print(f"  {p.name}={p.text(p.default)}  {p.help}; {p.allowed}")
    print("cells on this machine:")
    for cell in plan.cells:
        print(f"  {cell.id}")
    return DONE


def _entry(name: str, target: Target) -> dict[str, Any]:
    """A plan as it would be on this machine; `needs` says why there is none."""
    built_in = registry.find(name)
    known = {"cells": 0, "least_s": 0.0, "budget_s": built_in.budget_s, "needs": ""}
    try:
        plan = build(Request(plan=name), target)
        known |= {"cells": len(plan.cells), "least_s": round(estimate_s(plan), 1)}
        known |= {"budget_s": plan.budget_s}
    except UserError as error:
        known |= {"needs": str(error)}
    return {"name": name, "summary": built_in.summary, **known}


def _print_plans(entries: list[dict[str, Any]]) -> None:
    # These import NumPy.
    from linewright.say.document import TextTable
    from linewright.show.terminal import table

    rows = []
    for entry in entries:
        time = _time_text(entry["least_s"], entry["budget_s"]) if entry["cells"] else ABSENT
        about = entry["summary"] + (f" (not here: {entry['needs']})" if entry["needs"] else "")
        rows.append([entry["name"], str(entry["cells"]), time, about])
    headings, left = ["plan", "cells", "time", "what it measures"], [True, False, False, True]
    listed = TextTable(title="", headings=headings, left=left, rows=rows, folds=(3,))
    console_for(sys.stdout).print(table(listed, space=2))


def _print_named(heading: str, named: dict[str, str]) -> None:
    """Names, each with what it is, in lines that fit."""
    print(f"\n{heading}:")
    width, first = width_of(console_for(sys.stdout)), max(map(len, named)) + 2
    for name, about in named.items():
        for line in textwrap.wrap(
            about, width, initial_indent=name.ljust(first), subsequent_indent=" " * first
        ):
            print(line)


def _time_text(least_s: float, budget_s: float) -> str:
    """From the fewest windows to the budget; a plan whose fewest windows exceed its budget says
    what it needs."""
    if least_s > budget_s:
        return f"{duration_text(least_s)}, more than its budget of {duration_text(budget_s)}"
    return f"{duration_text(least_s)} – {duration_text(budget_s)}"
