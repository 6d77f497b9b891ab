"""What a comparison says, whatever was compared: rows, sentences, and the decision whether a check fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from linewright.compare.alike import Unlike
from linewright.output.export import csv
from linewright.units import ns_text

FAILED = ("error",)
CERTAIN = ("worse", "better")


class Row(Struct, frozen=True, kw_only=True):
    """One cell, or one setting of a trial, in the baseline and in one other file."""

    file: str
    id: str
    label: str
    unit: str
    """Of `before`, `after` and `difference`: ``ns``, ``s``, ``bytes`` or nothing."""
    before: float | None
    before_low: float | None
    before_high: float | None
    after: float | None
    after_low: float | None
    after_high: float | None
    ratio: float | None
    """After over before, with its own 95 % interval."""
    ratio_low: float | None
    ratio_high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    p: float | None
    """Of 'no difference', corrected over every row of every file (Holm)."""
    finding: str
    """``worse``, ``better``, ``no_difference``, ``not_comparable``; ``error``: right before, wrong now."""
    reason: str


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
    """By file in the order given, the largest certain changes first, then the undecided, then what cannot be compared."""
    fail_above: float | None

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
        return [
            row
            for row in self.rows
            if row.finding in FAILED or (row.finding == "worse" and self._beyond(row, surely=True))
        ]

    @property
    def doubtful(self) -> list[Row]:
        """Rows that may be worse than the limit allows, but not certainly."""
        if self.fail_above is None:
            return []
        failing = {id(row) for row in self.failing}
        return [
            row
            for row in self.rows
            if row.ratio is not None and id(row) not in failing and self._beyond(row, surely=False)
        ]

    def _beyond(self, row: Row, surely: bool) -> bool:
        if row.ratio is None:  # worse, but of figures that have no ratio: no limit in percent excuses that
            return surely
        limit = 1 + self.fail_above
        if self.higher_is_better:
            return (row.ratio_high if surely else row.ratio_low) < 1 / limit
        return (row.ratio_low if surely else row.ratio_high) > limit


def counts(comparison: Comparison, rows: Sequence[Row]) -> str:
    """``2 slower, 1 faster, 40 no difference, 1 not comparable``."""
    seen = Counter(row.finding for row in rows)
    words = {
        "error": "wrong now", "worse": comparison.words[0], "better": comparison.words[1], "no_difference": "no difference",
        "not_comparable": "not comparable",
    }  # fmt: skip
    return ", ".join(f"{seen[name]} {word}" for name, word in words.items() if seen[name])


def percent(ratio: float | None, signed: bool = True) -> str:
    """A ratio as a change in percent."""
    if ratio is None:
        return "–"
    change = 100 * (ratio - 1)
    digits = 1 if abs(change) < 100 else 0
    return f"{change:+.{digits}f} %" if signed else f"{change:.{digits}f} %"


def change_text(row: Row) -> str:
    """``+5.1 % (+2.0 % to +8.3 %)``."""
    if row.ratio is None:
        return "–"
    return f"{percent(row.ratio)} ({percent(row.ratio_low)} to {percent(row.ratio_high)})"


def value_text(value: float | None, unit: str) -> str:
    """A figure with its unit."""
    if value is None:
        return "–"
    if unit == "ns":
        return f"{ns_text(value)} ns"
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    if unit == "s":
        return f"{value:.3f} s" if abs(value) >= 1 else f"{value * 1e3:.4g} ms"
    return f"{value:.6g}"


def sentences(comparison: Comparison, side: Side) -> list[str]:
    """The result of one file in words: what was found, what the undecided could still hide, what was not compared."""
    rows = comparison.of(side.file)
    family = sum(row.p is not None for row in comparison.rows)
    said = [
        f"{side.file} against {comparison.baseline.file}: {counts(comparison, rows) or 'nothing in common'} (95 %, corrected for {family} comparisons)"
    ]
    undecided = [row for row in rows if row.finding == "no_difference" and row.ratio is not None]
    if undecided:
        low, high = min(row.ratio_low for row in undecided), max(row.ratio_high for row in undecided)
        said.append(
            f"what the widest interval of those without a difference leaves open: {percent(low)} to {percent(high)}"
        )
    if side.missing:
        said.append(f"{len(side.missing)} of the baseline's are missing in {side.file}: {_some(side.missing)}")
    if side.added:
        said.append(f"{len(side.added)} are only in {side.file}: {_some(side.added)}")
    if side.unlike:
        said.append(f"unlike, as you allowed: {'; '.join(map(unlike_text, side.unlike))}")
    return said + side.warnings


def check_sentence(comparison: Comparison) -> str:
    """Whether the check fails, and what it could not decide; nothing without a limit."""
    if comparison.fail_above is None:
        return ""
    limit = f"{100 * comparison.fail_above:g} %"
    failing, doubtful = len(comparison.failing), len(comparison.doubtful)
    said = (
        f"check: {failing} certainly more than {limit} worse, or wrong: FAILED"
        if failing
        else f"check: none certainly more than {limit} worse: passed"
    )
    if doubtful:
        said += f"; {doubtful} could be, and more launches or windows would tell"
    return said


def unlike_text(u: Unlike) -> str:
    """``governor powersave before, performance after``."""
    return f"{u.field} {_values(u.before)} before, {_values(u.after)} after"


def _values(values: Sequence[str]) -> str:
    return " and ".join(value or "none" for value in values[:3]) + (" …" if len(values) > 3 else "")


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:2]) + (" …" if len(ids) > 2 else "")


def as_json(comparison: Comparison) -> bytes:
    """Everything, with the sentences and the decision."""
    told = [sentence for side in comparison.others for sentence in sentences(comparison, side)]
    value = msgspec.to_builtins(comparison) | {
        "verdict": told + [line for line in [check_sentence(comparison)] if line],
        "failing": [{"file": row.file, "id": row.id} for row in comparison.failing],
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def as_csv(comparison: Comparison) -> str:
    """A line per row; empty where there is no figure."""
    return csv.text([msgspec.to_builtins(row) for row in comparison.rows], list(Row.__struct_fields__))
