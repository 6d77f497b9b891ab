# SPDX-License-Identifier: MIT
"""The distributions against SciPy's, over everything that intervals ask of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from linewright.analysis import intervals as ours

CHANCES = st.floats(1e-9, 1 - 1e-9)
COUNTS = st.integers(1, 4000)


@given(st.floats(-30, 8))
def test_normal_cdf(z):
    assert ours.normal_cdf(z) == pytest.approx(float(special.ndtr(z)), rel=1e-12)


@given(CHANCES)
def test_normal_quantile(p):
    assert ours.normal_quantile(p) == pytest.approx(float(special.ndtri(p)), rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(st.floats(0.5, 5000), st.floats(0.5, 5000), st.floats(0, 1))
def test_beta_cdf(a, b, x):
    assert ours.beta_cdf(a, b, x) == pytest.approx(float(special.betainc(a, b, x)), abs=1e-10)


@settings(deadline=None)
@given(COUNTS, COUNTS, st.sampled_from([0.005, 0.025, 0.05, 0.5, 0.95, 0.975, 0.995]))
def test_beta_quantile(a, b, p):
    assert ours.beta_quantile(a, b, p) == pytest.approx(
        float(special.betaincinv(a, b, p)), rel=1e-9
    )


@settings(deadline=None)
@given(st.floats(1, 10_000), st.floats(0.5001, 0.99999))
def test_t_quantile(degrees, p):
    assert ours.t_quantile(degrees, p) == pytest.approx(
        float(special.stdtrit(degrees, p)), rel=1e-7
    )


@settings(deadline=None)
@given(st.floats(1, 10_000), st.floats(-50, 50).filter(lambda t: t == 0 or abs(t) > 1e-6))
def test_t_cdf(degrees, t):
    """SciPy rounds 1 + t² / degrees, and says one half of 1e-9 where it should say 3e-10 more."""
    assert ours.t_cdf(degrees, t) == pytest.approx(
        float(special.stdtr(degrees, t)), rel=1e-9, abs=1e-14
    )


@settings(deadline=None)
@given(st.floats(-50, 50))
def test_t_cdf_of_one_degree(t):
    assert ours.t_cdf(1, t) == pytest.approx(0.5 + math.atan(t) / math.pi, rel=1e-9)


@settings(deadline=None)
@given(st.integers(1, 20_000), st.data())
def test_binomial_cdf(n, data):
    k = data.draw(st.integers(-1, n))
    expected = float(stats.binom.cdf(k, n, 0.5))
    assert ours.binomial_cdf(k, n) == pytest.approx(expected, rel=1e-9, abs=1e-14)


@settings(deadline=None)
@given(st.integers(1, 300), st.data())
def test_beta_binomial(n, data):
    k, of = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    expected = float(stats.betabinom.sf(k - 1, n, of + 0.5, n - of + 0.5))
    assert ours.beta_binomial_at_least(k, n, of + 0.5, n - of + 0.5) == pytest.approx(
        expected, rel=1e-8, abs=1e-12
    )


@settings(deadline=None)
@given(st.floats(1, 400), st.floats(1, 400), st.floats(0.01, 20))
def test_ratios_of_variances(above, below, f):
    assert ours.f_above(above, below, f) == pytest.approx(
        float(special.fdtrc(above, below, f)), abs=1e-10
    )
    assert ours.f_quantile(above, below, 0.95) == pytest.approx(
        float(special.fdtri(above, below, 0.95)), rel=1e-8
    )
