"""`linewright workload`: locks and counters on the library's atomics, under a setting of LINEWRIGHT_ATOMICS."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from typing import Annotated

import typer

from linewright.errors import UserError
from linewright.target.programs import find_workload, find_workload_for
from linewright.target.registry import open_target

ORDER = 36
CONTEXT = {"ignore_unknown_options": True, "help_option_names": []}
SETTINGS = ("LINEWRIGHT_ATOMICS", "LINEWRIGHT_RSEQ", "LINEWRIGHT_VERBOSE")
"""Variables of the library that go along to another machine."""


def workload(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND [OPTIONS]",
            help="Workload and options: `linewright workload --help` has them.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Where to run: ssh://USER@HOST:PORT or 'exec:COMMAND'.", show_default="local")
    ] = None,
) -> int:
    """Run a lock or counter on the library's atomics, checked while it is timed: `linewright workload --help`.

    The program linewright-workload takes this command's place: its options, its output, its exit code.
    """
    if not arguments:
        raise UserError("no workload named", "workload", "linewright workload KIND; workload --help lists the kinds")
    if on is not None and on != "local":
        return _elsewhere(on, arguments)
    path = find_workload()
    sys.stdout.flush()
    for name in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and what is ignored stays so in the program
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(path, ["linewright workload", *arguments])
    except OSError as error:
        raise UserError(f"cannot run {path}: {error.strerror}", "linewright-workload") from None


def _elsewhere(on: str, arguments: list[str]) -> int:
    """The same on another machine, with this command's settings of the library."""
    if not on.startswith(("ssh:", "exec:")):
        raise UserError(f"no machine {on!r}", "--on", "allowed: local, ssh://USER@HOST:PORT, 'exec:COMMAND'")
    settings = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    with closing(open_target(on)) as target:
        return target.call(find_workload_for, arguments, settings)
