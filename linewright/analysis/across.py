"""Operation against operation: comparisons that no form-by-form finding makes, corrected together
as one question."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from linewright.analysis import bytes_apart, cache_fit
from linewright.analysis.cache_fit import Fit
from linewright.analysis.contrast import Contrast
from linewright.analysis.control import contrast_of, identical_contrasts, noise_group_of
from linewright.analysis.findings import comparable, compare_pairs, tolerance
from linewright.analysis.hypothesis_tests import Judgement
from linewright.analysis.summary import Summary, grouped
from linewright.analysis.variance_components import pool_components
from linewright.families import FLOORS, default_of
from linewright.forms import made_of
from linewright.schema import Cell

QUESTION_PAIRS: tuple[tuple[str, str], ...] = (
    ("fetch_add", "cmpxchg"),
    ("fetch_add", "add"),
    ("xchg", "cmpxchg"),
)
"""Operations whose default forms are compared where both were measured in one situation."""
COUNTER = "percpu_rseq_add"
"""The counter that needs no lock. It is compared with an atomic add to one word, as the price list
does, or where none was measured with `SHARED`, which a program without this library would write."""
SHARED = "percpu_shared_c11_add"
PADDED = ("percpu_padded_add", "percpu_false_sharing_add")
"""Each thread's own word: on a line of its own, and on one line with the others."""
READERS = ("srcu_fast", "rwlock")
"""A reader that writes to no shared word, and one that does."""


class OperationPair(Struct, frozen=True):
    """One cell over another of a different operation, in one situation."""

    first: Cell
    second: Cell
    first_ns: tuple[float, ...]
    second_ns: tuple[float, ...]
    """The median, or where launches fall into separate modes the median of each."""
    judgement: Judgement

    @property
    def contended(self) -> bool:
        return self.first.situation.contended

    @property
    def ids(self) -> tuple[str, str]:
        return self.first.id, self.second.id


def _figures(s: Summary) -> tuple[float, ...]:
    return tuple(mode.median_ns for mode in s.modes) if s.metastable else (s.issue.median_ns,)


def back_to_back(cell: Cell) -> bool:
    """Whether a cell has no work, alone or with the nearest contender."""
    of = cell.situation
    plain = of.param("slots", 1) == 1 and not of.param("read_delay") and not of.param("updater")
    return plain and not cell.work_iters and cell.contender != "placebo"


def across(summaries: Iterable[Summary]) -> list[OperationPair]:
    """Every such comparison of one machine, back to back."""
    members = list(summaries)
    identical = identical_contrasts(members, next((s.arch for s in members), ""))
    usable = [s for s in members if s.usable and back_to_back(s.cell)]
    situations = grouped(
        usable, lambda s: s.cell.situation.without("lines", "width_bits", "params", "work")
    )
    pairs = [pair for own in situations.values() for pair in _pairs(own)]
    pairs += itertools.combinations(cache_fit.longest_lists(usable), 2)
    pairs += bytes_apart.comparisons(members)
    answers = compare_pairs(pairs, "across", tolerance, identical)
    return [
        OperationPair(a.cell, b.cell, _figures(a), _figures(b), judgement)
        for (a, b), judgement in zip(pairs, answers, strict=True)
    ]


class CheapestInstruction(NamedTuple):
    """The cheapest of several instructions of cache maintenance on dirty lines, and what is shown
    of the others: their passes over one list are compared, operation against operation."""

    best: Fit
    slower: list[Fit]
    same: list[tuple[Fit, float]]
    """Each with what the difference is shown to be below, as a share."""
    undecided: list[Fit]

    @property
    def ids(self) -> list[str]:
        others = [*self.slower, *(f for f, _ in self.same), *self.undecided]
        return [i for f in (self.best, *others) for i in f.ids]


def cheapest_instruction(
    fits: Iterable[Fit], known: Sequence[OperationPair]
) -> CheapestInstruction | None:
    """Which instruction writes dirty lines back in the least time; None of fewer than two."""
    ranked = sorted(cache_fit.on_dirty_lines(fits), key=lambda f: f.per_line.value)
    if len(ranked) < 2:
        return None
    best, *others = ranked
    found = CheapestInstruction(best, [], [], [])
    for f in others:
        ids = {*best.ids, *f.ids}
        pair = next((a for a in known if ids.issuperset(a.ids)), None)
        first = pair is not None and pair.first.form == best.group.form
        if pair and (pair.judgement.cheaper if first else pair.judgement.slower):
            found.slower.append(f)
        elif pair and pair.judgement.answer == "same":
            found.same.append((f, pair.judgement.within))
        else:
            found.undecided.append(f)
    return found


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
    priced: Iterable[tuple[Summary, Summary]], known: Iterable[OperationPair]
) -> dict[tuple[str, str], Contrast | None]:
    """Each price over that of the atomic add beside it, by both ids; nothing is claimed of it but
    its interval.

    A pair that `across` compares has that comparison's interval, so that no figure stands twice in
    two values."""
    pairs = list(priced)
    found = pool_components(
        [contrast_of(own, base, "issue") for own, base in pairs],
        [noise_group_of(own.cell) for own, _ in pairs],
    )
    contrasts = {(own.id, base.id): c for (own, base), c in zip(pairs, found, strict=True)}
    return contrasts | {a.ids: a.judgement.contrast for a in known if a.ids in contrasts}


def _pairs(members: Sequence[Summary]) -> list[tuple[Summary, Summary]]:
    chosen = defaults(members)
    asked = [(chosen.get(a), chosen.get(b)) for a, b in QUESTION_PAIRS]
    pairs = [(a, b) for a, b in asked if a and b and a is not b]
    forms = {s.cell.form: s for s in members}
    shared = chosen.get("add", forms.get(SHARED))
    pairs += [(forms[COUNTER], shared)] if COUNTER in forms and shared else []
    pairs += [(forms[a], forms[b]) for a, b in (PADDED, READERS) if a in forms and b in forms]
    for s in members:
        made = made_of(s.cell.form)
        if made.prefetch and made.loop == "guess_first" and made.base in forms:
            pairs.append((s, forms[made.base]))
    return [(a, b) for a, b in pairs if not {a.cell.form, b.cell.form} & FLOORS]
