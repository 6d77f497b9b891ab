"""`linewright probe`: the measuring program itself, with its own options, or a copy of it for another machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from linewright.architectures import PROBED
from linewright.errors import DONE, UserError
from linewright.output.console import note
from linewright.output.file import cannot_write, open_new
from linewright.plans.request import Request, build
from linewright.target.programs import NAME, find_probe, find_probe_for

ORDER = 90
CONTEXT = {"ignore_unknown_options": True}


def probe(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Options of the probe.", show_default=False)
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(help=f"Write the static probe of this architecture: {', '.join(PROBED)}.", show_default=False),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", help="File to write.", show_default="linewright-probe-ARCH")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="Write this plan too, into FILE.json, as the probe there reads it.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Plan parameter, key=value; repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> int:
    """Run linewright-probe with these arguments (`linewright probe -- --help`), or write one for another machine."""
    if arch is not None:
        if arguments:
            raise UserError("--arch runs nothing", "probe", f"no arguments for the probe beside it: {arguments[0]}")
        return _hand_out(arch, out or f"{NAME}-{arch}", plan, settings or [], force)
    if out is not None or plan is not None or settings or force:
        raise UserError("nothing to write", "probe", "--arch says for which architecture")
    path = find_probe()
    sys.stdout.flush()
    try:
        os.execv(path, [str(path), *(arguments or [])])
    except OSError as error:
        raise UserError(f"cannot run {path}: {error.strerror}", "linewright-probe") from None


def _hand_out(arch: str, out: str, plan: str | None, settings: list[str], force: bool) -> int:
    """Write the probe, and the plan beside it; say what to do with them there."""
    if arch not in PROBED:
        raise UserError(f"no probe for {arch!r}", "--arch", f"allowed: {', '.join(PROBED)}")
    from linewright.target.remote.place import loadable

    program = loadable(find_probe_for(arch))
    text = b""
    if plan is not None:
        from linewright.target.remote.unseen import Unseen

        built = build(Request(plan=plan, settings=settings), Unseen(arch))
        # The probe runs one launch at a time: each gets its share.
        text = msgspec.json.encode(msgspec.structs.replace(built, budget_s=built.budget_s / built.launches)) + b"\n"
    _write(out, program, 0o755, force)
    name = Path(out).name
    if plan is None:
        note(f"{out} is written: there, ./{name} --quick prints a table, and ./{name} <PLAN prints records")
        return DONE
    _write(f"{out}.json", text, 0o644, force)
    launches = " ".join(map(str, range(built.launches)))
    note(f"there: for n in {launches}; do ./{name} --launch $n <{name}.json; done >records.jsonl")
    note("here: linewright measure --from records.jsonl")
    return DONE


def _write(path: str, data: bytes, mode: int, force: bool) -> None:
    try:
        with open_new(path, force, mode) as file:
            file.write(data)
    except OSError as error:
        raise cannot_write(path, error) from None
