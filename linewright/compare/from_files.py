# SPDX-License-Identifier: MIT
"""From files to a comparison: record files cell by cell, trial files setting by setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from linewright.analysis import Summary, loading
from linewright.analysis.control import cycles_of_two
from linewright.analysis.questions import QUESTIONS
from linewright.compare import boots
from linewright.compare.changes import compare as compare_cells
from linewright.compare.changes import launches_in_turns
from linewright.compare.compared_files import (
    ComparedFile,
    ComparedFiles,
    CompareOptions,
    LaunchOrder,
)
from linewright.compare.conditions import (
    ConditionDifference,
    Refuse,
    compare_whatever,
    differences,
    simulated,
)
from linewright.errors import UserError, nothing_finished
from linewright.records.files import LONGEST_LINE
from linewright.records.store import Store
from linewright.schema import Context
from linewright.trial import trial_file


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
        raise UserError(
            "one file has nothing to be compared with",
            "compare",
            "linewright compare BASELINE FILE…",
        )
    twice = [path for path in paths[1:] if paths[1:].count(path) > 1]
    if twice:
        raise UserError(f"{twice[0]} is named twice", "compare", "each file once")
    kinds = [_is_trial(path) for path in paths]
    if any(kinds) and not all(kinds):
        raise UserError(
            f"{paths[kinds.index(False)]} holds records and {paths[kinds.index(True)]} a trial",
            "compare",
            "record files with record files, trial files with trial files",
        )
    if kinds[0]:
        return boots.compare([trial_file.read(path, warn) for path in paths], options, refuse)
    with ExitStack() as stack:
        stores = [stack.enter_context(Store([path], warn, options.only)) for path in paths]
        contexts = list(map(_contexts, stores))
        differing = [differences(contexts[0], other) for other in contexts[1:]]
        for path, unlike in zip(paths[1:], differing, strict=True):
            refuse(paths[0], path, unlike)
        files = [
            SummarisedRun(path, own, loading.summarised(store).summaries)
            for path, own, store in zip(paths, contexts, stores, strict=True)
        ]
    return _records(files, differing, options)


def _is_trial(path: str) -> bool:
    """Whether a file's first line says that it is a trial; readers say what is wrong with anything
    unreadable."""
    try:
        with open(path, "rb") as stream:
            return trial_file.is_first_line(stream.readline(LONGEST_LINE))
    except OSError:
        return False


def _records(
    files: Sequence[SummarisedRun],
    differing: Sequence[list[ConditionDifference]],
    options: CompareOptions,
) -> ComparedFiles:
    baseline, *others = files
    for other in others:
        if not {s.id for s in baseline.summaries} & {s.id for s in other.summaries}:
            raise UserError(
                f"no cell in common with {baseline.path}",
                other.path,
                "runs of one plan, or of plans that share cells",
            )
    contexts = [context for side in files for context in side.contexts]
    exact = simulated(contexts)
    tolerance = QUESTIONS["simulations" if exact else "turns"].same
    asked = None if exact else options.fail_above
    same, same_ns = tolerance.share if asked is None else asked, tolerance.ns
    rows = compare_cells(baseline.summaries, [other.summaries for other in others], contexts, same)
    ids = [s.id for s in baseline.summaries]
    return ComparedFiles(
        higher_is_better=False,
        unit="ns",
        same=same,
        same_ns=same_ns,
        cells=[s.cell for s in baseline.summaries],
        baseline=ComparedFile.of(
            baseline.path, ids, ids, contexts=baseline.contexts, missed=_missed(baseline)
        ),
        others=[
            ComparedFile.of(
                other.path,
                [s.id for s in other.summaries],
                ids,
                contexts=other.contexts,
                unlike=unlike,
                order=_order(baseline, other),
                cycle_ns=cycles_of_two(baseline.contexts, other.contexts),
                rows=found,
                missed=_missed(other),
            )
            for other, unlike, found in zip(others, differing, rows, strict=True)
        ],
        fail_above=options.fail_above,
        undecided_fails=options.undecided_fails,
        exact=exact,
    )


def _missed(run: SummarisedRun) -> list[Summary]:
    return [s for s in run.summaries if s.model_error_range]


def _order(baseline: SummarisedRun, other: SummarisedRun) -> LaunchOrder:
    """How the launches of a run lie to the baseline's."""
    both = baseline.contexts, other.contexts
    ids, machines = ([{getattr(c, of) for c in side} for side in both] for of in _SHARED)
    began = [sorted(c.started_utc for c in side) for side in both]
    if ids[0] == ids[1]:
        return "itself"
    if simulated([*baseline.contexts, *other.contexts]):
        drawn = all(any(s.drawn for s in run.summaries) for run in (baseline, other))
        return "draws" if drawn else "model"
    if machines[0] != machines[1]:
        return "machines"
    if launches_in_turns(*both):
        return "turns"
    # Launches of either began while the other's went on.
    mixed = all(began) and began[0][0] < began[1][-1] and began[1][0] < began[0][-1]
    return "mixed" if mixed else "sequence"


_SHARED = ("context_id", "machine_id")


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
        raise UserError(
            f"holds records of {len(machines)} machines or kernels", path, "compare one at a time"
        )
    return contexts
