"""Readers and their updaters in sentences: which reader is right, which of them scale, and what an
updater pays for it."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import reader_cost
from linewright.analysis.reader_cost import Scaling, Trade
from linewright.analysis.summary import Summary
from linewright.families import READERS
from linewright.say.sentence import Clause, Sentence, sentence, unique


def reader_sentences(summaries: Sequence[Summary]) -> list[Sentence]:
    """Which readers scale and which do not, and what an updater waits for them."""
    found = reader_cost.reader_answers(summaries)
    scaling = [_scaling(n, found.flat.get(n, []), found.grows.get(n, [])) for n in found.counts]
    return scaling + [_spoken(t) for t in found.trades]


def _scaling(readers: int, flat: Sequence[Scaling], grows: Sequence[Scaling]) -> Sentence:
    clauses = []
    if flat:
        text = f"{numbers.join([r.form for r in flat])} cost each reader the same as alone, within "
        clauses.append(Clause(text=f"{text}{reader_cost.FLAT:.0%}"))
    if grows:
        ratios = {r.form: r.ratio for r in grows}
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
        cells=tuple(unique(i for r in (*flat, *grows) for i in r.ids)),
    )


def _spoken(t: Trade) -> Sentence:
    beside = f"beside {t.readers} busy reader{'s' if t.readers > 1 else ''}"
    text = (
        f"an updater of {t.cheap_reader} waits {numbers.figure(t.waited_ns.median_ns)} ns longer "
        f"than one of {t.cheap_update}, {beside}; its readers take "
        f"{numbers.figure(t.saved_ns.median_ns)} ns less: {break_even(t)}"
    )
    return sentence(text, READERS.name, t.ids, sections=t.sections_per_update.value)


def break_even(t: Trade) -> str:
    """From how many read-side critical sections per update the cheaper reader pays."""
    low, high = (_rounded(x) for x in (t.sections_per_update.low, t.sections_per_update.high))
    return f"break-even at no more than {high} sections per update (interval {low} to {high})"


def _rounded(value: float) -> str:
    """A count with two significant digits: what its interval supports."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 1 else "1"
