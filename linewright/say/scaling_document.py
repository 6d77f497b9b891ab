# SPDX-License-Identifier: MIT
"""A trial of numbers of threads in words: whether it keeps its limit, the throughput at the last
number over that at the first, and the universal scalability law; then the figures of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from linewright import numbers
from linewright.say.document import (
    Column,
    Document,
    Sentence,
    document_of,
    sentence_as_written,
    table_of,
)
from linewright.say.trial_document import failures, limits, metric_text
from linewright.schema import Estimate
from linewright.trial.interim_analysis import TrialVerdict
from linewright.trial.scaling import FEWEST_NUMBERS, Law, Scaling
from linewright.trial.trial_file import ProgramRun, Session

_NO_LAW = {
    "few_numbers": "it takes {fewest} numbers of threads that have a CPU each",
    "few_rounds": "too few rounds have figures of every number of threads",
    "between": "the trial ended between two interim analyses",
    "superlinear": "it knows no throughput that grows by more than the threads do",
    "misfit": "the figures are shown to lie elsewhere, as where CPUs share a core or a cache",
}


def document(
    session: Session, samples: Sequence[ProgramRun], trial: TrialVerdict, found: Scaling
) -> Document:
    """The decisions, then the figures of each number of threads, then what limits them."""
    places = range(len(found.threads))
    columns: list[Column[int]] = [
        Column("threads", lambda i: str(found.threads[i])),
        Column("runs", lambda i: str(trial.settings[i].runs), spare=True),
        Column("failed", lambda i: str(trial.settings[i].failed), spare=True),
        Column("median", lambda i: numbers.quantity(trial.settings[i].median, session.unit)),
        Column("throughput", lambda i: _ratio_text(found.throughput[i]) if i else "1"),
        Column("efficiency", lambda i: _share_text(found, i)),
    ]
    each = ", of work that each thread does" if session.work == "thread" else ""
    title = f"{PurePath(session.command[0]).name}: {metric_text(session)}{each}"
    notes = [*failures(session, samples), *_beyond(session, found), *limits(session, trial)]
    figures = table_of(title, columns, places, notes=notes)
    return document_of(headline=decisions(session, trial, found), tables=[figures])


def decisions(session: Session, trial: TrialVerdict, found: Scaling) -> list[Sentence]:
    """Whether the limit is kept, what the last number of threads gains, and the law."""
    answer = [_of(session, f"check: {_check(session, found)}")] if session.fail_below else []
    if found.ignored:
        seen, first = numbers.count(found.seen[0], "thread"), found.threads[0]
        text = f"The program seems to ignore its number of threads: it had {seen} at {first}"
        text += f" and at {found.threads[-1]}, and no difference is shown."
        return [*answer, _of(session, text)]
    so_far = "" if trial.interim else "so far "
    answer.append(_of(session, f"{_name(session, -1)}: {so_far}{_gain(session, trial, found)}."))
    if found.law:
        answer.append(_of(session, f"By the universal scalability law {_law_text(found.law)}."))
    else:
        why = _NO_LAW[found.why].format(fewest=FEWEST_NUMBERS)
        answer.append(_of(session, f"The universal scalability law is not applied: {why}."))
    return answer


def _of(session: Session, text: str) -> Sentence:
    return sentence_as_written(text, [s.name for s in session.settings], "settings")


def _name(session: Session, place: int) -> str:
    return session.settings[place].name


def _check(session: Session, found: Scaling) -> str:
    limit, last = f"{session.fail_below:g} times", found.throughput[-1]
    if found.untold:
        return f"NOTHING KNOWN of {limit} at {_name(session, -1)}"
    if found.below(session.fail_below):
        return f"FAILED: {_name(session, -1)} shown to have less than {limit} the throughput"
    if not found.below(session.fail_below, surely=False):
        return f"passed: {_name(session, -1)} shown to have at least {limit} the throughput"
    counted = "failed" if session.undecided_fails else "passed"
    return (
        f"UNDECIDED, counted as {counted}: {_ratio_text(last)} times, where {limit} are asked for"
    )


def _gain(session: Session, trial: TrialVerdict, found: Scaling) -> str:
    """The throughput at the last number of threads over that at the first."""
    ratio, first, c = found.throughput[-1], _name(session, 0), trial.comparisons[-1]
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


def _beyond(session: Session, found: Scaling) -> list[Sentence]:
    """Numbers of threads above that of CPUs."""
    more = [str(threads) for threads in found.threads if threads > session.cpus]
    if not more:
        return []
    cpus = numbers.count(session.cpus, "CPU")
    text = f"{numbers.join(more)} threads share {cpus}; the law leaves such numbers out."
    return [_of(session, text)]


def _ratio_text(ratio: Estimate | None) -> str:
    return numbers.format_interval(ratio)


def _share_text(found: Scaling, place: int) -> str:
    """The throughput as a share of that with which it would grow as the threads do."""
    ratio, linear = found.throughput[place], found.threads[place] / found.threads[0]
    if ratio is None:
        return numbers.ABSENT
    low, high = (f"{100 * end / linear:.0f}" for end in (ratio.low, ratio.high))
    return f"{low} %" if low == high else f"{low} to {high} %"
