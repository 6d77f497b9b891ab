# SPDX-License-Identifier: MIT
"""The trial itself: warm-up, rounds in random order, interim analyses, an early end."""

from __future__ import annotations

import itertools
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
from linewright.trial.runner import Interruption, Runner
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

    def take(setting: TrialSetting, number: int, warm_up: bool = False) -> ProgramRun:
        sample = ProgramRun(
            linewright_trial_run=1,
            session=session.session,
            setting=setting.name,
            round=number,
            warm_up=warm_up,
            **vars(runner(setting)),
        )
        keep(sample)
        show(setting.name + " (warm-up)" * warm_up)
        return sample

    left = runs_left(session, samples)
    if not left or (samples and judgement(session, samples).stop):
        return outcome(False)
    try:
        warm_ups += _warm_up(session, take)
        for number, pairs in itertools.groupby(left, key=lambda pair: pair[0]):
            for _, setting in pairs:
                samples.append(take(setting, number))
            looked_at = number + 1 in interim_rounds(session.planned_rounds)
            if looked_at and judgement(session, samples).stop:
                break
    except Interruption:
        return outcome(True)
    return outcome(False)


def _warm_up(session: Session, take: Callable[..., ProgramRun]) -> list[ProgramRun]:
    """Runs that fill caches and are not counted; a program that fails under every setting is
    reported at once."""
    samples = []
    for number in range(session.warmup_rounds):
        own = [take(setting, number, warm_up=True) for setting in session.settings]
        if all(sample.value is None for sample in own):
            raise RunError(no_figure(session, own[0].reason))
        samples += own
    return samples


def no_figure(session: Session, reason: str) -> str:
    return f"{session.command[0]} gives no figure under any setting: {reason}"
