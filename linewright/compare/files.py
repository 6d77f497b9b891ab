"""From files to a comparison: record files cell by cell, trial files setting by setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from linewright.analysis import Summary, loading
from linewright.analysis.contrast import SAME_NS
from linewright.analysis.words import more_text
from linewright.compare.alike import Unlike, frequency_warning, unlike
from linewright.compare.changes import SAME, Change, turns
from linewright.compare.changes import compare as compare_cells
from linewright.compare.comparison import Comparison, Row, Side, unlike_text
from linewright.errors import UserError
from linewright.output.labels import unique_labels
from linewright.output.machine import describe
from linewright.records import files as records
from linewright.schema import Context, Interval
from linewright.trial import boots
from linewright.trial import files as trial_files

ONE_AFTER_THE_OTHER = (
    "the runs were made one after the other: a drift as inside them is allowed for, but a change of the machine's state"
    " between them can pass for a difference; `linewright compare --measure` takes the launches in turns"
)
"""Said once of a comparison, whatever the number of files."""
MIXED = (
    "the launches of both are mixed in time, but not in turns that each side begins as often (A B B A …): a drift as"
    " inside them is allowed for, and nothing is paired; `linewright compare --measure` takes such turns"
)
OTHER_MACHINE = (
    "the two were measured on different machines or kernels: nothing is paired, and a difference is one of these two"
    " machines as they were then"
)
MOST_NAMED = 3
"""Differing conditions that a refusal names before it counts the rest."""


class Options(NamedTuple):
    """What the user asked of a comparison."""

    allow_unlike: bool
    fail_above: float | None = None
    only: Sequence[str] = ()
    undecided_fails: bool = True


class Measured(NamedTuple):
    """One record file, summarised."""

    path: str
    contexts: list[Context]
    summaries: list[Summary]


def compare(paths: Sequence[str], options: Options, warn: Callable[[str], None]) -> Comparison:
    """The first file as the baseline of all others; UserError where they should not or cannot be compared."""
    if len(paths) < 2:
        raise UserError("one file has nothing to be compared with", "compare", "linewright compare BASELINE FILE…")
    twice = [path for path in paths[1:] if paths[1:].count(path) > 1]
    if twice:
        raise UserError(f"{twice[0]} is named twice", "compare", "each file once")
    kinds = [is_trial(path) for path in paths]
    if any(kinds) and not all(kinds):
        raise UserError(
            f"{paths[kinds.index(False)]} holds records and {paths[kinds.index(True)]} a trial",
            "compare",
            "record files with record files, trial files with trial files",
        )
    found = _trials(paths, options, warn) if kinds[0] else _records(paths, options, warn)
    if all(row.finding == "not_comparable" for row in found.rows):
        raise UserError(
            f"nothing could be compared: {found.rows[0].label}: {found.rows[0].reason}",
            paths[1],
            "both sides with figures of the same cells",
        )
    return found


def is_trial(path: str) -> bool:
    """Whether a file's first line says that it is a trial; readers say what is wrong with anything unreadable."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as stream:
            return trial_files.is_first_line(stream.readline(records.LONGEST_LINE))
    except OSError:
        return False


def _records(paths: Sequence[str], options: Options, warn: Callable[[str], None]) -> Comparison:
    sides = [_measured(path, options.only, warn) for path in paths]
    baseline, others = sides[0], sides[1:]
    differing = [unlike(baseline.contexts, other.contexts) for other in others]
    _refuse_unlike(baseline, others, differing, options)
    for other in others:
        if not {s.id for s in baseline.summaries} & {s.id for s in other.summaries}:
            raise UserError(
                f"no cell in common with {baseline.path}", other.path, "runs of one plan, or of plans that share cells"
            )
    contexts = [context for side in sides for context in side.contexts]
    same = SAME if options.fail_above is None else options.fail_above
    changes = compare_cells(baseline.summaries, [other.summaries for other in others], contexts, same)
    labels = unique_labels([s.cell for s in baseline.summaries])
    wrong = [_went_wrong(baseline, other) for other in others]
    return Comparison(
        what="ns per operation, median of the launches: back to back the issue interval, with work the exposed cost;"
        f" the same: within {100 * same:g} %, exposed within {SAME_NS} ns",
        words=("slower", "faster"),
        higher_is_better=False,
        baseline=_side(baseline, baseline, [], []),
        others=[
            _side(other, baseline, u, _remarks(baseline, other, found, same, taken))
            for other, u, found, taken in zip(others, differing, changes, _taken(baseline, others), strict=True)
        ],
        rows=[
            _row(change, other.path, labels[change.id], change.id in now)
            for other, found, now in zip(others, changes, wrong, strict=True)
            for change in sorted(found, key=lambda c: c.id not in now)
        ],
        fail_above=options.fail_above,
        undecided_fails=options.undecided_fails,
    )


def _taken(baseline: Measured, others: Sequence[Measured]) -> list[str]:
    """For each run how it and the baseline were taken."""
    answers = []
    for other in others:
        in_turns = bool(turns(baseline.contexts, other.contexts))
        if {c.context_id for c in baseline.contexts} == {c.context_id for c in other.contexts}:
            text = "both hold the same launches: every cell is compared with itself"
        elif {c.machine_id for c in baseline.contexts} != {c.machine_id for c in other.contexts}:
            text = OTHER_MACHINE
        elif in_turns:
            text = "the launches of both were taken in turns and are compared in pairs"
        elif _mixed(baseline.contexts, other.contexts):
            text = MIXED
        else:
            text = ONE_AFTER_THE_OTHER
        answers.append("" if text == ONE_AFTER_THE_OTHER and text in answers else text)
    return answers


def _mixed(one: Iterable[Context], two: Iterable[Context]) -> bool:
    """Launches of either began while the other's went on."""
    began = [sorted(c.started_utc for c in side) for side in (one, two)]
    return all(began) and began[0][0] < began[1][-1] and began[1][0] < began[0][-1]


def _remarks(baseline: Measured, other: Measured, found: Sequence[Change], same: float, taken: str) -> list[str]:
    """How the two runs were taken, and what would decide what is undecided."""
    said = [taken, frequency_warning(baseline.contexts, other.contexts)]
    open_cells = [c.judged for c in found if c.finding == "undecided" and c.judged.why == "wide"]
    return [
        *said,
        f"undecided with enough launches, {len(open_cells)}: {more_text(open_cells, same)}" if open_cells else "",
    ]


def _measured(path: str, only: Sequence[str], warn: Callable[[str], None]) -> Measured:
    loaded = loading.load([path], warn, only)
    if not loaded.summaries:
        raise UserError("no finished cell to compare", path, "the run ended before its first block of cells did")
    contexts = list(loaded.contexts.values())
    machines = {context.machine_id for context in contexts}
    if len(machines) > 1:
        raise UserError(f"holds records of {len(machines)} machines or kernels", path, "compare one at a time")
    return Measured(path, contexts, loaded.summaries)


def _refuse_unlike(baseline, others: Sequence, differing: Sequence[Sequence[Unlike]], options: Options) -> None:
    """UserError for the first file whose conditions differ from the baseline's, unless that is allowed."""
    if options.allow_unlike:
        return
    for other, found in zip(others, differing, strict=True):
        if found:
            named = "; ".join(unlike_text(u) for u in found[:MOST_NAMED])
            more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
            what = f"{baseline.path} and {other.path} are not alike: {named}{more}"
            raise UserError(what, "compare", "--unlike compares them nevertheless")


def _side(own: Measured, baseline: Measured, found: list[Unlike], warnings: list[str]) -> Side:
    ids, expected = {s.id for s in own.summaries}, {s.id for s in baseline.summaries}
    return Side(
        file=own.path, conditions=describe(own.contexts), missing=sorted(expected - ids), added=sorted(ids - expected),
        unlike=found, warnings=[w for w in warnings if w],
    )  # fmt: skip


def _went_wrong(before: Measured, after: Measured) -> set[str]:
    """Ids of cells that were right before and are wrong now."""
    right = {s.id for s in before.summaries if s.status == "ok"}
    return {s.id for s in after.summaries if s.status == "error" and s.id in right}


def _ends(name: str, middle: float, low: float, high: float) -> dict[str, float]:
    """A figure's fields of a row."""
    return {name: middle, f"{name}_low": low, f"{name}_high": high}


def _times(name: str, interval: Interval | None) -> dict[str, float]:
    return _ends(name, interval.median_ns, interval.low_ns, interval.high_ns) if interval else {}


_FINDINGS = {"slower": "worse", "faster": "better"}


def _row(change: Change, file: str, label: str, wrong: bool) -> Row:
    figures, c = _times("difference", change.difference), change.judged.contrast
    if change.finding != "not_comparable":
        figures |= _times("before", change.before) | _times("after", change.after)
    if c and c.scale == "ratio":
        figures |= _ends("ratio", c.value, c.low, c.high)
    return Row(
        file=file,
        id=change.id,
        label=f"{label}, exposed" if change.figure == "exposed" else label,
        unit="ns",
        p=change.judged.p,
        finding="error" if wrong else _FINDINGS.get(change.finding, change.finding),
        why=change.judged.why if change.finding == "undecided" else "",
        reason=change.reason,
        **figures,
    )


def _trials(paths: Sequence[str], options: Options, warn: Callable[[str], None]) -> Comparison:
    if options.only:
        raise UserError("a trial has settings and no cells", "--only", "record files only")
    sides = [trial_files.read(path, warn) for path in paths]
    baseline, others = sides[0], sides[1:]
    differing = [_unlike_machines(baseline, other) for other in others]
    _refuse_unlike(baseline, others, differing, options)
    found = boots.across_boots(baseline, others)
    session = baseline.sessions[0]
    return Comparison(
        what=f"{' '.join(session.command)}: {session.metric}, {'higher' if session.higher_is_better else 'lower'} is"
        f" better; medians of boots; the same: within {100 * SAME:g} %",
        words=("worse", "better"),
        higher_is_better=session.higher_is_better,
        baseline=_trial_side(baseline, baseline, [], []),
        others=[
            _trial_side(other, baseline, u, _trial_warnings(baseline, other, rows))
            for other, u, rows in zip(others, differing, found, strict=True)
        ],
        rows=[
            _trial_row(across, other.path, session.unit)
            for other, rows in zip(others, found, strict=True)
            for across in rows
        ],
        fail_above=options.fail_above,
        undecided_fails=options.undecided_fails,
    )


def _unlike_machines(before: trial_files.TrialFile, after: trial_files.TrialFile) -> list[Unlike]:
    """Boots differ in kernel and boot parameters on purpose; the machine should be one."""
    answer = []
    for name in ("arch", "cpu_model", "cpus"):
        one, two = (sorted({str(getattr(s, name)) for s in side.sessions}) for side in (before, after))
        if one != two or len(one) > 1:
            answer.append(Unlike(field=name, before=one, after=two))
    return answer


def _trial_side(
    own: trial_files.TrialFile, baseline: trial_files.TrialFile, found: list[Unlike], warnings: list[str]
) -> Side:
    names, expected = ([s.name for s in side.sessions[0].settings] for side in (own, baseline))
    first = own.sessions[0]
    boots_seen = len({s.boot_id or s.session for s in own.sessions})
    return Side(
        file=own.path,
        conditions=[
            f"{first.cpu_model} ({first.arch}), {first.cpus} CPUs, {first.kernel}, {boots_seen}"
            f" boot{'s' if boots_seen > 1 else ''} from {first.started_utc}"
        ],
        missing=[n for n in expected if n not in names],
        added=[n for n in names if n not in expected],
        unlike=found,
        warnings=warnings,
    )


def _trial_warnings(
    before: trial_files.TrialFile, after: trial_files.TrialFile, rows: Sequence[boots.Across]
) -> list[str]:
    said = []
    if before.sessions[0].command != after.sessions[0].command:
        said.append("the two files are of different commands")
    said += [
        f"{a.setting}: failed runs, left out: {a.failed[0]} before, {a.failed[1]} after" for a in rows if any(a.failed)
    ]
    if any(a.unit == "run" for a in rows):
        said.append(
            f"fewer than {boots.FEWEST_BOOTS} boots on a side: a boot's own luck is not in the interval (1 % is"
            " assumed); save several boots for a claim"
        )
    return said


def _trial_row(a: boots.Across, path: str, unit: str) -> Row:
    ratio = a.ratio
    figures = _ends("ratio", ratio.value, ratio.low, ratio.high) | {"difference": a.after - a.before} if ratio else {}
    broken = a.before is not None and a.after is None and a.failed[1] > 0
    if a.different:
        finding = "better" if a.better else "worse"
    else:
        finding = (
            "same"
            if ratio and max(ratio.high, 1 / ratio.low if ratio.low > 0 else ratio.high) <= 1 + SAME
            else "undecided"
        )
    return Row(
        file=path,
        id=a.setting,
        label=a.setting,
        unit=unit,
        before=a.before,
        after=a.after,
        p=a.p,
        finding="error" if broken else "not_comparable" if a.p is None else finding,
        reason="every run fails now" if broken else "" if a.p is not None else "too few runs with figures",
        **figures,
    )
