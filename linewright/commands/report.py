# SPDX-License-Identifier: MIT
"""`linewright report`: record files as one page that opens anywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from linewright.errors import DONE, cannot_write
from linewright.show.output import check_page, note
from linewright.wings import need_extra

ORDER = 3


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
) -> int:
    """Make one self-contained HTML page: verdict, charts, context, every number, and the records
    themselves."""
    need_extra("images", "report")
    check_page(out, files)
    from linewright.say.page_material import gather

    material = gather(files, note)
    from linewright.show.report import report_page

    _write(out, report_page.render(material))
    note(f"the report is {out}")
    return DONE


def _write(out: str, page: str) -> None:
    """Write the page under another name and rename it: a reader sees the old page or the new one,
    whole."""
    place = os.path.realpath(out)  # a link stays a link
    beside = f"{place}.part"
    try:
        Path(beside).write_text(page, encoding="utf-8")
        os.replace(beside, place)
    except OSError as error:
        raise cannot_write(out, error) from None
    finally:  # what failed or was interrupted; otherwise it has its place now
        Path(beside).unlink(missing_ok=True)
