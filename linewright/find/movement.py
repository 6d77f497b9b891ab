"""Whether a line moves between CPUs, from the times and CPUs of its samples.

Two threads that use the same bytes are no proof that anything travels: a counter per CPU is used by
every thread and stays where it is, and a job that is handed over takes its lines along once.  Two
ratios tell them apart.  Each is 1 where the CPUs use the line independently of each other, and near
0 where one CPU uses it for a while before another does:

* *changes*: neighbouring samples of different CPUs, over their number in random order (as in the
  runs test of Wald and Wolfowitz, 1940).  It sees turns that are longer than a sampling period.
* *close pairs*: of the pairs of samples of two CPUs that lie within a few sampling periods, those
  that lie closer than a small distance, over their number if distances were uniform (a pair
  correlation).  It sees turns down to that distance; the sampler's periods differ by CPU, so that
  all distances occur.

Handing over at distances that the samples do not resolve looks like contention: the answer
carries the distance, and is open where that is more than a millisecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import msgspec
import numpy as np

from linewright.analysis.intervals import wilson_score
from linewright.find.sharing_schema import Movement
from linewright.schema import Estimate

LINE_BETWEEN = 0.6
"""Ratio above which a line moves. Planted lines under contention had 1.2 to 1.7 by changes, lines
handed over every 10 ms 0.30 to 0.39."""
FEWEST_ON_ONE_CPU = 35
"""Samples that must all be of one CPU before the line is said to stay there: then others' share is
below 10 % (Wilson, 95 %)."""
REACH = 8
"""Sampling intervals of the line within which pairs are looked at."""
CLOSE_PAIRS = 40
"""Close pairs that are expected of CPUs that use the line independently: their distance follows
from it, and a ratio of 1 then has an interval that excludes LINE_BETWEEN."""

LONGEST_TURN_NS = 1_000_000
"""Distance that close pairs must resolve before a line is said to move: one miss for each longer
turn (at most about 1 µs) is less than 0.1 % of it."""


def movement(uses: Iterable[tuple[int, int]]) -> Movement:
    """The answer from (time in ns, CPU) of each sample, in any order."""
    ordered = sorted(uses)
    times = np.array([time for time, _ in ordered])
    cpus = np.array([cpu for _, cpu in ordered])
    counts, number = Counter(cpus.tolist()), len(cpus)
    if len(counts) < 2:
        stays = number >= FEWEST_ON_ONE_CPU
        return Movement(answer="one_cpu" if stays else "open", samples=number, cpus=len(counts))
    differ = 1 - sum(n * (n - 1) for n in counts.values()) / (number * (number - 1))
    changes = _over(wilson_score(int(np.count_nonzero(cpus[1:] != cpus[:-1])), number - 1), differ)
    close_ns, close = _close_pairs(times, cpus)
    known = [changes] if close is None else [changes, close]
    if any(ratio.high < LINE_BETWEEN for ratio in known):
        answer = "by_turns"
    elif 0 < close_ns <= LONGEST_TURN_NS and min(r.low for r in known) > LINE_BETWEEN:
        answer = "moves"
    else:
        answer = "open"
    return Movement(
        answer=answer,
        samples=number,
        cpus=len(counts),
        changes=changes,
        close=close,
        close_ns=close_ns,
    )


def table_movement(lines: list[list[tuple[int, int]]]) -> Movement:
    """The same of many lines together, each with too few samples: they move if CPUs use the whole
    at the same time, and neighbouring samples of one line are of CPUs in random order."""
    whole = movement(use for uses in lines for use in uses)
    pairs = [(one[1], two[1]) for uses in lines for one, two in pairwise(sorted(uses))]
    counts = Counter(cpu for uses in lines for _, cpu in uses)
    differ = 1 - sum(n * n for n in counts.values()) / counts.total() ** 2
    seen = wilson_score(sum(one != two for one, two in pairs), len(pairs))
    if seen is None or not differ:
        return whole
    changes = _over(seen, differ)
    answer = whole.answer
    if changes.high < LINE_BETWEEN:
        answer = "by_turns"
    elif answer == "by_turns":
        return whole  # with the ratio that shows it
    elif changes.low < LINE_BETWEEN and answer == "moves":
        answer = "open"
    return msgspec.structs.replace(whole, answer=answer, changes=changes)


def _over(seen: Estimate, expected: float) -> Estimate:
    return Estimate(value=seen.value / expected, low=seen.low / expected, high=seen.high / expected)


def _close_pairs(times: np.ndarray, cpus: np.ndarray) -> tuple[int, Estimate | None]:
    """The distance below which pairs are close, in ns, and their ratio; None of too few pairs."""
    reach = REACH * float(np.median(np.diff(times)))
    found = []
    for step in range(1, len(times)):
        apart = times[step:] - times[:-step]
        near = apart <= reach
        if not near.any():
            break
        found.append(apart[near & (cpus[step:] != cpus[:-step])])
    pairs = np.concatenate(found) if found else times[:0]
    if len(pairs) < 2 * CLOSE_PAIRS:
        return 0, None
    close_ns = reach * CLOSE_PAIRS / len(pairs)
    seen = wilson_score(int(np.count_nonzero(pairs <= close_ns)), len(pairs))
    return round(close_ns), _over(seen, CLOSE_PAIRS / len(pairs))
