"""A crew at work: options, time limit and progress of `measure` on several machines and of `fleet`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from linewright import plans, units
from linewright.fleet.crew import Crew, refusal
from linewright.fleet.hosts import Host, named
from linewright.output.console import note
from linewright.output.progress import fitting

SETUP_S = 300.0
"""What a machine may take beyond its budget: connecting, copying the probe, a last block of cells."""


def measure(targets: Sequence[str], folder: Path, options: list[str], resume: bool, plan: str, budget: object) -> Crew:
    """Every target at the same time, each with a record file in the folder."""
    team = Crew(named(targets, "--on"), folder, options, resume)
    run(team, len(targets), limit_s(plan, budget))
    return team


def of_hosts(hosts: Sequence[Host], folder: Path, options: list[str], jobs: int, limit: float, scheduler: str) -> Crew:
    """The hosts of a fleet, `jobs` at a time; goes on where the folder says that it was stopped.

    With the address of a Dask `scheduler` each is one of its workers.
    """
    if scheduler:
        from linewright.fleet.cluster import ClusterCrew  # distributed comes with it

        team: Crew = ClusterCrew(hosts, folder, options, scheduler)
    else:
        team = Crew(hosts, folder, options, resume=True)
    if team.ended:
        note(f"{team.ended} of {len(team.members)} machines are done already")
    run(team, jobs, limit)
    return team


def limit_s(plan: str, budget: object) -> float:
    """Seconds that one machine may take at most."""
    if budget is not None:
        return units.duration_s(str(budget), "--budget") + SETUP_S
    return (plans.load(plan).budget_s if plans.is_file(plan) else plans.find(plan).budget_s) + SETUP_S


def run(team: Crew, jobs: int, limit: float) -> None:
    """Measure what a crew has left, with progress on standard error; raises where it was stopped or refused as a
    whole."""
    meter = CrewMeter(team)
    with fitting(meter) as shown:
        team.run(jobs, limit, shown.say, lambda: shown.show(meter))
    refused = refusal(team.failed)
    if refused is not None and not team.files:
        raise refused


class CrewMeter:
    """How far a crew is, for the progress display: its own step and its own meter."""

    id, launch = "", 0

    def __init__(self, team: Crew) -> None:
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
            f"{self.share:4.0%}, {self._team.ended} of {len(self._team.members)} machines{failed}; running: {running}"
        )
