# SPDX-License-Identifier: MIT
"""`linewright model machines`: what is known of a described machine's constants."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
import typer

from linewright import numbers
from linewright.commands._options import completion
from linewright.errors import DONE
from linewright.model import machine_file
from linewright.model.constants import DISTANCES, KINDS
from linewright.model.machine_file import CLASSES, STATES, Constant, Machine
from linewright.show.output import console_for, width_of

ORDER = 30
machines_named = completion(machine_file.known)


def machines(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A machine, as `linewright list` names them, or a machine file.",
            show_default=False,
            autocompletion=machines_named,
        ),
    ],
    as_toml: Annotated[
        bool,
        typer.Option("--toml", help="Print it as a machine file, to change and to measure on."),
    ] = False,
) -> int:
    """Show a described machine: constants, intervals, provenance, sources."""
    machine = machine_file.find(name, "model machines")
    if as_toml:
        print(machine_file.to_toml(machine), end="")
        return DONE
    for line in _lines(machine, width_of(console_for(sys.stdout))):
        print(line)
    return DONE


def _lines(machine: Machine, width: int) -> Iterator[str]:
    """Everything that is known of a machine, in lines that fit."""
    from linewright.model import story  # imports NumPy

    shape = machine.topology
    bounds = "not calibrated: an example for `linewright model explain`, which says bounds"
    kind = "calibrated" if machine.calibrated else bounds
    homes = f"{shape.homes} home{'s' if shape.homes > 1 else ''}"
    central = " and one half-way between the caches of each socket" if shape.central_homes else ""
    on = [name for name, chosen in msgspec.structs.asdict(machine.options).items() if chosen]
    for text in (
        f"{machine.name}: {machine.title}",
        f"{machine.arch}, {shape.cores} cores; {kind}",
        machine.calibration,
        story.changed(machine),
        f"last-level caches of {numbers.count(shape.cores_per_l3, 'core')}, sockets of "
        f"{shape.cores_per_socket}; {homes}{central}",
        f"Mechanisms (docs/guide/model.md): {', '.join(on) or 'none'}",
    ):
        yield from textwrap.wrap(text, width)
    yield from ("", *textwrap.wrap(f"{WHERE} ({', '.join(STATES)}):", width))
    yield from (f"  {of:8} {', '.join(machine.policy[of])}" for of in CLASSES)
    yield from ("", *_constants(machine.constants, width), "", "Sources:")
    for key, text in machine.sources.items():
        yield from textwrap.wrap(
            f"{key}: {text}", width, initial_indent="  ", subsequent_indent="    "
        )


WHERE = "Where an atomic is performed, by the state of the line in the core"


def _constants(constants: Mapping[str, Constant], width: int) -> Iterator[str]:
    """Each constant with its figures, and below it what it means, which no column has room for."""
    kinds = {**KINDS, **DISTANCES}
    rows = [("constant", "value", "interval", "unit", "provenance", "source")]
    rows += [
        (key, f"{c.value:.4g}", f"{c.low:.4g}–{c.high:.4g}", c.unit, c.provenance, c.source)
        for key, c in constants.items()
    ]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            text.rjust(size) if place in (1, 2) else text.ljust(size)
            for place, (text, size) in enumerate(zip(row, sizes, strict=True))
        ]
        yield "  ".join(cells).rstrip()
        if row is not rows[0]:
            yield from textwrap.wrap(
                kinds[row[0]].meaning, width, initial_indent="    ", subsequent_indent="    "
            )
