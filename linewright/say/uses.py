"""What to write in code, in sentences: the most valuable first, one idea and its number each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from linewright import numbers
from linewright.analysis import code_advice
from linewright.analysis.code_advice import FormAdvice, UselessPrefetch
from linewright.analysis.comparison import Comparison, Side
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.pairs import COUNTER, PADDED, READERS
from linewright.analysis.summary import Summary
from linewright.say.phrases import rate_text, sharers_of
from linewright.say.sentence import Sentence, sentence

MOST_FORMS = 2
"""Sentences about other forms than the default; the matrix holds all."""
COUNTERS = (COUNTER, "")
"""The per-CPU counter against whatever stands for one atomic word."""
INSTEAD = {
    COUNTERS: ("percpu", "count in per-CPU words: {0}, not {1} ns {3} ({4} less)"),
    ("fetch_add", "cmpxchg"): (
        "one_line",
        "{3}, fetch_add is {2} cheaper than a CAS loop: {0}, not {1} ns",
    ),
}
REMEDIES = {
    PADDED: ("", "give each thread its own line: {0}, not {1} ns {3} ({4} less)"),
    READERS: ("", "read under SRCU (fast), not an rwlock: {0}, not {1} ns {3} ({4} less); {5}"),
}
"""By what is cheaper than what (forms, or operations): the family that is spoken of, and the
sentence."""
PREFETCHES = {"PREFETCHW": ("prefetchw",), "PRFM": ("prfm_keep", "prfm_strm")}
"""Prefetches by the name under which they are spoken of."""


def use(m: MachineAnswers) -> list[Sentence]:
    """What to write in code, the most valuable first; what costs more elsewhere than it saves
    here comes last."""
    if m.emulated:
        return []
    forms = code_advice.cheaper_forms(m)
    return [
        *[_form(a) for a in forms if not a.loses][:MOST_FORMS],
        *_instead(INSTEAD, m),
        *_first_guess(m),
        *_instead(REMEDIES, m),
        *_prefetches(m),
        *[_form(a) for a in forms if a.loses][:MOST_FORMS],
    ]


def _instead(
    texts: Mapping[tuple[str, str], tuple[str, str]], m: MachineAnswers
) -> Iterator[Sentence]:
    """What is shown to be cheaper than what."""
    for names, (family, text) in texts.items():
        if a := code_advice.cheaper_instead(m, names, alone=names == COUNTERS):
            yield _cheaper_than(a, family, text, m)


def _cheaper_than(a: Comparison, family: str, text: str, m: MachineAnswers) -> Sentence:
    c = a.contrast
    ratio, low, high = 1 / c.value, 1 / c.high, 1 / c.low
    updater = code_advice.updater_of_readers(m) if text is REMEDIES[READERS][1] else None
    figures = (
        _either(a.first.figures_ns),
        _either(a.second.figures_ns),
        numbers.about_times(ratio, low, high),
        sharers_of(a.first),
        numbers.multiple(low, high),
        _updater(updater),
    )
    cells = a.ids + ((updater.id,) if updater else ())
    return sentence(text.format(*figures), family, cells, ratio=ratio)


def _either(figures: Sequence[float]) -> str:
    """``14.5``, or of a metastable cell ``25.3 or 103``: no launch costs what lies between."""
    return " or ".join(numbers.figure(ns) for ns in figures)


def _updater(updater: Summary | None) -> str:
    if updater is None:
        return "what its updater waits was not measured"
    return f"its updater waits {numbers.figure(updater.issue.median_ns / 1e3)} µs"


def _first_guess(m: MachineAnswers) -> Iterator[Sentence]:
    if a := code_advice.first_guess(m):
        c = a.here.contrast
        less = numbers.change_in_words(1 / c.high, 1 / c.low, "ratio")
        figures = _instead_of(a.here.second, a.here.first)
        but = _but(a, lambda c: (c.second, c.first))
        text = f"alone, read before the first CAS: {figures} ({less}){but}"
        yield sentence(text, "one_line", a.ids, ratio=c.value)


def _form(a: FormAdvice) -> Sentence:
    """Another form than the default."""
    row = a.here
    figures = _instead_of(row.first, row.second)
    text = (
        f"{_where(row)}, {a.operation} by {row.first.form}: {figures} ({row.words()})"
        f"{rate_text(a.lost_rate, row.second.form)}{_but(a, lambda c: (c.first, c.second))}"
    )
    return sentence(text, "one_line", a.ids, ratio=row.contrast.value)


def _where(c: Comparison, work: bool = False) -> str:
    at = c.situation
    return f"{sharers_of(c)} {at.around}" if work or at.work_iters else sharers_of(c)


def _but(a: FormAdvice, both: Callable[[Comparison], tuple[Side, Side]]) -> str:
    """What following the advice costs more elsewhere, with `both` figures there."""
    if a.elsewhere is None:
        return ""
    where = _where(a.elsewhere, work=a.here.situation.work_iters > 0)
    return f", but {_instead_of(*both(a.elsewhere))} {where}"


def _instead_of(one: Side, other: Side) -> str:
    return f"{numbers.figure(one.ns.median_ns)} instead of {numbers.figure(other.ns.median_ns)} ns"


def _prefetches(m: MachineAnswers) -> Iterator[Sentence]:
    """What a prefetch for write in front of the default gains, where it gains nothing alone."""
    for name, prefetches in PREFETCHES.items():
        found = code_advice.useless_prefetch(m, prefetches)
        if found is None:
            continue
        gains = ""
        if found.of_another:
            bare, behind = found.of_another
            gains = f"; before {bare.first.form} it does: {_instead_of(behind.first, bare.first)}"
        default = numbers.join(found.defaults)
        text = f"{name}{f' before {default}' if gains else ''} gains nothing alone: within "
        text += f"{numbers.at_most(found.within)}{_second_cpu(found)}{gains}"
        yield sentence(text, "one_line", found.ids)


def _second_cpu(found: UselessPrefetch) -> str:
    """What the same prefetch does with a second CPU."""
    c = found.contended
    if c is None:
        return ""
    if c.answer == "same":
        return f", {sharers_of(c)} within {numbers.at_most(c.within)}"
    if c.slower:
        return f", and {sharers_of(c)} {c.first.form} takes {_instead_of(c.first, c.second)}"
    return f"; {sharers_of(c)} {c.change()} remains possible"
