# SPDX-License-Identifier: MIT
"""The trial itself: warm-up, rounds in random order, interim analyses, an early end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from linewright.errors import RunError
from linewright.trial import scaling
from linewright.trial.interim_analysis import (
    TrialVerdict,
    analyse,
    interim_rounds,
    schedule,
    setting_figures,
)
from linewright.trial.runner import Interruption, Runner, RunOutcome
from linewright.trial.trial_file import ProgramRun, Session, TrialSetting


class TrialOutcome(NamedTuple):
    """What a trial came to; `interrupted` when the user ended it."""

    samples: list[ProgramRun]
    warm_ups: list[ProgramRun]
    verdict: TrialVerdict
    interrupted: bool


def judgement(session: Session, samples: Iterable[ProgramRun]) -> TrialVerdict:
    """What the counted runs of one session allow to be said; of numbers of threads by their
    throughput."""
    runs = session.runs(samples)
    if not session.scaling:
        return analyse(runs, session.planned_rounds, session.precision, session.higher_is_better)
    rates = scaling.throughputs(session, runs)
    found = analyse(rates, session.planned_rounds, session.precision, True, by_how_much=True)
    return replace(found, settings=[setting_figures(name, own) for name, own in runs.items()])


def runs_left(session: Session, done: Sequence[ProgramRun]) -> list[tuple[int, TrialSetting]]:
    """(round, setting) in the order to run, without what has been run."""
    have = {(s.round, s.setting) for s in done if not s.warm_up}
    by_name = {s.name: s for s in session.settings}
    order = schedule(list(by_name), session.planned_rounds, session.seed)
    return [(number, by_name[name]) for number, name in order if (number, name) not in have]


def run(
    session: Session,
    runner: Runner,
    done: Sequence[ProgramRun] = (),
    keep: Callable[[ProgramRun], None] = lambda sample: None,
    show: Callable[[str], None] = lambda name: None,
) -> TrialOutcome:
    """Run until the answer is clear, precise enough, or the rounds are done.

    Every run is handed to `keep` as it ends.  RunError when no setting's warm-up gives a figure.
    """
    samples, warm_ups = ([s for s in done if s.warm_up is warm] for warm in (False, True))
    outcome = lambda cut: TrialOutcome(samples, warm_ups, judgement(session, samples), cut)
    left = runs_left(session, samples)
    if not left or (samples and judgement(session, samples).stop):
        return outcome(False)
    try:
        warm_ups += _warm_up(session, runner, keep, show)
        while left:
            number = left[0][0]
            for _, setting in [pair for pair in left if pair[0] == number]:
                sample = _sample(session, setting, number, runner(setting))
                samples.append(sample)
                keep(sample)
                show(setting.name)
            left = [pair for pair in left if pair[0] != number]
            looked_at = number + 1 in interim_rounds(session.planned_rounds)
            if looked_at and judgement(session, samples).stop:
                break
    except Interruption:
        return outcome(True)
    return outcome(False)


def _warm_up(
    session: Session,
    runner: Runner,
    keep: Callable[[ProgramRun], None],
    show: Callable[[str], None],
) -> list[ProgramRun]:
    """Runs that fill caches and are not counted; a program that fails under every setting is
    reported at once."""
    failed: dict[str, str] = {}
    samples = []
    for number in range(session.warmup_rounds):
        for setting in session.settings:
            sample = _sample(session, setting, number, runner(setting), warm_up=True)
            samples.append(sample)
            keep(sample)
            show(f"{setting.name} (warm-up)")
            if sample.value is None:
                failed[setting.name] = sample.reason
            else:
                failed.pop(setting.name, None)
        if len(failed) == len(session.settings):
            raise RunError(no_figure(session, failed[session.settings[0].name]))
    return samples


def no_figure(session: Session, reason: str) -> str:
    return f"{session.command[0]} gives no figure under any setting: {reason}"


def _sample(
    session: Session, setting: TrialSetting, number: int, outcome: RunOutcome, warm_up: bool = False
) -> ProgramRun:
    return ProgramRun(
        linewright_trial_run=1,
        session=session.session,
        setting=setting.name,
        round=number,
        warm_up=warm_up,
        **vars(outcome),
    )
