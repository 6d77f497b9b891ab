"""`linewright probe`: the measuring program itself, with its own options."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from linewright.errors import UserError
from linewright.target.programs import find_probe

ORDER = 90


def register(app: typer.Typer) -> None:
    app.command("probe", context_settings={"ignore_unknown_options": True, "help_option_names": []})(probe)


def probe(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGS", help="Options of the probe.", show_default=False)
    ] = None,
) -> int:
    """Run linewright-probe with these arguments: `linewright probe -- --help`."""
    path = find_probe()
    sys.stdout.flush()
    try:
        os.execv(path, [str(path), *(arguments or [])])
    except OSError as error:
        raise UserError(f"cannot run {path}: {error.strerror}", "linewright-probe") from None
