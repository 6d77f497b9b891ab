"""`linewright workload`: locks and counters on the library's atomics, under a setting of LINEWRIGHT_ATOMICS."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from linewright.errors import UserError
from linewright.target.programs import find_workload

ORDER = 36


def register(app: typer.Typer) -> None:
    app.command("workload", context_settings={"ignore_unknown_options": True, "help_option_names": []})(workload)


def workload(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND [OPTIONS]",
            help="Workload and options: `linewright workload --help` has them.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Run a lock or counter on the library's atomics, checked while it is timed: `linewright workload --help`.

    The program linewright-workload takes this command's place: its options, its output, its exit code.
    """
    path = find_workload()
    sys.stdout.flush()
    for name in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and what is ignored stays so in the program
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(path, ["linewright workload", *(arguments or [])])
    except OSError as error:
        raise UserError(f"cannot run {path}: {error.strerror}", "linewright-workload") from None
