# SPDX-License-Identifier: MIT
"""`linewright compare`: runs held against a baseline, cell by cell; trial files setting by
setting."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from linewright import units
from linewright.commands._options import AsJson, Only, limit_of, words_of
from linewright.errors import DIFFERENT, DONE, check_range, contradiction
from linewright.records import files as records
from linewright.show.output import (
    answer_beside,
    asked_format,
    check_page,
    console_for,
    note,
    print_json,
    write,
)

ORDER = 2
FORMATS = ("table", "csv")
UNLIKE = "--unlike"
TurnsOption = Annotated[int | None, typer.Option(help="Turns of --measure.", show_default="8")]


def compare(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BASELINE FILE",
            help="Record files, or trial files; the first is the baseline of all others.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A_COMMAND B_COMMAND",
            help="Run two commands in turns and compare their records; each writes one launch to "
            "{output}.",
            show_default=False,
        ),
    ] = None,
    launches: TurnsOption = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Exit 1 only where a cell is shown to be more than this worse: 5%; with "
            "5%,undecided also where one is not shown to be within it.",
            show_default="any difference",
        ),
    ] = None,
    unlike: Annotated[
        bool,
        typer.Option(UNLIKE, help="Compare even though machine, kernel, probe or settings differ."),
    ] = False,
    form: Annotated[str, typer.Option("--format", help="table or csv.")] = "table",
    as_json: AsJson = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every cell, those without a difference too.")
    ] = False,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the comparison as one self-contained page too."),
    ] = None,
    only: Only = None,
) -> int:
    """Say cell by cell what differs between runs, corrected for many comparisons; exit code 1 if
    anything does."""
    form = asked_format(form, as_json, "compare", FORMATS)
    limit, undecided_fails = limit_of(fail_above, units.share, "--fail-above")
    options = dict(fail_above=limit, only=only or (), undecided_fails=undecided_fails)
    if html is not None:
        check_page(html, files or [], "--html")
    again = [*[UNLIKE] * unlike, *words_of({"--fail-above": fail_above, "--only": only})]
    return answer(_paths(measure, files or [], launches), form, again, every, html, **options)


def answer(
    paths: Sequence[str],
    form: str,
    again: Sequence[str] = (UNLIKE,),
    every: bool = False,
    html: str | None = None,
    **options: Any,
) -> int:
    """Compare record files, print what is found and write it as a page; the exit code. `again` are
    the options that say the same on a command line."""
    from linewright.compare import from_files  # imports NumPy: a refusal is quicker than that
    from linewright.compare.compared_files import compare_whatever
    from linewright.say.comparison_document import check_comparable, document, refuse_unlike

    refuse = compare_whatever if UNLIKE in again else refuse_unlike
    found = from_files.compare(paths, from_files.CompareOptions(**options), note, refuse)
    check_comparable(found)
    if html is not None:
        from linewright.show.document_page import page

        write(html, page(document(found, "page")), "--html")
    with answer_beside():
        _print(found, form, "" if every else shlex.join(["compare", "--all", *again, *paths]))
    return DIFFERENT if found.failed else DONE


def _paths(commands: tuple[str, str] | None, files: list[str], launches: int | None) -> list[str]:
    """The record files that are given, or the two that running both commands in turns gives."""
    if commands is None:
        if launches is not None:
            raise contradiction("--launches", "files", "compare", "turns of --measure")
        return files
    if files:
        raise contradiction("--measure", "files", "compare", "commands to run, or files to read")
    from linewright.analysis.comparison import FEWEST_LAUNCHES
    from linewright.compare import in_turns

    words = [in_turns.checked(command) for command in commands]
    turns = 8 if launches is None else launches
    count = check_range(turns, FEWEST_LAUNCHES, in_turns.MOST_LAUNCHES, "--launches")
    folder = records.new_path(f"compare-{records.moment()}").removesuffix(".jsonl")
    return in_turns.measure(words, in_turns.new_folder(folder), count, note)


def _print(found, form: str, rest: str) -> None:
    from linewright.say import comparison_document

    if form == "json":
        said = comparison_document.document(found, "cells")
        print_json(comparison_document.for_programs(found) | {"document": said})
    elif form == "csv":
        from linewright.show.output import csv_of

        rows = comparison_document.rows_for_programs(found)
        sys.stdout.write(csv_of(rows))
    else:
        from linewright.show.terminal import print_tables

        said = comparison_document.document(found, "everyone" if rest else "cells")
        print_tables(said, console_for(sys.stdout), rest)
