"""Forms that cost differently on two cores, alone and back to back."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from linewright.analysis.findings import compare_pairs, policy_of
from linewright.analysis.summary import Summary, grouped
from linewright.families import BASELINES

ALIKE = 0.05
"""Cores are called different when a form is shown to differ on them by more than this share."""


class CoreDifference(Struct, frozen=True, kw_only=True):
    """One form on two cores."""

    form: str
    width_bits: int
    cheapest_cpu: int
    cheapest_ns: float
    costliest_cpu: int
    costliest_ns: float
    ids: tuple[str, str]
    """Of both cells, the cheaper first."""


def core_differences(summaries: Iterable[Summary]) -> list[CoreDifference]:
    """Forms that are shown to cost differently on the first core timed and on another, corrected
    over all of these."""
    alone = (
        s
        for s in summaries
        if s.cell.contender == "none"
        and s.cell.work_iters == 0
        and s.cell.operation not in BASELINES
        and s.cpus
        and s.usable
    )
    by_form = grouped(
        alone,
        lambda s: (
            s.cell.operation,
            s.cell.form,
            policy_of(s.cell),
            s.cell.situation.without("lines", "placement", "work"),
        ),
    )
    pairs = [
        (other, own[0])
        for own in by_form.values()
        for other in own[1:]
        if other.cpus[0] != own[0].cpus[0]
    ]
    answers = []
    for pair, judgement in zip(pairs, compare_pairs(pairs, "cores", lambda _: ALIKE), strict=True):
        if judgement.answer == "different":
            low, high = sorted(pair, key=lambda s: s.issue.median_ns)
            answers.append(
                CoreDifference(
                    form=low.cell.form,
                    width_bits=low.cell.width_bits,
                    cheapest_cpu=low.cpus[0],
                    cheapest_ns=low.issue.median_ns,
                    costliest_cpu=high.cpus[0],
                    costliest_ns=high.issue.median_ns,
                    ids=(low.id, high.id),
                )
            )
    return answers
