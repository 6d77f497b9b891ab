"""Operation against operation: comparisons that no form-by-form finding makes, corrected together as one question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from linewright.analysis.contrast import Contrast, Judged, no_surer, paired
from linewright.analysis.control import condition_of, floors
from linewright.analysis.findings import asked, comparable, floor_at, tolerance
from linewright.analysis.summary import Summary, grouped
from linewright.families import FLOORS, default_of
from linewright.schema import Cell

QUESTION_PAIRS: tuple[tuple[str, str], ...] = (
    ("fetch_add", "cmpxchg"),
    ("fetch_add", "add"),
    ("xchg", "cmpxchg"),
)
"""Operations whose default forms are compared where both were measured under one condition."""
COUNTER = "percpu_rseq_add"
"""The counter that needs no lock. It is compared with an atomic add to one word, as the price list does, or where none
was measured with `SHARED`, which a program without this library would write."""
SHARED = "percpu_shared_c11_add"
PADDED = ("percpu_padded_add", "percpu_false_sharing_add")
"""Each thread's own word: on a line of its own, and on one line with the others."""
READERS = ("srcu_fast", "rwlock")
"""A reader that writes to no shared word, and one that does."""


class Across(Struct, frozen=True, kw_only=True):
    """One cell over another of a different operation, under one condition."""

    contended: bool
    ids: tuple[str, str]
    first: Cell
    second: Cell
    first_ns: tuple[float, ...]
    second_ns: tuple[float, ...]
    """The median, or where launches fall into separate groups the median of each."""
    judged: Judged


def _figures(s: Summary) -> tuple[float, ...]:
    return tuple(mode.median_ns for mode in s.modes) if s.metastable else (s.issue.median_ns,)


def back_to_back(cell: Cell) -> bool:
    """Whether a cell has no work, alone or with the nearest contender."""
    plain = cell.params.get("slots", 1) == 1 and not cell.params.get("read_delay", 0)
    return cell.work_iters == 0 and cell.contender in ("none", "same_line") and plain and "updater" not in cell.params


def situation(cell: Cell) -> tuple:
    """What two cells of different operations share to be compared: all but operation, form, order, width and lines."""
    return cell.contender, cell.contender_iters, cell.placement, cell.threads


def across(summaries: Iterable[Summary]) -> list[Across]:
    """Every such comparison of one machine, back to back."""
    members = list(summaries)
    noise = floors(members, next((s.arch for s in members), ""))
    usable = [s for s in members if s.status == "ok" and s.issue and not s.emulated and back_to_back(s.cell)]
    situations = grouped(usable, lambda s: situation(s.cell))
    pairs = [pair for own in situations.values() for pair in _pairs(own)]
    answers = asked(pairs, "across", tolerance, lambda s: floor_at(s.cell, noise, exposed=False))
    return [
        Across(
            contended=first.cell.contender == "same_line", ids=(first.id, second.id), first=first.cell,
            second=second.cell,
            first_ns=_figures(first), second_ns=_figures(second), judged=judged,
        )
        for (first, second), judged in zip(pairs, answers, strict=True)
    ]  # fmt: skip


def defaults(members: Sequence[Summary]) -> dict[str, Summary]:
    """Each operation's default form among cells of one situation and width."""
    forms: dict[str, dict[str, Summary]] = {}
    for s in members:
        if comparable(s):
            forms.setdefault(s.cell.operation, {}).setdefault(s.cell.form, s)
    if "fetch_add" in forms:  # on arm64 the default add returns a value
        forms["add"] = forms.get("add", {}) | forms["fetch_add"]
    return {operation: own[default_of(operation, own)] for operation, own in forms.items()}


def over_one_atomic(
    priced: Iterable[tuple[Summary, Summary]], known: Iterable[Across]
) -> dict[tuple[str, str], Contrast | None]:
    """Each price over that of the atomic add beside it, by both ids; nothing is claimed of it but its interval.

    A pair that `across` compares has that comparison's interval, so that no figure stands twice in two values, and no
    interval is narrower than the usual spread of its condition allows: five launches that all fell into one of a
    cell's two states agree to the last digit.
    """
    pairs = list(priced)
    found = no_surer(
        [paired(own.by_launch, base.by_launch, places=own.place_by_launch) for own, base in pairs],
        [condition_of(own.cell) for own, _ in pairs],
    )
    contrasts = {(own.id, base.id): c for (own, base), c in zip(pairs, found, strict=True)}
    return contrasts | {a.ids: a.judged.contrast for a in known if a.ids in contrasts}


def _pairs(members: Sequence[Summary]) -> list[tuple[Summary, Summary]]:
    chosen = defaults(members)
    pairs = [
        (chosen[a], chosen[b]) for a, b in QUESTION_PAIRS if a in chosen and b in chosen and chosen[a] is not chosen[b]
    ]
    forms = {s.cell.form: s for s in members}
    shared = chosen.get("add", forms.get(SHARED))
    pairs += [(forms[COUNTER], shared)] if COUNTER in forms and shared else []
    pairs += [(forms[a], forms[b]) for a, b in (PADDED, READERS) if a in forms and b in forms]
    for s in members:
        bare = s.cell.form.split("_", 1)[-1]
        if s.cell.form.startswith("prefetchw_") and bare.endswith("guess_first") and bare in forms:
            pairs.append((s, forms[bare]))
    return [(a, b) for a, b in pairs if not {a.cell.form, b.cell.form} & FLOORS]
