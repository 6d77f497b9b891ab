# SPDX-License-Identifier: MIT
"""Readers and their updaters in sentences: which reader is right, which of them scale, and what an
updater pays for it."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis.comparison import Comparison
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.reader_cost import Trade, reader_answers, sections_per_update
from linewright.families import READERS
from linewright.say.sentence import Clause, Sentence, sentence, unique


def reader_sentences(m: MachineAnswers) -> list[Sentence]:
    """Which readers scale and which do not, and what an updater waits for them."""
    found = reader_answers(m.select("readers"))
    scaling = [_scaling(n, found.flat.get(n, []), found.grows.get(n, [])) for n in found.counts]
    return scaling + [_spoken(t) for t in found.trades]


def _scaling(readers: int, flat: Sequence[Comparison], grows: Sequence[Comparison]) -> Sentence:
    clauses = []
    if flat:
        names = numbers.join([r.first.form for r in flat])
        text = f"{names} cost each reader the same as alone, within "
        clauses.append(Clause(text=f"{text}{QUESTIONS['readers'].same.share:.0%}"))
    if grows:
        ratios = {r.first.form: r.contrast for r in grows}
        parts = [
            f"{form} {numbers.about_times(r.value, r.low, r.high)}" for form, r in ratios.items()
        ]
        more = {form: r.value for form, r in ratios.items()}
        clauses.append(
            Clause(text=f"each costs more than alone: {numbers.join(parts)}", numbers=more)
        )
    return Sentence(
        lead=f"with {readers} readers",
        clauses=clauses,
        family=READERS.name,
        cells=tuple(unique(i for r in (*flat, *grows) for i in reversed(r.ids))),
    )


def _spoken(trade: Trade) -> Sentence:
    reader, update = trade
    readers, cheap = reader.situation.threads, reader.cheapest.form
    beside = f"beside {readers} busy reader{'s' if readers > 1 else ''}"
    sections = sections_per_update(trade)
    low, high = _rounded(sections.low), _rounded(sections.high)
    text = (
        f"readers of {cheap} pay from {high} sections per update on (interval {low} to {high}): "
        f"each takes {numbers.figure(reader.size.median_ns)} ns less than one of "
        f"{update.cheapest.form}, and an updater waits "
        f"{numbers.figure(update.size.median_ns)} ns longer, {beside}"
    )
    sides = ("first", "second") if reader.cheaper else ("second", "first")
    ids = [getattr(c, side).id for side in sides for c in trade]
    return sentence(text, READERS.name, ids, sections=sections.value)


def _rounded(value: float) -> str:
    """A count with two significant digits: what its interval supports."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 1 else "1"
