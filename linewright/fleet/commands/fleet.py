"""`linewright fleet`: many machines at once, and one page that groups them by behaviour."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from linewright import extras
from linewright.commands._options import Only, words_of
from linewright.commands.measure import BudgetOption, SetOption
from linewright.errors import DONE
from linewright.fleet import fleet_run, hosts, several_machines
from linewright.show.console import console_for, note
from linewright.show.new_file import write

ORDER = 12
JOBS = 16
"""Machines that are measured at once."""


def fleet(
    file: Annotated[
        str,
        typer.Argument(
            metavar="HOSTS", help="File with one host or target a line.", show_default=False
        ),
    ],
    plan: Annotated[str, typer.Option(help="Built-in plan or plan file.")] = "quick",
    out: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for records and page.",
            show_default="results/fleet-HOSTS-PLAN",
        ),
    ] = None,
    budget: BudgetOption = None,
    only: Only = None,
    settings: SetOption = None,
) -> int:
    """Measure many machines at once, and group them by how they behave. Repeat the command to
    continue a fleet that was stopped."""
    extras.need("fleet", "fleet")
    limit = several_machines.limit_s(plan, budget)
    members = hosts.read_hosts(file)
    folder = (
        Path(out)
        if out is not None
        else Path("results", f"fleet-{Path(file).stem}-{Path(plan).stem}")
    )
    options = words_of({"--plan": plan, "--budget": budget, "--only": only, "--set": settings})
    team = fleet_run.FleetRun(members, folder, options, resume=True)
    if team.ended:
        note(f"{team.ended} of {len(team.members)} machines are done already")
    several_machines.run(team, limit, JOBS)
    return finish(team, folder, plan)


def finish(team: fleet_run.FleetRun, folder: Path, plan: str) -> int:
    """Group what there is, write the page, say it; exit code 3 where a machine is missing."""
    from linewright.fleet import groups, groups_document
    from linewright.show.document_page import page
    from linewright.show.text_tables import print_tables

    machines = groups.machines(
        {member.host: member.file for member in team.members if member.file.exists()}, note
    )
    if machines:
        said = groups_document.document(groups.group(machines), team.failed, plan)
        # What each kind costs and every machine are a page's matter.
        short = msgspec.structs.replace(said, tables=said.tables[-1:])
        print_tables(short, console_for(sys.stdout), "fleet")
        sys.stdout.flush()
        write(folder / "fleet.html", page(said), allowed="name another folder")
        note(f"the page is {folder / 'fleet.html'}; records are beside it")
    if team.failed:
        raise fleet_run.incomplete(
            team.failed, len(team.members), "repeat the command to continue with them"
        )
    return DONE
