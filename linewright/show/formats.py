# SPDX-License-Identifier: MIT
"""What a result is shown as; apart from the modules that write it, so that a command's help loads
none of those."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from linewright.errors import choice, contradiction

FORMATS = ("table", "plain", "csv")
PARQUET = "parquet"


class View(Enum):
    """How the format ``table`` shows a result."""

    SCREEN = "one screen: the decision, then the figures"
    ALL = "--all"
    PLAIN = "--format plain"
    WHY = "--why"


def asked_format(form: str, as_json: bool, where: str, formats: Sequence[str] = FORMATS) -> str:
    """The format that ``--format`` and ``--json`` name together: one of them, or ``json``."""
    choice("format", form, "--format", formats)
    if as_json and form != "table":
        raise contradiction("--json", f"--format {form}", where, "name one of them")
    return "json" if as_json else form


def form_and_view(form: str, every: bool, why: str | None = None) -> tuple[str, View]:
    """The format, and the one view that the options name; UserError for two, or for one beside
    another format."""
    asked = {
        View.ALL: every,
        View.PLAIN: form == "plain",
        View.WHY: why is not None,
    }
    named = [view for view, wanted in asked.items() if wanted]
    if len(named) > 1:
        raise contradiction(named[0].value, named[1].value, "show", "name one of them")
    form = "table" if form == "plain" else form
    if named and form != "table":
        other = "--json" if form == "json" else f"--format {form}"
        raise contradiction(named[0].value, other, "show", "name one of them")
    return form, named[0] if named else View.SCREEN
