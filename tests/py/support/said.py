# SPDX-License-Identifier: MIT
"""Whether what a command prints agrees with itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from linewright.analysis.summary import Summary
from linewright.say.document import render_all
from linewright.say.verdict import verdict_sentences
from linewright.schema import Context

INTERVAL = re.compile(
    r"(?<![\w.+-])([0-9.]+)(?: ns)? (?:\(|[^.]*? error, )([0-9.]+) to ([0-9.]+)\b"
)
"""A figure and its interval: ``20.8 ns (19 to 23)``, and the band of ``explain``."""
ROUNDED = 0.95
"""An interval is shown with two digits."""
BROKEN = re.compile(r"Traceback|internal error|\b[Nn]a[Nn]\b|\binf\b|\de[+-]\d|\bNone\b")


def verdict(
    summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]
) -> list[str]:
    """What the measurements show, as lines of text."""
    return render_all(verdict_sentences(summaries, contexts))


def check_sentences(said: str) -> None:
    """What is said agrees with itself: an interval holds the figure in front of it, as far as both
    are rounded, no thread starves among equals, and nothing is left over from the program."""
    words = " ".join(said.split())
    assert not BROKEN.search(words), said
    assert not ("Jain's index) is 1.00" in words and "starve" in words), said
    for found in INTERVAL.finditer(words):
        middle, low, high = (float(part) for part in found.groups())
        assert ROUNDED * low <= middle <= high / ROUNDED, (found[0], said)
