# SPDX-License-Identifier: MIT
"""`linewright torture`: a stress test of a part of the library, and a count of the errors it
found."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from linewright.commands._options import set_option, words_of
from linewright.errors import DIFFERENT, DONE, RunError, UserError, one_line
from linewright.plans.definition import Parameter, values_of
from linewright.run.probe_questions import answered, exit_text
from linewright.run.programs import TORTURE, find_torture
from linewright.say.words import in_english

ORDER = 43
PARAMETERS = (
    Parameter("seconds", "count", 10, "how long; 0: the directed cases only", 0, 86_400),
    Parameter("readers", "count", 4, "threads that read", 1, 128),
    Parameter("updaters", "count", 2, "threads that replace objects and wait for readers", 1, 64),
    Parameter(
        "flavour",
        "word",
        "all",
        "which flavour",
        choices=("all", "normal", "fast", "fast_updown"),
    ),
    Parameter("without", "word", None, "deny one system call", choices=("membarrier", "rseq")),
    Parameter("words", "word", None, "where readers count", choices=("thread", "cpu")),
    Parameter("fork", "word", "yes", "fork now and then, and go on", choices=("yes", "no")),
    Parameter("seed", "count", 1, "seed of the threads' choices", 0, 2**32 - 1),
)
"""By the names of the program's options."""
GRACE_S = 300
"""Beyond the asked time, before a run counts as stuck: threads end, the last grace periods pass."""


TortureSetOption = set_option(PARAMETERS)


def torture(
    subject: Annotated[
        str, typer.Argument(metavar="srcu", help="What to torture.", show_default=False)
    ],
    settings: TortureSetOption = None,
) -> int:
    """Run readers, updaters, signals, forks and delays against SRCU; exit code 1 when a reader saw
    a freed object, or a callback was lost."""
    if subject != "srcu":
        raise UserError(f"not known: {subject}", "SUBJECT", "allowed: srcu")
    values = values_of(PARAMETERS, settings or (), "torture")
    request = words_of({f"--{name}": value for name, value in values.items()})
    late_s = values["seconds"] + GRACE_S
    done = answered([find_torture(), subject, *request], TORTURE, b"", late_s, (DONE, DIFFERENT))
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    try:
        counted = msgspec.json.decode(done.stdout, type=dict[str, int | str])
        fast, errors = str(counted.pop("fast_flavours")), counted["errors"]
    except (msgspec.DecodeError, KeyError) as error:
        raise RunError(f"{TORTURE} answered with something unexpected: {error}") from None
    if bool(errors) != bool(done.returncode):
        raise RunError(f"{TORTURE} {exit_text(done.returncode)} with {errors} errors")
    print(one_line(fast.split("; 0 readers")[0]))
    for name, count in counted.items():
        if isinstance(count, int):
            print(f"{count:>12}  {in_english(name)}")
    return done.returncode
