# SPDX-License-Identifier: MIT
"""`linewright inspect`: the atomics and the readers-writer locks of a program or library, and how
much of them can be switched."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from linewright.commands._options import AsJson
from linewright.errors import DONE
from linewright.show.output import console_for, print_json

ORDER = 13


def inspect(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|LIBRARY",
            help="An ELF file for arm64, x86-64 or i386.",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every function, in the file's order, and one line for each library that is "
            "loaded with it (LD_LIBRARY_PATH counts).",
        ),
    ] = False,
) -> int:
    """Say which atomic operations and readers-writer locks of a program or library can be switched,
    and list the atomics by function."""
    from msgspec.structs import replace

    from linewright.elf import libraries, lock_calls
    from linewright.elf.inspection import inspect as look
    from linewright.say import inspection_document
    from linewright.show.terminal import print_tables

    found = look(path)
    locks = lock_calls.of_program(path)
    needed = libraries.closure(path) if every else libraries.LoadedLibraries((), ())
    others = [look(library) for library in needed.objects]
    said = inspection_document.document(found, locks, every or as_json)
    linked = inspection_document.of_libraries([found, *others], needed.missing)
    if as_json:
        data = inspection_document.for_programs(found) | {"locks": locks, "document": said}
        if every:
            data |= {
                "libraries": [inspection_document.for_programs(other) for other in others],
                "missing_libraries": list(needed.missing),
                "document": replace(said, blocks=[*said.blocks, *linked.blocks]),
            }
        print_json(data)
        return DONE
    console = console_for(sys.stdout)
    rest = shlex.join(["inspect", "--all", found.image.path])
    print_tables(said, console, "" if every else rest)
    if every:
        print_tables(linked, console)
    return DONE
