# SPDX-License-Identifier: MIT
"""Compares trial files: the same program on two boots, kernels or machines, which no round can
interleave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linewright.analysis.comparison import (
    Comparison,
    Obstacle,
    Side,
    compared,
    exactly,
    holm,
    judge,
)
from linewright.analysis.contrast import Contrast, welch_t
from linewright.analysis.intervals import median
from linewright.analysis.questions import QUESTIONS
from linewright.compare.compared_files import (
    ComparedFile,
    ComparedFiles,
    CompareOptions,
)
from linewright.compare.conditions import ConditionDifference, Refuse, compare_whatever
from linewright.errors import UserError
from linewright.trial.trial_file import Session, TrialFile, check_same

ONE_BOOT = 0.01
"""Relative standard deviation between boots that is assumed where there are too few to show their
own."""
FEWEST_BOOTS = 3
"""Sessions on each side from which their medians are what is compared; with fewer, a boot's own
luck cannot show."""


def compare(
    files: Sequence[TrialFile], options: CompareOptions, refuse: Refuse = compare_whatever
) -> ComparedFiles:
    """Every setting that the baseline and a file have, for each file, corrected over all settings
    of all files."""
    if options.only:
        raise UserError("a trial has settings and no cells", "--only", "record files only")
    baseline, *others = files
    differing = [_machines_apart(baseline, other) for other in others]
    for other, unlike in zip(others, differing, strict=True):
        refuse(baseline.path, other.path, unlike)
    found = [_pairs(baseline, other) for other in others]
    ps = iter(holm(pair.contrast for side in found for pair in side))
    names = [s.name for s in baseline.sessions[0].settings]
    return ComparedFiles(
        higher_is_better=baseline.sessions[0].higher_is_better,
        unit=baseline.sessions[0].unit,
        same=QUESTIONS["boots"].same.share,
        baseline=ComparedFile.of(baseline.path, names, names, sessions=baseline.sessions),
        others=[
            ComparedFile.of(
                other.path,
                [s.name for s in other.sessions[0].settings],
                names,
                sessions=other.sessions,
                unlike=unlike,
                failed={pair.setting: pair.failed for pair in pairs if any(pair.failed)},
                few_boots=not all(pair.by_boot for pair in pairs),
                rows=[_row(pair, baseline.sessions[0], next(ps)) for pair in pairs],
            )
            for other, unlike, pairs in zip(others, differing, found, strict=True)
        ],
        fail_above=options.fail_above,
        undecided_fails=options.undecided_fails,
    )


class _SettingInBoth(NamedTuple):
    """One setting in both files."""

    setting: str
    by_boot: bool
    """Whether the medians of boots are what is independent, or, of few boots, single runs."""
    before: float | None
    after: float | None
    failed: tuple[int, int]
    contrast: Contrast | None


def _machines_apart(before: TrialFile, after: TrialFile) -> list[ConditionDifference]:
    """Boots differ in kernel and boot parameters on purpose; the machine should be one."""
    answer = []
    for name in ("arch", "cpu_model", "cpus"):
        one, two = (
            sorted({str(getattr(s, name)) for s in side.sessions}) for side in (before, after)
        )
        if one != two or len(one) > 1:
            answer.append(ConditionDifference(field=name, before=one, after=two))
    return answer


def _pairs(before: TrialFile, after: TrialFile) -> list[_SettingInBoth]:
    for file in (before, after):
        for session in file.sessions[1:]:
            check_same(file.sessions[0], session, file.path)
    one, two = before.sessions[0], after.sessions[0]
    if (one.metric, one.higher_is_better) != (two.metric, two.higher_is_better):
        raise UserError(
            f"metric {one.metric!r} in {before.path}, {two.metric!r} in {after.path}",
            "compare",
            "trials of one metric and direction",
        )
    names = [s.name for s in one.settings if s.name in {t.name for t in two.settings}]
    if not names:
        raise UserError(
            f"{before.path} and {after.path} have no setting in common",
            "compare",
            "trials of the same settings",
        )
    return [_pair(before, after, name) for name in names]


def _pair(before: TrialFile, after: TrialFile, setting: str) -> _SettingInBoth:
    sides = [_values(file, setting) for file in (before, after)]
    medians = [[median(np.array(boot)) for boot in side] for side in sides]
    by_boot = min(map(len, sides)) >= FEWEST_BOOTS
    a, b = medians if by_boot else ([x for boot in side for x in boot] for side in sides)
    middles = (median(np.array(side)) if side else None for side in medians)
    failed = tuple(
        sum(s.setting == setting and not s.warm_up and s.value is None for s in file.samples)
        for file in (before, after)
    )
    contrast = welch_t(b, a, common=0.0 if by_boot else ONE_BOOT)
    return _SettingInBoth(setting, by_boot, *middles, failed, contrast)


def _values(file: TrialFile, setting: str) -> list[list[float]]:
    """Values of each boot that has any; several sessions of one boot count as that boot."""
    answer: dict[str, list[float]] = {}
    boots = {s.session: s.boot_id or s.session for s in file.sessions}
    for s in file.samples:
        if s.setting == setting and not s.warm_up and s.value is not None:
            answer.setdefault(boots[s.session], []).append(s.value)
    return list(answer.values())


def _row(pair: _SettingInBoth, session: Session, p: float | None) -> Comparison:
    c, a, b = pair.contrast, pair.before, pair.after
    asked, why, obstacle = QUESTIONS["boots"], "", None
    if c is None:
        fails = a is not None and b is None and pair.failed[1]
        why = "wrong" if fails else "not_comparable"
        obstacle = Obstacle("runs_fail" if fails else "few_runs")
    judgement = judge(
        c, p, alpha=asked.alpha, same=asked.same.share, why=why, fewest=asked.fewest,
        count_small=asked.count_small, higher_is_better=session.higher_is_better,
    )  # fmt: skip
    sides = (Side(id=pair.setting, form=pair.setting, ns=exactly(value)) for value in (b, a))
    return compared(judgement, "boots", *sides, "metric", obstacle)
