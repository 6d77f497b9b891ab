"""`linewright inspect`: the atomics of a program or library, and how much of them can be switched."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from linewright.commands._options import AsJson
from linewright.errors import DONE
from linewright.output.console import console_for, print_json

if TYPE_CHECKING:
    from linewright.elf.inspection import Inspection

ORDER = 71


def inspect(
    path: Annotated[
        str,
        typer.Argument(metavar="PROGRAM|LIBRARY", help="An ELF file for arm64, x86-64 or i386.", show_default=False),
    ],
    as_json: AsJson = False,
    every: Annotated[bool, typer.Option("--all", help="Every function, in the file's order.")] = False,
    with_libraries: Annotated[
        bool,
        typer.Option(
            "--with-libraries", help="One line for each library that is loaded with it, too (LD_LIBRARY_PATH counts)."
        ),
    ] = False,
) -> int:
    """Say which atomic operations of a program or library can be switched, and list them by function."""
    from linewright.elf import libraries
    from linewright.elf.inspection import inspect as look
    from linewright.output import inspection

    found = look(path)
    needed = libraries.closure(path) if with_libraries else libraries.Closure((), ())
    others = [look(library) for library in needed.objects]
    if as_json:
        data = _for_programs(found)
        if with_libraries:
            data |= {"libraries": [_for_programs(other) for other in others], "missing_libraries": list(needed.missing)}
        print_json(data)
        return DONE
    console = console_for(sys.stdout)
    inspection.show(found, console, every)
    if with_libraries:
        inspection.show_libraries([found, *others], needed.missing, console)
    return DONE


def _for_programs(found: Inspection) -> dict:
    from linewright.output.inspection import sums

    image = found.image
    counters = ("contains", "calls", "lse", "locked", "libatomic")
    reached = bool(found.recognised) and image.needs_dynamic_linker and not image.unaudited
    return {
        "path": image.path,
        "machine": image.machine,
        "kind": image.kind,
        "interpreter": image.interpreter,
        "stripped": image.stripped,
        "functions": [
            {"name": f.name, "address": f.address, "llsc": f.llsc} | {name: dict(getattr(f, name)) for name in counters}
            for f in found.functions
        ],
        "helpers": {name: dict(getattr(found, name)) for name in ("recognised", "own", "fixed", "unknown")},
        "libatomic": list(found.libatomic),
        "privileges": image.privileges,
        "data": found.data,
        "sums": sums(found),
        "switchable": {"run_time": reached, "link_time": found.own.total() > 0},
    }
