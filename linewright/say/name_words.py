"""Why a figure or an answer is missing: one wording for each reason, and the one place where a name
that programs read becomes English."""

from __future__ import annotations

from linewright.schema import FEWEST_LAUNCHES

FEW_LAUNCHES = f"fewer than {FEWEST_LAUNCHES} launches"
WITHHELD = (
    "exposed costs are withheld, since the loop around the operation is no measure of its work"
)
LEFT_OPEN = "the model's constants and its own error leave it open"
NO_DRAWS = "a model's figures without draws of its constants: their ratios have no interval"
_WORDS = {
    "one_launch": FEW_LAUNCHES,
    "few_launches": FEW_LAUNCHES,
    "baseline": "exposed costs are withheld",
    "wide": "wide interval",
    "model": LEFT_OPEN,
    "no_draws": NO_DRAWS,
}
"""Reasons of a judgement that say more, or another thing, than their name."""


def in_english(name: str) -> str:
    """A reason, flag, status, parameter or operation as people write it."""
    return _WORDS.get(name, name.replace("_", " "))
