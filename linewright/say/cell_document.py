# SPDX-License-Identifier: MIT
"""Why a cell has its figure: its launches, windows, modes and controls, and what was discarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from linewright import numbers, wings
from linewright.analysis.comparison import Comparison
from linewright.analysis.control import noise_group_of
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import Summary
from linewright.say.document import (
    Column,
    Document,
    Sentence,
    document_of,
    sentence_as_written,
    table_of,
)
from linewright.say.phrases import modes_text
from linewright.say.words import WITHHELD, explain, in_english, in_words
from linewright.schema import Context, Record

MOST_LAUNCHES = 40
"""Launches that get a line each; of more, the first and the last."""


def _median(values: Sequence[float]) -> str:
    return numbers.cost(float(np.median(values)) if len(values) else None)


_LAUNCHES: tuple[Column[Record], ...] = (
    Column("launch", lambda r: str(r.launch), folds=True),
    Column("status", lambda r: r.status, text=True),
    Column("windows", lambda r: str(len(r.window_ns))),
    Column("least", lambda r: numbers.cost(min(r.window_ns, default=None))),
    Column("median", lambda r: _median(r.window_ns)),
    Column("most", lambda r: numbers.cost(max(r.window_ns, default=None))),
    Column("baseline loop", lambda r: _median(r.baseline_ns)),
    Column("switched", lambda r: str(r.discarded.switched)),
    Column("stolen", lambda r: str(r.discarded.stolen)),
    Column("long batch", lambda r: str(r.discarded.long_batch)),
    Column("ended by", lambda r: r.stop or numbers.ABSENT, text=True),
)


def document(
    summary: Summary,
    records: Sequence[Record],
    contexts: Mapping[str, Context],
    m: MachineAnswers,
) -> Document:
    """Everything that is known of one cell of a machine, whose other cells control it."""
    shown = sorted(records, key=lambda r: (contexts[r.context_id].started_utc, r.launch))
    more = len(shown) - MOST_LAUNCHES
    if more > 0:
        shown[MOST_LAUNCHES // 2 : -MOST_LAUNCHES // 2] = []
    launches = table_of(
        "each launch: ns of its windows, and those discarded",
        _LAUNCHES,
        shown,
        styles=["" if r.status == "ok" else "bad" for r in shown],
        notes=[
            sentence_as_written(text, [summary.id])
            for text in (
                *([f"{more} more launches between these."] if more > 0 else []),
                *_windows(records),
                *(line for lines in wings.brought("cell_lines") for line in lines(summary)),
                *_modes(summary),
            )
        ]
        + _control(summary, m)
        + [sentence_as_written(f"{flag}: {explain(flag)}", [summary.id]) for flag in summary.flags],
    )
    figures = [sentence_as_written(text, [summary.id]) for text in (summary.id, *_figures(summary))]
    return document_of(
        headline=[sentence_as_written(in_words(summary.cell), [summary.id])],
        facts=[*figures, *_answers(summary, m)],
        tables=[launches],
    )


def _figures(s: Summary) -> Iterator[str]:
    """The issue interval, or of a metastable cell its modes (its median is what no
    launch took), and the exposed cost."""
    launches = numbers.count(s.launches, "launch", "launches")
    if not (s.issue and s.has_figures):
        yield f"No figure: {s.status}. {s.reason}"
    elif s.metastable:
        yield f"No single figure: {modes_text(s.modes)} of {launches}, work included."
    else:
        sure = f", {100 * s.issue.confidence:.0f} % interval" if s.issue.confidence > 0 else ""
        issue = numbers.format_interval(s.issue, "ns")
        yield f"Issue interval, work included: {issue}{sure}, {launches}."
    if s.exposed:
        yield f"Exposed cost: {numbers.format_interval(s.exposed, 'ns')}."
    elif s.withheld:
        yield f"{WITHHELD.capitalize()} ({in_english(s.withheld)})."


def _answers(s: Summary, m: MachineAnswers) -> Iterator[Sentence]:
    """What comparisons with the default form say of a cell, or of the others where it is the
    default."""
    for f in m.findings:
        if f.side.id == s.id and f.rows:
            others = "; ".join(f"{row.first.form} {_answer_text(row)}" for row in f.rows)
            text = f"It is the default for {f.operation}, which others are compared with: {others}."
            yield sentence_as_written(text, f.ids)
        for row in f.rows:
            if row.first.id == s.id:
                answer = _answer_text(row)
                text = f"Against {f.default}, the default for {f.operation}: {answer}."
                yield sentence_as_written(text, (f.side.id, row.first.id))


def _answer_text(c: Comparison) -> str:
    """The answer, or the reason why there is none but the width of the interval."""
    if c.answer == "undecided" and c.why != "wide":
        return f"undecided ({in_english(c.why)})"
    return c.words()


def _windows(records: Sequence[Record]) -> Iterator[str]:
    kept = [ns for r in records for ns in r.window_ns]
    lost = sum(r.discarded.total for r in records)
    text = f"{len(kept)} windows were kept and {lost} discarded"
    if lost:
        text += (
            ": switched, a thread was off its CPU; stolen, the hypervisor took the CPU; "
            "long batch, one stood out"
        )
    yield text + "."
    if kept:
        p = [numbers.cost(float(v)) for v in np.percentile(kept, [0, 25, 50, 75, 100])]
        yield (
            f"All windows: least {p[0]}, quarter {p[1]}, middle {p[2]}, three quarters {p[3]}, "
            f"most {p[4]} ns."
        )


def _modes(s: Summary) -> Iterator[str]:
    for name, modes in (("launches", s.modes), ("lines", s.line_modes)):
        if len(modes) > 1:
            yield f"The {name} fall into separate modes: {modes_text(modes, surely=True)}."


def _control(s: Summary, m: MachineAnswers) -> list[Sentence]:
    floor = m.floors.get(noise_group_of(s.cell))
    if floor is None:
        return []
    size = numbers.within(floor.size, floor.scale)
    text = (
        f"Control: identical machine code differed by up to {size} in this situation "
        f"({numbers.count(floor.pairs, 'pair')}): what exceeds chance widens every comparison."
    )
    return [sentence_as_written(text, floor.ids)]
