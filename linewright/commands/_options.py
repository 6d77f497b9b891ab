"""Arguments and options that several commands have, and the refusal of records in which nothing is finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from linewright.errors import UserError

Records = Annotated[list[str], typer.Argument(metavar="RECORDS", help="Record files.", show_default=False)]
Only = Annotated[list[str] | None, typer.Option(help="Cells whose id, or parts of it, fit a shell glob; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Every = Annotated[bool, typer.Option("--all", help="Everything, instead of one screen.")]


def check_range(value: int, least: int, most: int, where: str) -> None:
    """Refuse a number outside of what an option allows."""
    if not least <= value <= most:
        raise UserError(f"out of range: {value}", where, f"allowed: {least} to {most}")


def require(count: int, files: Sequence[str], what: str) -> None:
    """Refuse files in which no cell is finished; `what` was to be done with them."""
    if not count:
        raise UserError(f"no finished cell to {what}", files[0], "the run ended before its first block of cells did")


def words_of(options: dict[str, object]) -> list[str]:
    """Options as they would be written again, those without a value left out."""
    return [
        str(word)
        for option, value in options.items()
        for one in (value if isinstance(value, (list, tuple)) else [value])
        if one is not None
        for word in (option, one)
    ]
