# SPDX-License-Identifier: MIT
"""The histogram as the probe fills it: the bucket of a value, and the buckets of a list of
times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from linewright.analysis.merge import LINEAR_BUCKETS, SUB_BITS


def index_of(picoseconds: int) -> int:
    """Bucket of a value: itself below 256, else (e << 7) + (value >> e) with e = floor(log2(value))
    - 7."""
    if picoseconds < LINEAR_BUCKETS:
        return picoseconds
    exponent = picoseconds.bit_length() - 1 - SUB_BITS
    return (exponent << SUB_BITS) + (picoseconds >> exponent)


def encode(values_ns: Iterable[float]) -> list[tuple[int, int]]:
    """Sorted (bucket, count) pairs of times in nanoseconds, rounded to a picosecond."""
    return sorted(Counter(index_of(round(value * 1000)) for value in values_ns).items())
