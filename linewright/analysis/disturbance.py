# SPDX-License-Identifier: MIT
"""What may have disturbed the launches of a run: other programs, and a change of frequency."""

from __future__ import annotations

from collections.abc import Sequence

from linewright.schema import Context

LEAST_LOAD = 0.25
"""CPUs kept busy by others, mean of the launches, that disturb: counting in clock ticks alone gives
up to a tenth."""
LEAST_SHARE = 0.02
"""The same as a share of all CPUs: a large machine is never quite idle."""
FREQUENCY_SHARE = 0.05
"""Relative difference of the core's cycle from which the frequency counts as changed."""


def disturbing_load(contexts: Sequence[Context]) -> float | None:
    """CPUs that other programs kept busy, mean of the launches; None where they hardly did, or
    where that is unknown."""
    loads = [context.other_load for context in contexts if context.other_load is not None]
    mean = sum(loads) / len(loads) if loads else 0.0
    disturbs = loads and mean >= max(LEAST_LOAD, LEAST_SHARE * len(contexts[0].cpus))
    return mean if disturbs else None


def changed_cycle_ns(contexts: Sequence[Context]) -> tuple[float, float] | None:
    """The shortest and the longest core cycle of the launches, where the frequency changed."""
    cycles = [c.cycle_ns for c in contexts if c.cycle_ns > 0]
    changed = cycles and max(cycles) > (1 + FREQUENCY_SHARE) * min(cycles)
    return (min(cycles), max(cycles)) if changed else None


def cycles_of_two(
    before: Sequence[Context], after: Sequence[Context]
) -> tuple[float, float] | None:
    """The middle core cycle of two runs, in ns, where the frequency differed."""
    one, two = (sorted(c.cycle_ns for c in side if c.cycle_ns > 0) for side in (before, after))
    if not one or not two:
        return None
    a, b = one[len(one) // 2], two[len(two) // 2]
    return (a, b) if abs(b / a - 1) >= FREQUENCY_SHARE else None
