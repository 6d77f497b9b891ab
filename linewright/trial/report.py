"""A trial in words: a row for each setting, failures by their reason, and one sentence for each comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linewright.analysis.intervals import Estimate
from linewright.analysis.paired import Paired, Trial
from linewright.errors import one_line
from linewright.trial.files import Sample, Session


def value_text(value: float | None, unit: str) -> str:
    """The metric with its unit."""
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    if unit == "s":
        return f"{value:.3f} s" if value >= 1 else f"{value * 1e3:.4g} ms"
    return f"{value:.6g}"


def change_text(change: Estimate | None) -> str:
    return f"{change.value:+.2f} % ({change.low:+.2f} to {change.high:+.2f} %)" if change else "–"


def metric_text(session: Session) -> str:
    names = {"wall": "wall time", "cpu": "CPU time", "maxrss": "largest resident memory"}
    direction = "higher" if session.higher_is_better else "lower"
    return f"{names.get(session.metric, session.metric)}, {direction} is better"


_WHY = {
    "clear": "ended early: every setting differs",
    "precise": "ended early: every interval is narrower than the precision asked",
    "rounds": "all planned rounds were run",
}


def sentences(trial: Trial) -> list[str]:
    """One for each comparison, then modes and how the trial ended."""
    said = [_comparison(c, trial) for c in trial.comparisons]
    for s in trial.settings:
        if len(s.modes) > 1:
            groups = ", ".join(f"{m.median_ns:.4g} ({m.share:.0%})" for m in s.modes)
            said.append(f"{s.name}: the program itself has several figures: {groups}; no single number describes it")
    ending = _WHY.get(trial.why, "ended before its next look, so nothing is claimed")
    return [*said, f"{trial.rounds} of {trial.planned} rounds; {ending}"]


def _comparison(c: Paired, trial: Trial) -> str:
    if c.change_percent is None:
        return f"{c.setting}: too few rounds with figures of both settings ({c.rounds}) to compare it with {c.baseline}"
    if c.different:
        word = "better" if c.better else "worse"
        return f"{c.setting}: {word} than {c.baseline}, {change_text(c.change_percent)}"
    if not trial.look:
        return f"{c.setting}: so far {change_text(c.change_percent)} against {c.baseline}, not judged between looks"
    return f"{c.setting}: no difference from {c.baseline} found, {change_text(c.change_percent)}"


def failures(session: Session, samples: Sequence[Sample]) -> list[str]:
    """Each setting's failed runs, by reason."""
    answer = []
    for setting in session.settings:
        reasons = Counter(s.reason for s in samples if s.setting == setting.name and not s.warm_up and s.value is None)
        answer += [
            f"{setting.name}: {n} failed run{'s' if n > 1 else ''}, left out: {reason}"
            for reason, n in reasons.most_common()
        ]
    return answer


def show(session: Session, samples: Sequence[Sample], trial: Trial, console: Console) -> None:
    """The result on standard output."""
    table = Table(
        title=Text(one_line(f"{PurePath(session.command[0]).name}: {metric_text(session)}")),
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    table.add_column("setting", overflow="fold")
    for name in ("runs", "failed", "median", "change (interval)"):
        table.add_column(name, justify="right", no_wrap=True)
    by_name = {c.setting: c for c in trial.comparisons}
    for s in trial.settings:
        change = (
            change_text(by_name[s.name].change_percent)
            if s.name in by_name
            else "baseline"
            if trial.comparisons
            else ""
        )
        table.add_row(
            *map(Text, [one_line(s.name), str(s.runs), str(s.failed), value_text(s.median, session.unit), change])
        )
    console.print(table)
    console.print()
    for line in [*failures(session, samples), *sentences(trial)]:
        console.print(Text(one_line(line)))
