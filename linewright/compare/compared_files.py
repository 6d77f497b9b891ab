# SPDX-License-Identifier: MIT
"""What a comparison found, whatever was compared: its rows, whether a check fails, and whether two
runs were made under the same conditions: the fields of their contexts that change what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self

from msgspec import Struct

from linewright.analysis.comparison import Comparison
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary
from linewright.schema import Cell, Context
from linewright.trial.trial_file import Session


class ConditionDifference(Struct, frozen=True, kw_only=True):
    """One condition that differs."""

    field: str
    before: list[str]
    after: list[str]


Refuse = Callable[[str, str, Sequence[ConditionDifference]], None]
"""What is asked of a baseline, a file and the conditions that differ, before anything is computed:
it raises a UserError where such files shall not be compared."""


def compare_whatever(baseline: str, other: str, unlike: Sequence[ConditionDifference]) -> None:
    """A `Refuse` that takes all files."""


FIELDS = (
    "target",
    "arch",
    "cpu_model",
    "cpu_ids",
    "cpus",
    "cpu_quota",
    "emulated",
    "virtualised",
    "kernel",
    "boot_parameters",
    "governor",
    "smt",
    "tool_version",
    "compiler",
    "features",
    "line_bytes",
    "page_bytes",
    "time_source",
    "realtime",
    "locked_memory",
    "rseq",
)
"""Conditions in the order in which they are reported, the weightiest first.

Left out: what names one launch (`context_id`, `started_utc`, `plan`, `launch`), and what is
measured afresh each time (`tick_ns`, `timer_cost_ns`, `cycle_ns`, the work's figures), how the
launch was laid out (`loop_offset_bytes`, `launches`). """
IN_MACHINE_ID = {"arch", "cpu_model", "cpu_ids", "cpus", "kernel"}
"""What `machine_id` is made of, beside the system's own id: where one of these differs, it says
nothing new."""


def _text(of: Context | Session, field: str) -> str:
    """A condition in words."""
    value = getattr(of, field)
    if isinstance(value, list):
        if field == "cpus":
            return f"{len(value)}, {sum(c.allowed for c in value)} allowed"
        return ",".join(sorted(value) if field == "features" else value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def simulated(contexts: Iterable[Context]) -> bool:
    """Whether a model made every launch: a seed gives the same result, so that launches bring no
    luck."""
    made_by = [context.simulated for context in contexts]
    return bool(made_by) and all(made_by)


def differences(before: Iterable[Context], after: Iterable[Context]) -> list[ConditionDifference]:
    """Conditions that differ between two runs or within one of them; none when they may be compared
    as they are, and none of two simulations: the machine is what is compared."""
    left, right = list(before), list(after)
    if simulated([*left, *right]):
        return []
    found = differing(FIELDS, left, right)
    known = {d.field for d in found} & IN_MACHINE_ID
    return found + ([] if known else differing(["machine_id"], left, right))


def differing(
    fields: Iterable[str], before: Sequence[Context | Session], after: Sequence[Context | Session]
) -> list[ConditionDifference]:
    """Fields that differ between the launches of two runs, or the sessions of two trials, or within
    one of them."""
    found = []
    for name in fields:
        one, two = (sorted({_text(c, name) for c in side}) for side in (before, after))
        if one != two or len(one) > 1:
            found.append(ConditionDifference(field=name, before=one, after=two))
    return found


LaunchOrder = Literal[
    "", "itself", "model", "draws", "other_draws", "machines", "turns", "mixed", "sequence"
]
"""How the launches of a file lie to the baseline's: the same ones, made by a model (without or with
draws of the constants; those of another name or seed are others), of another machine, in
turns, mixed in time, or one run after the other; empty of trials."""


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
    c = row.shown
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

    @property
    def drawn(self) -> bool:
        """Whether a model made both, and what changed has bands over draws of the constants."""
        return self.order in ("draws", "other_draws")

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
        """Whether both are, and what changed in some file has such bands."""
        return any(side.drawn for side in self.others)

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
        """Whether a row is neither shown to be worse than the limit allows nor shown not to be, as
        one that has no figure any more; never without a limit."""
        if self.fail_above is None or self.fails(row):
            return False
        if row.obstacle:
            return row.obstacle.side == "after"
        return exceeds(row, self.fail_above, self.higher_is_better, surely=False)

    @property
    def failing(self) -> list[Comparison]:
        return list(filter(self.fails, self.rows))

    @property
    def unmeasured(self) -> list[tuple[str, str]]:
        """File and id of what a file lacks, which is not shown to be within a limit; none without
        one."""
        limited = () if self.fail_above is None else self.others
        return [(of.file, name) for of in limited for name in of.missing]

    @property
    def undecided(self) -> list[Comparison | str]:
        """What a limit leaves unclear: rows, and ids that a file lacks."""
        return [*filter(self.unclear, self.rows), *(name for _, name in self.unmeasured)]

    @property
    def failed(self) -> bool:
        """Whether the command ends with the exit code for a difference."""
        return bool(self.failing) or (bool(self.undecided) and self.undecided_fails)
