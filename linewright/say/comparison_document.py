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
    Audience,
    Column,
    Document,
    Sentence,
    TextTable,
    capital,
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
    "other_draws": "a model made both, of machines with different names or with different seeds, "
    "whose draws of the constants have nothing in common: a band of a change holds what is not "
    "known of either, and as far as their cells differ the model's own error",
    "machines": "the two were measured on different machines or kernels: nothing is paired, and a "
    "difference is one of these two machines as they were then",
    "turns": "the launches of both were taken in turns and are compared in pairs",
    "mixed": "the launches of both are mixed in time, but not in turns that each side begins as "
    "often (A B B A …): a drift as inside them is allowed for, and nothing is paired; " + _IN_TURNS,
    "sequence": "the runs were made one after the other: a drift as inside them is allowed for, "
    "but a change of the machine's state between them can pass for a difference; " + _IN_TURNS,
}
"""What is said of how the launches of two runs lie to each other."""


def document(comparison: ComparedFiles, audience: Audience = "everyone") -> Document:
    """The decision, then for each file what was found: for everyone the rows that differ, for those
    who ask for every ``cells`` all with their p values, for a ``page`` these by what was found."""
    page, names = audience == "page", ", ".join(side.file for side in comparison.others)
    conditions = _conditions(comparison.baseline)[: 1 if audience == "everyone" else None]
    check = check_sentences(comparison)
    tone = "bad" if comparison.failed else "doubt" if comparison.undecided else "good"
    rule = _BAND_RULE if comparison.drawn else _EXACT_RULE if comparison.exact else _RULE
    return document_of(
        title=f"{names} against {comparison.baseline.file}" if page else "",
        headline=[*check, *(result(comparison, side) for side in comparison.others)],
        tone=tone if check and not page else "",
        facts=of_run([_what(comparison), *conditions]),
        tables=[t for side in comparison.others for t in _tables(comparison, side, audience)],
        limits=[sentence(rule, basis="rule")] * page,
    )


def _what(comparison: ComparedFiles) -> str:
    """What the figures are, and below which difference two are the same."""
    share = f"{100 * comparison.same:g} %"
    if not comparison.baseline.sessions:
        withheld = " (where it is withheld the issue interval, too)" if comparison.exact else ""
        return (
            "ns per operation, median of the launches: back to back the issue interval, with work "
            f"the exposed cost{withheld}; the same: within {share}, exposed within "
            f"{'' if comparison.exact else f'{share} or '}{comparison.same_ns} ns"
        )
    session = comparison.baseline.sessions[0]
    return (
        f"{' '.join(session.command)}: {session.metric}, "
        f"{'higher' if session.higher_is_better else 'lower'} is better; medians of boots; "
        f"the same: within {share}"
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
    drawn = f"{100 * BAND:.0f} % over draws of the constants" if side.drawn else "exactly"
    without = drawn if comparison.exact else "nothing is claimed"
    surely = f"95 %, corrected for {numbers.count(family, 'comparison')}" if family else without
    text = (
        f"{side.file} against {comparison.baseline.file}: "
        f"{', '.join(found) or 'nothing in common'} ({surely})"
    )
    return _of(comparison, text, rows, sentence_as_written)


def limits(comparison: ComparedFiles, side: ComparedFile) -> Iterator[Sentence]:
    """What the undecided rows of one file could still hide, what was not compared, and how the two
    were taken."""
    open_rows = [row for row in side.rows if outcome(row) == "undecided"]
    few = [row for row in open_rows if row.few_launches]
    known = [row for row in open_rows if row.shown and not row.few_launches]
    spans = [
        numbers.change(min(c.low for c in own), max(c.high for c in own), scale)
        for scale, own in grouped((row.shown for row in known), lambda c: c.scale).items()
    ]
    states = [row for row in open_rows if row.why == "few_states"]
    zero, apart = ([r for r in open_rows if r.why == why] for why in ("no_ratio", "no_figure"))
    some = lambda ids: ", ".join(ids[:2]) + (" …" if len(ids) > 2 else "")
    missing, added = side.missing, side.added
    said: dict[str, Sequence[Comparison | str]] = {
        f"the undecided may differ by {' or '.join(spans)}": known,
        f"{len(zero)} have a launch at 0 ns, of which there is no ratio: nothing is claimed": zero,
        f"{len(apart)} have too few launches in common: nothing is claimed": apart,
        f"{len(few)} have {FEW_LAUNCHES} on a side: nothing is claimed": few,
        f"nothing is claimed of {len(states)} with a second CPU: states of a virtual machine last "
        f"minutes and can pass for a change, and the runs met too few; {_IN_TURNS}": states,
        f"{len(missing)} of the baseline's are missing in {side.file}: {some(missing)}": missing,
        f"{len(added)} are only in {side.file}: {some(added)}": added,
    }
    yield from (_of(comparison, text, rows) for text, rows in said.items() if rows)
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
    said = [(text, own, [s for file in own for s in missed[file]]) for text, own in files.items()]
    if len(said) == 1:
        return [sentence(text, cells=cells) for text, _, cells in said]
    return [sentence_as_written(f"{numbers.join(of)}: {text}.", cells) for text, of, cells in said]


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
    wide = [row for row in side.rows if row.why == "wide" and side.contexts]
    left = [row for row in side.rows if row.why == "model"]
    if wide:
        text = f"undecided with enough launches, {len(wide)}: {more_text(wide)}"
        yield _of(comparison, text, wide)
    if left:
        yield _of(comparison, f"undecided, {len(left)}: {LEFT_OPEN}", left)
    for setting, (before, after) in side.failed.items():
        text = f"{setting}: failed runs, left out: {before} before, {after} after"
        yield _of(comparison, text, [setting])


def _of(
    comparison: ComparedFiles,
    text: str,
    rows: Sequence[Comparison | str],
    saying: Callable[..., Sentence] = sentence,
) -> Sentence:
    """A sentence that rests on rows, which are cells or of trials settings; without any on the
    files."""
    basis = "settings" if comparison.baseline.sessions else "cells"
    cells = [row if isinstance(row, str) else row.second for row in rows]
    return saying(text, cells=cells, basis=basis if rows else "run")


def check_sentences(comparison: ComparedFiles) -> list[Sentence]:
    """Whether the check fails, and what it could not decide; nothing without a limit."""
    if comparison.fail_above is None:
        return []
    percent = f"{100 * comparison.fail_above:g}"
    worse = limit = f"{percent} % worse"
    if any(row.figure == "exposed" for row in comparison.rows):
        limit += f" (of an exposed cost {comparison.same_ns} ns where that is more)"
    failing, unclear = comparison.failing, comparison.undecided
    rest = f"{len(unclear)} {'is' if len(unclear) == 1 else 'are'} not shown to be within it"
    if failing:
        text = f"FAILED: {len(failing)} shown to be more than {worse}, or wrong"
        text += f"; {rest}" if unclear else ""
    elif unclear:
        counted = "failed" if comparison.undecided_fails else "passed"
        text = f"UNDECIDED, counted as {counted}: none is shown to be more than {limit}, but {rest}"
        if not comparison.undecided_fails:
            text += f"; --fail-above {percent}%,undecided counts them as failed"
    else:
        text = f"passed: all that was compared is shown to be no more than {limit}"
    rows = [*failing, *unclear] or comparison.rows
    return [_of(comparison, f"check: {text}", rows, sentence_as_written)]


def for_programs(comparison: ComparedFiles) -> dict[str, Any]:
    """Everything, with the sentences and the decision."""

    def side(of: ComparedFile) -> dict[str, Any]:
        known = {name: getattr(of, name) for name in ("file", "missing", "added", "unlike")}
        warnings = [remark.text for remark in _remarks(comparison, of)]
        return known | {"conditions": _conditions(of), "warnings": warnings}

    others = comparison.others
    sentences = [s for of in others for s in (result(comparison, of), *limits(comparison, of))]
    rows = [({"file": of.file, "id": row.second.id}, row) for of in others for row in of.rows]
    named = lambda chosen: [name for name, row in rows if chosen(row)]
    missing = [{"file": file, "id": name} for file, name in comparison.unmeasured]

    fields = ("higher_is_better", "fail_above", "undecided_fails", "exact")
    return {
        "what": _what(comparison),
        **{name: getattr(comparison, name) for name in fields},
        "rows": rows_for_programs(comparison),
        "baseline": side(comparison.baseline),
        "others": list(map(side, others)),
        "verdict": render_all([*sentences, *check_sentences(comparison)]),
        "failing": named(comparison.fails),
        "undecided": [*named(comparison.unclear), *missing],
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
    "Intervals are of the ratio, and of the difference of exposed costs. What is called the same "
    "has one of 95 %; those of all other rows are corrected by Holm for every row of every file, "
    "as the answer is, so that with enough launches an interval without a ratio of 1, or a "
    "difference of 0, is a row that differs."
)
_BAND_RULE = (
    "Bands are of the ratio, and of the difference of exposed costs, from the 5th to the 95th "
    "percentile; a row is called different where its whole band lies on one side, and not all of "
    "it so near that it is called the same. Rows are not corrected for each other."
)
_EXACT_RULE = "Changes are exact: they have no interval, and no row is corrected for another."


def _tables(
    comparison: ComparedFiles, side: ComparedFile, audience: Audience
) -> Iterator[TextTable]:
    """A table of one file's rows for the audience, with what limits the answer below the first; on
    a page of each kind of finding, those without a difference open when they are asked for."""
    page, every = audience == "page", [kind for kinds in _PARTS.values() for kind in kinds]
    parts = {f"{side.file}: {title}": kinds for title, kinds in _PARTS.items()}
    if not page:
        parts = {side.file: _SHOWN if audience == "everyone" else every}
    limited = [*limits(comparison, side), *([] if page else _not_comparable(comparison, side))]
    notes = [*(of_run(_conditions(side)) if page else []), *limited]
    for number, (title, kinds) in enumerate(parts.items()):
        rows = [row for row in side.rows if outcome(row) in kinds]
        spans = [(c.low, c.value, c.high) if (c := _ratio(row)) else None for row in rows]
        yield table_of(
            title,
            _columns(comparison, audience),
            rows,
            styles=[_STYLES.get(outcome(row), "") for row in rows],
            what="cell",
            notes=[] if number else notes,
            spans=spans if page else [],
            closed=bool(number),
        )


def _not_comparable(comparison: ComparedFiles, side: ComparedFile) -> Iterator[Sentence]:
    """How many rows were left out for each reason, numbers in it aside."""
    obstacles = ((re.sub("[0-9]+", "N", obstacle_text(r)), r) for r in side.rows if r.obstacle)
    kinds = grouped(obstacles, lambda pair: (_CALLED[pair[1].why], pair[0]))
    for (called, reason), pairs in kinds.items():
        text = f"{capital(called)}, {len(pairs)} of them: {reason}."
        yield _of(comparison, text, [row for _, row in pairs], sentence_as_written)


def _columns(comparison: ComparedFiles, audience: Audience) -> list[Column[Comparison]]:
    """What is shown of a row, to those who ask for every one its p value; on a page the difference
    and the reason why it is not compared too."""
    page = audience == "page"

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
        Column(change, lambda row: row.change() or numbers.ABSENT),
    ]
    if page:
        columns.append(Column("difference", lambda row: median(row.difference)))
    if audience != "everyone":
        shown = lambda p: numbers.ABSENT if p is None else f"{p:.2g}"
        columns.append(Column("p", lambda row: shown(row.p)))
    return [*columns, Column("finding", finding, text=True)]


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
    text = f"status {o.what}" + (f" ({o.reason})" if o.reason else "")
    text = text if o.kind == "status" else _OBSTACLES[o.kind].format(in_english(o.what))
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
    "other_plan": "its options do not give the plan now by which it was measured, or it does not "
    "say which that was",
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
