"""Costs in words: the names of rows, prices and forms, a figure and its interval, the best other
form, a ratio of prices, and the controls of the matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping

from linewright import numbers
from linewright.analysis.matrix import Entry, Figure, MatrixColumn, Row
from linewright.analysis.price_list import Price
from linewright.analysis.summary import Summary
from linewright.forms import PREFETCHES, made_of
from linewright.say.document import Document
from linewright.say.name_words import FEW_LAUNCHES, in_english

_LOOPS = {"guess_first": "guess first", "read_first": "read first"}
_ROWS = {"read": "load", "xchg": "exchange"}
_CAS_ROWS = {"read_first": "CAS, reads first", "guess_first": "CAS, guesses first"}
_PRICES: Mapping[str, str] = {
    "": "one atomic word",
    "percpu_thread_local_add": "thread-local word",
    "percpu_rseq_add": "per-CPU word, rseq",
    "this_cpu_add": "this_cpu_add",
    "preempt_this_cpu_add": "preemption off",
    "irq_this_cpu_add": "interrupts off",
    "percpu_shared_lock_add": "shared LOCK ADD",
    "percpu_shared_ldadd": "shared LDADD",
    "percpu_shared_llsc_add": "shared LL/SC loop",
    "percpu_shared_c11_add": "shared C11 atomic",
    "percpu_false_sharing_add": "own words, one line",
    "percpu_padded_add": "own words, padded",
    "readers_pair rcu": "RCU",
    "readers_pair srcu_fast": "SRCU reader, fast",
    "srcu_fast_updown": "SRCU, fast, up/down",
    "srcu_fast_updown_irqsave": "SRCU up/down, IRQs off",
    "srcu": "SRCU reader",
    "srcu_nmisafe": "SRCU, safe in NMIs",
    "tasks_trace": "tasks-trace RCU",
    "percpu_rwsem": "per-CPU rwsem",
    "refcnt": "reference count",
    "biased_rwlock": "rwlock, biased",
    "rwlock": "rwlock",
    "rwsem": "rwsem",
    "mutex": "mutex",
    "spinlock": "spinlock",
    "spinlock_irq": "spinlock, IRQs off",
    "readers_grace rcu": "RCU updater, 1 reader",
    "readers_grace srcu_fast": "SRCU updater, 1 reader",
    "clwb": "clean a dirty line",
    "clflushopt": "evict a dirty line",
}
"""By the form, or where two prices have it by operation and form."""


def row_name(row: Row) -> str:
    """An operation of the matrix: ``add``, ``CAS, reads first``."""
    return _CAS_ROWS.get(row.loop) or _ROWS.get(row.operation, row.operation)


def price_name(price: Price) -> str:
    """A line of the price list: ``count: per-CPU word, rseq``."""
    name = _PRICES.get(f"{price.operation} {price.form}") or _PRICES[price.form]
    return f"{'read' if price.group == 'lock' else price.group}: {name}"


def form_name(form: str, default: str = "") -> str:
    """A form by its instructions; against `default` only what sets it apart, such as
    ``PREFETCHW``."""
    made = made_of(form)
    if made.prefetch:
        prefetch = PREFETCHES[made.prefetch]
        return prefetch if made.base == default else f"{prefetch} + {form_name(made.base, default)}"
    return "LL/SC" if made.exclusive else _LOOPS.get(made.loop) or made.instruction or form


def other_form(entry: Entry) -> str:
    """What sets the best other form of an entry apart from its default."""
    return form_name(entry.versus.form, entry.default.form if entry.default else "")


# ---- figures -----------------------------------------------------------------------------------


def figure(found: Figure | None) -> str:
    """A cost, of several modes the first and last as ``25.3~103``; ``?`` behind that of an
    unreliable cell."""
    if found is None:
        return "–"
    text = numbers.cost(found.ns.median_ns) + ("~" if found.metastable else "")
    if found.modes_ns:
        text = f"{numbers.cost(min(found.modes_ns))}~{numbers.cost(max(found.modes_ns))}"
    return text + ("" if found.reliable else "?")


def doubt_mark(s: Summary) -> str:
    """The mark beside a cell's figure that is not one number, or not to be relied on."""
    return "~" if s.metastable else "" if s.status == "ok" else "?"


def span(found: Figure) -> str:
    """The ends of an interval to two digits, ``14–17``; one figure where they are equal; empty for
    no interval, and for a metastable cell."""
    if (
        found.modes_ns
        or found.ns.confidence <= 0
        or not (math.isfinite(found.ns.low_ns) and math.isfinite(found.ns.high_ns))
    ):
        return ""
    ends = [numbers.figure(end, 2) for end in (found.ns.low_ns, found.ns.high_ns)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def figure_words(found: Figure) -> str:
    """A cost without signs."""
    text = numbers.cost(found.ns.median_ns)
    if found.modes_ns:
        text = f"{' or '.join(map(numbers.cost, found.modes_ns))}, by launch"
    return text + ("" if found.reliable else " (unreliable, too many windows were disturbed)")


# ---- the matrix --------------------------------------------------------------------------------


def why_none(entry: Entry) -> str:
    """Why an entry has no figure, in a word or two."""
    return in_english(entry.why)


def heading(column: MatrixColumn) -> str:
    """A column of the matrix: ``alone``, ``work 20``, ``2 CPUs``."""
    return column.situation.without("contender_iters").short()


def work_length(column: MatrixColumn) -> str:
    """How long a column's work takes, or where that is unknown its units."""
    units = column.situation.work_iters
    length = units * column.unit_ns
    return f"{numbers.figure(length, 2)} ns" if length > 0 else f"{units} units"


def same_within(column: MatrixColumn) -> str:
    """What ``=`` promises in a column: ``5 %`` or ``0.5 ns``."""
    return f"{column.same:.1f} ns" if column.scale == "ns" else f"{100 * column.same:.0f} %"


def shown_columns(document: Document) -> list[MatrixColumn]:
    """The columns in which some operation has a figure; the limits say why one has none."""
    return [
        column
        for column in document.columns
        if any(entry.default for row in document.rows if (entry := row.entries.get(column.key)))
    ]


def controls(document: Document) -> list[str]:
    """The run's own controls, its noise floor and its loop of work, as far as they were
    measured."""
    shown = shown_columns(document)
    floors = [f"{numbers.within(c.floor, c.scale)} ({heading(c)})" for c in shown if c.pairs]
    loops = [
        f"work linear to {numbers.at_most(c.bent)}, steady to {numbers.at_most(c.spread)}"
        for c in shown
        if c.bent is not None and c.spread is not None
    ]
    return [f"noise floor: {', '.join(floors)}"] * bool(floors) + loops


def control_line(document: Document) -> str:
    """The same as a sentence."""
    text = "; ".join(controls(document))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def entry_words(entry: Entry, column: MatrixColumn) -> str:
    """An entry of the matrix without signs: its cost, contended the interval, and what is known of
    the best other form."""
    if entry.default is None:
        return f"{why_none(entry) or 'no figure'}."
    text = figure_words(entry.default)
    if column.key == "contended" and (ends := span(entry.default)):
        text += f", interval {ends.replace('–', ' to ')}"
    return f"{text}.{_versus(entry, column)}"


def _versus(entry: Entry, column: MatrixColumn) -> str:
    versus = entry.versus
    if versus is None:
        return ""
    name = other_form(entry)
    change = numbers.change_in_words(versus.low, versus.high, versus.scale)
    if versus.answer == "same":
        return f" {name}: the same within {same_within(column)}."
    if versus.answer == "undecided":
        return f" {name}: undecided{f', {change} remains possible' if change else ''}."
    if versus.answer == "slower":
        return " Every other form costs more."
    return f" {name}: {change}."


# ---- prices ------------------------------------------------------------------------------------

SIDES = {"alone": "alone", "contended": "with a second CPU"}
"""The two costs of a price."""


def ratio_words(price: Price) -> str:
    """``14 to 20 times less``, ``3.4 to 3.8 times more``, ``same``, or ``0.8 to 1.4 times`` where
    it may be either; nothing where the interval says nothing. Without a ratio, as of a wait, which
    is no operation, the cost's interval."""
    cost = price.contended or price.alone
    if price.ratio is None and cost and cost.ns.confidence > 0:
        return numbers.span_of_cost(cost.ns.low_ns, cost.ns.high_ns)
    if not price.answer:
        return "no interval"
    if price.answer in ("wide", "same"):
        return "" if price.answer == "wide" else "same"
    return numbers.times(price.ratio.low_ns, price.ratio.high_ns)


def ratio_text(price: Price) -> str:
    """The same in signs, ``14–20× less``; ``1`` for the reference, and ``?`` behind what rests on
    fewer launches than a claim needs."""
    if price.reference:
        return "1"
    doubt = "?" if price.few and price.answer else ""
    return f"{in_signs(ratio_words(price))} {doubt}".strip()


def in_signs(ratio: str) -> str:
    """A ratio as tables have room for: ``14–20×``."""
    return ratio.replace(" to ", "–").replace(" times", "×")


def price_words(price: Price) -> str:
    """A line of the price list without signs."""
    parts = [
        f"{side} {figure_words(cost)}"
        for key, side in SIDES.items()
        if (cost := getattr(price, key))
    ]
    text = f"{price.name}: {', '.join(parts) or 'no figure'}"
    if price.reference:
        return f"{text}; the others are compared with it."
    ratio = ratio_words(price)
    if price.ratio is None and ratio != "no interval":
        return f"{text}; interval {ratio}."
    than = "one atomic word alone" if price.only_alone else "one atomic word"
    few = f" (not claimed: {FEW_LAUNCHES})" if price.few and price.answer else ""
    link = {"same": "the same as", "no interval": "no interval against", "": "undecided against"}
    if price.answer in ("less", "more"):
        ratio += " than"
    return f"{text}; {link.get(ratio, ratio)} {than}{few}."
