"""Settings tried on a program in random interleaved order: differences in percent, and when to stop.

A round runs every setting once, in random order.  Settings are compared with the baseline round by round (the
logarithm of their ratio), by the Hodges-Lehmann estimate with its exact Wilcoxon interval, so that drift and a few
wild runs do no harm.  The data may be analysed up to four times (a quarter, half, three quarters and all of the
planned rounds); each interim analysis spends its part of the error rate, as the O'Brien-Fleming spending function of
Lan and DeMets allots it, and the settings share that part equally.  Whatever is claimed at any of them is false with a
chance of at most `ALPHA` in all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from msgspec import Struct
from scipy import special

from linewright.analysis.intervals import median
from linewright.analysis.modes import Mode, modes
from linewright.schema import Estimate

ALPHA = 0.05
INTERIM_SHARES = (0.25, 0.5, 0.75, 1.0)
SAME = 0.05
"""A setting whose whole interval is within this share of the baseline is called the same, as `linewright compare`
does."""
EXACT = 60
"""Rounds up to which the signed-rank distribution is counted out; above, its normal approximation."""


class Run(Struct, frozen=True, kw_only=True):
    """One run of the program under one setting."""

    setting: str
    round: int
    value: float | None
    """The metric; None where the run failed."""
    reason: str = ""


class Setting(Struct, frozen=True, kw_only=True):
    """What one setting's runs were."""

    name: str
    runs: int
    failed: int
    median: float | None
    modes: list[Mode]
    """More than one: the program itself is bimodal under this setting. (`median_ns` is in the metric's unit.)"""


class Paired(Struct, frozen=True, kw_only=True):
    """One setting against the baseline."""

    setting: str
    baseline: str
    rounds: int
    """Rounds in which both ran."""
    change_percent: Estimate | None
    """Change of the metric; its interval holds at this interim analysis and for all settings together. None: too few
    rounds."""
    different: bool
    better: bool | None
    """None where no difference was found."""
    within_percent: float | None = None
    """Of a setting that is shown to be the same as the baseline: what the difference is below; None otherwise."""


class Trial(Struct, frozen=True, kw_only=True):
    """What may be said after the rounds so far."""

    settings: list[Setting]
    comparisons: list[Paired]
    rounds: int
    planned: int
    interim: bool
    """This number of rounds is one of the planned interim analyses; between them nothing is claimed."""
    stop: bool
    why: str
    """``clear`` (every setting differs), ``precise`` (every interval is narrow enough), ``rounds``, or empty: go on."""


def schedule(settings: Sequence[str], rounds: int, seed: int) -> list[tuple[int, str]]:
    """(round, setting) in the order to run: every round holds each setting once, shuffled."""
    rng = np.random.default_rng(seed)
    return [(number, settings[i]) for number in range(rounds) for i in rng.permutation(len(settings))]


def interim_rounds(planned: int) -> list[int]:
    """Rounds after which the data is analysed."""
    return sorted({max(1, math.ceil(planned * share)) for share in INTERIM_SHARES})


def spent(share: float, alpha: float = ALPHA) -> float:
    """Error rate spent up to this share of the planned rounds: 2 - 2·Phi(z/√share) (Lan and DeMets 1983)."""
    return 2 * float(special.ndtr(special.ndtri(alpha / 2) / math.sqrt(share))) if share > 0 else 0.0


def level(rounds: int, planned: int, alpha: float = ALPHA) -> float:
    """Error rate of the interim analysis after `rounds` rounds: what is spent up to it, less what was spent before."""
    before = [n for n in interim_rounds(planned) if n < rounds]
    return spent(min(1.0, rounds / planned), alpha) - (spent(before[-1] / planned, alpha) if before else 0.0)


def fewest_rounds(settings: int, alpha: float = ALPHA) -> int:
    """Planned rounds below which not even rounds that all agree can be called a difference."""
    return next(n for n in range(2, 1000) if _rank_bound(n, level(n, n, alpha) / max(1, settings - 1) / 2) >= 0)


@lru_cache(maxsize=128)
def _signed_rank_cdf(n: int) -> np.ndarray:
    """P(T <= t) of Wilcoxon's signed-rank sum for t = 0 … n(n+1)/2, counted out."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[: counts.size - rank]
        counts = (counts + shifted) / 2
    return np.cumsum(counts)


def _rank_bound(n: int, tail: float) -> int:
    """Largest t with P(T <= t) <= tail; -1 where there is none."""
    if n <= EXACT:
        return int(np.searchsorted(_signed_rank_cdf(n), tail * (1 + 1e-12), side="right")) - 1
    mean, deviation = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return math.floor(mean + float(special.ndtri(tail)) * deviation - 0.5)


def hodges_lehmann(differences: Sequence[float], confidence: float) -> tuple[float, float, float] | None:
    """Median of the pairwise means and its exact distribution-free interval; None where n cannot give that
    confidence."""
    d = np.asarray(differences, dtype=float)
    if not d.size:
        return None
    k = _rank_bound(d.size, (1 - confidence) / 2)
    if k < 0:
        return None
    i, j = np.triu_indices(d.size)
    means = np.sort((d[i] + d[j]) / 2)
    return median(means), float(means[k]), float(means[means.size - 1 - k])


def _values(runs: Sequence[Run], setting: str) -> dict[int, float]:
    return {r.round: r.value for r in runs if r.setting == setting and r.value is not None and math.isfinite(r.value)}


def _setting(runs: Sequence[Run], name: str) -> Setting:
    values = np.array(list(_values(runs, name).values()))
    total = sum(r.setting == name for r in runs)
    return Setting(
        name=name, runs=total, failed=total - values.size, median=median(values) if values.size else None,
        modes=modes(values, least_share=0.1),
    )  # fmt: skip


def _compare(runs: Sequence[Run], name: str, baseline: str, confidence: float, higher_is_better: bool) -> Paired:
    ours, base = _values(runs, name), _values(runs, baseline)
    both = [n for n in sorted(ours) if n in base and ours[n] > 0 and base[n] > 0]
    found = hodges_lehmann([math.log(ours[n]) - math.log(base[n]) for n in both], confidence)
    change = None
    if found:
        value, low, high = (100 * math.expm1(min(x, 50.0)) for x in found)
        change = Estimate(value=value, low=low, high=high, confidence=confidence)
    different = change is not None and (change.low > 0 or change.high < 0)
    farthest = max(-change.low, change.high) if change else math.inf
    return Paired(
        setting=name, baseline=baseline, rounds=len(both), change_percent=change, different=different,
        better=(change.value > 0) == higher_is_better if different else None,
        within_percent=farthest if not different and farthest <= 100 * SAME else None,
    )  # fmt: skip


def judge(
    runs: Sequence[Run],
    settings: Sequence[str],
    planned: int,
    precision: float = 0.01,
    higher_is_better: bool = False,
    alpha: float = ALPHA,
) -> Trial:
    """What the runs so far allow to be said about each setting against the first.

    `precision` is the relative half-width of every interval at which the trial may end without a difference.  Call it
    after every round: only at `interim_rounds(planned)` are differences claimed or an early end allowed.  A run
    that failed, and its round for that pair, is left out; metrics must be positive.
    """
    done = _complete_rounds(runs, settings)
    at_interim = done in interim_rounds(planned) or done >= planned
    part = (level(done, planned, alpha) if at_interim and done else alpha) / max(1, len(settings) - 1)
    comparisons = [_compare(runs, name, settings[0], 1 - part, higher_is_better) for name in settings[1:]]
    if not at_interim:
        comparisons = [
            msgspec.structs.replace(c, different=False, better=None, within_percent=None) for c in comparisons
        ]
    why = _why(comparisons, done, planned, precision, at_interim)
    return Trial(
        settings=[_setting(runs, name) for name in settings], comparisons=comparisons, rounds=done, planned=planned,
        interim=at_interim, stop=bool(why), why=why,
    )  # fmt: skip


def _complete_rounds(runs: Sequence[Run], settings: Sequence[str]) -> int:
    """Rounds in which every setting was run, failed runs included."""
    ran: dict[int, set[str]] = {}
    for run in runs:
        ran.setdefault(run.round, set()).add(run.setting)
    return sum(set(settings) <= names for names in ran.values())


def _why(comparisons: Sequence[Paired], done: int, planned: int, precision: float, at_interim: bool) -> str:
    if at_interim and comparisons and all(c.different for c in comparisons):
        return "clear"
    narrow = all(
        c.different or (c.change_percent and c.change_percent.high - c.change_percent.low <= 200 * precision)
        for c in comparisons
    )
    if at_interim and comparisons and narrow:
        return "precise"
    return "rounds" if done >= planned else ""
