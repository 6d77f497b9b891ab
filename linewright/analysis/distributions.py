# SPDX-License-Identifier: MIT
"""The few distributions that intervals are read from, by the incomplete beta function.

SciPy has them all and is 140 MB; the command has to fit small machines.  tests/py/analysis/
test_distributions.py holds every function here against SciPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

_NORMAL = NormalDist()
_TINY = 1e-300
_STEPS = 10_000
"""Far above the terms that a fraction takes: about the square root of the larger parameter."""


def normal_cdf(z: float) -> float:
    """P(Z <= z), to full relative precision in the lower tail too."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(p: float) -> float:
    """The z with P(Z <= z) = p; infinite at 0 and 1."""
    if not 0 < p < 1:
        return math.copysign(math.inf, p - 0.5)
    return _NORMAL.inv_cdf(p)


def beta_cdf(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) (DLMF 8.17.22, by Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(b, a, 1 - x)
    log_front = _log_beta(a, b) + a * math.log(x) + b * math.log1p(-x)
    c, d, fraction = 1.0, 0.0, 1.0
    for step in range(_STEPS):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d or _TINY)
        c = 1 + term / c or _TINY
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) * (fraction - 1) / a


def _log_beta(a: float, b: float) -> float:
    """The logarithm of 1 / B(a, b)."""
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)


@lru_cache(maxsize=4096)
def beta_quantile(a: float, b: float, p: float) -> float:
    """The x with I_x(a, b) = p."""
    return _root(lambda x: beta_cdf(a, b, x) - p, 0.0, 1.0)


def t_cdf(degrees: float, t: float) -> float:
    """P(T <= t) of Student's t."""
    if t * t < degrees:  # near the middle a tail would be rounded against one half
        middle = beta_cdf(0.5, degrees / 2, t * t / (degrees + t * t)) / 2
        return 0.5 + math.copysign(middle, t)
    tail = beta_cdf(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(degrees: float, p: float) -> float:
    """The t with P(T <= t) = p, for p of at least one half."""
    if math.isinf(degrees):
        return normal_quantile(p)
    if p < 0.9:  # as in t_cdf
        x = 1 - (y := beta_quantile(0.5, degrees / 2, 2 * p - 1))
    else:
        y = 1 - (x := beta_quantile(degrees / 2, 0.5, 2 * (1 - p)))
    return math.sqrt(degrees * y / x)


def f_above(above: float, below: float, f: float) -> float:
    """P(F > f) of the ratio of two variances with these degrees of freedom."""
    return beta_cdf(below / 2, above / 2, below / (below + above * f))


def f_quantile(above: float, below: float, p: float) -> float:
    """The f with P(F <= f) = p."""
    x = beta_quantile(above / 2, below / 2, p)
    return below * x / (above * (1 - x))


def binomial_cdf(k: int, n: int) -> float:
    """P(at most k of n fair coins show heads)."""
    return 0.0 if k < 0 else 1.0 if k >= n else beta_cdf(n - k, k + 1, 0.5)


EXACT = 60
"""Values up to which the signed-rank distribution is counted out; above, its normal
approximation."""


@lru_cache(maxsize=128)
def _signed_rank(n: int) -> np.ndarray:
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[: counts.size - rank]
        counts = (counts + shifted) / 2
    return np.cumsum(counts)


def _signed_rank_moments(n: int) -> tuple[float, float]:
    return n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)


def signed_rank_cdf(n: int, t: int) -> float:
    """P(T <= t) of Wilcoxon's signed-rank sum of n values."""
    if n <= EXACT:
        return float(_signed_rank(n)[t])
    mean, deviation = _signed_rank_moments(n)
    return normal_cdf((t + 0.5 - mean) / deviation)


def signed_rank_bound(n: int, tail: float) -> int:
    """Largest t with P(T <= t) <= tail; -1 where there is none."""
    if n <= EXACT:
        return int(np.searchsorted(_signed_rank(n), tail * (1 + 1e-12), side="right")) - 1
    mean, deviation = _signed_rank_moments(n)
    return math.floor(mean + normal_quantile(tail) * deviation - 0.5)


def beta_binomial_at_least(k: int, n: int, a: float, b: float) -> float:
    """P(at least k of n), each with a chance that is drawn once from Beta(a, b)."""
    front = _log_beta(a, b) - math.log(n + 1)
    return math.fsum(
        math.exp(front + _log_beta(n - i + 1, i + 1) - _log_beta(i + a, n - i + b))
        for i in range(k, n + 1)
    )


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a growing function crosses 0: by the secant of the bracket, and every third step by its
    middle, so that it always shrinks."""
    at_low, at_high = function(low), function(high)
    for step in range(200):
        point = (low + high) / 2
        if step % 3:
            secant = low - at_low * (high - low) / (at_high - at_low)
            # A step beyond what rounding hides, so that the other end comes near too.
            step_least = 1e-15 * high
            point = min(max(secant, low + step_least), high - step_least)
        if not low < point < high:
            break
        at = function(point)
        if at < 0:
            low, at_low = point, at
        elif at > 0:
            high, at_high = point, at
        else:
            return point
    return low if -at_low < at_high else high
