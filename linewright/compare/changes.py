# SPDX-License-Identifier: MIT
"""Two sets of summaries, cell by cell: what changed, what is the same, what is undecided, corrected
for every cell compared.

Launches that both sides ran in turns are paired.  Of runs of one machine, made one after the
other, the drift inside them is allowed for; on a virtual machine, whose states outlast launches,
contended cells are compared state by state there, and by no fewer than `FEWEST_CLUSTERS`.  Two
machines share no drift, and their launches are independent.  With work around the operation the
exposed costs are compared, in ns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from linewright.analysis.comparison import (
    Comparison,
    Judgement,
    Obstacle,
    compared,
    holm,
    left_open,
    side_of,
)
from linewright.analysis.contrast import Contrast, ancova, over_draws, paired_t, welch_t
from linewright.analysis.control import (
    Component,
    add_components,
    heterogeneities,
    identical_contrasts,
    kind_of,
    noise_group_of,
    pool_components,
)
from linewright.analysis.intervals import median
from linewright.analysis.merge import (
    CLUSTER_VIRTUAL_S,
    FEWEST_CLUSTERS,
    began_at,
    cluster_numbers,
    on_metal,
)
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary, figure_of, grouped
from linewright.compare.compared_files import outcome, simulated
from linewright.schema import FEWEST_LAUNCHES, Context

Turns = Mapping[str, str]
"""Launches of the second side by the launch of the first beside which each ran, by context."""


class _CellInBoth(Struct, frozen=True):
    before: Summary
    after: Summary
    figure: str
    obstacle: Obstacle | None
    contrast: Contrast | None
    few_states: bool = False

    @property
    def why(self) -> str:
        """Why there is no contrast; empty where there is one, or no reason is known."""
        sides = [s.of_launches("issue_ns").values() for s in (self.before, self.after)]
        fewest = min(map(len, sides))
        if fewest < 2:
            return "one_launch"
        if self.few_states:
            return "few_states"
        if self.contrast is None and self.figure == "issue" and not min(map(min, sides)) > 0:
            return "no_ratio"
        few = self.contrast is None and fewest < FEWEST_LAUNCHES
        return "few_launches" if few else ""


def launches_in_turns(before: Iterable[Context], after: Iterable[Context]) -> dict[str, str]:
    """Launches that ran next to each other, one of each side, in order of time.

    Empty unless all of them did, on one machine, and each side came first in half of the turns, so
    that a drift falls on neither: of launches in the order A B A B, the second side would always
    have the later moment.  One launch of each side is no turn yet: every run is next to the one
    after it."""
    before, after = list(before), list(after)
    if len({c.machine_id for c in (*before, *after)}) != 1:
        return {}
    began = sorted(
        [(c.started_utc, 0, c.context_id) for c in before]
        + [(c.started_utc, 1, c.context_id) for c in after]
    )
    couples = list(zip(began[::2], began[1::2], strict=False))
    if len(couples) < 2 or len(began) % 2 or any(x[1] == y[1] for x, y in couples):
        return {}
    lead = sum((x[0] < y[0]) * (1 if x[1] == 0 else -1) for x, y in couples)
    if abs(lead) > 1:
        return {}
    return dict((x[2], y[2]) if x[1] == 0 else (y[2], x[2]) for x, y in couples)


def _states(sides: Sequence[Sequence[Context]]) -> dict[str, int]:
    """By launch the state in which it saw a virtual machine, as far as the times tell, of runs that
    were made one after the other; nothing of others, whose launches met the same states."""
    began = [[began_at(c) for c in side] for side in sides]
    steady = on_metal(c for side in sides for c in side)
    if steady or not all(began) or any(None in times for times in began):
        return {}
    if min(map(max, began)) >= max(map(min, began)):
        return {}
    return {
        c.context_id: state
        for side, times in zip(sides, began, strict=True)
        for c, state in zip(side, cluster_numbers(times, CLUSTER_VIRTUAL_S), strict=True)
    }


def _by_state(figures: Mapping[str, float], states: Mapping[str, int]) -> dict[str, float]:
    """One figure for each state, by its first launch."""
    groups = grouped(figures, lambda launch: states.get(launch, -1))
    return {own[0]: median(np.array([figures[i] for i in own])) for own in groups.values()}


def _compared(before: Summary, after: Summary, exact: bool) -> str:
    """What is compared of a cell.  Of two simulations the issue interval, where exposed costs are
    withheld: it needs no measure of the work around the operation."""
    withheld = before.withheld or after.withheld
    return "issue" if exact and withheld else figure_of(before)


def _obstacle(before: Summary, after: Summary, figure: str) -> Obstacle | None:
    exposed = figure == "exposed"
    for side, summary in (("before", before), ("after", after)):
        if summary.status != "ok" or summary.issue is None:
            return Obstacle("status", side, summary.status, summary.reason)
        if summary.emulated:
            return Obstacle("emulated", side)
        if not summary.of_launches("issue_ns"):
            return Obstacle("published", side)
        if exposed and summary.withheld:
            return Obstacle("withheld", side, summary.withheld)
        if exposed and not summary.of_launches("exposed_ns"):
            return Obstacle("no_baseline_loop", side)
    return None


def _contrast(
    before: Summary,
    after: Summary,
    figure: str,
    beside: Turns,
    order: Mapping[str, int],
    states: Mapping[str, int],
) -> Contrast | None:
    one, two = (s.of_launches(f"{figure}_ns") for s in (before, after))
    scale = "ns" if figure == "exposed" else "ratio"
    if beside:
        turned = {k: two[beside[k]] for k in one if beside.get(k) in two}
        return paired_t(turned, one, scale, before.places)
    if len({before.machine_id, after.machine_id}) > 1:
        return welch_t(list(two.values()), list(one.values()), scale)
    if _depends_on_state(before, states):
        one, two = _by_state(one, states), _by_state(two, states)
        if min(len(one), len(two)) < FEWEST_CLUSTERS:
            return None
    # Places in time; of moments that are not known, the first side's come first.
    in_time = np.argsort([order.get(launch, 0) for launch in (*one, *two)], kind="stable")
    return ancova([*two.values()], [*one.values()], scale, np.argsort(in_time))


def _exact(
    before: Summary, after: Summary, figure: str, known: Mapping[str, Context]
) -> Contrast | None:
    """What two simulations differ by, over the launches that had the same random numbers, with the
    band that the constants leave it. None where they share no launch, or one took no time."""
    one, two = (
        {known[i].launch: ns for i, ns in s.of_launches(f"{figure}_ns").items()}
        for s in (before, after)
    )
    shared = sorted(set(one) & set(two))
    if not shared:
        return None
    a, b = (float(np.median([side[launch] for launch in shared])) for side in (one, two))
    if figure == "exposed":
        return over_draws(after, before, "ns", b - a)
    return over_draws(after, before, "ratio", b / a) if min(a, b) > 0 else None


def _exact_row(pair: _CellInBoth) -> Comparison:
    """A cell of two simulations, which needs no launches: by its band, or without draws of the
    constants as the two files have them."""
    c = pair.contrast
    if c is None:
        return _row(pair)
    asked = QUESTIONS["simulations"]
    same = asked.same.of(pair.figure)
    judgement = asked.judge(c, None, same)
    if c.over == "nothing":
        differs = "cheaper" if c.value < c.neutral else "slower"
        answer = "same" if abs(c.value - c.neutral) <= same else differs
        judgement = Judgement(answer=answer, contrast=c, shown=c)
    return _of_cells(pair, judgement, "simulations")


def compare(
    before: Sequence[Summary],
    afters: Sequence[Sequence[Summary]],
    contexts: Iterable[Context] = (),
    same: float = QUESTIONS["turns"].same.share,
) -> list[list[Comparison]]:
    """Every cell that the baseline and a run both have, run by run, corrected over all cells of all
    runs together.

    `contexts` of both sides say which launches ran in turns.  Cells are matched by id; a side that
    holds several machines must be split by the caller (ValueError otherwise).  What has
    become wrong comes first, then the largest changes, then the others by id."""
    known = {c.context_id: c for c in contexts}
    baseline = _by_id(before, "before")
    sides = [_pairs(baseline, _by_id(after, "after"), known) for after in afters]
    ps = holm(pair.contrast for side in sides for pair in side)
    left = {name: left_open(ps, QUESTIONS[name].alpha) for name in ("turns", "sequence")}
    own, exact = iter(ps), simulated(known.values())
    rows = [
        [_exact_row(pair) if exact else _row(pair, next(own), same, left) for pair in side]
        for side in sides
    ]
    return [sorted(side, key=_weight) for side in rows]


def _pairs(
    left: Mapping[str, Summary], right: Mapping[str, Summary], known: Mapping[str, Context]
) -> list[_CellInBoth]:
    shared = [(left[i], right[i]) for i in left if i in right]
    ids = [{i for pair in shared for i in pair[side].context_ids} for side in (0, 1)]
    contexts = [[known[i] for i in own if i in known] for own in ids]
    beside = launches_in_turns(*contexts)
    in_time = sorted(known, key=lambda i: (known[i].started_utc, known[i].launch))
    order = {c: n for n, c in enumerate(in_time)}
    states = {} if beside else _states(contexts)
    exact = simulated(known.values())
    figures = [_compared(a, b, exact) for a, b in shared]
    obstacles = [_obstacle(*pair, figure) for pair, figure in zip(shared, figures, strict=True)]
    contrasts = [
        None
        if found
        else _exact(a, b, figure, known)
        if exact
        else _contrast(a, b, figure, beside, order, states)
        for (a, b), figure, found in zip(shared, figures, obstacles, strict=True)
    ]
    if not exact:
        groups = [noise_group_of(a.cell) for a, _ in shared]
        pooled = pool_components(contrasts, groups, kind=kind_of)
        contrasts = add_components(pooled, list(map(kind_of, groups)), _excess(shared))
    return [
        _CellInBoth(
            a, b, figure, found, c, not exact and c is None and _depends_on_state(a, states)
        )
        for (a, b), figure, found, c in zip(shared, figures, obstacles, contrasts, strict=True)
    ]


def _depends_on_state(cell: Summary, states: Mapping[str, int]) -> bool:
    """Whether what a cell costs changes with where the hypervisor has put the virtual CPUs."""
    return bool(states) and cell.cell.contender != "none"


def _excess(shared: Sequence[tuple[Summary, Summary]]) -> dict[tuple, Component]:
    """The luck of code that stays for all launches of a run, as identical machine code shows it:
    both runs have their own."""
    sides = [
        heterogeneities(identical_contrasts(side, side[0].arch), kind_of)
        for side in map(list, zip(*shared, strict=True))
    ]
    return {
        key: Component(
            variance=sum(e.variance for e in own), degrees=sum(e.degrees for e in own) / len(own)
        )
        for key in {key for side in sides for key in side}
        for own in [[side[key] for side in sides if key in side]]
    }


def _row(
    pair: _CellInBoth,
    p: float | None = None,
    same: float = 0.0,
    left: Mapping[str, int] | None = None,
) -> Comparison:
    """`left`: by question, as of `left_open`."""
    a, b, c = pair.before, pair.after, pair.contrast
    before, why = side_of(a, pair.figure).ns, "" if pair.obstacle else pair.why
    if pair.obstacle:
        why = "wrong" if (a.status, b.status) == ("ok", "error") else "not_comparable"
    question = "sequence" if c and a.machine_id == b.machine_id and not c.paired else "turns"
    asked = QUESTIONS[question]
    bound = replace(asked.same, share=same).of(pair.figure, ns=before.median_ns if before else 0.0)
    of_all = left[question] if left else 0
    judgement = asked.judge(c, p, bound, why=why, left=of_all)
    return _of_cells(pair, judgement, question)


def _of_cells(pair: _CellInBoth, judgement: Judgement, question: str) -> Comparison:
    """The cell as it is now over the cell as it was, whose figures an obstacle keeps out."""
    sides = [side_of(s, pair.figure) for s in (pair.after, pair.before)]
    if pair.obstacle:
        sides = [replace(side, ns=None) for side in sides]
    return compared(judgement, question, *sides, pair.figure, pair.obstacle)


def _weight(row: Comparison) -> tuple:
    """What has become wrong first, then differences, the largest first, the undecided, those that
    are the same, and what is not comparable."""
    size, c = 0.0, row.contrast
    if row.differs:
        size = abs(np.log(c.value)) if c.scale == "ratio" and c.value > 0 else abs(c.value)
    rank = {"wrong": 0, "undecided": 2, "same": 3, "not_comparable": 4}
    return (rank.get(outcome(row), 1), -float(size), row.second.id)


def _by_id(summaries: Iterable[Summary], side: str) -> dict[str, Summary]:
    answer: dict[str, Summary] = {}
    for summary in summaries:
        if summary.id in answer:
            what = f"{side}: cell {summary.id} occurs for two machines"
            raise ValueError(f"{what}; compare one machine at a time")
        answer[summary.id] = summary
    return answer
