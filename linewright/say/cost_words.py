# SPDX-License-Identifier: MIT
"""Costs in words: the names of forms, a figure and its interval."""

from __future__ import annotations

import math

from linewright import numbers
from linewright.analysis.matrix import Figure
from linewright.analysis.summary import Summary
from linewright.forms import PREFETCHES, made_of
from linewright.say.document import TableCell

_LOOPS = {"guess_first": "guess first", "read_first": "read first"}


def form_name(form: str, default: str = "") -> str:
    """A form by its instructions; against `default` only what sets it apart, such as
    ``PREFETCHW``."""
    made = made_of(form)
    if made.prefetch:
        prefetch = PREFETCHES[made.prefetch]
        return prefetch if made.base == default else f"{prefetch} + {form_name(made.base, default)}"
    return "LL/SC" if made.exclusive else _LOOPS.get(made.loop) or made.instruction or form


def figure(found: Figure) -> str:
    """A cost, of several modes the first and last as ``25.3~103``; ``?`` behind that of an
    unreliable cell."""
    text = numbers.cost(found.ns.median_ns) + ("~" if found.metastable else "")
    if found.modes_ns:
        text = f"{numbers.cost(min(found.modes_ns))}~{numbers.cost(max(found.modes_ns))}"
    return text + ("" if found.reliable else "?")


def doubt_mark(s: Summary) -> str:
    """The mark beside a cell's figure that is not one number, or not to be relied on."""
    return "~" if s.metastable else "" if s.status == "ok" else "?"


def span(found: Figure) -> str:
    """The ends of an interval to two digits, ``14–17``; one figure where they are equal; empty for
    no interval, and for a metastable cell."""
    if (
        found.modes_ns
        or found.ns.confidence <= 0
        or not (math.isfinite(found.ns.low_ns) and math.isfinite(found.ns.high_ns))
    ):
        return ""
    ends = [numbers.figure(end, 2) for end in (found.ns.low_ns, found.ns.high_ns)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def figure_words(found: Figure) -> str:
    """A cost without signs."""
    text = numbers.cost(found.ns.median_ns)
    if found.modes_ns:
        text = f"{' or '.join(map(numbers.cost, found.modes_ns))}, by launch"
    return text + ("" if found.reliable else " (unreliable, too many windows were disturbed)")


def figure_cell(found: Figure) -> TableCell:
    """A cost as a cell of a table; the ends of an interval that says nothing are left out."""
    known = found.ns.confidence > 0 and not found.modes_ns
    low, high = (found.ns.low_ns, found.ns.high_ns) if known else (None, None)
    return TableCell(
        text=figure(found),
        value=found.ns.median_ns,
        low=low,
        high=high,
        sign="~" if found.metastable else "",
    )
