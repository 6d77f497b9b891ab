# SPDX-License-Identifier: MIT
"""How far a model was off cells like those that it simulated: said wherever such a cell decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from linewright import numbers
from linewright.analysis.summary import Summary, grouped
from linewright.say.sentence import Clause, Sentence, sentence

MOST_NAMED = 2


def error_text(low: float, high: float) -> str:
    """What a model says of figures that were measured, from the least and the greatest ratio."""
    return f"the model says {numbers.change_in_words(low, high, 'ratio')} than was measured"


def errors_text(summaries: Iterable[Summary]) -> str:
    """Of which of these cells the model is how far off; empty where it is of none."""
    missed = [s for s in summaries if s.model_error_range]
    kinds = grouped(missed, lambda s: (s.cell.situation.contended, s.model_error_range))
    return "; ".join(
        f"of {'contended' if contended else 'uncontended'} "
        f"{_some([s.cell.form for s in own])} {error_text(*ends)}"
        for (contended, ends), own in kinds.items()
    )


def _some(forms: Sequence[str]) -> str:
    """The first of these forms, and how many there are besides."""
    names = list(dict.fromkeys(forms))
    more = len(names) - MOST_NAMED
    return numbers.join([*names[:MOST_NAMED], f"{more} more forms"] if more > 1 else names)


def errors(summaries: Sequence[Summary]) -> list[Sentence]:
    """The same as a sentence, where there is any, and of which cells no error is known."""
    missed = [s for s in summaries if s.model_error_range]
    unknown = [s for s in summaries if s.drawn and not s.drawn.misses and s.has_figures]
    kinds = grouped(unknown, lambda s: s.cell.situation.contended)
    text = "; ".join(
        f"of {'contended' if contended else 'uncontended'} {_some([s.cell.form for s in own])} "
        "no error of the model is known"
        for contended, own in kinds.items()
    )
    return [sentence(errors_text(missed), cells=[s.id for s in missed])] * bool(missed) + [
        sentence(text, cells=[s.id for s in unknown])
    ] * bool(unknown)


def with_errors(sentences: Sequence[Sentence], summaries: Sequence[Summary]) -> list[Sentence]:
    """Sentences, each with the model's error on the cells that it rests on."""
    texts = [errors_text(s for s in summaries if s.id in of.cells) for of in sentences]
    return [
        replace(of, clauses=[*of.clauses, Clause(text=text)]) if text else of
        for of, text in zip(sentences, texts, strict=True)
    ]
