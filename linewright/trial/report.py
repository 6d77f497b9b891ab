"""A trial in words: the decision on each setting first, then its figures, then what limits them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console, RenderableType
from rich.text import Text

from linewright import architectures
from linewright.analysis.paired import Paired, Setting, Trial
from linewright.analysis.saying import at_most
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.one_screen import print_blocks
from linewright.schema import Estimate
from linewright.trial.files import Sample, Session
from linewright.units import many, rounded, value_text


def change_text(change: Estimate | None) -> str:
    """``-3.02 to -1.60 %``, with fewer digits from 10 % on; the interval alone, since its middle, the estimate round by
    round, need not be what the two medians differ by."""
    return "–" if change is None else f"{_span(change)} %"


def _digits(change: Estimate) -> int:
    size = max(abs(change.low), abs(change.high))
    return 2 if size < 10 else 1 if size < 100 else 0


def _span(change: Estimate) -> str:
    low, high = (rounded(end, _digits(change), True) for end in (change.low, change.high))
    return f"{low} to {high}"


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


def decisions(trial: Trial) -> list[str]:
    """One sentence for each comparison with the baseline; one for all that are the same or undecided where they are
    many."""
    same = [c for c in trial.comparisons if c.within_percent is not None]
    unclear = [c for c in trial.comparisons if not c.different and c not in same]
    joined = [c for group in (same, unclear) if len(group) > MOST_EACH for c in group]
    said = [_comparison(c, trial) for c in trial.comparisons if c not in joined]
    if len(same) > MOST_EACH:
        widest = at_most(max(c.within_percent for c in same) / 100)
        said.append(f"{len(same)} settings are the same as {same[0].baseline} within {widest}.")
    if len(unclear) > MOST_EACH:
        known = any(c.change_percent for c in unclear)
        where = ": their intervals are below" if known else ": too few rounds for an interval"
        said.append(f"{len(unclear)} settings are undecided against {unclear[0].baseline}{where}.")
    return said


def limits(session: Session, trial: Trial) -> list[str]:
    """What the answers rest on, and what they do not cover."""
    said = []
    if in_name_alone(session):
        said.append(
            f"On {session.arch} each atomic operation has one form, so these settings differ in name alone: a"
            " difference is chance, or comes from a program that reads LINEWRIGHT_ATOMICS itself."
        )
    for s in trial.settings:
        if len(s.modes) > 1:
            groups = ", ".join(f"{value_text(m.median_ns, session.unit)} ({m.share:.0%})" for m in s.modes)
            said.append(f"{s.name}: the program itself has several modes: {groups}. No single number describes it.")
    ending = _WHY.get(trial.why, "It ended between two interim analyses, so nothing is claimed.")
    return [*said, f"{trial.rounds} of {trial.planned} rounds were run. {ending}".rstrip()]


def in_name_alone(session: Session) -> bool:
    """Whether nothing but LINEWRIGHT_ATOMICS differs where it has no effect."""
    changed = {name for s in session.settings for name in s.environment}
    return changed == {"LINEWRIGHT_ATOMICS"} and not architectures.of(session.arch).forms_differ


def _comparison(c: Paired, trial: Trial) -> str:
    change = change_text(c.change_percent)
    if c.change_percent is None:
        return f"{c.setting}: undecided. Only {c.rounds} rounds have figures of both it and {c.baseline}."
    if c.different:
        return f"{c.setting}: {'better' if c.better else 'worse'} than {c.baseline}, {change}."
    if c.within_percent is not None:
        return f"{c.setting}: the same as {c.baseline} within {at_most(c.within_percent / 100)}, {change}."
    if not trial.interim:
        return f"{c.setting}: so far {change} against {c.baseline}; this is judged at the next interim analysis only."
    return f"{c.setting}: undecided against {c.baseline}; {change} remains possible."


def failures(session: Session, samples: Sequence[Sample]) -> list[str]:
    """Each setting's failed runs, by reason."""
    answer = []
    for setting in session.settings:
        reasons = Counter(s.reason for s in samples if s.setting == setting.name and not s.warm_up and s.value is None)
        answer += [f"{setting.name}: {many(n, 'failed run')} left out: {reason}" for reason, n in reasons.most_common()]
    return answer


def show(session: Session, samples: Sequence[Sample], trial: Trial, console: Console) -> None:
    """Print the decisions, then the figures of each setting, then what limits them."""
    blocks: list[RenderableType] = [Text(one_line(line), style="bold") for line in decisions(trial)]
    if blocks:
        blocks.append(Text())
    by_name = {c.setting: change_text(c.change_percent) for c in trial.comparisons}
    columns = (
        Column[Setting]("setting", lambda s: one_line(s.name), text=True, fold_at=7),
        Column[Setting]("runs", lambda s: str(s.runs)),
        Column[Setting]("failed", lambda s: str(s.failed)),
        Column[Setting]("median", lambda s: value_text(s.median, session.unit)),
        Column[Setting]("change", lambda s: by_name.get(s.name, "baseline" if by_name else "")),
    )
    title = one_line(f"{PurePath(session.command[0]).name}: {metric_text(session)}")
    blocks += [table(title, columns, trial.settings, space=2), Text()]
    blocks += [Text(one_line(line)) for line in [*failures(session, samples), *limits(session, trial)]]
    print_blocks(blocks, console)
