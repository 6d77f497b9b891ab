"""Why a figure or an answer is missing: one wording for each reason, and the one place where a name
that programs read becomes English."""

from __future__ import annotations

from linewright.schema import FEWEST_LAUNCHES

FEW_LAUNCHES = f"fewer than {FEWEST_LAUNCHES} launches"
WITHHELD = (
    "exposed costs are withheld, since the loop around the operation is no measure of its work"
)
_WORDS = {
    "one_launch": FEW_LAUNCHES,
    "few_launches": FEW_LAUNCHES,
    "baseline": "exposed costs are withheld",
    "wide": "wide interval",
}
"""Reasons of a judgement that say more, or another thing, than their name."""


def in_english(name: str) -> str:
    """A reason, flag, status, parameter or operation as people write it."""
    return _WORDS.get(name, name.replace("_", " "))
