"""What a comparison says, whatever was compared: rows, sentences, and the decision whether a check fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from linewright.analysis.contrast import SAME_NS
from linewright.compare.alike import Unlike
from linewright.output.export import csv
from linewright.units import rounded

FAILED = ("error",)
CERTAIN = ("worse", "better")


class Row(Struct, frozen=True, kw_only=True):
    """One cell, or one setting of a trial, in the baseline and in one other file."""

    file: str
    id: str
    label: str
    unit: str
    """Of `before`, `after` and `difference`: ``ns``, ``s``, ``bytes`` or nothing."""
    before: float | None = None
    before_low: float | None = None
    before_high: float | None = None
    after: float | None = None
    after_low: float | None = None
    after_high: float | None = None
    ratio: float | None = None
    """After over before, with its own 95 % interval; None of exposed costs, which are compared by their difference."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None
    """Of 'no difference', corrected over every row of every file (Holm)."""
    finding: str
    """``worse``, ``better``, ``same``, ``undecided``, ``not_comparable``; ``error``: right before, wrong now."""
    why: str = ""
    """Why an undecided row is undecided, see `linewright.analysis.contrast.Judged`."""
    reason: str

    def may_exceed(self, share: float, higher_is_better: bool) -> bool:
        """Whether the interval leaves it possible that the row is worse by more than a share."""
        return self.why in ("one_launch", "few_launches") or self._end(share, higher_is_better, surely=False)

    def exceeds(self, share: float, higher_is_better: bool) -> bool:
        """Whether the whole interval shows the row to be worse by more than a share."""
        return self._end(share, higher_is_better, surely=True)

    def _end(self, share: float, higher_is_better: bool, surely: bool) -> bool:
        if self.ratio is not None:
            if higher_is_better:
                return (self.ratio_high if surely else self.ratio_low) < 1 / (1 + share)
            return (self.ratio_low if surely else self.ratio_high) > 1 + share
        if self.difference is not None and self.before is not None:  # exposed costs: a share of nothing is nothing
            return (self.difference_low if surely else self.difference_high) > max(SAME_NS, share * self.before)
        return self.finding in ("worse", "undecided")


class Side(Struct, frozen=True, kw_only=True):
    """One file and what it was measured on."""

    file: str
    conditions: list[str]
    """In words, for people."""
    missing: list[str]
    """Ids that the baseline has and this file lacks."""
    added: list[str]
    """Ids that only this file has."""
    unlike: list[Unlike]
    """Conditions that differ from the baseline's and were allowed to."""
    warnings: list[str]


class Comparison(Struct, frozen=True, kw_only=True):
    """A baseline and the files held against it."""

    what: str
    """What the figures are, in words."""
    words: tuple[str, str]
    """For people: the words for worse and better."""
    higher_is_better: bool
    baseline: Side
    others: list[Side]
    rows: list[Row]
    """By file in the order given, the largest certain changes first, then the undecided, then what cannot be
    compared."""
    fail_above: float | None
    undecided_fails: bool = True
    """Whether a check with undecided rows counts as failed."""

    def called(self, finding: str) -> str:
        """What people read for a finding: ``slower`` for ``worse``, say."""
        names = {**dict(zip(("worse", "better"), self.words, strict=True)), "same": "the same", "error": "wrong now"}
        return names.get(finding, finding.replace("_", " "))

    def of(self, file: str) -> list[Row]:
        return [row for row in self.rows if row.file == file]

    @property
    def failing(self) -> list[Row]:
        """Rows for which the check fails: cells that have become wrong, and those certainly worse than allowed.

        Certainly: called worse after the correction, and the whole interval beyond the limit.  Without a limit every
        difference counts, for the better too.
        """
        if self.fail_above is None:
            return [row for row in self.rows if row.finding in (*CERTAIN, *FAILED)]
        return [row for row in self.rows if row.finding in FAILED or (row.finding == "worse" and self._exceeds(row))]

    def _exceeds(self, row: Row) -> bool:
        return row.exceeds(self.fail_above, self.higher_is_better)

    @property
    def undecided(self) -> list[Row]:
        """Rows that are neither shown to be worse than the limit allows nor shown not to be; none without a limit."""
        if self.fail_above is None:
            return []
        failing = {id(row) for row in self.failing}
        compared = (row for row in self.rows if row.finding != "not_comparable" and id(row) not in failing)
        return [row for row in compared if row.may_exceed(self.fail_above, self.higher_is_better)]

    @property
    def failed(self) -> bool:
        """Whether the command ends with the exit code for a difference."""
        return bool(self.failing) or (bool(self.undecided) and self.undecided_fails)


def counts(comparison: Comparison, rows: Sequence[Row]) -> str:
    """``2 slower, 1 faster, 40 no difference, 1 not comparable``."""
    seen = Counter(row.finding for row in rows)
    order = (*FAILED, *CERTAIN, "same", "undecided", "not_comparable")
    return ", ".join(f"{seen[name]} {comparison.called(name)}" for name in order if seen[name])


def percent(ratio: float | None, signed: bool = True) -> str:
    """A ratio as a change in percent."""
    if ratio is None:
        return "–"
    change = 100 * (ratio - 1)
    digits = 1 if abs(change) < 100 else 0
    return f"{rounded(change, digits, signed)} %"


def change_text(row: Row) -> str:
    """``+2.0 % to +8.3 %``."""
    return "–" if row.ratio is None else f"{percent(row.ratio_low)} to {percent(row.ratio_high)}"


def sentences(comparison: Comparison, side: Side) -> list[str]:
    """The result of one file in words: what was found, what the undecided could still hide, what was not compared."""
    rows = comparison.of(side.file)
    family = sum(row.p is not None for row in comparison.rows)
    surely = f"95 %, corrected for {family} comparison{'s' if family > 1 else ''}" if family else "nothing is claimed"
    said = [
        f"{side.file} against {comparison.baseline.file}: {counts(comparison, rows) or 'nothing in common'} ({surely})"
    ]
    said += _open(rows)
    if side.missing:
        said.append(f"{len(side.missing)} of the baseline's are missing in {side.file}: {_some(side.missing)}")
    if side.added:
        said.append(f"{len(side.added)} are only in {side.file}: {_some(side.added)}")
    if side.unlike:
        said.append(f"unlike, as you allowed: {'; '.join(map(unlike_text, side.unlike))}")
    return said + side.warnings


def _open(rows: Sequence[Row]) -> list[str]:
    """What the undecided rows leave possible."""
    open_rows = [row for row in rows if row.finding == "undecided"]
    few = sum(row.why in ("one_launch", "few_launches") for row in open_rows)
    noise = sum(row.why == "noise_floor" for row in open_rows)
    ratios = [row for row in open_rows if row.ratio is not None]
    said = []
    if ratios:
        low, high = min(row.ratio_low for row in ratios), max(row.ratio_high for row in ratios)
        said.append(f"what the widest interval of the undecided leaves possible: {percent(low)} to {percent(high)}")
    if few:
        said.append(f"{few} have fewer than 5 launches on a side, too few for a claim")
    if noise:
        said.append(f"{noise} differ by no more than identical machine code did in these runs")
    return said


def check_sentence(comparison: Comparison) -> str:
    """Whether the check fails, and what it could not decide; nothing without a limit."""
    if comparison.fail_above is None:
        return ""
    limit = f"{100 * comparison.fail_above:g} %"
    failing, undecided = len(comparison.failing), len(comparison.undecided)
    rest = f"{undecided} {'is' if undecided == 1 else 'are'} not shown to be within it"
    if failing:
        return f"check: {failing} shown to be more than {limit} worse, or wrong: FAILED" + (
            f"; {rest}" if undecided else ""
        )
    if undecided:
        ending = (
            "counted as failed; --undecided pass"
            if comparison.undecided_fails
            else "counted as passed; --undecided fail"
        )
        return f"check: none is shown to be more than {limit} worse, but {rest}: UNDECIDED ({ending} changes that)"
    return f"check: every cell that was compared is shown to be no more than {limit} worse: passed"


def unlike_text(u: Unlike) -> str:
    """``governor powersave before, performance after``."""
    return f"{u.field} {_values(u.before)} before, {_values(u.after)} after"


def _values(values: Sequence[str]) -> str:
    return " and ".join(value or "none" for value in values[:3]) + (" …" if len(values) > 3 else "")


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:2]) + (" …" if len(ids) > 2 else "")


def as_json(comparison: Comparison) -> bytes:
    """Everything, with the sentences and the decision."""
    said = [sentence for side in comparison.others for sentence in sentences(comparison, side)]
    value = msgspec.to_builtins(comparison) | {
        "verdict": said + [line for line in [check_sentence(comparison)] if line],
        "failing": [{"file": row.file, "id": row.id} for row in comparison.failing],
        "undecided": [{"file": row.file, "id": row.id} for row in comparison.undecided],
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def as_csv(comparison: Comparison) -> str:
    """A line per row; empty where there is no figure."""
    return csv.text([msgspec.to_builtins(row) for row in comparison.rows], list(Row.__struct_fields__))
