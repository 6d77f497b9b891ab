# SPDX-License-Identifier: MIT
"""`linewright schema`: JSON Schema of plans, contexts, records, the lines of trial files, and what
`find` writes."""

from __future__ import annotations

from typing import Annotated

import typer

from linewright import wings
from linewright.errors import DONE, choice
from linewright.schema import schemas
from linewright.show.output import print_json
from linewright.trial.trial_file import schemas as trial_schemas

ORDER = 45


def schema(
    shape: Annotated[
        str | None,
        typer.Argument(
            help="plan, context, record, trial, trial_run, or what a wing writes, such as "
            "find_line; all of them without it.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a shape, for tools that read or write our files."""
    known = schemas() | trial_schemas()
    for of_wing in wings.brought("schemas"):
        known |= of_wing()
    print_json(known if shape is None else known[choice("shape", shape, "schema", known)])
    return DONE
