# SPDX-License-Identifier: MIT
"""Mistakes that tests plant in a source."""


def planted(text: str, right: str, wrong: str) -> str:
    """The text with a mistake in the one place where `right` stands: where there is none any more,
    or are several, the mistake has to move with the code."""
    assert text.count(right) == 1, f"{text.count(right)} times: {right!r}"
    return text.replace(right, wrong)
