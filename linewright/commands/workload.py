# SPDX-License-Identifier: MIT
"""`linewright workload`: locks and counters on the library's atomics, under a setting of
LINEWRIGHT_ATOMICS."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Annotated

import typer

from linewright.commands._options import Elsewhere, become
from linewright.errors import UserError
from linewright.run.place import open_place
from linewright.run.programs import find_workload

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
    on: Elsewhere = None,
) -> int:
    """Run a lock or counter on the library's atomics, checked while it is timed: `linewright
    workload --help`.

    The program linewright-workload takes this command's place: its options, its output, its exit
    code."""
    if not arguments:
        raise UserError(
            "no workload named",
            "workload",
            "linewright workload KIND; workload --help lists the kinds",
        )
    if on is not None and on != "local":
        return _elsewhere(on, arguments)
    words = ["linewright workload", *arguments]
    return become(find_workload(), words, os.environ, "linewright-workload")


def _elsewhere(on: str, arguments: list[str]) -> int:
    """The same on another machine, with this command's settings of the library."""
    settings = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    with closing(open_place(on, shell=False)) as there:
        return there.call(find_workload, arguments, settings)
