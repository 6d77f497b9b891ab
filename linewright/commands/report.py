"""`linewright report`: record files as one page that opens anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from linewright.errors import DONE, UserError
from linewright.output.console import note
from linewright.output.file import cannot_write

ORDER = 25


def report(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="RECORDS",
            help="Record files, of one machine or several; results of find --json too.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str, typer.Option("--output", "-o", help="The page to write; an older one is replaced.")
    ] = "report.html",
    svg: Annotated[
        str | None, typer.Option(help="Write every chart as SVG into this directory too.", show_default=False)
    ] = None,
    png: Annotated[
        str | None, typer.Option(help="Write every chart as PNG into this directory too.", show_default=False)
    ] = None,
) -> int:
    """Make one self-contained HTML page: verdict, charts, context, every number, and the records themselves."""
    from linewright.report.material import gather

    _check(out, files)
    for option, folder in (("--svg", svg), ("--png", png)):
        _make(folder, option)
    material = gather(files, note)

    from linewright.report import export, page
    from linewright.report.sections import sections

    made = sections(material)
    _write(out, page.render(material, made))
    if svg or png:
        count = export.write(made, svg, png)
        note(f"{count} charts are in {' and '.join(folder for folder in (svg, png) if folder)}")
    note(f"the report is {out}")
    return DONE


def _check(out: str, files: list[str]) -> None:
    """Refuse before reading what cannot be written, and never replace the records themselves."""
    path = Path(out)
    if path.is_dir():
        raise UserError(f"cannot write {out}: it is a directory", "--output", "name a file")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {out}: no such directory", "--output", "name a file in a directory that exists")
    if path.exists() and not path.is_file():
        raise UserError(f"cannot write {out}: it is no regular file", "--output", "name a file")
    if path.exists() and any(os.path.exists(name) and os.path.samefile(name, path) for name in files):
        raise UserError(f"{out} is one of the record files", "--output", "name another file")


def _make(folder: str | None, option: str) -> None:
    """Make a folder for charts before they are drawn, which takes a while."""
    try:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error, option, "name a directory that can be written") from None


def _write(out: str, page: str) -> None:
    """Write the page under another name and rename it: a reader sees the old page or the new one, whole."""
    place = os.path.realpath(out)  # a link stays a link
    beside = f"{place}.part"
    try:
        Path(beside).write_text(page, encoding="utf-8")
        os.replace(beside, place)
    except OSError as error:
        raise cannot_write(out, error) from None
    finally:
        Path(beside).unlink(missing_ok=True)  # what failed or was interrupted; otherwise it has its place now
