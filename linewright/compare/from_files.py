# SPDX-License-Identifier: MIT
"""From files to a comparison: record files cell by cell; trial files setting by setting, the same
program on two boots, kernels or machines, which no round can interleave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple

import numpy as np

from linewright.analysis import Summary, loading
from linewright.analysis.comparison import (
    Comparison,
    Obstacle,
    Side,
    compared,
    exactly,
    holm,
    left_open,
)
from linewright.analysis.contrast import Contrast, welch_t
from linewright.analysis.control import cycles_of_two
from linewright.analysis.intervals import median
from linewright.analysis.questions import QUESTIONS
from linewright.compare.changes import compare as compare_cells
from linewright.compare.changes import launches_in_turns
from linewright.compare.compared_files import (
    ComparedFile,
    ComparedFiles,
    CompareOptions,
    ConditionDifference,
    LaunchOrder,
    Refuse,
    compare_whatever,
    differences,
    differing,
    simulated,
)
from linewright.errors import UserError, nothing_finished
from linewright.plans.request import options_of_run
from linewright.records.files import DECODE_ERRORS, LONGEST_LINE, kind_of
from linewright.records.store import Store
from linewright.schema import Context
from linewright.trial import trial_file
from linewright.trial.trial_file import Session, TrialFile, check_same

ONE_BOOT = 0.01
"""Relative standard deviation between boots that is assumed where there are too few to show their
own."""
FEWEST_BOOTS = 3
"""Sessions on each side from which their medians are what is compared; with fewer, a boot's own
luck cannot show."""


def compare_boots(
    files: Sequence[TrialFile], options: CompareOptions, refuse: Refuse = compare_whatever
) -> ComparedFiles:
    """Every setting that the baseline and a file have, for each file, corrected over all settings
    of all files."""
    if options.only:
        raise UserError("a trial has settings and no cells", "--only", "record files only")
    baseline, *others = files
    # Boots differ in kernel and boot parameters on purpose; the machine should be one.
    machine = ("arch", "cpu_model", "cpus")
    apart = [differing(machine, baseline.sessions, other.sessions) for other in others]
    for other, unlike in zip(others, apart, strict=True):
        refuse(baseline.path, other.path, unlike)
    found = [_pairs(baseline, other) for other in others]
    ps = holm(pair.contrast for side in found for pair in side)
    left, own = left_open(ps, QUESTIONS["boots"].alpha), iter(ps)
    session = baseline.sessions[0]
    names = [s.name for s in session.settings]

    def side(file: TrialFile, **more: Any) -> ComparedFile:
        own = [s.name for s in file.sessions[0].settings]
        return ComparedFile.of(file.path, own, names, sessions=file.sessions, **more)

    return ComparedFiles(
        higher_is_better=session.higher_is_better,
        unit=session.unit,
        same=QUESTIONS["boots"].same.share,
        baseline=side(baseline),
        others=[
            side(
                other,
                unlike=unlike,
                few_boots=any(pair.contrast and not pair.by_boot for pair in pairs),
                failed={pair.setting: pair.failed for pair in pairs if any(pair.failed)},
                rows=[_row(pair, session, next(own), left) for pair in pairs],
            )
            for other, unlike, pairs in zip(others, apart, found, strict=True)
        ],
        fail_above=options.fail_above,
        undecided_fails=options.undecided_fails,
    )


class _SettingInBoth(NamedTuple):
    """One setting in both files."""

    setting: str
    by_boot: bool
    """Whether the medians of boots are what is independent, or, of few boots, single runs."""
    before: float | None
    after: float | None
    failed: tuple[int, int]
    lacking: Literal["before", "after", ""]
    """The side that has too few figures to be compared."""
    contrast: Contrast | None


def _pairs(before: TrialFile, after: TrialFile) -> list[_SettingInBoth]:
    for file in (before, after):
        for session in file.sessions[1:]:
            check_same(file.sessions[0], session, file.path)
    one, two = before.sessions[0], after.sessions[0]
    if (one.metric, one.higher_is_better) != (two.metric, two.higher_is_better):
        what = f"metric {one.metric!r} in {before.path}, {two.metric!r} in {after.path}"
        raise UserError(what, "compare", "trials of one metric and direction")
    names = [s.name for s in one.settings if s.name in {t.name for t in two.settings}]
    if not names:
        what = f"{before.path} and {after.path} have no setting in common"
        raise UserError(what, "compare", "trials of the same settings")
    return [_pair(before, after, name) for name in names]


def _pair(before: TrialFile, after: TrialFile, setting: str) -> _SettingInBoth:
    sides = [_values(file, setting) for file in (before, after)]
    medians = [[median(np.array(boot)) for boot in side] for side in sides]
    by_boot = min(map(len, sides)) >= FEWEST_BOOTS
    a, b = medians if by_boot else ([x for boot in side for x in boot] for side in sides)
    middles = (median(np.array(side)) if side else None for side in medians)
    failed = tuple(
        sum(s.setting == setting and not s.warm_up and s.value is None for s in file.samples)
        for file in (before, after)
    )
    contrast = welch_t(b, a, common=0.0 if by_boot else ONE_BOOT)
    lacking = "after" if len(b) < 2 else "before" if len(a) < 2 else ""
    return _SettingInBoth(setting, by_boot, *middles, failed, lacking, contrast)


def _values(file: TrialFile, setting: str) -> list[list[float]]:
    """Values of each boot that has any; several sessions of one boot count as that boot."""
    answer: dict[str, list[float]] = {}
    boots = {s.session: s.boot_id or s.session for s in file.sessions}
    for s in file.samples:
        if s.setting == setting and not s.warm_up and s.value is not None:
            answer.setdefault(boots[s.session], []).append(s.value)
    return list(answer.values())


def _row(pair: _SettingInBoth, session: Session, p: float | None, left: int) -> Comparison:
    c, a, b = pair.contrast, pair.before, pair.after
    why, obstacle = "", None
    if c is None:
        fails = a is not None and b is None and pair.failed[1]
        why = "wrong" if fails else "not_comparable"
        obstacle = Obstacle("runs_fail") if fails else Obstacle("few_runs", pair.lacking)
    better = {"higher_is_better": session.higher_is_better}
    judgement = QUESTIONS["boots"].judge(c, p, why=why, left=left, **better)
    sides = (Side(id=pair.setting, form=pair.setting, ns=exactly(value)) for value in (b, a))
    return compared(judgement, "boots", *sides, "metric", obstacle)


class SummarisedRun(NamedTuple):
    """One record file, summarised."""

    path: str
    contexts: list[Context]
    summaries: list[Summary]


def compare(
    paths: Sequence[str],
    options: CompareOptions,
    warn: Callable[[str], None],
    refuse: Refuse = compare_whatever,
) -> ComparedFiles:
    """The first file as the baseline of all others; UserError where they cannot be compared, and of
    `refuse` before any figure is computed."""
    if len(paths) < 2:
        what = "one file has nothing to be compared with"
        raise UserError(what, "compare", "linewright compare BASELINE FILE…")
    twice = [path for path in paths[1:] if paths[1:].count(path) > 1]
    if twice:
        raise UserError(f"{twice[0]} is named twice", "compare", "each file once")
    kinds = [_is_trial(path) for path in paths]
    if any(kinds) and not all(kinds):
        records, trial = (paths[kinds.index(kind)] for kind in (False, True))
        allowed = "record files with record files, trial files with trial files"
        raise UserError(f"{records} holds records and {trial} a trial", "compare", allowed)
    if kinds[0]:
        return compare_boots([trial_file.read(path, warn) for path in paths], options, refuse)
    with ExitStack() as stack:
        stores = [stack.enter_context(Store([path], warn, options.only)) for path in paths]
        contexts = list(map(_contexts, stores))
        apart = [differences(contexts[0], other) for other in contexts[1:]]
        for path, unlike in zip(paths[1:], apart, strict=True):
            refuse(paths[0], path, unlike)
        files = [
            SummarisedRun(path, own, loading.summarised(store).summaries)
            for path, own, store in zip(paths, contexts, stores, strict=True)
        ]
    return _records(files, apart, options)


def _is_trial(path: str) -> bool:
    """Whether a file's first line says that it is a trial, of whatever version; readers say what is
    wrong with anything unreadable."""
    try:
        with open(path, "rb") as stream:
            return kind_of(stream.readline(LONGEST_LINE))[0] == "trial"
    except (OSError, *DECODE_ERRORS):
        return False


def _records(
    files: Sequence[SummarisedRun],
    apart: Sequence[list[ConditionDifference]],
    options: CompareOptions,
) -> ComparedFiles:
    baseline, *others = files
    for other in others:
        if not {s.id for s in baseline.summaries} & {s.id for s in other.summaries}:
            allowed = "runs of one plan, or of plans that share cells"
            raise UserError(f"no cell in common with {baseline.path}", other.path, allowed)
    contexts = [context for side in files for context in side.contexts]
    exact = simulated(contexts)
    tolerance = QUESTIONS["simulations" if exact else "turns"].same
    asked = None if exact else options.fail_above
    same = tolerance.share if asked is None else asked
    rows = compare_cells(baseline.summaries, [other.summaries for other in others], contexts, same)
    ids = [s.id for s in baseline.summaries]

    def side(run: SummarisedRun, **more: Any) -> ComparedFile:
        own, missed = (
            [s.id for s in run.summaries],
            [s for s in run.summaries if s.model_error_range],
        )
        return ComparedFile.of(run.path, own, ids, contexts=run.contexts, missed=missed, **more)

    return ComparedFiles(
        higher_is_better=False,
        unit="ns",
        same=same,
        same_ns=tolerance.ns,
        exact=exact,
        cells=[s.cell for s in baseline.summaries],
        baseline=side(baseline),
        others=[
            side(
                other,
                unlike=unlike,
                order=_order(baseline, other),
                rows=found,
                cycle_ns=cycles_of_two(baseline.contexts, other.contexts),
            )
            for other, unlike, found in zip(others, apart, rows, strict=True)
        ],
        fail_above=options.fail_above,
        undecided_fails=options.undecided_fails,
    )


def _order(baseline: SummarisedRun, other: SummarisedRun) -> LaunchOrder:
    """How the launches of a run lie to the baseline's."""
    both = baseline.contexts, other.contexts
    ids, machines = (
        [{getattr(c, of) for c in side} for side in both] for of in ("context_id", "machine_id")
    )
    began = [sorted(c.started_utc for c in side) for side in both]
    if ids[0] == ids[1]:
        return "itself"
    if simulated([*baseline.contexts, *other.contexts]):
        if not all(any(s.drawn for s in run.summaries) for run in (baseline, other)):
            return "model"
        # Name and seed begin a machine's draws, and an edited copy has the same.
        begun = [{(c.cpu_model, *_seeds(c)) for c in side} for side in both]
        return "draws" if begun[0] == begun[1] else "other_draws"
    if machines[0] != machines[1]:
        return "machines"
    if launches_in_turns(*both):
        return "turns"
    # Launches of either began while the other's went on.
    mixed = all(began) and began[0][0] < began[1][-1] and began[1][0] < began[0][-1]
    return "mixed" if mixed else "sequence"


def _seeds(context: Context) -> list[str]:
    """The seed that a run was given."""
    return [value for _, value in options_of_run(context.command) if value.startswith("seed=")]


def _contexts(store: Store) -> list[Context]:
    """The launches of one file, whose records are indexed then; UserError unless it has records,
    of one machine."""
    store.read()
    (path,) = store.paths
    if not len(store):
        raise nothing_finished(path, "compare")
    contexts = list(store.contexts.values())
    machines = {context.machine_id for context in contexts}
    if len(machines) > 1:
        what = f"holds records of {len(machines)} machines or kernels"
        raise UserError(what, path, "compare one at a time")
    return contexts
