# SPDX-License-Identifier: MIT
"""`linewright workload`: locks and counters on the library's atomics, under a setting of
LINEWRIGHT_ATOMICS."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Annotated

import typer

from linewright.commands._options import Elsewhere, become, completion
from linewright.errors import UserError
from linewright.run.place import open_place
from linewright.run.programs import find_workload

ORDER = 41
CONTEXT = {"ignore_unknown_options": True, "help_option_names": []}
KINDS = {
    "refcount": "get a reference and put it",
    "spinlock": "test-and-set, waiting by reads",
    "ticket": "first come, first served",
    "mcs": "a queue in which each thread polls a word of its own",
    "rwlock": "readers and writers, with one counter",
    "hash-bucket": "a waiter is queued in a bucket, moved to another, and woken",
    "handoff": "one turn of a word that goes round all threads",
    "futex-hash": "a wait that finds another value than it expects",
    "futex-wake": "waiters woken one by one",
    "futex-wake-parallel": "as many wakers as waiters",
    "futex-requeue": "a waiter is moved to another bucket",
    "futex-lock-pi": "a lock with priority inheritance",
}
"""What linewright-workload has, by its names."""
SETTINGS = ("LINEWRIGHT_ATOMICS", "LINEWRIGHT_RSEQ", "LINEWRIGHT_VERBOSE", "LINEWRIGHT_WAIT")
"""Variables of the library that go along to another machine."""
kinds_named = completion(lambda: KINDS)


def workload(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND [OPTIONS]",
            help="Workload and options: `linewright workload --help` has them.",
            show_default=False,
            autocompletion=kinds_named,
        ),
    ] = None,
    on: Elsewhere = None,
) -> int:
    """Run a lock or counter on the library's atomics, checked while it is timed: `linewright
    workload --help`.

    The program linewright-workload takes this command's place: its options, its output, its exit
    code."""
    if not arguments:
        allowed = "linewright workload KIND; linewright list has the kinds"
        raise UserError("no workload named", "workload", allowed)
    if on is not None and on != "local":
        return _elsewhere(on, arguments)
    words = ["linewright workload", *arguments]
    return become(find_workload(), words, os.environ, "linewright-workload")


def _elsewhere(on: str, arguments: list[str]) -> int:
    """The same on another machine, with this command's settings of the library."""
    settings = {name: os.environ[name] for name in SETTINGS if name in os.environ}
    with closing(open_place(on, shell=False)) as there:
        return there.call(find_workload, arguments, settings)
