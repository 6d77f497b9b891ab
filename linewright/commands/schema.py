"""`linewright schema`: JSON Schema of plans, contexts, records and the lines of trial files."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from linewright.errors import DONE, UserError
from linewright.schema import schemas
from linewright.trial.files import schemas as trial_schemas

ORDER = 80


def register(app: typer.Typer) -> None:
    app.command("schema")(schema)


def schema(
    shape: Annotated[
        str | None,
        typer.Argument(help="plan, context, record, trial or trial_run; all of them without it.", show_default=False),
    ] = None,
) -> int:
    """Print the JSON Schema of a shape, for tools that read or write our files."""
    known = schemas() | trial_schemas()
    if shape is not None and shape not in known:
        raise UserError(f"no shape {shape!r}", "schema", f"allowed: {', '.join(known)}")
    answer = known if shape is None else known[shape]
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(answer), indent=1) + b"\n")
    return DONE
