# SPDX-License-Identifier: MIT
"""A trial in words: the decision on each setting first, then its figures, then what limits them; of
a trial of numbers of threads whether it keeps its limit, the throughput at the last number over
that at the first, and the universal scalability law; and a sweep of workloads, which is a trial at
every number of threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from linewright import numbers, policy
from linewright.analysis.comparison import Comparison
from linewright.say.document import (
    Column,
    Document,
    Sentence,
    TextTable,
    document_of,
    of_run,
    sentence,
    sentence_as_written,
    table_of,
    unique,
)
from linewright.say.phrases import BETTER, modes_text
from linewright.trial.interim_analysis import SettingFigures, TrialVerdict, fewest_rounds
from linewright.trial.scaling import FEWEST_NUMBERS, Law, Scaling
from linewright.trial.trial_file import ProgramRun, Session
from linewright.trial.workload_sweep import SweepRun, judgement


def change_text(c: Comparison) -> str:
    """``-3.02 to -1.60 %``, with fewer digits from 10 % on; the interval alone, since its middle,
    the estimate round by round, need not be what the two medians differ by."""
    return numbers.ABSENT if c.obstacle else c.change(behind=2)


def metric_text(session: Session) -> str:
    names = {"wall": "wall time", "cpu": "CPU time", "maxrss": "largest resident memory"}
    direction = "higher" if session.higher_is_better else "lower"
    return f"{names.get(session.metric, session.metric)}, {direction} is better"


MOST_EACH = 4
"""Undecided settings, and settings that are the same, that get a sentence each."""
_WHY = {
    "clear": "It ended early because every setting differs.",
    "precise": "It ended early because every interval is narrower than the precision asked for.",
    "rounds": "",
}


def decisions(trial: TrialVerdict) -> list[Sentence]:
    """One sentence for each comparison with the baseline; one for all that are the same or
    undecided where they are many."""
    same = [c for c in trial.comparisons if c.answer == "same"]
    unclear = [c for c in trial.comparisons if c.answer == "undecided"]
    joined = [c for group in (same, unclear) if len(group) > MOST_EACH for c in group]
    answer = [_of(c.ids, _comparison(c, trial)) for c in trial.comparisons if c not in joined]
    if len(same) > MOST_EACH:
        widest = numbers.at_most(max(c.within for c in same))
        text = f"{len(same)} settings are the same as {same[0].second.id} within {widest}."
        answer.append(_of([c.first.id for c in same], text))
    if len(unclear) > MOST_EACH:
        known = not all(c.obstacle for c in unclear)
        where = ": their intervals are below" if known else ": too few rounds for an interval"
        text = f"{len(unclear)} settings are undecided against {unclear[0].second.id}{where}"
        text += f"{_more_text(unclear, trial)}."
        answer.append(_of([c.first.id for c in unclear], text))
    return answer


def _of(settings: Iterable[str], text: str) -> Sentence:
    """A sentence that rests on the runs of these settings."""
    return sentence_as_written(text, settings, "settings")


def name_alone(machine: str) -> str:
    """Why settings of the library cannot differ where an operation has one form."""
    return f"{policy.one_form(machine)}: these settings differ in name alone"


def too_few(rounds: int, settings: int, option: str) -> str:
    """That rounds are too few to show a difference, and which option gives enough; or nothing."""
    enough = fewest_rounds(settings) if settings > 1 else 0
    return (
        f"{rounds} rounds cannot show a difference between {settings} settings, however large: "
        f"{option}{enough} or more"
        if enough > rounds
        else ""
    )


def limits(session: Session, trial: TrialVerdict) -> Iterator[Sentence]:
    """What the answers rest on, and what they do not cover."""
    if session.in_name_alone:
        yield sentence(
            f"{name_alone(session.arch)}; a difference is chance, or comes from a program that "
            "reads LINEWRIGHT_ATOMICS itself",
            basis="rule",
        )
    for s in trial.settings:
        if len(s.modes) > 1:
            modes = modes_text(s.modes, session.unit)
            text = f"{s.name}: the program's runs fall into separate modes: {modes}. No single"
            yield _of([s.name], f"{text} number describes it.")
    ending = _WHY.get(trial.why, "It ended between two interim analyses, so nothing is claimed.")
    if trial.why in _WHY and trial.rounds >= trial.planned:
        ending = ""
    text = f"{trial.rounds} of {trial.planned} rounds were run. {ending}".rstrip()
    yield sentence(text, cells=[s.name for s in trial.settings], basis="settings")


def _comparison(c: Comparison, trial: TrialVerdict) -> str:
    baseline, change, more = c.second.id, change_text(c), _more_text([c], trial)
    if c.obstacle:
        rounds = f"Only {c.obstacle.what} rounds have figures of both it and {baseline}"
        text = f"undecided. {rounds}{more}"
    elif c.differs:
        text = f"{BETTER[c.answer]} than {baseline}, {change}"
    elif c.answer == "same":
        text = f"the same as {baseline} within {numbers.at_most(c.within)}, {change}"
    elif not trial.interim:
        text = f"so far {change} against {baseline}; this is judged at the next interim analysis "
        text += "only"
    else:
        text = f"undecided against {baseline}; {change} remains possible{more}"
    return f"{c.first.id}: {text}."


def _more_text(some: Sequence[Comparison], trial: TrialVerdict) -> str:
    """What would decide the undecided."""
    needed = max((trial.rounds_needed.get(c.first.id, 0) for c in some), default=0)
    them = "it" if len(some) == 1 else "them"
    if needed and all(c.obstacle for c in some):
        return f"; it takes {needed} rounds (--runs) or more"
    return f"; about {needed} rounds (--runs) would decide {them}" if needed else ""


def failures(session: Session, samples: Sequence[ProgramRun]) -> Iterator[Sentence]:
    """Each setting's failed runs, by reason."""
    for setting in session.settings:
        own = (s for s in samples if s.setting == setting.name and not s.warm_up)
        reasons = Counter(s.reason for s in own if s.value is None)
        for reason, n in reasons.most_common():
            text = f"{setting.name}: {numbers.count(n, 'failed run')} left out: {reason}"
            yield _of([setting.name], text)


def document(
    session: Session,
    samples: Sequence[ProgramRun],
    trial: TrialVerdict,
    scaling: Scaling | None = None,
) -> Document:
    """The decisions, then the figures of each setting, or of each number of threads, then what
    limits them."""
    by_name = {c.first.id: change_text(c) for c in trial.comparisons}
    runs: list[Column[SettingFigures]] = [
        Column("runs", lambda s: str(s.runs), spare=bool(scaling)),
        Column("failed", lambda s: str(s.failed), spare=bool(scaling)),
        Column("median", lambda s: numbers.quantity(s.median, session.unit)),
    ]
    columns = [
        Column("setting", lambda s: s.name, text=True, folds=True),
        *runs,
        Column("change", lambda s: by_name.get(s.name, "baseline" if by_name else "")),
    ]
    headline, beyond = decisions(trial), list[Sentence]()
    each = ", of work that each thread does" if scaling and session.work == "thread" else ""
    if scaling:
        place = {s.name: n for n, s in enumerate(trial.settings)}
        gained = dict(zip(place, map(numbers.format_interval, scaling.throughput), strict=True))
        gained[trial.settings[0].name] = "1"
        columns = [
            Column("threads", lambda s: str(scaling.threads[place[s.name]])),
            *runs,
            Column("throughput", lambda s: gained[s.name]),
            Column("efficiency", lambda s: _share_text(scaling, place[s.name])),
        ]
        headline = scaling_decisions(session, trial, scaling)
        if more := [str(threads) for threads in scaling.threads if threads > session.cpus]:
            text = f"{numbers.join(more)} threads share {numbers.count(session.cpus, 'CPU')}; the "
            beyond = [_of(place, f"{text}law leaves such numbers out.")]
    programs = unique(PurePath((s.command or session.command)[0]).name for s in session.settings)
    title = f"{numbers.join(programs)}: {metric_text(session)}{each}"
    notes = [*failures(session, samples), *beyond, *limits(session, trial)]
    return document_of(
        headline=headline, tables=[table_of(title, columns, trial.settings, notes=notes)]
    )


def sweep_document(samples: Sequence[SweepRun]) -> Document:
    """A row for each program and number of threads, with the medians and the change against the
    first setting as an interval."""
    names = unique(s.setting for s in samples)
    unit_of = {s.program: s.unit for s in samples}
    # With four digits, as the published table has them.
    median = lambda value: numbers.ABSENT if value is None else numbers.plain(value)
    mark = lambda c: f" {BETTER[c.answer]}" if c.differs else ""
    rows = [
        [
            program,
            unit_of[program],
            str(threads),
            *(median(s.median) for s in trial.settings),
            *(f"{change_text(c)}{mark(c)}" for c in trial.comparisons),
        ]
        for (program, threads), trial in sorted(judgement(samples).items())
    ]
    headings = [*names, *(f"change of {name}" for name in names[1:])]
    units = {s.unit: "higher" if s.higher_is_better else "lower" for s in samples}
    table = TextTable(
        title="",
        headings=["workload", "unit", "threads", *headings],
        left=[True, True, False, *(False for _ in headings)],
        rows=rows,
        notes=of_run(f"Of {unit} {which} is better." for unit, which in units.items()),
    )
    return document_of(tables=[table])


# ---- numbers of threads ------------------------------------------------------------------------

_NO_LAW = {
    "few_numbers": "it takes {fewest} numbers of threads that have a CPU each",
    "few_rounds": "too few rounds have figures of every number of threads",
    "between": "the trial ended between two interim analyses",
    "superlinear": "it knows no throughput that grows by more than the threads do",
    "misfit": "the figures are shown to lie elsewhere, as where CPUs share a core or a cache",
}


def scaling_decisions(session: Session, trial: TrialVerdict, found: Scaling) -> list[Sentence]:
    """Whether the limit is kept, what the last number of threads gains, and the law."""
    names = [s.name for s in session.settings]
    texts = [f"check: {_check(session, found)}"] if session.fail_below else []
    if found.ignored:
        seen, first = numbers.count(found.seen[0], "thread"), found.threads[0]
        text = f"The program seems to ignore its number of threads: it had {seen} at {first}"
        texts.append(f"{text} and at {found.threads[-1]}, and no difference is shown.")
    else:
        so_far = "" if trial.interim else "so far "
        texts.append(f"{names[-1]}: {so_far}{_gain(names[0], trial, found)}.")
        why = _NO_LAW.get(found.why, "").format(fewest=FEWEST_NUMBERS)
        law = f"The universal scalability law is not applied: {why}."
        if found.law:
            law = f"By the universal scalability law {_law_text(found.law)}."
        texts.append(law)
    return [_of(names, text) for text in texts]


def _check(session: Session, found: Scaling) -> str:
    limit, last = f"{session.fail_below:g} times", session.settings[-1].name
    if found.untold:
        return f"NOTHING KNOWN of {limit} at {last}"
    if found.below(session.fail_below):
        return f"FAILED: {last} shown to have less than {limit} the throughput"
    if not found.below(session.fail_below, surely=False):
        return f"passed: {last} shown to have at least {limit} the throughput"
    counted = "failed" if session.undecided_fails else "passed"
    shown = numbers.format_interval(found.throughput[-1])
    return f"UNDECIDED, counted as {counted}: {shown} times, where {limit} are asked for"


def _gain(first: str, trial: TrialVerdict, found: Scaling) -> str:
    """The throughput at the last number of threads over that at the first."""
    ratio, c = found.throughput[-1], trial.comparisons[-1]
    if ratio is None:
        return f"undecided. Only {c.obstacle.what} rounds have figures of both it and {first}"
    span = f"{numbers.span(ratio.low, ratio.high)} times"
    if c.answer == "same":
        return f"the throughput of {first} within {numbers.at_most(c.within)}"
    if not c.differs:
        return f"no gain is shown, {span} the throughput of {first}"
    if c.slower:
        return f"a loss, {span} the throughput of {first}"
    text = f"{span} the throughput of {first}, an efficiency of {_share_text(found, -1)}"
    return f"{text}: more than its threads explain" if found.superlinear(-1) else text


def _law_text(law: Law) -> str:
    parts = []
    for what, share in (("contention", law.contention), ("coherency", law.coherency)):
        figures = [numbers.plain(max(0.0, x), 2) for x in (share.value, share.low, share.high)]
        if share.low > 0:
            parts.append(f"{what} is {figures[0]} ({figures[1]} to {figures[2]})")
        else:
            parts.append(f"{what} is not shown, at most {figures[2]}")
    text = numbers.join(parts)
    if law.peak:
        most = numbers.span(*law.peak, digits=2)
        text += f"; throughput is highest at {most} threads"
    return text


def _share_text(found: Scaling, place: int) -> str:
    """The throughput as a share of that with which it would grow as the threads do."""
    ratio, linear = found.throughput[place], found.threads[place] / found.threads[0]
    if ratio is None:
        return numbers.ABSENT
    low, high = (f"{100 * end / linear:.0f}" for end in (ratio.low, ratio.high))
    return f"{low} %" if low == high else f"{low} to {high} %"
