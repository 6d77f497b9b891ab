"""`linewright fleet`: many machines at once, and one page that groups them by behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linewright import units
from linewright.commands._options import Only, words_of
from linewright.commands.measure import BudgetOption, SeedOption, SetOption
from linewright.errors import DONE
from linewright.fleet import crew, hosts, several
from linewright.output.console import note
from linewright.output.file import write

ORDER = 12
MOST_JOBS = 256


def fleet(
    file: Annotated[
        str, typer.Argument(metavar="HOSTS", help="File with one host or target a line.", show_default=False)
    ],
    plan: Annotated[str, typer.Option(help="Built-in plan or plan file.")] = "quick",
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Folder for records and page.", show_default="results/fleet-HOSTS-PLAN"),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Machines measured at once.", min=1, max=MOST_JOBS)] = 16,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Dask scheduler, such as tcp://HOST:8786: each line of HOSTS is then the name, host or address of one"
            " of its workers, "
            "which measures its own machine.",
            show_default="ssh",
        ),
    ] = None,
    alike: Annotated[
        str, typer.Option(help="Largest difference within a group, in addition to the intervals.")
    ] = "10%",
    budget: BudgetOption = None,
    only: Only = None,
    settings: SetOption = None,
    seed: SeedOption = None,
) -> int:
    """Measure many machines at once, and group them by how they behave. Repeat the command to continue a fleet that was
    stopped."""
    bound = units.share(alike, "--alike")
    limit = several.limit_s(plan, budget)
    members = hosts.read_workers(file) if scheduler else hosts.read_hosts(file)
    folder = Path(out) if out is not None else Path("results", f"fleet-{Path(file).stem}-{Path(plan).stem}")
    options = words_of({"--plan": plan, "--budget": budget, "--only": only, "--set": settings, "--seed": seed})
    team = several.of_hosts(members, folder, options, jobs, limit, scheduler or "")
    return finish(team, folder, plan, bound)


def finish(team: crew.Crew, folder: Path, plan: str, bound: float) -> int:
    """Group what there is, write the page, say it; exit code 3 where a machine is missing."""
    from linewright.analysis.loading import load
    from linewright.fleet import groups, page

    machines = []
    for member in team.members:
        if member.file.exists():
            loaded = load([str(member.file)], note)
            if loaded.summaries:
                machines.append(groups.Machine(member.host, next(iter(loaded.contexts.values())), loaded.summaries))
    if machines:
        found = groups.group(machines, bound)
        for line in page.text(found, team.failed):
            print(line)
        write(folder / "fleet.html", page.page(found, team.failed, plan), allowed="name another folder")
        note(f"the page is {folder / 'fleet.html'}; records are beside it")
    if team.failed:
        raise crew.incomplete(team.failed, len(team.members), "repeat the command to continue with them")
    return DONE
