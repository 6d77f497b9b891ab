# SPDX-License-Identifier: MIT
"""A program at several numbers of threads: its throughput over that at the first number, and what
the universal scalability law makes of it.

Each round gives the throughput X at every number of threads N. The law (Gunther, *Guerrilla
Capacity Planning*, 2007, chapter 4) says X(N) = N λ / (1 + σ (N-1) + κ N (N-1)): of what a thread
does, *contention* σ is the share that waits for all others' work in turn, and *coherency* κ the
share that each other thread adds by exchange between the two.  Over the first number it is linear
in σ and κ, so each round gives both by least squares of relative errors, and their intervals are
those of the signed-rank test over rounds (analysis/contrast.py), as the throughputs' are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from linewright.analysis.comparison import Comparison
from linewright.analysis.contrast import signed_rank_interval
from linewright.analysis.intervals import CONFIDENCE
from linewright.analysis.questions import QUESTIONS
from linewright.schema import Estimate
from linewright.trial.interim_analysis import MetricByRound, TrialVerdict
from linewright.trial.trial_file import ProgramRun, Session

FEWEST_NUMBERS = 3
"""Of threads: as many as the law has constants, with its λ."""

ROUNDING = 1e-9
"""Far more than arithmetic is wrong by, and far less than is measured."""


class Law(Struct, frozen=True, kw_only=True):
    """The law's constants, as shares of what one thread does, and the numbers of threads that they
    rest on."""

    contention: Estimate
    coherency: Estimate
    threads: list[int]

    @property
    def peak(self) -> tuple[float, float] | None:
        """Between which numbers of threads the law's throughput is highest, by the ends of both
        intervals; None where no coherency is shown, without which it never falls."""
        if self.coherency.low <= 0:
            return None
        sigmas = self.contention.high, max(0.0, self.contention.low)
        kappas = self.coherency.high, self.coherency.low
        ends = zip(sigmas, kappas, strict=True)
        low, high = (math.sqrt(max(0.0, 1 - sigma) / kappa) for sigma, kappa in ends)
        return max(1.0, low), max(1.0, high)


class Scaling(Struct, frozen=True, kw_only=True):
    """What the numbers of threads came to."""

    threads: list[int]
    throughput: list[Estimate | None]
    """Over that at the first number; None where there are too few rounds."""
    seen: list[int]
    """Threads that were seen at once under each; 0 where none were counted."""
    law: Law | None
    why: Literal["", "ignored", "between", "few_numbers", "few_rounds", "superlinear", "misfit"]
    """Why there is no law: the program does not seem to heed its number of threads; between two
    interim analyses; fewer than three numbers of threads that have a CPU each; too few rounds; more
    than n times the throughput with n times the threads; a fitted law with a coefficient below 0,
    or one that misses a measured ratio."""

    @property
    def ignored(self) -> bool:
        return self.why == "ignored"

    @property
    def untold(self) -> bool:
        """Whether nothing is known of the throughput at the last number."""
        return self.ignored or self.throughput[-1] is None

    def below(self, limit: float, surely: bool = True) -> bool:
        """Whether the last number's throughput is shown to be below a limit, or not `surely`: is
        not shown to reach it. Sums of logarithms are exact to far less than what is allowed."""
        last = self.throughput[-1]
        return (last.high if surely else last.low) < limit * (1 - ROUNDING)

    def fails(self, session: Session) -> bool:
        """Whether the session's limit is not kept, as it counts what is undecided."""
        return self.below(session.fail_below, not session.undecided_fails)

    def superlinear(self, place: int) -> bool:
        """Whether the throughput is shown to have grown by more than the threads have."""
        found = self.throughput[place]
        linear = self.threads[place] / self.threads[0]
        return found is not None and found.low > linear * (1 + ROUNDING)


def throughputs(session: Session, runs: MetricByRound) -> dict[str, dict[int, float | None]]:
    """The throughput of each run: the metric, or of a time its inverse, times the threads where
    each does all of the work."""
    power = 1 if session.higher_is_better else -1
    work = {s.name: s.threads if session.work == "thread" else 1 for s in session.settings}
    return {
        name: {n: v and work[name] * v**power for n, v in own.items()} for name, own in runs.items()
    }


def scaling(session: Session, samples: Sequence[ProgramRun], verdict: TrialVerdict) -> Scaling:
    """What the runs of a session whose settings are numbers of threads allow to be said."""
    threads = [s.threads for s in session.settings]
    ratios = [Estimate(value=1.0, low=1.0, high=1.0), *map(_ratio, verdict.comparisons)]
    own = [s for s in samples if s.session == session.session]
    seen = [
        max((s.threads for s in own if s.setting == x.name), default=0) for x in session.settings
    ]
    found = Scaling(threads=threads, throughput=ratios, seen=seen, law=None, why="")
    rates = throughputs(session, session.runs(samples))
    law, why = _law(found, rates, session, verdict)
    return replace(found, law=law, why=why)


def _ratio(c: Comparison) -> Estimate | None:
    if c.obstacle:
        return None
    return Estimate(value=c.contrast.value, low=c.contrast.low, high=c.contrast.high)


def _law(
    found: Scaling, rates: MetricByRound, session: Session, verdict: TrialVerdict
) -> tuple[Law | None, str]:
    """The law, or why there is none."""
    if _ignored(found, session, verdict):
        return None, "ignored"
    own = [s for s in session.settings if s.threads <= session.cpus]
    if len(own) < FEWEST_NUMBERS:
        return None, "few_numbers"
    if not verdict.interim:
        return None, "between"
    if any(map(found.superlinear, range(len(own)))):
        return None, "superlinear"
    return fit([s.threads for s in own], _rounds([rates[s.name] for s in own]))


def _ignored(found: Scaling, session: Session, verdict: TrialVerdict) -> bool:
    """As many threads were seen at every number, and no number's metric differs from the first's:
    nothing tells that the program heeds the number."""
    if len(set(found.seen)) > 1 or not found.seen[0]:
        return False
    if all(ratio is None for ratio in found.throughput[1:]):
        return False
    each = session.work == "thread"
    for threads, ratio in zip(found.threads[1:], found.throughput[1:], strict=True):
        alone = threads / found.threads[0] if each else 1.0
        if ratio and not ratio.low <= alone <= ratio.high and not _same(ratio, alone):
            return False
    return True


def _same(ratio: Estimate, expected: float) -> bool:
    tolerance = 1 + QUESTIONS["trial"].same.share
    return expected / tolerance <= ratio.low and ratio.high <= expected * tolerance


def _rounds(rates: Iterable[Mapping[int, float | None]]) -> np.ndarray:
    """A row for each round in which no run failed, a column for each number of threads."""
    known = [{n: rate for n, rate in own.items() if rate} for own in rates]
    common = sorted(set.intersection(*map(set, known)))
    return np.array([[own[n] for own in known] for n in common]).reshape(-1, len(known))


def fit(threads: Sequence[int], rates: np.ndarray) -> tuple[Law | None, str]:
    """The law of these throughputs, a row for each round and a column for each of at least three
    numbers of threads; or why there is none: ``few_rounds`` or ``misfit``."""
    n = np.array(threads, dtype=float)
    # What a thread does less than at the first number, as a factor: N/N1 · X(N1)/X(N).
    slower = n[1:] / n[0] * rates[:, :1] / rates[:, 1:]
    if not len(rates):
        return None, "few_rounds"
    constants = np.array([_constants(n, row) for row in slower])
    constants[abs(constants) < ROUNDING] = 0.0
    sigma, kappa = (signed_rank_interval(column) for column in constants.T)
    if math.inf in (sigma[2], kappa[2]):
        return None, "few_rounds"
    level = 1 - (1 - CONFIDENCE) / 2
    below = (signed_rank_interval(column, level)[2] < 0 for column in constants.T)
    if any(below) or _misses(n, slower, sigma[0], kappa[0]):
        return None, "misfit"
    contention, coherency = (Estimate(value=v, low=a, high=b) for v, a, b in (sigma, kappa))
    return Law(contention=contention, coherency=coherency, threads=list(threads)), ""


def _constants(n: np.ndarray, slower: np.ndarray) -> np.ndarray:
    """Contention and coherency by least squares of relative errors."""
    terms = [n[1:] - 1 - slower * (n[0] - 1), n[1:] * (n[1:] - 1) - slower * n[0] * (n[0] - 1)]
    return np.linalg.lstsq(np.column_stack(terms) / slower[:, None], 1 - 1 / slower)[0]


def _misses(n: np.ndarray, slower: np.ndarray, sigma: float, kappa: float) -> bool:
    """Whether some number of threads is shown to lie further from the law than what counts as the
    same in a trial."""
    load = 1 + sigma * (n - 1) + kappa * n * (n - 1)
    if (load <= 0).any():
        return True
    errors = np.log(slower * load[0] / load[1:])
    least = math.log1p(QUESTIONS["trial"].same.share)
    level = 1 - (1 - CONFIDENCE) / errors.shape[1]
    ends = [signed_rank_interval(column, level)[1:] for column in errors.T]
    return any(low > least or high < -least for low, high in ends)
