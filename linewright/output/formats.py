"""What a result is shown as; apart from the modules that write it, so that a command's help loads none of those."""

from __future__ import annotations

from enum import Enum

from linewright.errors import UserError

FORMATS = ("table", "json", "csv", "published")


class View(Enum):
    """How the format ``table`` shows a result."""

    SCREEN = "one screen: the decision, then the figures"
    ALL = "--all"
    PLAIN = "--plain"
    WHY = "--why"
    MATRIX = "--matrix"


def check_format(name: str) -> str:
    """A result format, or UserError naming the allowed ones."""
    if name not in FORMATS:
        raise UserError(f"no format {name!r}", "--format", f"allowed: {', '.join(FORMATS)}")
    return name


def view_of(form: str, every: bool, plain: bool, why: str | None = None, matrix: str | None = None) -> View:
    """The one view that the options name; UserError for two, or for one beside another format."""
    asked = {View.ALL: every, View.PLAIN: plain, View.WHY: why is not None, View.MATRIX: matrix is not None}
    named = [view for view, wanted in asked.items() if wanted]
    if len(named) > 1:
        raise UserError(f"{named[0].value} and {named[1].value} contradict each other", "show", "name one of them")
    if named and form != "table":
        raise UserError(f"{named[0].value} and --format {form} contradict each other", "show", "name one of them")
    return named[0] if named else View.SCREEN
