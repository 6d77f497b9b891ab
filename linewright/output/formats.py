"""The values of ``--format``; apart from the modules that write them, so that a command's help loads none of those."""

from __future__ import annotations

from linewright.errors import UserError

FORMATS = ("table", "json", "csv", "published")


def check_format(name: str) -> str:
    """A result format, or UserError naming the allowed ones."""
    if name not in FORMATS:
        raise UserError(f"no format {name!r}", "--format", f"allowed: {', '.join(FORMATS)}")
    return name
