"""A fleet at work: options, time limit and progress of `measure` on several machines and of
`fleet`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from linewright import plans, units
from linewright.commands._options import words_of
from linewright.commands.report import report
from linewright.commands.show import show
from linewright.errors import DONE, UserError
from linewright.fleet.fleet_run import FleetRun, incomplete, refusal
from linewright.fleet.hosts import MOST_HOSTS, distinct, named
from linewright.plans.request import DEFAULT_PLAN
from linewright.records.files import Reader, moment, new_path
from linewright.show.console import note
from linewright.show.progress import fitting

SETUP_S = 300.0
"""What a machine may take beyond its budget: connecting, copying the probe, a last block of
cells."""


def measure_and_show(
    on: Sequence[str],
    out: str | None,
    resume: str | None,
    options: dict[str, object],
    form: str,
) -> int:
    """`measure` on several machines at the same time: a record file each, one result, one report.

    `options` are those that shape the plan, `form` is --format."""
    plan = str(options["--plan"] or DEFAULT_PLAN)
    folder = Path(resume or out or new_path(f"{Path(plan).stem}-{moment()}").removesuffix(".jsonl"))
    team = FleetRun(named(on, "--on"), folder, words_of(options), resume is not None)
    run(team, limit_s(plan, options["--budget"]))
    known = {member.host: str(member.file) for member in team.members if member.file in team.files}
    ids = {host: next(iter(Reader(path))).value.machine_id for host, path in known.items()}
    files = [known[host] for host in distinct(ids, note)]
    if files and form != "none":
        show(files, form=form)
        try:
            report(files, out=str(folder / "report.html"))
        except UserError as error:  # what was measured is whole without a page
            note(str(error))
    if team.failed:
        raise incomplete(team.failed, len(on), f"continue with --resume {shlex.quote(str(folder))}")
    note(f"records are in {folder}, one file for each machine")
    return DONE


def limit_s(plan: str, budget: object) -> float:
    """Seconds that one machine may take at most."""
    if budget is not None:
        return units.duration_s(str(budget), "--budget") + SETUP_S
    return (
        plans.load(plan).budget_s if plans.is_file(plan) else plans.find(plan).budget_s
    ) + SETUP_S


def run(team: FleetRun, limit: float, jobs: int = MOST_HOSTS) -> None:
    """Measure what a fleet has left, with progress on standard error; raises where it was stopped
    or refused as a whole."""
    meter = FleetMeter(team)
    with fitting(meter) as shown:
        team.run(jobs, limit, shown.say, lambda: shown.show(meter))
    refused = refusal(team.failed)
    if refused is not None and not team.files:
        raise refused


class FleetMeter:
    """How far a fleet is, for the progress display: its own step and its own meter."""

    id, launch = "", 0

    def __init__(self, team: FleetRun) -> None:
        self._team, self._start = team, time.monotonic()

    def take(self, step: object) -> None:
        pass

    @property
    def share(self) -> float:
        return self._team.share

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._start

    def text(self, name: str, number: int) -> str:
        failed = f", {len(self._team.failed)} failed" if self._team.failed else ""
        running = ", ".join(member.host.name for member in self._team.running)
        return (
            f"{self.share:4.0%}, {self._team.ended} of {len(self._team.members)} "
            f"machines{failed}; running: {running}"
        )
