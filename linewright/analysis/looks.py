# SPDX-License-Identifier: MIT
"""Which cells a run goes on with: after a plan's looks, what is decided gives its time to what is
open.

A look judges every comparison by a small part of the error rate (Haybittle 1971, Peto and others
1976), and the end by the rest, so that a run holds a false word no more often than one without
looks; bench/claims/rule.py shows it by simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linewright.analysis.comparison import Comparison, Judgement, judge
from linewright.analysis.control import identical_to, noise_group_of
from linewright.analysis.findings import findings
from linewright.analysis.loading import summarise
from linewright.analysis.questions import QUESTIONS, ask
from linewright.analysis.summary import Summary
from linewright.forms import ONE_LINE, family_of
from linewright.schema import Context, Plan, Record, architecture_of

LOOK = 0.05 / 0.9
"""Of a question's error rate, what one look before the end may spend: so little that the end keeps
nearly all of it."""
SURE = 0.995
"""Confidence of the interval that must lie within the tolerance before a look calls two costs the
same: several looks each have a chance to err."""


def at_look(judgement: Judgement, alpha: float) -> Judgement:
    """The same comparison judged before the end of a run, by the share of `alpha` that a look has:
    what it decides need not be measured further."""
    c = judgement.contrast
    if c is None:
        return judgement
    return judge(c.at(SURE), judgement.p, alpha=LOOK * alpha, same=judgement.same)


def open_cells(summaries: Sequence[Summary]) -> set[str]:
    """Ids of the cells whose comparisons a look leaves open: both sides, and in the same
    situation identical machine code, which says how far to trust them.

    Where a setting may be advised, it must be shown to be no worse at every point and in every
    state of the machine: there only a form that is shown to cost more is decided."""
    compared = list(_compared(summaries))
    if not compared:
        return {s.id for s in summaries}
    left = set()
    for c, advised in compared:
        found = at_look(c, QUESTIONS[c.question].alpha)
        if not found.slower if advised else found.answer == "undecided":
            left.update(c.ids)
    groups = {noise_group_of(s.cell) for s in summaries if s.id in left}
    return left | {
        s.id
        for s in summaries
        if noise_group_of(s.cell) in groups and len(identical_to(s.cell.form, s.arch)) > 1
    }


def _compared(summaries: Sequence[Summary]) -> Iterable[tuple[Comparison, bool]]:
    """Every comparison, and whether a setting may be advised by it."""
    far = architecture_of(next((s.arch for s in summaries), "")).far_atomics
    for f in findings(summaries):
        advised = far and family_of(f.operation) is ONE_LINE
        for r in f.rows:
            yield r, advised
    for c in ask("operations", summaries):
        yield c, False


class Looks:
    """The looks of a plan that is being run: `done` grows by what need not be measured.

    `done` holds (cell id, launch) pairs and is read by whatever starts the launches."""

    def __init__(self, plan: Plan, done: set[tuple[str, int]]) -> None:
        self.done = done
        self._plan = plan
        self._before = [plan.launch + n for n in plan.looks if n < plan.launches]
        """First launch after each look that is still to come."""

    def take(self, contexts: Iterable[Context], records: Sequence[Record]) -> None:
        """Look if all launches before the next look are there: with the last record of a launch,
        and with what a file holds that is continued."""
        while self._before:
            known = {(r.id, r.launch) for r in records} | self.done
            first = range(self._plan.launch, self._before[0])
            if any((cell.id, launch) not in known for launch in first for cell in self._plan.cells):
                return
            own = [r for r in records if r.launch < self._before[0]]
            open_ = open_cells(summarise(contexts, own))
            last = self._plan.launch + self._plan.launches
            self.done |= {
                (cell.id, launch)
                for launch in range(self._before.pop(0), last)
                for cell in self._plan.cells
                if cell.id not in open_
            }
