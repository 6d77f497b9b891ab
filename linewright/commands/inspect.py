"""`linewright inspect`: the atomics of a program or library, and how much of them can be
switched."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from linewright.commands._options import AsJson
from linewright.errors import DONE
from linewright.show.console import console_for, print_json

ORDER = 71


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
        bool, typer.Option("--all", help="Every function, in the file's order.")
    ] = False,
    with_libraries: Annotated[
        bool,
        typer.Option(
            "--with-libraries",
            help="One line for each library that is loaded with it, too (LD_LIBRARY_PATH counts).",
        ),
    ] = False,
) -> int:
    """Say which atomic operations of a program or library can be switched, and list them by
    function."""
    from linewright.elf import libraries
    from linewright.elf.inspection import inspect as look
    from linewright.say import inspection_document
    from linewright.show.text_tables import print_tables

    found = look(path)
    needed = libraries.closure(path) if with_libraries else libraries.LoadedLibraries((), ())
    others = [look(library) for library in needed.objects]
    if as_json:
        data = inspection_document.for_programs(found)
        if with_libraries:
            data |= {
                "libraries": [inspection_document.for_programs(other) for other in others],
                "missing_libraries": list(needed.missing),
            }
        print_json(data)
        return DONE
    console = console_for(sys.stdout)
    said = inspection_document.document(found, every)
    print_tables(said, console, f"inspect {found.image.path}", every)
    if with_libraries:
        said = inspection_document.of_libraries([found, *others], needed.missing)
        print_tables(said, console, "inspect")
    return DONE
