# SPDX-License-Identifier: MIT
"""What to do, in sentences: what to write in code, the most valuable first, one idea and its number
each; where one form overtakes the default; and the setting for a process, with the sentence that
says why and each class of operations against the default."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from linewright import numbers
from linewright.analysis import setting_choice
from linewright.analysis.comparison import Comparison
from linewright.analysis.findings import Finding
from linewright.analysis.machine_answers import (
    FormAdvice,
    MachineAnswers,
    cheaper_forms,
    cheaper_instead,
    first_guess,
    updater_of_readers,
    useless_prefetch,
    what_to_write,
)
from linewright.analysis.questions import COUNTER, PADDED, QUESTIONS, READERS
from linewright.analysis.setting_choice import (
    Choice,
    Conflict,
    clearest,
    setting_conflicts,
)
from linewright.analysis.summary import grouped
from linewright.forms import family_of
from linewright.say.document import Decision, Sentence, Topic, sentence, sentence_as_written, topic
from linewright.say.machine_lines import EMULATED
from linewright.say.phrases import (
    BETTER,
    all_within_text,
    crossing_text,
    either,
    instead_text,
    measure_again,
    measure_on,
    more_text,
    need_of,
    rate_text,
    sharers_of,
    time_of,
    work_lengths_text,
)
from linewright.say.words import FEW_LAUNCHES, LEFT_OPEN

MOST_FORMS = 2
"""Sentences about other forms than the default; the matrix holds all."""
COUNTERS = (COUNTER, "")
"""The per-CPU counter against whatever stands for one atomic word."""
INSTEAD = {
    COUNTERS: ("percpu", "count in per-CPU words"),
    ("fetch_add", "cmpxchg"): ("one_line", "replace a CAS loop by fetch_add"),
}
REMEDIES = {
    PADDED: ("", "give plain adds a line per thread"),
    READERS: ("", "read under SRCU (fast), not a spinning rwlock"),
}
"""By what is cheaper than what (forms, or operations): the family that is spoken of, and what to
do."""
_SPOKEN_OF = {"PREFETCHW": ("prefetchw",), "PRFM": ("prfm_keep", "prfm_strm")}
"""Prefetches by the name under which they are spoken of."""


def use(m: MachineAnswers) -> list[Sentence]:
    """What to write in code, the most valuable first; what costs more elsewhere than it saves
    here comes last."""
    if m.emulated:
        return []
    forms = cheaper_forms(m)
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
        if a := cheaper_instead(m, names, alone=names == COUNTERS):
            c, cells = a.here, [a]
            one, other = either(c.first.figures_ns), either(c.second.figures_ns)
            less = numbers.times(c.shown.low, c.shown.high)
            text = f"{do}: {one} vs {other} ns {sharers_of(c.first)} ({less}){_but(a)}"
            if names == READERS:
                updater = updater_of_readers(m)
                waits = "what its updater waits was not measured"
                if updater:
                    waits = f"its updater waits {numbers.figure(updater.issue.median_ns / 1e3)} µs"
                    cells.append(updater)
                text = f"{text}; {waits}"
            yield sentence(text, family, cells, ratio=1 / c.contrast.value)


def _first_guess(m: MachineAnswers) -> Iterator[Sentence]:
    if a := first_guess(m):
        c = a.here.shown
        less = numbers.change_in_words(1 / c.high, 1 / c.low, "ratio")
        figures, but = instead_text(a.here, reverse=True), _but(a, reverse=True)
        text = f"read before the first CAS, alone: {figures} ({less}){but}"
        yield sentence(text, "one_line", [a], ratio=c.value)


def _form(a: FormAdvice) -> Sentence:
    """Another form than the default."""
    row = a.here
    less = f"{row.words()} than {row.second.form}"
    # The medians are of all launches, of which one form may lack some; the difference is of those
    # that ran both.
    if row.first.ns.median_ns < row.second.ns.median_ns:
        less = f"{instead_text(row)} ({row.words()})"
    text = (
        f"take {row.first.form} for {a.operation}, {_where(row)}: {less}"
        f"{rate_text(a.lost_rate, row.second.form)}{_but(a)}"
    )
    return sentence(text, "one_line", [a], ratio=row.contrast.value)


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
    for name, prefetches in _SPOKEN_OF.items():
        if not (found := useless_prefetch(m, prefetches)):
            continue
        gains, beside = "", ""
        if found.of_another:
            bare, behind = found.of_another
            gains = f"; before {bare.first.form} it does: "
            gains += instead_text(behind, of=bare.first)
        if c := found.contended:
            takes = f"{c.first.form} takes {instead_text(c)}"
            beside = f"; {sharers_of(c)} {takes if c.slower else c.words()}"
        before = f" before {numbers.join(found.defaults)}" if gains else ""
        text = f"{name}{before} gains nothing alone, within {numbers.at_most(found.within)}"
        yield sentence(f"{text}{beside}{gains}", "one_line", [found])


def overtaking(m: MachineAnswers) -> Topic | None:
    """Where one form overtakes the default."""
    found = [c for c in m.crossovers if not family_of(c.operation).advice]
    lines = [sentence_as_written(crossing_text(c, m.context), [c]) for c in found]
    return topic("crossovers", "Where one form overtakes another", lines, found)


def code(m: MachineAnswers) -> Topic | None:
    """What to write in code, where no setting chooses: one line for each need."""
    chosen = ("add", "fetch_add", "xchg") if m.forms_differ else ()
    wanted = (f for f in m.of_family("one_line") if f.operation not in chosen and not f.published)
    lines, data, unknown = [], [], {}
    for need, found in grouped(wanted, need_of).items():
        text, forms = _written(found)
        if text:
            lines.append(sentence_as_written(f"{need}: {text}", found))
        else:
            unknown[f"{forms[0]} for {need}"] = found
        data.append({"operation": need, "default": found[0].default, "forms": forms})
    if unknown:
        text = "until more is known, since other forms are undecided at some point: "
        text += numbers.join(list(unknown)) + ("" if m.drawn else f"; {measure_again(m)}")
        lines.append(sentence_as_written(text, itertools.chain(*unknown.values())))
    return topic("code", "In code", lines, data)


def _written(found: Sequence[Finding]) -> tuple[str, list[str]]:
    """What the findings of one need support writing, in words, and the forms; no text while nothing
    but the default is known."""
    (why, forms, best), default = what_to_write(found), found[0].default
    if why == "better":
        where = f"{best.words()} than {default} {best.situation.words()}, the same elsewhere"
        return f"{best.first.form}, {where}", forms
    if why == "same":
        widest = all_within_text(r for f in found for r in f.rows)
        return f"any of {numbers.join(forms)}, which are the same within {widest}", forms
    default_best = f"{default}, since nothing measured costs less"
    depends = "depends on contention and work"
    return {"default_best": default_best, "depends": depends}.get(why, ""), forms


CLASS_WORDS = {
    "void": "operations without a value",
    "fetch": "operations that return the value",
    "xchg": "exchanges",
    "cas": "compare-and-swap",
}
_SILENT = {
    "default_best": "no form measured is shown to be better than the default",
    "depends": "no one setting: which is best depends on contention and work",
    "published": "published percentiles have no intervals, so no difference is shown",
    "default_unmeasured": "the form taken by default is not in the records, so no gain "
    "over it is shown",
    "measure_more": "nothing yet: undecided; measure more: {again}",
    "left_open": f"undecided, since {LEFT_OPEN}",
    "emulated": EMULATED,
    "architecture": "on {arch} there is no choice for LINEWRIGHT_ATOMICS to make",
    "not_measured": "fewer than two forms that a setting can choose were measured under "
    "equal situations",
}
"""Why nothing is to be set."""
_OTHERWISE = ("depends", "measure_more")
"""Reasons that are said as they are, without ``nothing`` before them."""


def setting(machine: MachineAnswers) -> Decision:
    """The value for a process, and one sentence that says why."""
    value, why = machine.setting
    if why == "better":
        most = QUESTIONS["setting"].same.share
        text = (
            f"LINEWRIGHT_ATOMICS={value}: shown to be better than the default at one measured "
            f"point or more, and to cost no more than {100 * most:.0f} % more at every one"
            f"{_unseen(machine)}"
        )
    else:
        again = measure_again(machine) if why == "measure_more" else ""
        unclear = [c for c in machine.choices if c.why == "measure_more"]
        left_open = why == "measure_more" and all(c.left_open for c in unclear)
        reason = "left_open" if left_open else why
        text = _SILENT[reason].format(again=again, arch=machine.arch.replace("_", "-"))
        text = text if reason in _OTHERWISE else f"nothing: {text}"
    points = [p for c in machine.choices for p in c.points]
    return Decision(
        variable="LINEWRIGHT_ATOMICS",
        value=value,
        supported=why == "better",
        why=why,
        sentence=sentence(text, cells=points, basis="cells" if points else "run"),
    )


def _unseen(machine: MachineAnswers) -> str:
    """What the launches behind a supported setting can miss."""
    launches = machine.unsettled_launches
    if not launches:
        return ""
    share = setting_choice.unseen_share(launches)
    return (
        f"; {launches} launches can miss a state of up to {100 * share:.0f} % of launches in which "
        f"it costs more, and {machine.launches_asked} leave less unseen: {measure_again(machine)}"
    )


def point_text(p: Comparison, machine: MachineAnswers) -> str:
    """A point's figures, the candidate against the default, and where it lies."""
    kind = "exposed by" if p.figure == "exposed" else "of"
    time = time_of(p.situation.work_iters, machine.context)
    return (
        f"{p.first.words()} {numbers.figure(p.first.ns.median_ns)} ns against "
        f"{numbers.figure(p.second.ns.median_ns)} ns {kind} {p.second.words()}, "
        f"{p.words()}, {sharers_of(p)}, {p.situation.around}{time}"
    )


def classes(m: MachineAnswers) -> Topic | None:
    """Each class of operations against the default."""
    lines = [
        sentence_as_written(text, points) for c in m.choices for text, points in _choice_lines(c, m)
    ]
    return topic("classes", "By class of operations", lines, m.choices)


def _choice_lines(c: Choice, machine: MachineAnswers) -> Iterator[tuple[str, Sequence[Comparison]]]:
    """One class: what was found against the default, at its clearest point, and what is missing;
    each with the points that it rests on."""
    what = CLASS_WORDS[c.operations]
    if c.why == "better":
        own = c.by_policy[c.choice]
        same = sum(p.answer == "same" for p in own)
        rest = f"not worse at any of {len(own)} points"
        rest = f"the same at {same} of {len(own)} points, not worse at any" if same else rest
        best = point_text(clearest(own, "cheaper"), machine)
        yield f"{what}: {c.choice.words()}. {best}; {rest}", own
        if c.also:
            text = f"{what}: shown to serve too: {numbers.join([x.words() for x in c.also])}"
            yield text, [p for x in c.also for p in c.by_policy[x]]
    elif c.why == "depends":
        yield f"{what}: no one setting: it depends on the program", c.points
        yield from ((_conflict(x, machine), x.points) for x in setting_conflicts(c))
    elif c.why == "measure_more":
        yield f"{what}: undecided, {_missing(c, machine)}", c.points
    elif c.why == "default_best" and (worst := clearest(c.points, "slower")):
        yield f"{what}: {_SILENT[c.why]}; clearest: {point_text(worst, machine)}", c.points
    elif c.why == "default_best":
        within = all_within_text(c.points)
        yield f"{what}: {_SILENT[c.why]}, all the same within {within}", c.points
    else:
        yield f"{what}: {_SILENT[c.why]}", c.points


def _missing(c: Choice, machine: MachineAnswers) -> str:
    """What the undecided class lacks, and the command that gives it."""
    points = [p for own in c.candidates.values() for p in own]
    if not any(p.contended for p in points):
        some = f"{measure_on(machine.contexts)} --plan quick measures some"
        return f"since no contended point was measured; {some}"
    which = sorted(policy.words() for policy in c.candidates)
    text = (
        f"since {numbers.join(which)} {'is' if len(which) == 1 else 'are'} not shown to be as good "
        f"as the default at {len(c.still_open)} of {len(points)} points"
    )
    if c.left_open:
        return f"{text}: {LEFT_OPEN}"
    few = any(j.why in ("one_launch", "few_launches") for j in c.still_open)
    reason = FEW_LAUNCHES if few else more_text(c.still_open, machine.launches_asked)
    return f"{text} ({reason}); {measure_again(machine)}"


def _conflict(found: Conflict, machine: MachineAnswers) -> str:
    """Where a candidate is better or worse than the default, and where most."""
    where = "; ".join(
        f"{sharers}, {work_lengths_text([p.situation for p in own])}"
        for sharers, own in grouped(found.points, sharers_of).items()
    )
    return (
        f"  LINEWRIGHT_ATOMICS={found.setting} is {BETTER[found.answer]} than the default {where}; "
        f"most: {point_text(found.clearest, machine)}"
    )
