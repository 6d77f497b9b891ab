# SPDX-License-Identifier: MIT
"""The questions that are asked of measurements, a row each: which pairs of cells, below which
difference two costs are the same, which share of the error budget, and how many launches.

The first cell of a pair is taken over, or minus, the second.  What is compared with is fixed
beforehand (linewright.forms), so that no comparison is chosen by its result.  A question is
asked by `ask`, which gives comparisons; one correction covers all of a question's.

Limits that call nothing cheaper, slower or the same stand with their rules: of the loop's control
and of disturbances (`control`), of figures that doubt themselves (`loading`), of near and far,
and modes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from linewright.analysis import bytes_apart, cache_fit, reader_cost
from linewright.analysis.comparison import (
    ALPHA,
    FEWEST_LAUNCHES,
    Comparison,
    Judgement,
    compared,
    holm,
    judge,
    left_open,
    policy_of,
    side_of,
)
from linewright.analysis.contrast import Contrast, cost_ratio
from linewright.analysis.control import (
    contrast_of,
    identical_contrasts,
    identical_to,
    kind_of,
    noise_group_of,
    pool_components,
)
from linewright.analysis.summary import Summary, figure_of, grouped
from linewright.forms import (
    BASELINE_LOOPS,
    CACHE,
    FLOORS,
    SPACING,
    USUAL_HINTS,
    WAIT,
    default_of,
    family_of,
    made_of,
)
from linewright.schema import Cell

Pairs = list[tuple[Summary, Summary]]

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst", "full")
"""From weakest to strongest; acquire and release do not contain each other."""
_GIVES = {
    "relaxed": ("relaxed",), "acquire": ("relaxed", "acquire"), "release": ("relaxed", "release"),
    "acq_rel": ORDERS[:4], "seq_cst": ORDERS[:5], "full": ORDERS,
}  # fmt: skip
_MAY_USE = {"add": ("add", "fetch_add")}
"""A caller who does not want the value may use a form that returns it; never the other way
round."""

QUESTION_PAIRS: tuple[tuple[str, str], ...] = (
    ("fetch_add", "cmpxchg"),
    ("fetch_add", "add"),
    ("xchg", "cmpxchg"),
)
"""Operations whose default forms are compared where both were measured in one situation."""
COUNTER = "percpu_rseq_add"
"""The counter that needs no lock. It is compared with an atomic add to one word, as the price list
does, or where none was measured with `SHARED`, which a program without this library would write."""
SHARED = "percpu_shared_c11_add"
PADDED = ("percpu_padded_add", "percpu_false_sharing_add")
"""Each thread's own word: on a line of its own, and on one line with the others."""
READERS = ("srcu_fast", "rwlock")
"""A reader that writes to no shared word, and one that does."""


def comparable(summary: Summary) -> bool:
    """Whether a cell may take part in a comparison."""
    cell, family = summary.cell, family_of(summary.cell.operation)
    return (
        summary.trusted
        and math.isfinite(summary.issue.median_ns)
        and cell.form not in FLOORS
        and cell.operation in family.operations
        and (cell.contender == "none" or (cell.situation.contended and family.contended))
    )


class Candidates(Struct, frozen=True):
    """A caller's forms at one point, the default first."""

    operation: str
    order: str
    default: Summary
    others: list[Summary]


def _callers(members: Sequence[Summary], arch: str) -> list[Candidates]:
    """For each operation and each distinct set of forms that serve an order: the default and what
    it is compared with."""
    answers: list[Candidates] = []
    for operation in dict.fromkeys(s.cell.operation for s in members):
        allowed = _MAY_USE.get(operation, (operation,))
        serving = [s for s in members if s.cell.operation in allowed]
        own = (s.cell.order for s in serving if s.cell.operation == operation)
        weakest = min(own, key=ORDERS.index)
        serving = [s for s in serving if weakest in _GIVES[s.cell.order]]
        named = {policy_of(s.cell) or s.cell.form: s for s in serving}
        default = named[default_of(operation, named)]
        same_code = identical_to(default.cell.form, arch)[1:]
        apart = (s for s in serving if s is not default and s.cell.form not in same_code)
        others = [s for s in apart if not _is_copy(s, named, arch)]
        if others:
            answers.append(Candidates(operation, weakest, default, others))
    return answers


def _is_copy(s: Summary, named: Mapping[str, Summary], arch: str) -> bool:
    """Whether another form with the same machine code speaks for this one: it is the control, not a
    candidate."""
    first = identical_to(s.cell.form, arch)[0]
    return first != s.cell.form and first in named


def candidates(summaries: Sequence[Summary]) -> list[Candidates]:
    """Every caller's choice between forms at one point."""
    arch = next((s.arch for s in summaries), "")
    # Where settings of one library operation are compared, a point is that operation's.
    point = lambda s: (s.cell.situation, s.cell.form if policy_of(s.cell) else "")
    points = grouped(filter(comparable, summaries), point)
    return [choice for members in points.values() for choice in _callers(members, arch)]


def of_forms(summaries: Sequence[Summary]) -> Pairs:
    """Every form against the default of each caller whom it serves."""
    chosen = candidates(summaries)
    return list({(o.id, c.default.id): (o, c.default) for c in chosen for o in c.others}.values())


def back_to_back(cell: Cell) -> bool:
    """Whether a cell has no work, alone or with the nearest contender."""
    of = cell.situation
    plain = of.param("slots", 1) == 1 and not of.param("read_delay") and not of.param("updater")
    return plain and not cell.work_iters and cell.contender != "placebo"


def of_operations(summaries: Sequence[Summary]) -> Pairs:
    """Operation against operation, back to back: comparisons that no form makes with its
    default."""
    usable = [s for s in summaries if s.trusted and back_to_back(s.cell)]
    situations = grouped(
        usable, lambda s: s.cell.situation.without("lines", "width_bits", "params", "work")
    )
    pairs = [pair for own in situations.values() for pair in _operations(own)]
    present = {family_of(s.cell.operation).name for s in summaries}
    if CACHE.name in present:
        pairs += itertools.combinations(cache_fit.longest_lists(usable), 2)
    return pairs + (bytes_apart.pairs(summaries) if SPACING.name in present else [])


def of_waits(summaries: Sequence[Summary]) -> Pairs:
    """One wait over a wait behind each entry, for every list that was measured with both, by
    instruction, state, alignment and entry size."""
    lists: dict[tuple, dict[str, Summary]] = {}
    for s in cache_fit.usable(summaries):
        lists.setdefault(cache_fit.list_of(s.cell), {})[str(s.cell.params["wait"])] = s
    waits = [own for _, own in sorted(lists.items())]
    return [(own["once"], own["each"]) for own in waits if len(own) == 2]


def hint_of(form: str) -> str:
    """What the waiting threads of a form execute: ``woken_pause`` by ``pause``."""
    return form.partition("_")[2]


def of_hints(summaries: Sequence[Summary]) -> Pairs:
    """Every hint over the usual one: wake-ups, and the section of a holder with waiters, without a
    competitor for its CPU."""
    held = [s for s in summaries if s.trusted and s.cell.operation in WAIT.operations]
    beside = (s for s in held if s.cell.situation.contended and not s.cell.params)
    pairs = []
    for own in grouped(beside, lambda s: (s.cell.operation, s.cell.situation)).values():
        hints = {hint_of(s.cell.form): s for s in own}
        usual = next((hints[name] for name in USUAL_HINTS if name in hints), None)
        pairs += [(s, usual) for s in own if usual and s is not usual]
    return pairs


def _operations(members: Sequence[Summary]) -> Pairs:
    chosen = defaults(members)
    asked = [(chosen.get(a), chosen.get(b)) for a, b in QUESTION_PAIRS]
    pairs = [(a, b) for a, b in asked if a and b and a is not b]
    forms = {s.cell.form: s for s in members}
    shared = chosen.get("add", forms.get(SHARED))
    pairs += [(forms[COUNTER], shared)] if COUNTER in forms and shared else []
    pairs += [(forms[a], forms[b]) for a, b in (PADDED, READERS) if a in forms and b in forms]
    for s in members:
        made = made_of(s.cell.form)
        if made.prefetch and made.loop == "guess_first" and made.base in forms:
            pairs.append((s, forms[made.base]))
    return [(a, b) for a, b in pairs if not {a.cell.form, b.cell.form} & FLOORS]


def defaults(members: Sequence[Summary]) -> dict[str, Summary]:
    """Each operation's default form among cells of one situation and width."""
    forms: dict[str, dict[str, Summary]] = {}
    for s in members:
        if comparable(s):
            forms.setdefault(s.cell.operation, {}).setdefault(s.cell.form, s)
    if "fetch_add" in forms:  # on arm64 the default add returns a value
        forms["add"] = forms.get("add", {}) | forms["fetch_add"]
    return {operation: own[default_of(operation, own)] for operation, own in forms.items()}


def of_cores(summaries: Sequence[Summary]) -> Pairs:
    """Every form alone and back to back on another core against the first core timed."""
    trusted = (s for s in summaries if s.trusted and s.cpus)
    timed = [s for s in trusted if s.cell.operation not in BASELINE_LOOPS]
    alone = (s for s in timed if s.cell.contender == "none" and s.cell.work_iters == 0)

    def where(s: Summary) -> tuple:
        situation = s.cell.situation.without("lines", "placement", "work")
        return s.cell.operation, s.cell.form, policy_of(s.cell), situation

    return [
        (other, own[0])
        for own in grouped(alone, where).values()
        for other in own[1:]
        if other.cpus[0] != own[0].cpus[0]
    ]


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
    pairs: Callable[[Sequence[Summary]], Pairs] | None = None
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

    def judge(
        self, contrast: Contrast | None, p: float | None, same: float | None = None, **more: Any
    ) -> Judgement:
        """A contrast by these rules; `same` where the tolerance is no plain share, `more` as of
        `linewright.analysis.comparison.judge`."""
        same = self.same.share if same is None else same
        rules = {"alpha": self.alpha, "fewest": self.fewest, "count_small": self.count_small}
        return judge(contrast, p, same=same, **rules, **more)


COSTS = Tolerance(share=0.05, contended=0.10, ns=0.5)
"""Half a nanosecond is about two cycles."""
QUESTIONS: Mapping[str, Question] = {
    # Asked of one run, these four share nine tenths of ALPHA; its two looks have the last tenth.
    # Each form against the default at every point; crossovers and settings follow from it.
    "forms": Question(
        same=COSTS, alpha=0.027, pairs=of_forms, exposed=True, controlled=True,
        percentiles=True,
    ),
    # Operation against operation, and words at several distances.
    "operations": Question(
        same=COSTS, alpha=0.0045, pairs=of_operations, controlled=True
    ),
    # Readers against one reader alone, and readers and updaters of one form against another's.
    "readers": Question(same=Tolerance(share=0.10), alpha=0.009, pairs=reader_cost.pairs),
    # The same form on two cores.
    "cores": Question(same=Tolerance(share=0.05), alpha=0.0045, pairs=of_cores),
    # Whether a setting costs more than the default anywhere, from the intervals of forms.
    "setting": Question(same=Tolerance(share=0.05, ns=0.5)),
    # A list of cache lines with one wait over the same with a wait behind each entry. An answer is
    # of all sizes of entries with one instruction, so that no size is corrected for the others.
    "waits": Question(same=Tolerance(share=0.02), pairs=of_waits, by_itself=True),
    # A waiting thread's hint over the usual one: five others share the chance of a false name.
    "hints": Question(same=Tolerance(share=0.05), alpha=ALPHA / 5, pairs=of_hints, by_itself=True),
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
    left = 0 if asked.by_itself else left_open(ps, asked.alpha)
    answers = []
    for (first, second), figure, c, p in zip(found, figures, contrasts, ps, strict=True):
        ns = second.exposed.median_ns if second.exposed else 0.0
        same = asked.same.of(figure, second.cell.contender == "same_line", ns)
        judgement = asked.judge(c, p, same, why=lacking(first, second), left=left)
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
    the other. The interval's ends are the ratios of median and 99th percentile, either way; of a
    percentile that is 0 there is no ratio."""
    a, b = first.batch, second.batch
    if not min(a.p50_ns, a.p99_ns, b.p50_ns, b.p99_ns) > 0:
        return Judgement(answer="undecided", why="published")
    contrast = Contrast(
        scale="ratio", value=a.p50_ns / b.p50_ns, low=a.p50_ns / b.p99_ns,
        high=a.p99_ns / b.p50_ns, launches=1, paired=False, p=1.0, spread=0.0, leverage=0.0,
        degrees=0.0,
    )  # fmt: skip
    answer = "cheaper" if contrast.value < 1 else "slower"
    if not contrast.separate:
        return Judgement(answer="undecided", why="published", contrast=contrast, shown=contrast)
    return Judgement(answer=answer, contrast=contrast, shown=contrast)
