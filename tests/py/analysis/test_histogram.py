# SPDX-License-Identifier: MIT
"""The log-linear histogram against its definition, HdrHistogram and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from linewright.analysis import merge
from support.buckets import encode, index_of

SHARES = (0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
times = st.integers(min_value=0, max_value=2**53)


@given(times)
def test_a_value_lies_in_its_bucket_and_the_bucket_is_narrow(value):
    low, high = merge.bucket_bounds(index_of(value))
    assert low <= value <= high
    assert high - low <= 0.008 * max(low, 1)


@given(st.integers(min_value=0, max_value=5000))
def test_buckets_tile_the_line(index):
    assert merge.bucket_bounds(index)[1] + 1 == merge.bucket_bounds(index + 1)[0]
    assert (
        index_of(merge.bucket_bounds(index)[0]) == index == index_of(merge.bucket_bounds(index)[1])
    )


@pytest.mark.parametrize(
    ("value", "index"),
    [
        (0, 0),
        (255, 255),
        (256, 256),
        (257, 256),
        (258, 257),
        (511, 383),
        (512, 384),
        (1 << 20, 1792),
    ],
)
def test_indices_as_the_schema_words_them(value, index):
    assert index_of(value) == index
    if value >= 256:
        e = int(np.floor(np.log2(value))) - 7
        assert index == (e << 7) + (value >> e)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=10**9), min_size=1, max_size=200))
def test_percentiles_agree_with_hdrhistogram_and_numpy(picoseconds):
    ours = merge.histogram_percentiles(encode([p / 1000 for p in picoseconds]), SHARES)
    hdr = HdrHistogram(1, 10**10, 3)
    for p in picoseconds:
        hdr.record_value(p)
    for share, answer in zip(SHARES, ours, strict=True):
        exact = np.quantile(picoseconds, share, method="inverted_cdf")
        assert answer * 1000 == pytest.approx(exact, rel=0.008, abs=0.5)
        if share > 0:
            # HdrHistogram forms its percentile's rank by rounding, ours by ceiling: it lies between
            # two neighbours.
            lower, upper = np.quantile(
                picoseconds, [max(0, share - 1 / len(picoseconds)), share], method="inverted_cdf"
            )
            theirs = hdr.get_value_at_percentile(100 * share)
            assert lower * 0.99 - 1 <= theirs <= upper * 1.01 + 1


@given(st.lists(times, max_size=50), st.lists(times, max_size=50))
def test_merging_is_recording_both(first, second):
    a, b = (encode([v / 1000 for v in values]) for values in (first, second))
    assert merge.merge_histograms([a, b]) == encode([v / 1000 for v in first + second])


def test_an_empty_histogram_is_refused():
    with pytest.raises(ValueError, match="empty histogram"):
        merge.histogram_percentiles([], (0.5,))
