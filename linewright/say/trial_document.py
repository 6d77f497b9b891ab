# SPDX-License-Identifier: MIT
"""A trial in words: the decision on each setting first, then its figures, then what limits them;
and a sweep of workloads, which is a trial at every number of threads."""

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
    sentence,
    sentence_as_written,
    table_of,
)
from linewright.say.phrases import BETTER, modes_text
from linewright.trial.interim_analysis import SettingFigures, TrialVerdict, fewest_rounds
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
    setting, baseline, change = c.first.id, c.second.id, change_text(c)
    if c.obstacle:
        return (
            f"{setting}: undecided. Only {c.obstacle.what} rounds have figures of both it and "
            f"{baseline}{_more_text([c], trial)}."
        )
    if c.differs:
        return f"{setting}: {BETTER[c.answer]} than {baseline}, {change}."
    if c.answer == "same":
        return f"{setting}: the same as {baseline} within {numbers.at_most(c.within)}, {change}."
    if not trial.interim:
        return (
            f"{setting}: so far {change} against {baseline}; this is judged at the next interim "
            "analysis only."
        )
    return (
        f"{setting}: undecided against {baseline}; {change} remains possible"
        f"{_more_text([c], trial)}."
    )


def _more_text(some: Sequence[Comparison], trial: TrialVerdict) -> str:
    """What would decide the undecided."""
    needed = max((trial.rounds_needed.get(c.first.id, 0) for c in some), default=0)
    them = "it" if len(some) == 1 else "them"
    return f"; about {needed} rounds (--runs) would decide {them}" if needed else ""


def failures(session: Session, samples: Sequence[ProgramRun]) -> Iterator[Sentence]:
    """Each setting's failed runs, by reason."""
    for setting in session.settings:
        reasons = Counter(
            s.reason
            for s in samples
            if s.setting == setting.name and not s.warm_up and s.value is None
        )
        for reason, n in reasons.most_common():
            text = f"{setting.name}: {numbers.count(n, 'failed run')} left out: {reason}"
            yield _of([setting.name], text)


def document(session: Session, samples: Sequence[ProgramRun], trial: TrialVerdict) -> Document:
    """The decisions, then the figures of each setting, then what limits them."""
    by_name = {c.first.id: change_text(c) for c in trial.comparisons}
    columns: list[Column[SettingFigures]] = [
        Column("setting", lambda s: s.name, text=True, folds=True),
        Column("runs", lambda s: str(s.runs)),
        Column("failed", lambda s: str(s.failed)),
        Column("median", lambda s: numbers.quantity(s.median, session.unit)),
        Column("change", lambda s: by_name.get(s.name, "baseline" if by_name else "")),
    ]
    programs = [(s.command or session.command)[0] for s in session.settings]
    named = numbers.join(list(dict.fromkeys(PurePath(program).name for program in programs)))
    title = f"{named}: {metric_text(session)}"
    notes = [*failures(session, samples), *limits(session, trial)]
    figures = table_of(title, columns, trial.settings, notes=notes)
    return document_of(headline=decisions(trial), tables=[figures])


def sweep_document(samples: Sequence[SweepRun]) -> Document:
    """A row for each program and number of threads, with the medians and the change against the
    first setting as an interval."""
    names = list(dict.fromkeys(s.setting for s in samples))
    about = {s.program: s for s in samples}
    units = {s.unit: "higher" if s.higher_is_better else "lower" for s in samples}
    rows = [
        [
            program,
            about[program].unit,
            str(threads),
            *(_four_digits(s.median) for s in trial.settings),
            *(_with_mark(comparison) for comparison in trial.comparisons),
        ]
        for (program, threads), trial in sorted(judgement(samples).items())
    ]
    headings = [*names, *(f"change of {name}" for name in names[1:])]
    notes = [
        sentence_as_written(f"Of {unit} {which} is better.", basis="run")
        for unit, which in units.items()
    ]
    table = TextTable(
        title="",
        headings=["workload", "unit", "threads", *headings],
        left=[True, True, False, *(False for _ in headings)],
        rows=rows,
        notes=notes,
    )
    return document_of(tables=[table])


def _four_digits(value: float | None) -> str:
    """As the published table has them."""
    if value is None:
        return numbers.ABSENT
    return numbers.plain(value)


def _with_mark(c: Comparison) -> str:
    return f"{change_text(c)} {BETTER[c.answer]}" if c.differs else change_text(c)
