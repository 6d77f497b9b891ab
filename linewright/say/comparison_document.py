# SPDX-License-Identifier: MIT
"""A comparison in words: the decision first, then the rows, then what limits the answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from linewright import numbers
from linewright.analysis.comparison import Comparison
from linewright.analysis.contrast import Contrast
from linewright.analysis.intervals import BAND
from linewright.analysis.summary import grouped
from linewright.compare.compared_files import (
    ComparedFile,
    ComparedFiles,
    ConditionDifference,
    outcome,
)
from linewright.compare.from_files import FEWEST_BOOTS, ONE_BOOT
from linewright.compare.in_turns import NotAgain
from linewright.errors import UserError
from linewright.say.document import (
    Column,
    Document,
    Sentence,
    TextTable,
    document_of,
    render_all,
    sentence,
    sentence_as_written,
    table_of,
)
from linewright.say.machine_lines import EMULATED, describe, errors_text, frequency_text, of_run
from linewright.say.phrases import BETTER, more_text
from linewright.say.words import FEW_LAUNCHES, LEFT_OPEN, WITHHELD, in_english, unique_labels
from linewright.schema import Interval

MOST_NAMED = 3
"""Differing conditions that a refusal names before it counts the rest."""
_STYLES = {"slower": "bad", "cheaper": "good", "wrong": "alarm"}
_CALLED = {"same": "the same", "wrong": "wrong now", "not_comparable": "not comparable"}
_IN_TURNS = "`linewright compare --measure` takes the launches in turns"
_ORDERS = {
    "": "",
    "itself": "both hold the same launches: every cell is compared with itself",
    "model": "a model made both with the same random numbers, so the differences are exact: of "
    "the two described machines as their files have them, not of the model's error",
    "draws": "a model made both; a change is taken within each draw of the constants, which both "
    "sides have alike but for what was edited, and as far as their cells differ with the model's "
    "own error",
    "machines": "the two were measured on different machines or kernels: nothing is paired, and a "
    "difference is one of these two machines as they were then",
    "turns": "the launches of both were taken in turns and are compared in pairs",
    "mixed": "the launches of both are mixed in time, but not in turns that each side begins as "
    "often (A B B A …): a drift as inside them is allowed for, and nothing is paired; " + _IN_TURNS,
    "sequence": "the runs were made one after the other: a drift as inside them is allowed for, "
    "but a change of the machine's state between them can pass for a difference; " + _IN_TURNS,
}
"""What is said of how the launches of two runs lie to each other."""


def document(comparison: ComparedFiles, every: bool) -> Document:
    """The decision, then for each file what was found; p values and all of the machine's conditions
    with `every`."""
    found = [result(comparison, side) for side in comparison.others]
    conditions = _conditions(comparison.baseline)[: None if every else 1]
    check = check_sentences(comparison)
    tone = "bad" if comparison.failed else "doubt" if comparison.undecided else "good"
    return document_of(
        headline=[*check, *found],
        tone=tone if check else "",
        facts=of_run([_what(comparison), *conditions]),
        tables=[_table(comparison, side, every) for side in comparison.others],
    )


def _what(comparison: ComparedFiles) -> str:
    """What the figures are, and below which difference two are the same."""
    if not comparison.baseline.sessions:
        withheld = " (where it is withheld the issue interval, too)" if comparison.exact else ""
        return (
            "ns per operation, median of the launches: back to back the issue interval, with work "
            f"the exposed cost{withheld}; the same: within {100 * comparison.same:g} %, exposed "
            f"within {comparison.same_ns} ns"
        )
    session = comparison.baseline.sessions[0]
    return (
        f"{' '.join(session.command)}: {session.metric}, "
        f"{'higher' if session.higher_is_better else 'lower'} is better; medians of boots; "
        f"the same: within {100 * comparison.same:g} %"
    )


def _conditions(side: ComparedFile) -> list[str]:
    """What a file was measured on."""
    if not side.sessions:
        return render_all(describe(side.contexts))
    first = side.sessions[0]
    boots = numbers.count(len({s.boot_id or s.session for s in side.sessions}), "boot")
    return [
        f"{first.cpu_model}, {numbers.count(first.cpus, 'CPU')}, {first.arch.replace('_', '-')}, "
        f"{first.kernel}, {boots} from {first.started_utc}"
    ]


def _called(comparison: ComparedFiles, found: str) -> str:
    """What people read for an outcome."""
    names = _CALLED | BETTER if comparison.baseline.sessions else _CALLED
    return names.get(found, found)


def result(comparison: ComparedFiles, side: ComparedFile) -> Sentence:
    """How many rows of one file have each outcome."""
    rows = side.rows
    seen = Counter(map(outcome, rows))
    order = ("wrong", "slower", "cheaper", "same", "undecided", "not_comparable")
    found = [f"{seen[name]} {_called(comparison, name)}" for name in order if seen[name]]
    family = sum(row.p is not None for row in comparison.rows)
    drawn = f"{100 * BAND:.0f} % over draws of the constants" if comparison.drawn else "exactly"
    without = drawn if comparison.exact else "nothing is claimed"
    surely = f"95 %, corrected for {numbers.count(family, 'comparison')}" if family else without
    text = (
        f"{side.file} against {comparison.baseline.file}: "
        f"{', '.join(found) or 'nothing in common'} ({surely})"
    )
    return _of(comparison, sentence_as_written, text, rows)


def limits(comparison: ComparedFiles, side: ComparedFile) -> Iterator[Sentence]:
    """What the undecided rows of one file could still hide, what was not compared, and how the two
    were taken."""
    open_rows = [row for row in side.rows if outcome(row) == "undecided"]
    few = [row for row in open_rows if row.few_launches]
    ratios = [row for row in open_rows if _ratio(row) and not row.few_launches]
    if ratios:
        low, high = min(_ratio(row).low for row in ratios), max(_ratio(row).high for row in ratios)
        span = numbers.change(low, high, "ratio")
        text = f"the undecided may differ by {span}"
        yield _of(comparison, sentence, text, ratios)
    if few:
        text = f"{len(few)} have {FEW_LAUNCHES} on a side: nothing is claimed"
        yield _of(comparison, sentence, text, few)
    if unlike_states := [row for row in open_rows if row.why == "few_states"]:
        met = "meets" if len(unlike_states) == 1 else "meet"
        text = (
            f"{len(unlike_states)} with a second CPU {met} a virtual machine in too few states, "
            f"which last minutes and can pass for a change: nothing is claimed; {_IN_TURNS}"
        )
        yield _of(comparison, sentence, text, unlike_states)
    for ids, where in (
        (side.missing, f"of the baseline's are missing in {side.file}"),
        (side.added, f"are only in {side.file}"),
    ):
        if ids:
            some = ", ".join(ids[:2]) + (" …" if len(ids) > 2 else "")
            basis = "settings" if comparison.baseline.sessions else "cells"
            yield sentence(f"{len(ids)} {where}: {some}", cells=ids, basis=basis)
    if side.unlike:
        unlike = "; ".join(map(_unlike, side.unlike))
        yield sentence(f"unlike, as you allowed: {unlike}", basis="run")
    yield from _model_errors(comparison, side)
    yield from _remarks(comparison, side)


def _model_errors(comparison: ComparedFiles, side: ComparedFile) -> list[Sentence]:
    """How far a model was off cells like those compared, of each side that it made."""
    compared = {row.second.id for row in side.rows if row.why != "not_comparable"}
    missed = {
        of.file: [s for s in of.missed if s.id in compared] for of in (comparison.baseline, side)
    }
    files = grouped(filter(missed.get, missed), lambda file: errors_text(missed[file]))
    cells = {text: [s.id for file in own for s in missed[file]] for text, own in files.items()}
    if len(files) == 1:
        return [sentence(text, cells=cells[text]) for text in files]
    return [
        sentence_as_written(f"{numbers.join(own)}: {text}.", cells=cells[text])
        for text, own in files.items()
    ]


def _remarks(comparison: ComparedFiles, side: ComparedFile) -> Iterator[Sentence]:
    """How a file and the baseline were taken, and what would decide what is undecided."""
    order = _ORDERS[side.order]
    if side.order == "sequence":  # of several files once
        order *= next(other for other in comparison.others if other.order == "sequence") is side
    commands = [[s.command for s in of.sessions[:1]] for of in (side, comparison.baseline)]
    of_run = {
        order: bool(order),
        frequency_text(*side.cycle_ns, ("before", "after")) if side.cycle_ns else "": side.cycle_ns,
        "the two files are of different commands": commands[0] != commands[1],
        f"fewer than {FEWEST_BOOTS} boots on a side: a boot's own luck is not in the interval "
        f"({100 * ONE_BOOT:.0f} % is assumed); save several boots for a claim": side.few_boots,
    }
    yield from (sentence(text, basis="run") for text, holds in of_run.items() if holds)
    if wide := [row for row in side.rows if row.why == "wide" and side.contexts]:
        more = more_text(wide)
        text = f"undecided with enough launches, {len(wide)}: {more}"
        yield _of(comparison, sentence, text, wide)
    if left := [row for row in side.rows if row.why == "model"]:
        yield _of(comparison, sentence, f"undecided, {len(left)}: {LEFT_OPEN}", left)
    for setting, (before, after) in side.failed.items():
        text = f"{setting}: failed runs, left out: {before} before, {after} after"
        yield sentence(text, cells=[setting], basis="settings")


def _of(
    comparison: ComparedFiles,
    saying: Callable[..., Sentence],
    text: str,
    rows: Sequence[Comparison],
) -> Sentence:
    """A sentence that rests on rows, which are cells or of trials settings; without any on the
    files."""
    basis = "settings" if comparison.baseline.sessions else "cells"
    return saying(text, cells=[row.second.id for row in rows], basis=basis if rows else "run")


def check_sentences(comparison: ComparedFiles) -> list[Sentence]:
    """Whether the check fails, and what it could not decide; nothing without a limit."""
    if comparison.fail_above is None:
        return []
    percent = f"{100 * comparison.fail_above:g}"
    failing, unclear = comparison.failing, comparison.undecided
    rest = f"{len(unclear)} {'is' if len(unclear) == 1 else 'are'} not shown to be within it"
    if failing:
        text = f"FAILED: {len(failing)} shown to be more than {percent} % worse, or wrong"
        text += f"; {rest}" if unclear else ""
    elif unclear:
        counted = "failed" if comparison.undecided_fails else "passed"
        text = f"UNDECIDED, counted as {counted}: none is shown to be more than {percent} % worse, "
        text += f"but {rest}"
        if not comparison.undecided_fails:
            text += f"; --fail-above {percent}%,undecided counts them as failed"
    else:
        text = f"passed: all that was compared is shown to be no more than {percent} % worse"
    rows = [*failing, *unclear] or comparison.rows
    return [_of(comparison, sentence_as_written, f"check: {text}", rows)]


def for_programs(comparison: ComparedFiles) -> dict[str, Any]:
    """Everything, with the sentences and the decision."""

    def side(of: ComparedFile) -> dict[str, Any]:
        known = {name: getattr(of, name) for name in ("file", "missing", "added", "unlike")}
        warnings = [remark.text for remark in _remarks(comparison, of)]
        return known | {"conditions": _conditions(of), "warnings": warnings}

    sentences = [
        line
        for other in comparison.others
        for line in (result(comparison, other), *limits(comparison, other))
    ]

    def named(chosen: Callable[[Comparison], bool]) -> list[dict[str, str]]:
        return [
            {"file": side.file, "id": row.second.id}
            for side in comparison.others
            for row in side.rows
            if chosen(row)
        ]

    fields = ("higher_is_better", "fail_above", "undecided_fails", "exact")
    return {
        "what": _what(comparison),
        **{name: getattr(comparison, name) for name in fields},
        "rows": rows_for_programs(comparison),
        "baseline": side(comparison.baseline),
        "others": list(map(side, comparison.others)),
        "verdict": render_all([*sentences, *check_sentences(comparison)]),
        "failing": named(comparison.fails),
        "undecided": named(comparison.unclear),
    }


_SHOWN = ("slower", "cheaper", "wrong")
"""Outcomes that are shown row by row."""
_PARTS = {
    "What differs, the largest first": _SHOWN,
    "Undecided: the interval says what remains possible": ("undecided",),
    "Shown to be the same, within the interval": ("same",),
    "Not comparable, and why": ("not_comparable",),
}
_RULE = (
    "Intervals are of the ratio. What is called the same has one of 95 %; those of all other rows "
    "are corrected by Holm for every row of every file, as the answer is, so that an interval "
    "without 1 is a row that differs."
)

_BAND_RULE = (
    "Bands are of the ratio, from the 5th to the 95th percentile; a row is called different where "
    "its band holds no ratio of 1, and rows are not corrected for each other."
)


def page_document(comparison: ComparedFiles) -> Document:
    """The same for a page: every row, what differs first, and the conditions of both sides."""
    names = ", ".join(side.file for side in comparison.others)
    return document_of(
        title=f"{names} against {comparison.baseline.file}",
        headline=[
            *check_sentences(comparison),
            *(result(comparison, side) for side in comparison.others),
        ],
        facts=of_run([_what(comparison), *_conditions(comparison.baseline)]),
        tables=[table for side in comparison.others for table in _page_tables(comparison, side)],
        limits=[sentence(_BAND_RULE if comparison.drawn else _RULE, basis="rule")],
    )


def _page_tables(comparison: ComparedFiles, side: ComparedFile) -> list[TextTable]:
    """A table of each kind of finding; those without a difference open when they are asked for."""
    tables = []
    for title, kinds in _PARTS.items():
        rows = [row for row in side.rows if outcome(row) in kinds]
        spans = [(c.low, c.value, c.high) if (c := _ratio(row)) else None for row in rows]
        notes = [] if tables else [*of_run(_conditions(side)), *limits(comparison, side)]
        columns = _columns(comparison, p=True, page=True)
        more = dict(spans=spans, notes=notes, closed=bool(tables))
        tables.append(_table_of(f"{side.file}: {title}", columns, rows, **more))
    return tables


def _columns(comparison: ComparedFiles, p: bool, page: bool = False) -> list[Column[Comparison]]:
    """What is shown of a row, its p value with `p`; on a page the difference and the reason why it
    is not compared too."""

    def finding(row: Comparison) -> str:
        called, why = _called(comparison, outcome(row)), page and obstacle_text(row)
        called = called.upper() if row.why == "wrong" else called
        return f"{called}: {why}" if why else called

    def median(found: Interval | None) -> str:
        return numbers.quantity(found and found.median_ns, comparison.unit)

    change = f"change, {100 * BAND:.0f} %" if comparison.drawn else "change"
    columns: list[Column[Comparison]] = [
        Column("what", label_of(comparison), text=True, folds=True),
        Column("before", lambda row: median(row.second.ns)),
        Column("after", lambda row: median(row.first.ns)),
        Column(change, change_text),
    ]
    if page:
        columns.append(Column("difference", lambda row: median(row.difference)))
    if p:
        shown = lambda p: numbers.ABSENT if p is None else f"{p:.2g}"
        columns.append(Column("p", lambda row: shown(row.p)))
    return [*columns, Column("finding", finding, text=True)]


def _table_of(
    title: str, columns: list[Column[Comparison]], rows: Sequence[Comparison], **more: Any
) -> TextTable:
    styles = [_STYLES.get(outcome(row), "") for row in rows]
    return table_of(title, columns, rows, styles=styles, what="cell", **more)


def label_of(comparison: ComparedFiles) -> Callable[[Comparison], str]:
    """What says a row's cell or setting in a few words."""
    names = unique_labels(comparison.cells)

    def label(row: Comparison) -> str:
        name = names.get(row.second.id, row.second.id)
        return f"{name}, exposed" if row.figure == "exposed" else name

    return label


def _ratio(row: Comparison) -> Contrast | None:
    """After over before; None of exposed costs, which are compared by their difference."""
    c = row.shown
    return c if c and c.scale == "ratio" else None


def rows_for_programs(comparison: ComparedFiles) -> list[dict[str, Any]]:
    """Each row's figures, with the reason why it is not compared in words."""
    label = label_of(comparison)
    return [
        {
            "file": side.file,
            "id": row.second.id,
            "label": label(row),
            "unit": comparison.unit,
            **_ends("before", row.second.ns, row),
            **_ends("after", row.first.ns, row),
            **{f"ratio{end}": getattr(_ratio(row), name, None) for end, name in _ENDS.items()},
            **_ends("difference", row.difference, row),
            "p": row.p,
            "answer": row.answer,
            "why": row.why,
            "reason": obstacle_text(row),
        }
        for side in comparison.others
        for row in side.rows
    ]


_ENDS = {"": "value", "_low": "low", "_high": "high"}


def _ends(name: str, found: Interval | None, row: Comparison) -> dict[str, float | None]:
    """A figure's fields; of a trial's medians without the ends of an interval."""
    known = (None,) * 3 if found is None else (found.median_ns, found.low_ns, found.high_ns)
    shown = known if row.figure != "metric" else (known[0], None, None)
    return {f"{name}{end}": value for end, value in zip(_ENDS, shown, strict=True)}


_OBSTACLES = {
    "emulated": EMULATED,
    "published": "no windows, only percentiles",
    "withheld": f"{WITHHELD} ({{}})",
    "no_baseline_loop": "no baseline loop to take off",
    "few_runs": "too few runs with figures",
    "runs_fail": "every run fails now",
}


def obstacle_text(row: Comparison) -> str:
    """Why a row is not compared; empty for one that is."""
    o = row.obstacle
    if o is None:
        return ""
    if o.kind == "status":
        text = f"status {o.what}" + (f" ({o.reason})" if o.reason else "")
    else:
        text = _OBSTACLES[o.kind].format(in_english(o.what))
    return f"{o.side}: {text}" if o.side else text


def _unlike(difference: ConditionDifference) -> str:
    """``governor powersave before, performance after``."""
    sides = (
        " and ".join(value or "none" for value in values[:3]) + " …" * (len(values) > 3)
        for values in (difference.before, difference.after)
    )
    return "{} {} before, {} after".format(difference.field, *sides)


_NOT_AGAIN = {
    "elsewhere": "{} is not this machine",
    "other_machine": "it is of another machine or kernel ({})",
    "no_command": "it does not say by which one command it was measured",
    "other_probe": "it was measured with another build of the probe (`linewright compare "
    "--measure` takes two builds in turns, each named by LINEWRIGHT_PROBE)",
    "same_command": "it was measured by this very command and probe, so that only the machine can "
    "have changed",
    "options": "its options are not taken now ({})",
}


def not_again_text(file: str, why: NotAgain) -> str:
    """Why an earlier file is compared as it is."""
    reason = _NOT_AGAIN[why.kind].format(why.what)
    return f"{file} cannot be measured again: {reason}; the two are compared as of two times"


def refuse_unlike(baseline: str, other: str, unlike: Sequence[ConditionDifference]) -> None:
    """UserError where the conditions of a file differ from those of the baseline."""
    if unlike:
        more = len(unlike) - MOST_NAMED
        named = "; ".join(map(_unlike, unlike[:MOST_NAMED]))
        raise UserError(
            f"{baseline} and {other} are not alike: {named}"
            + (f"; and {more} more" if more > 0 else ""),
            "compare",
            "--unlike compares them nevertheless",
        )


def check_comparable(comparison: ComparedFiles) -> None:
    """UserError where no row could be compared."""
    first = comparison.rows[0]
    if all(row.why == "not_comparable" for row in comparison.rows):
        raise UserError(
            f"nothing could be compared: {label_of(comparison)(first)}: {obstacle_text(first)}",
            comparison.others[0].file,
            "both sides with figures of the same cells",
        )


def change_text(row: Comparison) -> str:
    """``+2.0 to +8.3 %``, or in ns of exposed costs, which are compared by their difference.

    The interval alone: it is computed from the launches, and it need not be centred on the
    difference of the medians."""
    return row.change() or numbers.ABSENT


def _table(comparison: ComparedFiles, side: ComparedFile, every: bool) -> TextTable:
    """The rows that differ or have become wrong, and with `every` all, with their p values; below
    them what limits the answer of this file."""
    own = side.rows
    rows = [row for row in own if every or outcome(row) in _SHOWN]
    # How many rows were left out for each reason, numbers in it aside.
    reasons = grouped(
        (row for row in own if row.obstacle),
        lambda row: re.sub("[0-9]+", "N", obstacle_text(row)),
    )
    notes = [
        *limits(comparison, side),
        *(
            _of(
                comparison,
                sentence_as_written,
                f"Not comparable, {len(own)} of them: {reason}.",
                own,
            )
            for reason, own in reasons.items()
        ),
    ]
    return _table_of(side.file, _columns(comparison, p=every), rows, notes=notes)
