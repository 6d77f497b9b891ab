# SPDX-License-Identifier: MIT
"""`measure` on several machines at once: options, time limit, progress and result."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from linewright import plans, units
from linewright.commands._options import words_of
from linewright.commands.report import report
from linewright.commands.show import show
from linewright.errors import DONE, RunError, UserError
from linewright.fleet.fleet_run import FleetRun, incomplete, refusal
from linewright.fleet.hosts import FILE, asked, distinct
from linewright.plans.request import DEFAULT_PLAN
from linewright.records.files import Reader, moment, new_path
from linewright.show.output import console_for, note, write
from linewright.show.progress import fitting
from linewright.wings import need_extra

SETUP_S = 300.0
"""What a machine may take beyond its budget: connecting, copying the probe, a last block of
cells."""
JOBS = 16
"""Machines that are measured at once."""


def measure_and_show(
    on: Sequence[str],
    out: str | None,
    resume: str | None,
    options: dict[str, object],
    form: str,
) -> int:
    """`measure` on several machines: a record file each, and one result.

    `options` are those that shape the plan, `form` is --format."""
    of_file = any(text.startswith(FILE) for text in on)
    if of_file:
        need_extra("fleet", f"--on {FILE}FILE")
    plan = str(options["--plan"] or DEFAULT_PLAN)
    limit, members = limit_s(plan, options["--budget"]), asked(on)
    folder = Path(resume or out or new_path(f"{Path(plan).stem}-{moment()}").removesuffix(".jsonl"))
    team = FleetRun(members, folder, words_of(options), resume is not None)
    if team.ended:
        note(f"{team.ended} of {len(members)} machines are done already")
    words = words_of({"--resume": folder, "--on": on, **options})
    go_on = f"continue with {shlex.join(['linewright', 'measure', *words])}"
    try:
        run(team, limit)
    except RunError as error:
        raise RunError(f"{error}; {go_on}") from None
    if team.files and form != "none":
        _show_groups(team, plan) if of_file and form == "table" else _show_all(team, form)
    if team.failed:
        raise incomplete(team.failed, len(members), go_on)
    note(f"records are in {folder}, one file for each machine")
    return DONE


def _show_all(team: FleetRun, form: str) -> None:
    """Machines that were named one by one: a result of all of them, and one report."""
    known = team.files
    ids = {host: next(iter(Reader(path))).value.machine_id for host, path in known.items()}
    files = [str(known[host]) for host in distinct(ids, note)]
    show(files, form=form)
    try:
        report(files, out=str(team.folder / "report.html"))
    except UserError as error:  # what was measured is whole without a page
        note(str(error))


def _show_groups(team: FleetRun, plan: str) -> None:
    """The machines of a file: groups of those that behave alike, and the same as a page."""
    from linewright.fleet import groups
    from linewright.show.document_page import page
    from linewright.show.terminal import print_tables

    if machines := groups.machines(team.files, note):
        said = groups.document(groups.group(machines), team.failed, plan)
        # What each kind costs and every machine are a page's matter.
        hidden = said.tables[:-1]
        short = msgspec.structs.replace(said, blocks=[b for b in said.blocks if b not in hidden])
        print_tables(short, console_for(sys.stdout))
        sys.stdout.flush()
        write(team.folder / "fleet.html", page(said), allowed="name another folder")
        note(f"the page is {team.folder / 'fleet.html'}")


def limit_s(plan: str, budget: object) -> float:
    """Seconds that one machine may take at most."""
    if budget is not None:
        return units.duration_s(str(budget), "--budget") + SETUP_S
    planned = plans.load(plan) if plans.is_file(plan) else plans.find(plan)
    return planned.budget_s + SETUP_S


def run(team: FleetRun, limit: float) -> None:
    """Measure what a fleet has left, with progress on standard error; raises where it was stopped
    or refused as a whole."""
    meter = FleetMeter(team)
    with fitting(meter) as shown:
        team.run(JOBS, limit, shown.say, lambda: shown.show(None))
    refused = refusal(team.failed)
    if refused is not None and not team.files:
        raise refused


class FleetMeter:
    """How far a fleet is, for the progress display."""

    def __init__(self, team: FleetRun) -> None:
        self._team, self._start = team, time.monotonic()

    def take(self, step: None) -> None:
        """The fleet itself knows how far it is."""

    @property
    def share(self) -> float:
        return self._team.share

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._start

    def text(self) -> str:
        failed = f", {len(self._team.failed)} failed" if self._team.failed else ""
        running = ", ".join(member.host.name for member in self._team.running)
        return (
            f"{self.share:4.0%}, {self._team.ended} of {len(self._team.members)} "
            f"machines{failed}; running: {running}"
        )
