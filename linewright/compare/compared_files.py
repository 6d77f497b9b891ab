# SPDX-License-Identifier: MIT
"""What a comparison found, whatever was compared: its rows, and whether a check fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from msgspec import Struct

from linewright.analysis.comparison import Comparison
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary
from linewright.compare.conditions import ConditionDifference
from linewright.schema import Cell, Context
from linewright.trial.trial_file import Session

LaunchOrder = Literal["", "itself", "model", "draws", "machines", "turns", "mixed", "sequence"]
"""How the launches of a file lie to the baseline's: the same ones, made by a model (without or with
draws of the constants), of another machine, in turns, mixed in time, or one run after the other;
empty of trials."""


class CompareOptions(Struct, frozen=True):
    """What the user asked of a comparison."""

    fail_above: float | None = None
    only: Sequence[str] = ()
    undecided_fails: bool = False


def outcome(row: Comparison) -> str:
    """What was found: the answer, or of what has none for an obstacle ``wrong`` or
    ``not_comparable``."""
    return row.why if row.obstacle else row.answer


def exceeds(row: Comparison, share: float, higher_is_better: bool, surely: bool = True) -> bool:
    """Whether the whole interval shows that the first side costs more by more than a share; not
    `surely`: whether the interval leaves that possible."""
    c = row.contrast
    if row.few_launches and not surely:
        return True
    if c is None:
        return row.obstacle is None
    if c.scale == "ns":  # exposed costs: a share of nothing is nothing
        bound = max(QUESTIONS["turns"].same.ns, share * row.second.ns.median_ns)
        return (c.low if surely else c.high) > bound
    if higher_is_better:
        return (c.high if surely else c.low) < 1 / (1 + share)
    return (c.low if surely else c.high) > 1 + share


class ComparedFile(Struct, frozen=True, kw_only=True):
    """One file, what it was measured on, and how it stands to the baseline."""

    file: str
    contexts: Sequence[Context] = ()
    """The launches of a record file."""
    sessions: Sequence[Session] = ()
    """The sessions of a trial file."""
    missing: list[str]
    """Ids that the baseline has and this file lacks."""
    added: list[str]
    """Ids that only this file has."""
    rows: list[Comparison] = []
    """This file over the baseline: the largest certain changes first, then the undecided, then
    what cannot be compared; none of the baseline."""
    unlike: list[ConditionDifference] = []
    """Conditions that differ from the baseline's."""
    order: LaunchOrder = ""
    cycle_ns: tuple[float, float] | None = None
    """A core cycle of the baseline and of this file, where the frequency was another."""
    failed: dict[str, tuple[int, int]] = {}
    """Of a trial, the failed runs of each setting that has any, in the baseline and here."""
    few_boots: bool = False
    """Of a trial: too few boots for a boot's own luck to show."""
    missed: Sequence[Summary] = ()
    """The cells of this file whose model missed cells like them."""

    @classmethod
    def of(cls, file: str, own: Sequence[str], baseline: Sequence[str], **more: Any) -> Self:
        """A file with these ids, held against those of the baseline."""
        missing, added = sorted(set(baseline) - set(own)), sorted(set(own) - set(baseline))
        return cls(file=file, missing=missing, added=added, **more)


class ComparedFiles(Struct, frozen=True, kw_only=True):
    """A baseline and the files held against it."""

    higher_is_better: bool
    unit: str
    """Of every figure: ``ns``, ``s``, ``bytes`` or nothing."""
    same: float
    """Share below which two figures are called the same."""
    same_ns: float | None = None
    """The same of exposed costs; None of a trial."""
    baseline: ComparedFile
    others: list[ComparedFile]
    cells: Sequence[Cell] = ()
    """Those of the baseline; of a trial none, whose settings' names are their ids."""
    fail_above: float | None
    undecided_fails: bool = False
    """Whether a check with undecided rows counts as failed."""
    exact: bool = False
    """Whether both sides are simulations, which need no launches."""

    @property
    def drawn(self) -> bool:
        """Whether both are, and what changed has bands over draws of the constants."""
        return any(side.order == "draws" for side in self.others)

    @property
    def rows(self) -> list[Comparison]:
        """Those of every file, in the order given."""
        return [row for side in self.others for row in side.rows]

    def fails(self, row: Comparison) -> bool:
        """Whether the check fails for a row: it has become wrong, or is certainly worse than
        allowed, called so after the correction and with the whole interval beyond the limit.

        Without a limit every difference counts, for the better too."""
        if self.fail_above is None or row.why == "wrong":
            return row.differs or row.why == "wrong"
        return row.slower and exceeds(row, self.fail_above, self.higher_is_better)

    def unclear(self, row: Comparison) -> bool:
        """Whether a row is neither shown to be worse than the limit allows nor shown not to be;
        never without a limit."""
        if self.fail_above is None or row.obstacle or self.fails(row):
            return False
        return exceeds(row, self.fail_above, self.higher_is_better, surely=False)

    @property
    def failing(self) -> list[Comparison]:
        return list(filter(self.fails, self.rows))

    @property
    def undecided(self) -> list[Comparison]:
        return list(filter(self.unclear, self.rows))

    @property
    def failed(self) -> bool:
        """Whether the command ends with the exit code for a difference."""
        return bool(self.failing) or (bool(self.undecided) and self.undecided_fails)
