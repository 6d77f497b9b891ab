"""`linewright schema`: JSON Schema of plans, contexts, records, the lines of trial files, and what `find` writes."""

from __future__ import annotations

from typing import Annotated

import typer

from linewright.errors import DONE, UserError
from linewright.find.schema import schemas as find_schemas
from linewright.output.console import print_json
from linewright.schema import schemas
from linewright.trial.files import schemas as trial_schemas

ORDER = 80


def schema(
    shape: Annotated[
        str | None,
        typer.Argument(
            help="plan, context, record, trial, trial_run, find or find_line; all of them without it.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a shape, for tools that read or write our files."""
    known = schemas() | trial_schemas() | find_schemas()
    if shape is not None and shape not in known:
        raise UserError(f"no shape {shape!r}", "schema", f"allowed: {', '.join(known)}")
    answer = known if shape is None else known[shape]
    print_json(answer)
    return DONE
