# SPDX-License-Identifier: MIT
"""`linewright probe`: the measuring program itself, with its own options, or a copy of it for
another machine."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from linewright.commands._options import become, plans_named
from linewright.errors import DONE, UserError, cannot_write
from linewright.forms import Form
from linewright.plans.request import Request, build
from linewright.run import probe_questions
from linewright.run.programs import NAME, find_probe
from linewright.schema import PROBED, Cpu, architecture_of
from linewright.show.output import note, open_new
from linewright.target import Topology

ORDER = 44
CONTEXT = {"ignore_unknown_options": True}


def probe(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- ARGS", help="Options of the probe.", show_default=False),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            help=f"Write the static probe of this architecture: {', '.join(PROBED)}.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File to write.", show_default="linewright-probe-ARCH"),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            help="Write this plan too, into FILE.json, as the probe there reads it.",
            autocompletion=plans_named,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Plan parameter, key=value; repeatable.")
    ] = None,
) -> int:
    """Run linewright-probe with these arguments (`linewright probe -- --help`), or write one for
    another machine."""
    if arch is not None:
        if arguments:
            allowed = f"no arguments for the probe beside it: {arguments[0]}"
            raise UserError("--arch runs nothing", "probe", allowed)
        return _hand_out(arch, out or f"{NAME}-{arch}", plan, settings or [])
    if out is not None or plan is not None or settings:
        raise UserError("nothing to write", "probe", "--arch says for which architecture")
    path = find_probe()
    return become(path, [str(path), *(arguments or [])], os.environ, "linewright-probe")


def _hand_out(arch: str, out: str, plan: str | None, settings: list[str]) -> int:
    """Write the probe, and the plan beside it; say what to do with them there."""
    if arch not in PROBED:
        raise UserError(f"no probe for {arch!r}", "--arch", f"allowed: {', '.join(PROBED)}")
    from linewright.elf.symbols import loadable

    program = loadable(find_probe(arch))
    text = b""
    if plan is not None:
        built = build(Request(plan=plan, settings=settings), UnprobedMachine(arch))
        # The probe runs one launch at a time: each gets its share.
        each = msgspec.structs.replace(built, budget_s=built.budget_s / built.launches)
        text = msgspec.json.encode(each) + b"\n"
    _write(out, program, 0o755)
    name = shlex.quote(f"./{Path(out).name}")
    plan_there = shlex.quote(f"{Path(out).name}.json")
    if plan is None:
        note(
            f"{out} is written: there, {name} --quick prints a table, and {name} <PLAN prints "
            "records"
        )
        return DONE
    _write(f"{out}.json", text, 0o644)
    launches = " ".join(map(str, range(built.launches)))
    note(f"there: for n in {launches}; do {name} --launch $n <{plan_there}; done >records.jsonl")
    note("here: linewright measure --from records.jsonl")
    return DONE


def _write(path: str, data: bytes, mode: int) -> None:
    try:
        with open_new(path, mode) as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from None


CPUS = 2
"""As many as the plans' pairs of threads need. A machine with one skips those cells and says so in
its records."""


class UnprobedMachine:
    """Every form of an architecture and two CPUs: the probe there says which forms its CPU
    lacks."""

    def __init__(self, arch: str) -> None:
        self.name = f"unprobed:{arch}"
        self._arch = arch

    def forms(self) -> list[Form]:
        every = probe_questions.read_forms(probe_questions.ask([find_probe()], "--list-forms=all"))
        # As `belongs_to` in wire/forms.hpp: generic forms wider than a register are no instruction.
        archs, bits = ("any", self._arch), architecture_of(self._arch).word_bits
        here = [
            form
            for form in every
            if form.arch in archs or (form.arch == "generic" and form.width_bits <= bits)
        ]
        return [msgspec.structs.replace(form, available=True, reason="") for form in here]

    def topology(self) -> Topology:
        cpus = [Cpu(cpu=n, core=n, l3=0, socket=0, node=0, allowed=True) for n in range(CPUS)]
        return Topology(arch=self._arch, cpus=cpus, pairs={"same_l3": ["0,1"]})
