"""Readers and their updaters in sentences: which reader is right, which of them scale, and what an
updater pays for it."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import reader_cost
from linewright.analysis.reader_cost import Trade
from linewright.analysis.summary import Summary
from linewright.families import READERS
from linewright.say.sentence import (
    Clause,
    Sentence,
    once,
)


def reader_sentences(summaries: Sequence[Summary]) -> list[Sentence]:
    """Which readers scale and which do not, and what an updater waits for them."""
    every, traded = reader_cost.both_sides(summaries)
    answers = []
    rows = [r for r in every if r.operation == "readers_pair" and r.read_delay == 0]
    for readers in sorted({r.readers for r in rows}):
        own = [r for r in rows if r.readers == readers]
        flat, grows = [r.form for r in own if r.flat], [r for r in own if r.grows]
        clauses = []
        if flat:
            clauses.append(
                Clause(
                    text=f"{numbers.join(flat)} cost each reader the same as alone, within "
                    f"{reader_cost.FLAT:.0%}"
                )
            )
        if grows:
            parts = [
                f"{r.form} {numbers.about_times(r.ratio.value, r.ratio.low, r.ratio.high)}"
                for r in grows
            ]
            clauses.append(
                Clause(
                    text=f"more than alone: {numbers.join(parts)}",
                    numbers={r.form: r.ratio.value for r in grows},
                )
            )
        if clauses:
            answers.append(
                Sentence(
                    lead=f"with {readers} readers",
                    clauses=clauses,
                    family=READERS.name,
                    cells=once(i for r in own if r.flat or r.grows for i in r.ids),
                )
            )
    traded = [t for t in traded if t.updater == "synchronize"]
    shortest = min((t.read_delay for t in traded), default=0)
    ranked = sorted(traded, key=lambda t: (t.cheap_reader, t.sections_per_update.value))
    return answers + [_spoken(t) for t in ranked if t.read_delay == shortest]


def _spoken(t: Trade) -> Sentence:
    beside = f"beside {t.readers} busy reader{'s' if t.readers > 1 else ''}"
    text = (
        f"an updater of {t.cheap_reader} waits {numbers.figure(t.waited_ns.median_ns)} ns longer "
        f"than one of {t.cheap_update}, {beside}; its readers take "
        f"{numbers.figure(t.saved_ns.median_ns)} ns less: {break_even(t)}"
    )
    return Sentence(
        lead="",
        clauses=[Clause(text=text, numbers={"sections": t.sections_per_update.value})],
        family=READERS.name,
        cells=once(t.ids),
    )


def break_even(t: Trade) -> str:
    """From how many read-side critical sections per update the cheaper reader pays."""
    low, high = (_rounded(x) for x in (t.sections_per_update.low, t.sections_per_update.high))
    return f"break-even at no more than {high} sections per update (interval {low} to {high})"


def _rounded(value: float) -> str:
    """A count with two significant digits: what its interval supports."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 1 else "1"
