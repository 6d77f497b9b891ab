# SPDX-License-Identifier: MIT
"""Which cells of one machine each question compares: the first of a pair over, or minus, the
second.  What is compared with is fixed beforehand (linewright.families), so that no comparison is
chosen by its result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from linewright.analysis import bytes_apart, cache_fit
from linewright.analysis.comparison import policy_of
from linewright.analysis.control import identical_to
from linewright.analysis.summary import DISTRUSTED, Summary, grouped
from linewright.families import BASELINES, FLOORS, default_of, family_of
from linewright.forms import made_of
from linewright.schema import Cell, Situation

Pairs = list[tuple[Summary, Summary]]

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst", "full")
"""From weakest to strongest; acquire and release do not contain each other."""
_GIVES = {
    "relaxed": ("relaxed",), "acquire": ("relaxed", "acquire"), "release": ("relaxed", "release"),
    "acq_rel": ORDERS[:4], "seq_cst": ORDERS[:5], "full": ORDERS,
}  # fmt: skip
_MAY_USE = {"add": ("add", "fetch_add")}
"""A caller who does not want the value may use a form that returns it; never the other way
round."""

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


def comparable(summary: Summary) -> bool:
    """Whether a cell may take part in a comparison."""
    cell, family = summary.cell, family_of(summary.cell.operation)
    return (
        summary.status == "ok"
        and summary.issue is not None
        and math.isfinite(summary.issue.median_ns)
        and cell.form not in FLOORS
        and cell.operation in family.operations
        and (cell.contender == "none" or (cell.situation.contended and family.contended))
        and not DISTRUSTED & set(summary.flags)
    )


def _point(cell: Cell) -> tuple[Situation, str]:
    """What the compared cells share: their situation, and where settings of one library operation
    are compared, that operation."""
    return cell.situation, cell.form if policy_of(cell) else ""


class Candidates(Struct, frozen=True):
    """A caller's forms at one point, the default first."""

    operation: str
    order: str
    default: Summary
    others: list[Summary]


def _callers(members: Sequence[Summary], arch: str) -> list[Candidates]:
    """For each operation and each distinct set of forms that serve an order: the default and what
    it is compared with."""
    answers: list[Candidates] = []
    for operation in dict.fromkeys(s.cell.operation for s in members):
        allowed = _MAY_USE.get(operation, (operation,))
        serving = [s for s in members if s.cell.operation in allowed]
        weakest = min(
            (s.cell.order for s in serving if s.cell.operation == operation), key=ORDERS.index
        )
        serving = [s for s in serving if weakest in _GIVES[s.cell.order]]
        named = {policy_of(s.cell) or s.cell.form: s for s in serving}
        default = named[default_of(operation, named)]
        same_code = identical_to(default.cell.form, arch)[1:]
        apart = (s for s in serving if s is not default and s.cell.form not in same_code)
        others = [s for s in apart if not _is_copy(s, named, arch)]
        if others:
            answers.append(Candidates(operation, weakest, default, others))
    return answers


def _is_copy(s: Summary, named: Mapping[str, Summary], arch: str) -> bool:
    """Whether another form with the same machine code speaks for this one: it is the control, not a
    candidate."""
    first = identical_to(s.cell.form, arch)[0]
    return first != s.cell.form and first in named


def candidates(summaries: Sequence[Summary]) -> list[Candidates]:
    """Every caller's choice between forms at one point."""
    arch = next((s.arch for s in summaries), "")
    points = grouped(filter(comparable, summaries), lambda s: _point(s.cell))
    return [choice for members in points.values() for choice in _callers(members, arch)]


def of_forms(summaries: Sequence[Summary]) -> Pairs:
    """Every form against the default of each caller whom it serves."""
    chosen = candidates(summaries)
    return list({(o.id, c.default.id): (o, c.default) for c in chosen for o in c.others}.values())


def back_to_back(cell: Cell) -> bool:
    """Whether a cell has no work, alone or with the nearest contender."""
    of = cell.situation
    plain = of.param("slots", 1) == 1 and not of.param("read_delay") and not of.param("updater")
    return plain and not cell.work_iters and cell.contender != "placebo"


def of_operations(summaries: Sequence[Summary]) -> Pairs:
    """Operation against operation, back to back: comparisons that no form makes with its
    default."""
    usable = [s for s in summaries if s.usable and back_to_back(s.cell)]
    situations = grouped(
        usable, lambda s: s.cell.situation.without("lines", "width_bits", "params", "work")
    )
    pairs = [pair for own in situations.values() for pair in _operations(own)]
    pairs += itertools.combinations(cache_fit.longest_lists(usable), 2)
    return pairs + bytes_apart.pairs(summaries)


def of_waits(summaries: Sequence[Summary]) -> Pairs:
    """One wait over a wait behind each entry, for every list that was measured with both, by
    instruction, state, alignment and entry size."""
    lists: dict[tuple, dict[str, Summary]] = {}
    for s in cache_fit.usable(summaries):
        lists.setdefault(cache_fit.list_of(s.cell), {})[str(s.cell.params["wait"])] = s
    waits = [own for _, own in sorted(lists.items())]
    return [(own["once"], own["each"]) for own in waits if len(own) == 2]


def _operations(members: Sequence[Summary]) -> Pairs:
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


def defaults(members: Sequence[Summary]) -> dict[str, Summary]:
    """Each operation's default form among cells of one situation and width."""
    forms: dict[str, dict[str, Summary]] = {}
    for s in members:
        if comparable(s):
            forms.setdefault(s.cell.operation, {}).setdefault(s.cell.form, s)
    if "fetch_add" in forms:  # on arm64 the default add returns a value
        forms["add"] = forms.get("add", {}) | forms["fetch_add"]
    return {operation: own[default_of(operation, own)] for operation, own in forms.items()}


def of_cores(summaries: Sequence[Summary]) -> Pairs:
    """Every form alone and back to back on another core against the first core timed."""
    alone = (
        s
        for s in summaries
        if s.cell.contender == "none"
        and s.cell.work_iters == 0
        and s.cell.operation not in BASELINES
        and s.cpus
        and s.usable
    )
    by_form = grouped(
        alone,
        lambda s: (
            s.cell.operation,
            s.cell.form,
            policy_of(s.cell),
            s.cell.situation.without("lines", "placement", "work"),
        ),
    )
    return [
        (other, own[0])
        for own in by_form.values()
        for other in own[1:]
        if other.cpus[0] != own[0].cpus[0]
    ]
