"""A trial in words: the decision on each setting first, then its figures, then what limits them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console, RenderableType
from rich.text import Text

from linewright.analysis.paired import Paired, Setting, Trial
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.one_screen import print_blocks
from linewright.schema import Estimate
from linewright.trial.files import Sample, Session
from linewright.units import many, value_text


def change_text(change: Estimate | None) -> str:
    """``-2.31 % (-3.02 to -1.60)``, with one digit from 10 % on."""
    if change is None:
        return "–"
    return f"{change.value:+.{_digits(change)}f} % ({_span(change)})"


def _digits(change: Estimate) -> int:
    return 1 if max(abs(change.low), abs(change.high)) >= 10 else 2


def _span(change: Estimate) -> str:
    return f"{change.low:+.{_digits(change)}f} to {change.high:+.{_digits(change)}f}"


def metric_text(session: Session) -> str:
    names = {"wall": "wall time", "cpu": "CPU time", "maxrss": "largest resident memory"}
    direction = "higher" if session.higher_is_better else "lower"
    return f"{names.get(session.metric, session.metric)}, {direction} is better"


MOST_UNDECIDED = 4
"""Undecided settings that get a sentence each."""
_WHY = {
    "clear": "It ended early because every setting differs.",
    "precise": "It ended early because every interval is narrower than the precision asked for.",
    "rounds": "",
}


def decisions(trial: Trial) -> list[str]:
    """One sentence for each comparison with the baseline; one for all that are undecided where they are many."""
    unclear = [c for c in trial.comparisons if not c.different]
    if len(unclear) <= MOST_UNDECIDED:
        return [_comparison(c, trial) for c in trial.comparisons]
    said = [_comparison(c, trial) for c in trial.comparisons if c.different]
    where = (
        ": their intervals are below" if any(c.change_percent for c in unclear) else ": too few rounds for an interval"
    )
    return [*said, f"{len(unclear)} settings are undecided against {unclear[0].baseline}{where}."]


def limits(trial: Trial) -> list[str]:
    """What the answers rest on, and what they do not cover."""
    said = []
    for s in trial.settings:
        if len(s.modes) > 1:
            groups = ", ".join(f"{m.median_ns:.4g} ({m.share:.0%})" for m in s.modes)
            said.append(f"{s.name}: the program itself has several modes: {groups}. No single number describes it.")
    ending = _WHY.get(trial.why, "It ended between two interim analyses, so nothing is claimed.")
    return [*said, f"{trial.rounds} of {trial.planned} rounds were run. {ending}".rstrip()]


def _comparison(c: Paired, trial: Trial) -> str:
    change = change_text(c.change_percent)
    if c.change_percent is None:
        return f"{c.setting}: undecided. Only {c.rounds} rounds have figures of both it and {c.baseline}."
    if c.different:
        return f"{c.setting}: {'better' if c.better else 'worse'} than {c.baseline}, {change}."
    if not trial.interim:
        return f"{c.setting}: so far {change} against {c.baseline}; this is judged at the next interim analysis only."
    return f"{c.setting}: undecided against {c.baseline}; {_span(c.change_percent)} % remains possible."


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
        Column[Setting]("change (interval)", lambda s: by_name.get(s.name, "baseline" if by_name else "")),
    )
    title = one_line(f"{PurePath(session.command[0]).name}: {metric_text(session)}")
    blocks += [table(title, columns, trial.settings, space=2), Text()]
    blocks += [Text(one_line(line)) for line in [*failures(session, samples), *limits(trial)]]
    print_blocks(blocks, console)
