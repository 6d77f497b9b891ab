# SPDX-License-Identifier: MIT
"""Arguments and options that several commands have."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from linewright.errors import UserError, choice
from linewright.plans.definition import Parameter
from linewright.wings import load, wings

Records = Annotated[
    list[str], typer.Argument(metavar="RECORDS", help="Record files.", show_default=False)
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Cells whose id, or parts of it, fit a shell glob; repeatable."),
]
ProgramArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- PROGRAM [ARGS…]", help="The program and its arguments.", show_default=False
    ),
]
Elsewhere = Annotated[
    str | None,
    typer.Option(
        "--on", help="Where to run: ssh://USER@HOST:PORT or 'exec:COMMAND'.", show_default="local"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Every = Annotated[bool, typer.Option("--all", help="Everything, instead of one screen.")]


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell offers for a value that is one of these names."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


@completion
def plans_named() -> Iterable[str]:
    """Built-in plans."""
    from linewright.plans import built_in

    return built_in()


@completion
def targets_named() -> Iterable[str]:
    """What ``--on`` takes by name."""
    yield "local"
    for wing in wings().values():
        for scheme in wing.targets if wing.listing else ():
            yield from (f"{scheme}:{name}" for name in load(wing.listing)()[1])


def set_option(parameters: Sequence[Parameter]) -> Any:
    """The type of a ``--set KEY=VALUE`` that takes these parameters."""
    about = [
        f"{p.name}{'' if p.default is None else '=' + p.text(p.default)} ({p.help})"
        for p in parameters
    ]
    return Annotated[
        list[str] | None, typer.Option("--set", help=f"KEY=VALUE, repeatable: {', '.join(about)}.")
    ]


def limit_of(
    text: str | None, parse: Callable[[str, str], float], where: str
) -> tuple[float | None, bool]:
    """A limit that a run is judged by, and whether it fails, too, where nothing is decided: 5% or
    5%,undecided."""
    if text is None:
        return None, False
    limit, comma, rest = text.partition(",")
    if comma:
        choice("decision", rest, where, ("undecided",))
    return parse(limit, where), bool(comma)


def words_of(options: dict[str, object]) -> list[str]:
    """Options as they would be written again, those without a value left out."""
    return [
        str(word)
        for option, value in options.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
        for word in (option, one)
    ]


def become(
    program: str | Path, words: Sequence[str], environment: Mapping[str, str], where: str
) -> int:
    """Have a program take this command's place: its output and its exit code are the answer."""
    sys.stdout.flush()
    # Ignored by Python, and what is ignored stays so in the program.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execve(program, list(words), environment)
    except OSError as error:
        raise UserError(f"cannot run {program}: {error.strerror}", where) from None
