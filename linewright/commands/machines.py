"""`linewright machines`: the described machines, and what is known of each one's constants."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from linewright.errors import DONE
from linewright.model import machine_file
from linewright.model.constants import DISTANCES, KINDS
from linewright.model.machine_file import CLASSES, STATES, Machine
from linewright.output.console import console_for

ORDER = 60


def machines(
    name: Annotated[
        str | None, typer.Argument(help="Machine to explain, or a machine file.", show_default="list all")
    ] = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Print what the simulator is given of it, as JSON.")
    ] = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print it as a machine file, to change and to measure on.")
    ] = False,
) -> int:
    """List the described machines, or explain one: constants, intervals, provenance, sources."""
    if name is None:
        for key, path in machine_file.known().items():
            machine = machine_file.load(path)
            kind = "calibrated" if machine.calibrated else "bounds only"
            print(f"{key:24} {machine.arch:7} {machine.topology.cores:3} cores  {kind:11}  {machine.title}")
        return DONE
    machine = machine_file.find(name, "machines NAME")
    if resolved:
        print(machine_file.resolved_json(machine))
        return DONE
    if as_toml:
        print(machine_file.to_toml(machine), end="")
        return DONE
    _explain(machine)
    return DONE


def _explain(machine: Machine) -> None:
    kind = "calibrated" if machine.calibrated else "not calibrated: it yields bounds and an ordering of forms"
    print(f"{machine.name}: {machine.title}")
    print(f"{machine.arch}, {machine.topology.cores} cores; {kind}")
    if machine.calibration:
        print(machine.calibration)
    shape = machine.topology
    homes = f"{shape.homes} home{'s' if shape.homes > 1 else ''}"
    central = " and one half-way between the caches of each socket" if shape.central_homes else ""
    print(
        f"{shape.cores_per_cluster} cores share a cluster, {shape.cores_per_l3} a last-level cache, "
        f"{shape.cores_per_socket} a socket; {homes}{central}"
    )
    on = [name for name, chosen in msgspec.structs.asdict(machine.options).items() if chosen]
    print(f"Mechanisms (docs/guide/model.md): {', '.join(on) or 'none'}")
    print(f"\nWhere an atomic is performed, by the state of the line in the core ({', '.join(STATES)}):")
    for of in CLASSES:
        print(f"  {of:8} {', '.join(machine.policy[of])}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (
        ("constant", "left"),
        ("value", "right"),
        ("interval", "right"),
        ("unit", "left"),
        ("provenance", "left"),
        ("source", "left"),
        ("meaning", "left"),
    ):
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=heading in ("constant", "interval"))
    kinds = {**KINDS, **DISTANCES}
    for key, constant in machine.constants.items():
        table.add_row(
            key,
            f"{constant.value:.4g}",
            f"{constant.low:.4g}–{constant.high:.4g}",
            constant.unit,
            constant.provenance,
            constant.source,
            kinds[key].meaning,
        )
    print()
    console_for(sys.stdout).print(table)
    print("\nSources:")
    for key, text in machine.sources.items():
        print(f"  {key}: {text}")
