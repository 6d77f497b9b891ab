"""Which of our shapes a line of JSON is, and of which version: read before the line is decoded as
that shape."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
"""What decoding raises for bytes that are not the JSON asked for."""


class _Shapes(Struct):
    """The field that each shape announces itself by; everything else in the line is skipped."""

    linewright_context: Raw | UnsetType = UNSET
    linewright_record: Raw | UnsetType = UNSET
    linewright_plan: Raw | UnsetType = UNSET
    linewright_trial: Raw | UnsetType = UNSET
    linewright_trial_run: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Shapes).decode


def kind_of(data: bytes) -> tuple[str, str]:
    """``context``, ``record``, ``plan``, ``trial`` or ``trial_run``, and the version's text; two
    empty texts for others.

    `DECODE_ERRORS` for what is no JSON object.
    """
    fields = msgspec.structs.asdict(_decode(data))
    named = [(name, value) for name, value in fields.items() if value is not UNSET]
    if len(named) != 1:
        return "", ""
    name, version = named[0]
    return name.removeprefix("linewright_"), bytes(version).decode("utf-8", "replace")[:20]
