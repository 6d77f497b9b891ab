# SPDX-License-Identifier: MIT
"""What to write in code, in sentences: the most valuable first, one idea and its number each; and
where one form overtakes the default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from linewright import numbers
from linewright.analysis import code_advice
from linewright.analysis.code_advice import FormAdvice, UselessPrefetch
from linewright.analysis.comparison import Comparison
from linewright.analysis.findings import Finding
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import COUNTER, PADDED, READERS
from linewright.analysis.summary import Summary, grouped
from linewright.families import family_of
from linewright.say.document import Topic, topic
from linewright.say.phrases import (
    all_within_text,
    crossing_text,
    instead_text,
    measure_again,
    need_of,
    rate_text,
    sharers_of,
)
from linewright.say.sentence import Sentence, sentence, sentence_as_written

MOST_FORMS = 2
"""Sentences about other forms than the default; the matrix holds all."""
COUNTERS = (COUNTER, "")
"""The per-CPU counter against whatever stands for one atomic word."""
INSTEAD = {
    COUNTERS: ("percpu", "count in per-CPU words"),
    ("fetch_add", "cmpxchg"): ("one_line", "replace a CAS loop by fetch_add"),
}
REMEDIES = {
    PADDED: ("", "give each thread its own line"),
    READERS: ("", "read under SRCU (fast), not an rwlock"),
}
"""By what is cheaper than what (forms, or operations): the family that is spoken of, and what to
do."""
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
    for names, (family, do) in texts.items():
        if a := code_advice.cheaper_instead(m, names, alone=names == COUNTERS):
            one, other = _either(a.first.figures_ns), _either(a.second.figures_ns)
            less = numbers.times(a.contrast.low, a.contrast.high)
            text, cells = f"{do}: {one} vs {other} ns {sharers_of(a.first)} ({less})", a.ids
            if names == READERS:
                updater = code_advice.updater_of_readers(m)
                text += f"; {_updater(updater)}"
                cells += (updater.id,) if updater else ()
            yield sentence(text, family, cells, ratio=1 / a.contrast.value)


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
        figures, but = instead_text(a.here, reverse=True), _but(a, reverse=True)
        text = f"read before the first CAS, alone: {figures} ({less}){but}"
        yield sentence(text, "one_line", a.ids, ratio=c.value)


def _form(a: FormAdvice) -> Sentence:
    """Another form than the default."""
    row = a.here
    text = (
        f"take {row.first.form} for {a.operation}, {_where(row)}: {instead_text(row)} "
        f"({row.words()}){rate_text(a.lost_rate, row.second.form)}{_but(a)}"
    )
    return sentence(text, "one_line", a.ids, ratio=row.contrast.value)


def _where(c: Comparison, work: bool = False) -> str:
    at = c.situation
    return f"{sharers_of(c)} {at.around}" if work or at.work_iters else sharers_of(c)


def _but(a: FormAdvice, reverse: bool = False) -> str:
    """What following the advice costs more elsewhere."""
    if a.elsewhere is None:
        return ""
    where = _where(a.elsewhere, work=a.here.situation.work_iters > 0)
    return f", but {instead_text(a.elsewhere, reverse)} {where}"


def _prefetches(m: MachineAnswers) -> Iterator[Sentence]:
    """What a prefetch for write in front of the default gains, where it gains nothing alone."""
    for name, prefetches in PREFETCHES.items():
        found = code_advice.useless_prefetch(m, prefetches)
        if found is None:
            continue
        gains = ""
        if found.of_another:
            bare, behind = found.of_another
            less = numbers.figure(behind.first.ns.median_ns)
            gains = f"; before {bare.first.form} it does: {less} instead of "
            gains += f"{numbers.figure(bare.first.ns.median_ns)} ns"
        default = numbers.join(found.defaults)
        text = f"{name}{f' before {default}' if gains else ''} gains nothing alone, within "
        text += f"{numbers.at_most(found.within)}{_second_cpu(found)}{gains}"
        yield sentence(text, "one_line", found.ids)


def _second_cpu(found: UselessPrefetch) -> str:
    """What the same prefetch does with a second CPU."""
    c = found.contended
    if c is not None and c.slower:
        return f"; {sharers_of(c)} {c.first.form} takes {instead_text(c)}"
    return f"; {sharers_of(c)} {c.words()}" if c else ""


def overtaking(m: MachineAnswers) -> Topic | None:
    """Where one form overtakes the default."""
    found = [c for c in m.crossovers if not family_of(c.operation).advice]
    lines = [sentence_as_written(crossing_text(c, m.context), c.ids) for c in found]
    return topic("crossovers", "Where one form overtakes another", lines, found)


def code(m: MachineAnswers) -> Topic | None:
    """What to write in code, where no setting chooses: one line for each need."""
    chosen = ("add", "fetch_add", "xchg") if m.forms_differ else ()
    wanted = (f for f in m.of_family("one_line") if f.operation not in chosen and not f.published)
    lines, data, unknown = [], [], []
    for need, found in grouped(wanted, need_of).items():
        text, forms = _written(found)
        ids = [i for f in found for i in f.ids]
        if text:
            lines.append(sentence_as_written(f"{need}: {text}", ids))
        else:
            unknown.append((f"{forms[0]} for {need}", ids))
        data.append({"operation": need, "default": found[0].default, "forms": forms})
    if unknown:
        text = "until more is known, since other forms are undecided at some point: "
        text += numbers.join([each for each, _ in unknown])
        text += "" if m.drawn else f"; {measure_again(m)}"
        lines.append(sentence_as_written(text, [i for _, ids in unknown for i in ids]))
    return topic("code", "In code", lines, data)


def _written(found: Sequence[Finding]) -> tuple[str, list[str]]:
    """What the findings of one need support writing, in words, and the forms; no text while nothing
    but the default is known."""
    (why, forms, clearest), default, text = code_advice.written(found), found[0].default, ""
    if why == "better":
        where = clearest.situation.words()
        text = (
            f"{clearest.first.form}, {clearest.words()} than {default} {where}, the same elsewhere"
        )
    elif why == "same":
        widest = all_within_text(r for f in found for r in f.rows)
        text = f"any of {numbers.join(forms)}, which are the same within {widest}"
    elif why == "default_best":
        text = f"{default}, since nothing measured costs less"
    elif why == "depends":
        text = "depends on contention and work, see above"
    return text, forms
