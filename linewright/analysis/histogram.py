# SPDX-License-Identifier: MIT
"""The records' log-linear histogram of times: picoseconds, 7 sub-bucket bits, relative bucket width
below 0.8 %."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

SUB_BITS = 7
LINEAR = 1 << (SUB_BITS + 1)
"""Values below this are their own bucket."""

Buckets = Sequence[tuple[int, int]]


def bounds(index: int) -> tuple[int, int]:
    """Lowest and highest picosecond value of a bucket, both inside it."""
    if index < LINEAR:
        return index, index
    exponent = (index >> SUB_BITS) - 1
    low = (index - (exponent << SUB_BITS)) << exponent
    return low, low + (1 << exponent) - 1


def merge(histograms: Iterable[Buckets]) -> list[tuple[int, int]]:
    """One histogram of everything the given ones hold."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for index, count in histogram:
            counts[index] = counts.get(index, 0) + count
    return sorted(pair for pair in counts.items() if pair[1])


def percentiles(histogram: Buckets, shares: Sequence[float]) -> list[float]:
    """Times in ns that the given shares (0..1) of the samples do not exceed, as middles of their
    buckets.

    The sample of rank ceil(share·n) (at least the first), as HdrHistogram and NumPy's
    `inverted_cdf` choose it."""
    pairs = [(index, count) for index, count in sorted(histogram) if count]
    if not pairs:
        raise ValueError("an empty histogram has no percentiles")
    reached = np.cumsum([float(count) for _, count in pairs])
    answers = []
    for share in shares:
        rank = max(1.0, np.ceil(share * reached[-1] - 1e-9))
        low, high = bounds(pairs[int(np.searchsorted(reached, rank))][0])
        answers.append((low + high) / 2000)
    return answers
