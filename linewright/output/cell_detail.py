"""Why a cell has its figure: its windows, launches, modes and controls, and what was discarded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from linewright.analysis.control import condition_of, floors
from linewright.analysis.findings import Finding, findings
from linewright.analysis.plausible import explain
from linewright.analysis.saying import at_most, join
from linewright.analysis.summary import Summary
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.labels import in_words
from linewright.output.screen import words
from linewright.schema import Context, Record
from linewright.units import many

MOST_LAUNCHES = 40
"""Launches that get a line each; of more, the first and the last."""

_LAUNCHES = (
    Column[Record]("launch", lambda r: str(r.launch)),
    Column[Record]("status", lambda r: r.status, text=True),
    Column[Record]("windows", lambda r: str(len(r.window_ns))),
    Column[Record]("least ns", lambda r: words.ns(min(r.window_ns, default=None))),
    Column[Record]("median ns", lambda r: _median(r.window_ns)),
    Column[Record]("most ns", lambda r: words.ns(max(r.window_ns, default=None))),
    Column[Record]("baseline ns", lambda r: _median(r.baseline_ns)),
    Column[Record]("switched", lambda r: str(r.discarded.switched)),
    Column[Record]("stolen", lambda r: str(r.discarded.stolen)),
    Column[Record]("long batch", lambda r: str(r.discarded.long_batch)),
    Column[Record]("ended by", lambda r: r.stop or "–", text=True),
)


def _median(values: Sequence[float]) -> str:
    return words.ns(float(np.median(values))) if len(values) else "–"


def print_detail(
    summary: Summary,
    records: Sequence[Record],
    contexts: Mapping[str, Context],
    every: Sequence[Summary],
    console: Console,
) -> None:
    """Print everything that is known of one cell; `every` holds all summaries of its machine, which control it."""
    console.print(Text(in_words(summary.cell), style="bold"))
    console.print(Text(one_line(summary.id)))
    for line in _decision(summary, every):
        console.print(Text(one_line(line)))
    console.print()
    ordered = sorted(records, key=lambda r: (contexts[r.context_id].started_utc, r.launch))
    shown = (
        ordered if len(ordered) <= MOST_LAUNCHES else [*ordered[: MOST_LAUNCHES // 2], *ordered[-MOST_LAUNCHES // 2 :]]
    )
    console.print(table("", _LAUNCHES, shown, style=lambda r: "" if r.status == "ok" else "italic"))
    if len(shown) < len(ordered):
        console.print(Text(f"{len(ordered) - len(shown)} more launches between these."))
    console.print()
    for line in (
        *_windows(records),
        *_simulated(summary),
        *_modes(summary),
        *_control(summary, every),
        *_doubts(summary),
    ):
        console.print(Text(one_line(line)))


def _decision(summary: Summary, every: Sequence[Summary]) -> list[str]:
    lines = []
    if summary.issue and summary.has_figures:
        lines.append(_figure(summary))
    else:
        lines.append(f"No figure: {summary.status}. {summary.reason}")
    if summary.exposed:
        e = summary.exposed
        lines.append(f"Exposed cost: {words.ns(e.median_ns)} ns ({words.ns(e.low_ns)} to {words.ns(e.high_ns)}).")
    elif summary.withheld:
        lines.append(f"No exposed cost: the baseline loop is {summary.withheld.replace('_', ' ')} at this length.")
    lines += [line for finding in findings(every) for line in _against(finding, summary.id)]
    return lines


def _figure(summary: Summary) -> str:
    """The issue interval, or of a metastable cell what its groups take: its median is what no launch took."""
    launches, i = many(summary.launches, "launch", "launches"), summary.issue
    if summary.metastable:
        groups = join([f"{words.ns(mode.median_ns)} ns in {mode.share:.0%}" for mode in summary.modes])
        return f"No single figure: {groups} of {launches}, work included."
    low, high = words.ns(i.low_ns), words.ns(i.high_ns)
    span = f" ({low} to {high}, {i.confidence:.0%} interval)" if i.confidence > 0 else ""
    return f"Issue interval, work included: {words.ns(i.median_ns)} ns{span}, {launches}."


def _against(finding: Finding, cell_id: str) -> list[str]:
    """What the comparison with the default form says of a cell, or the default of the others."""
    if finding.default_id == cell_id:
        others = ", ".join(f"{row.form} {_judged(row.judged)}" for row in finding.rows)
        return (
            [f"It is the default for {finding.operation}, which others are compared with: {others}."] if others else []
        )
    return [
        f"Against {finding.default}, the default for {finding.operation}: {_judged(row.judged)}."
        for row in finding.rows
        if row.id == cell_id
    ]


def _judged(judged) -> str:
    """The answer with its interval, or with the reason why there is none."""
    c = judged.contrast
    if c is None:
        return f"{judged.answer} ({judged.why.replace('_', ' ')})"
    if c.scale == "ns":
        span = f"{c.low:+.2f} to {c.high:+.2f} ns"
    else:
        span = f"{100 * (c.low - 1):+.1f} to {100 * (c.high - 1):+.1f} %"
    why = f", {judged.why.replace('_', ' ')}" if judged.why else ""
    return f"{judged.answer} ({span}{why})"


def _windows(records: Sequence[Record]) -> list[str]:
    kept = np.concatenate([np.asarray(r.window_ns, dtype=float) for r in records]) if records else np.empty(0)
    lost = sum(r.discarded.total for r in records)
    text = f"{kept.size} windows were kept and {lost} discarded"
    if lost:
        text += ": switched, a thread was off its CPU; stolen, the hypervisor took the CPU; long batch, one stood out"
    lines = [text + "."]
    if kept.size:
        p = [words.ns(float(v)) for v in np.percentile(kept, [0, 25, 50, 75, 100])]
        lines.append(
            f"All windows: least {p[0]}, quarter {p[1]}, middle {p[2]}, three quarters {p[3]}, most {p[4]} ns."
        )
    return lines


PHASES = ("work", "wait_for_home", "wait_for_snoop", "execute", "retry")
"""Where a simulated operation's time goes; docs/guide/model.md says what each is."""


def _simulated(summary: Summary) -> list[str]:
    m = summary.metrics
    if "p05_ns" not in m:
        return []
    parts = ", ".join(f"{name.replace('_', ' ')} {words.ns(m[f'{name}_ns'])}" for name in PHASES if f"{name}_ns" in m)
    lines = [
        f"Over draws of the machine's constants: {words.ns(m['p05_ns'])} to {words.ns(m['p95_ns'])} ns (5th to 95th"
        f" percentile), middle {words.ns(m['p50_ns'])}."
    ]
    if parts:
        lines.append(f"An operation's ns: {parts}.")
    if "calibrated_distance" in m:
        lines.append(
            f"The nearest cell that the constants were fitted to is {m['calibrated_distance']:.1f} away (doublings of"
            " work, spacing or threads; 4 for another form or contention)."
        )
    return lines


def _modes(summary: Summary) -> list[str]:
    lines = []
    for name, modes in (("launches", summary.modes), ("lines", summary.line_modes)):
        if len(modes) > 1:
            groups = ", ".join(
                f"{words.ns(m.median_ns)} ns ({m.share:.0%}, interval {m.share_low:.0%} to {m.share_high:.0%})"
                for m in modes
            )
            lines.append(f"The {name} fall into {len(modes)} groups: {groups}.")
    return lines


def _control(summary: Summary, every: Sequence[Summary]) -> list[str]:
    floor = floors(every, summary.arch).get(condition_of(summary.cell))
    if floor is None:
        return []
    return [
        f"Control: identical machine code differed by up to {at_most(floor.share)} under this condition"
        f" ({many(floor.pairs, 'pair')}); nothing smaller is called a difference."
    ]


def _doubts(summary: Summary) -> list[str]:
    return [f"{flag}: {explain(flag)}" for flag in summary.flags]
