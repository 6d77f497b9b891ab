# SPDX-License-Identifier: MIT
"""The questions that are asked of measurements, a row each: which pairs of cells, below which
difference two costs are the same, which share of the error budget, and how many launches.

A question is asked by `ask`, which gives comparisons; one correction covers all of a question's.
Limits that call nothing cheaper, slower or the same stand with their rules: of the loop's control
(`control`), of figures that doubt themselves (`plausible`), of near and far, modes and
disturbances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis import pairs, reader_cost
from linewright.analysis.comparison import Comparison, compared, side_of
from linewright.analysis.contrast import Contrast
from linewright.analysis.control import (
    contrast_of,
    identical_contrasts,
    kind_of,
    noise_group_of,
)
from linewright.analysis.drawn_ratios import cost_ratio
from linewright.analysis.hypothesis_tests import (
    ALPHA,
    FEWEST_LAUNCHES,
    Judgement,
    holm,
    judge,
    undecided,
)
from linewright.analysis.summary import Summary, figure_of
from linewright.analysis.variance_components import pool_components


class Tolerance(Struct, frozen=True, kw_only=True):
    """The difference below which two costs are called the same."""

    share: float
    """Of issue intervals and of a program's metric."""
    contended: float = 0.0
    """The same with a contender on the line; 0 where it is no other."""
    ns: float = 0.0
    """Of exposed costs at least: a share of a cost that work hides is nothing."""

    def of(self, figure: str, contended: bool = False, ns: float = 0.0) -> float:
        """A share of an issue interval, or ns of the exposed cost `ns`."""
        share = self.contended if contended and self.contended else self.share
        return max(self.ns, share * ns) if figure == "exposed" else share


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of pairs, and by which rules it is answered."""

    same: Tolerance
    alpha: float = ALPHA
    """Chance of one false claim over all pairs."""
    fewest: int = FEWEST_LAUNCHES
    """Launches from which something is claimed."""
    count_small: bool = False
    """Of programs: a difference that is shown counts even where it lies within the tolerance."""
    pairs: Callable[[Sequence[Summary]], pairs.Pairs] | None = None
    """The cells of one machine that are compared; None where two files are, or runs of a program,
    or where the answer follows from another question's intervals."""
    exposed: bool = False
    """Exposed costs are compared where there is work around the operation, else issue intervals
    alone."""
    controlled: bool = False
    """What identical machine code differs by in this run widens every interval."""
    by_itself: bool = False
    """Each pair by itself: no variance is pooled with others, and nothing is corrected."""
    percentiles: bool = False
    """Published percentiles are compared where nothing else is known."""


COSTS = Tolerance(share=0.05, contended=0.10, ns=0.5)
"""Half a nanosecond is about two cycles."""
QUESTIONS: Mapping[str, Question] = {
    # Asked of one run, these four share nine tenths of ALPHA; its two looks have the last tenth.
    # Each form against the default at every point; crossovers and settings follow from it.
    "forms": Question(
        same=COSTS, alpha=0.027, pairs=pairs.of_forms, exposed=True, controlled=True,
        percentiles=True,
    ),
    # Operation against operation, and words at several distances.
    "operations": Question(
        same=COSTS, alpha=0.0045, pairs=pairs.of_operations, controlled=True
    ),
    # Readers against one reader alone, and readers and updaters of one form against another's.
    "readers": Question(same=Tolerance(share=0.10), alpha=0.009, pairs=reader_cost.pairs),
    # The same form on two cores.
    "cores": Question(same=Tolerance(share=0.05), alpha=0.0045, pairs=pairs.of_cores),
    # Whether a setting costs more than the default anywhere, from the intervals of forms.
    "setting": Question(same=Tolerance(share=0.05, ns=0.5)),
    # A list of cache lines with one wait over the same with a wait behind each entry. An answer is
    # of all sizes of entries with one instruction, so that no size is corrected for the others.
    "waits": Question(same=Tolerance(share=0.02), pairs=pairs.of_waits, by_itself=True),
    # An LSE instruction over itself behind a prefetch: how many times as much shows that it is
    # performed at the interconnect is near_far's rule, no tolerance.
    "near": Question(same=COSTS, by_itself=True),
    # Whether a cell costs less than its loop without the operation, and whether a placebo differs
    # from no contender, by more than is worth a warning.
    "loop": Question(same=Tolerance(share=0.0), alpha=0.01),
    "placebo": Question(same=Tolerance(share=0.02), alpha=0.01),
    # A form that saves less than this here and costs more elsewhere is not named.
    "trade": Question(same=Tolerance(share=0.10)),
    # A setting that gains no more than this over a simpler one is not chosen before it.
    "simpler": Question(same=Tolerance(share=0.02)),
    # Machines of one group differ by at most this in every kind of cell.
    "fleet": Question(same=Tolerance(share=0.10)),
    # What a remedy costs over one atomic word.
    "price": Question(same=Tolerance(share=0.10)),
    # Two runs whose launches were taken in turns, or of two machines.
    "turns": Question(same=Tolerance(share=0.05, ns=0.5)),
    # Two runs made one after the other: one line of drift through both holds only nearly.
    "sequence": Question(same=Tolerance(share=0.05, ns=0.5), alpha=0.2 * ALPHA),
    # Two simulations: what a table in three digits cannot show.
    "simulations": Question(same=Tolerance(share=0.001, ns=0.05)),
    # A program under two settings, and on two boots.
    "trial": Question(same=Tolerance(share=0.05), count_small=True),
    "boots": Question(same=Tolerance(share=0.05), fewest=2, count_small=True),
}  # fmt: skip


def ask(question: str, summaries: Sequence[Summary]) -> list[Comparison]:
    """Every comparison of one question on one machine, corrected together."""
    asked = QUESTIONS[question]
    found = asked.pairs(summaries)
    figures = [figure_of(second) if asked.exposed else "issue" for _, second in found]
    arch = next((s.arch for s in summaries), "")
    if asked.by_itself:
        contrasts = [cost_ratio(*pair) for pair in found]
        ps = [c and c.p for c in contrasts]
    else:
        contrasts = pool_components(
            [contrast_of(*pair, figure) for pair, figure in zip(found, figures, strict=True)],
            [noise_group_of(first.cell) for first, _ in found],
            identical_contrasts(summaries, arch) if asked.controlled else None,
            kind_of,
        )
        ps = holm(contrasts)
    answers = []
    for (first, second), figure, c, p in zip(found, figures, contrasts, ps, strict=True):
        ns = second.exposed.median_ns if second.exposed else 0.0
        same = asked.same.of(figure, second.cell.contender == "same_line", ns)
        judgement = judge(
            c, p, alpha=asked.alpha, same=same, why=lacking(first, second), fewest=asked.fewest
        )
        if asked.percentiles and first.published and second.published:
            judgement = judge_percentiles(first, second)
        sides = side_of(first, figure), side_of(second, figure)
        answers.append(compared(judgement, question, *sides, figure))
    return answers


def lacking(first: Summary, second: Summary) -> str:
    """Why two cells have no contrast."""
    if first.published or second.published:
        return "published"
    if figure_of(second) == "exposed" and (first.withheld or second.withheld):
        return "baseline_loop"
    if first.one_launch or second.one_launch:
        return "one_launch"
    return "no_figure"


def judge_percentiles(first: Summary, second: Summary) -> Judgement:
    """Published percentiles: different where the median of one lies above the 99th percentile of
    the other. The interval's ends are the ratios of median and 99th percentile, either way."""
    a, b = first.batch, second.batch
    contrast = Contrast(
        scale="ratio", value=a.p50_ns / b.p50_ns, low=a.p50_ns / b.p99_ns,
        high=a.p99_ns / b.p50_ns, launches=1, paired=False, p=1.0, spread=0.0, leverage=0.0,
        degrees=0.0,
    )  # fmt: skip
    if not contrast.separate:
        return undecided("published", contrast)
    answer = "cheaper" if contrast.value < 1 else "slower"
    return Judgement(answer=answer, why="", contrast=contrast, p=None, within=None)
