"""The records' log-linear histogram of times: picoseconds, 7 sub-bucket bits, relative bucket width below 0.8 %."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

SUB_BITS = 7
LINEAR = 1 << (SUB_BITS + 1)
"""Values below this are their own bucket."""

Buckets = Sequence[tuple[int, int]]


def index_of(picoseconds: int) -> int:
    """Bucket of a value: itself below 256, else (e << 7) + (value >> e) with e = floor(log2(value)) - 7."""
    if picoseconds < 0:
        raise ValueError(f"a time of {picoseconds} ps cannot be recorded")
    if picoseconds < LINEAR:
        return picoseconds
    exponent = picoseconds.bit_length() - 1 - SUB_BITS
    return (exponent << SUB_BITS) + (picoseconds >> exponent)


def bounds(index: int) -> tuple[int, int]:
    """Lowest and highest picosecond value of a bucket, both inside it."""
    if index < 0:
        raise ValueError(f"bucket {index} does not exist")
    if index < LINEAR:
        return index, index
    exponent = (index >> SUB_BITS) - 1
    low = (index - (exponent << SUB_BITS)) << exponent
    return low, low + (1 << exponent) - 1


def encode(values_ns: Iterable[float]) -> list[tuple[int, int]]:
    """Sorted (bucket, count) pairs of times in nanoseconds, rounded to a picosecond."""
    counts: dict[int, int] = {}
    for value in values_ns:
        index = index_of(round(value * 1000))
        counts[index] = counts.get(index, 0) + 1
    return sorted(counts.items())


def merge(histograms: Iterable[Buckets]) -> list[tuple[int, int]]:
    """One histogram of everything the given ones hold."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for index, count in histogram:
            counts[index] = counts.get(index, 0) + count
    return sorted(pair for pair in counts.items() if pair[1])


def decode(histogram: Buckets) -> list[tuple[float, int]]:
    """(middle of the bucket in ns, count) pairs."""
    return [(sum(bounds(index)) / 2000, count) for index, count in histogram]


def percentiles(histogram: Buckets, shares: Sequence[float]) -> list[float]:
    """Times in ns that the given shares (0..1) of the samples do not exceed, as middles of their buckets.

    The sample of rank ceil(share·n) (at least the first), as HdrHistogram and NumPy's `inverted_cdf` choose it.
    """
    pairs = [(index, count) for index, count in sorted(histogram) if count]
    if not pairs:
        raise ValueError("an empty histogram has no percentiles")
    reached = np.cumsum([float(count) for _, count in pairs])
    answers = []
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"a share of {share} is outside 0..1")
        rank = max(1.0, np.ceil(share * reached[-1] - 1e-9))
        low, high = bounds(pairs[int(np.searchsorted(reached, rank))][0])
        answers.append((low + high) / 2000)
    return answers
