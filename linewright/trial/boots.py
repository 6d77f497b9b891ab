"""Two trial files against each other: the same program on two boots, kernels or machines, which no round can interleave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from linewright.analysis.compare import ONE_LAUNCH
from linewright.analysis.intervals import Estimate, contrast, holm, median
from linewright.analysis.paired import ALPHA
from linewright.errors import UserError
from linewright.trial.files import Session, TrialFile

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
    change_percent: Estimate | None
    """After over before; None without enough runs."""
    p: float | None
    """Of 'no difference', corrected over the settings."""
    different: bool
    better: bool | None


def compare(before: TrialFile, after: TrialFile) -> list[Across]:
    """Every setting that both files have, by the medians of their boots, or by their runs where there are few boots."""
    one, two = _common(before), _common(after)
    if (one.metric, one.higher_is_better) != (two.metric, two.higher_is_better):
        raise UserError(f"metric {one.metric!r} in {before.path}, {two.metric!r} in {after.path}", "--compare", "both files with one metric and direction")
    names = [s.name for s in one.settings if s.name in {t.name for t in two.settings}]
    if not names:
        raise UserError(f"{before.path} and {after.path} have no setting in common", "--compare", "trials of the same settings")
    sides = [(_values(before, name), _values(after, name)) for name in names]
    found = []
    for left, right in sides:
        by_boot = min(len(left), len(right)) >= FEWEST_BOOTS
        a, b = ([median(np.array(v)) for v in side] if by_boot else [x for v in side for x in v] for side in (left, right))
        found.append((by_boot, contrast(b, a, relative_floor=0.0 if by_boot else ONE_LAUNCH) if min(len(a), len(b)) > 1 else None))
    corrected = iter(holm([c.p for _, c in found if c]))
    answers = []
    for name, (left, right), (by_boot, c) in zip(names, sides, found, strict=True):
        p = next(corrected) if c else None
        different = p is not None and p < ALPHA
        change = None
        if c and c.ratio:
            change = Estimate(
                value=100 * (c.ratio.value - 1), low=100 * (c.ratio.low - 1), high=100 * (c.ratio.high - 1), confidence=c.ratio.confidence
            )
        answers.append(
            Across(
                setting=name, before=_middle(left), after=_middle(right), unit="boot" if by_boot else "run",
                boots=(len(left), len(right)), failed=(_failed(before, name), _failed(after, name)), change_percent=change,
                p=p, different=different, better=(c.difference.median_ns > 0) == one.higher_is_better if different else None,
            )  # fmt: skip
        )
    return answers


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
            raise UserError(f"{where} holds another {name.replace('_', ' ')}", "trial", "one file for one program, metric and list of settings")


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
