"""Compares two trial files: the same program on two boots, kernels or machines, which no round can interleave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import Contrast, corrected, unpaired
from linewright.analysis.intervals import median
from linewright.analysis.paired import ALPHA
from linewright.errors import UserError
from linewright.schema import Estimate
from linewright.trial.files import Session, TrialFile

ONE_BOOT = 0.01
"""Relative standard deviation between boots that is assumed where there are too few to show their own."""
FEWEST_BOOTS = 3
"""Sessions on each side from which their medians are what is compared; with fewer, a boot's own luck cannot show."""


class Across(Struct, frozen=True, kw_only=True):
    """One setting in both files."""

    setting: str
    before: float | None
    after: float | None
    unit: str
    """What counts as independent: ``boot`` or ``run``."""
    boots: tuple[int, int]
    failed: tuple[int, int]
    ratio: Estimate | None
    """After over before; None without enough runs."""
    p: float | None
    """Of 'no difference', corrected over the settings."""
    different: bool
    better: bool | None


def across_boots(before: TrialFile, afters: Sequence[TrialFile]) -> list[list[Across]]:
    """Every setting that the baseline and a file have, for each file, by the medians of their boots, or by their runs
    where there are few boots; corrected over all settings of all files."""
    one = _common(before)
    found = [_contrasts(before, one, after) for after in afters]
    adjusted = iter(corrected(f.contrast for side in found for f in side))
    return [
        [_across(f, before, after, one, next(adjusted)) for f in side]
        for after, side in zip(afters, found, strict=True)
    ]


class _Found(NamedTuple):
    setting: str
    by_boot: bool
    left: list[list[float]]
    right: list[list[float]]
    contrast: Contrast | None


def _contrasts(before: TrialFile, one: Session, after: TrialFile) -> list[_Found]:
    two = _common(after)
    if (one.metric, one.higher_is_better) != (two.metric, two.higher_is_better):
        raise UserError(
            f"metric {one.metric!r} in {before.path}, {two.metric!r} in {after.path}",
            "compare",
            "trials of one metric and direction",
        )
    names = [s.name for s in one.settings if s.name in {t.name for t in two.settings}]
    if not names:
        raise UserError(
            f"{before.path} and {after.path} have no setting in common", "compare", "trials of the same settings"
        )
    answer = []
    for name in names:
        left, right = _values(before, name), _values(after, name)
        by_boot = min(len(left), len(right)) >= FEWEST_BOOTS
        a, b = (
            [median(np.array(v)) for v in side] if by_boot else [x for v in side for x in v] for side in (left, right)
        )
        found = unpaired(b, a, floor=0.0 if by_boot else ONE_BOOT) if min(len(a), len(b)) > 1 else None
        answer.append(_Found(name, by_boot, left, right, found))
    return answer


def _across(f: _Found, before: TrialFile, after: TrialFile, one: Session, p: float | None) -> Across:
    different = p is not None and p < ALPHA
    return Across(
        setting=f.setting,
        before=_middle(f.left),
        after=_middle(f.right),
        unit="boot" if f.by_boot else "run",
        boots=(len(f.left), len(f.right)),
        failed=(_failed(before, f.setting), _failed(after, f.setting)),
        ratio=Estimate(value=c.value, low=c.low, high=c.high) if (c := f.contrast) else None,
        p=p,
        different=different,
        better=(f.contrast.value > 1) == one.higher_is_better if different else None,
    )


def _common(file: TrialFile) -> Session:
    """The first session; all of a file measure one thing."""
    first = file.sessions[0]
    for other in file.sessions[1:]:
        check_same(first, other, file.path)
    return first


def check_same(first: Session, other: Session, where: str) -> None:
    """Refuse sessions of one file that measure different things."""
    for name in ("command", "metric", "higher_is_better", "settings"):
        if getattr(first, name) != getattr(other, name):
            raise UserError(
                f"{where} holds another {name.replace('_', ' ')}",
                "trial",
                "one file for one program, metric and list of settings",
            )


def _values(file: TrialFile, setting: str) -> list[list[float]]:
    """Values of each boot that has any; several sessions of one boot count as that boot."""
    answer: dict[str, list[float]] = {}
    boots = {s.session: s.boot_id or s.session for s in file.sessions}
    for s in file.samples:
        if s.setting == setting and not s.warm_up and s.value is not None:
            answer.setdefault(boots[s.session], []).append(s.value)
    return list(answer.values())


def _failed(file: TrialFile, setting: str) -> int:
    return sum(s.setting == setting and not s.warm_up and s.value is None for s in file.samples)


def _middle(boots: Sequence[Sequence[float]]) -> float | None:
    return median(np.array([median(np.array(v)) for v in boots])) if boots else None
