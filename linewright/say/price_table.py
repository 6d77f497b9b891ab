# SPDX-License-Identifier: MIT
"""The price list of a machine as a table with bars: what each remedy costs alone and with a second
CPU, and how many times the price of one shared atomic word that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linewright import numbers
from linewright.analysis.price_list import Price
from linewright.say.columns import Column, table_of
from linewright.say.cost_words import figure_cell, figure_words
from linewright.say.document import Axis, Bars, TableCell
from linewright.say.sentence import Sentence, sentence_as_written
from linewright.say.words import FEW_LAUNCHES

MOST_APART = 100
"""An interval of ratios of few launches whose ends are further apart says nothing."""
LONGEST_NS = 2000.0
"""Costs above this are waits, not operations: the scale is made for the others."""
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


def price_name(price: Price) -> str:
    """A line of the price list: ``count: per-CPU word, rseq``."""
    name = _PRICES.get(f"{price.operation} {price.form}") or _PRICES[price.form]
    return f"{'read' if price.group == 'lock' else price.group}: {name}"


def price_table(prices: Sequence[Price]) -> Bars:
    """The prices, and beside each figure a bar."""
    contended = any(price.contended for price in prices)
    columns: list[Column[Price]] = [
        Column("price list, ns", price_name, text=True),
        Column("alone", lambda price: _cell(price, "alone")),
    ]
    if contended:
        columns.append(Column("2 CPUs", lambda price: _cell(price, "contended")))
    columns.append(Column("vs one atomic", lambda price: _ratio(price, contended)))
    return table_of(
        "Price list, nanoseconds per operation",
        columns,
        prices,
        kind=Bars,
        axis=Axis(name="ns", title="ns per operation", log=True),
        name="prices",
        what="price",
        bars=list(enumerate([*SIDES.values()][: 1 + contended], 1)),
        beyond=LONGEST_NS,
        ranks=[price.rank for price in prices],
        spoken=[_spoken(price) for price in prices],
    )


def _cell(price: Price, side: str) -> str | TableCell:
    cost = getattr(price, side)
    return figure_cell(cost) if cost else ""


def _ratio(price: Price, contended: bool) -> str:
    """The ratio, and that it is of the uncontended costs where other lines compare the contended
    ones."""
    text = ratio_text(price)
    return f"{text}, alone" if contended and price.only_alone else text


SIDES = {"alone": "alone", "contended": "with a second CPU"}
"""The two costs of a price."""


def ratio_words(price: Price) -> str:
    """``14 to 20 times less``, ``3.4 to 3.8 times more``, ``same``, or ``0.8 to 1.4 times`` where
    it may be either; nothing where the interval says nothing. Without a ratio, as of a wait, which
    is no operation, the cost's interval."""
    cost, c = price.contended or price.alone, price.ratio
    if not price.compared and cost and cost.ns.confidence > 0:
        return numbers.span_of_cost(cost.ns.low_ns, cost.ns.high_ns)
    if c is None:
        return "no interval"
    if price.few and c.high >= MOST_APART * c.low:
        return ""
    return "same" if c.farthest <= price.versus.same else numbers.times(c.low, c.high)


def ratio_text(price: Price) -> str:
    """The same in signs, ``14–20× less``; ``1`` for the reference, and ``?`` behind what rests on
    fewer launches than a claim needs."""
    if price.reference:
        return "1"
    doubt = "?" if price.few and price.ratio else ""
    return f"{in_signs(ratio_words(price))} {doubt}".strip()


def in_signs(ratio: str) -> str:
    """A ratio as tables have room for: ``14–20×``."""
    return ratio.replace(" to ", "–").replace(" times", "×")


def _spoken(price: Price) -> Sentence:
    cells = [cost.id for cost in (price.alone, price.contended) if cost]
    return sentence_as_written(price_words(price), cells, "cells" if cells else "run")


def price_words(price: Price) -> str:
    """A line of the price list without signs."""
    parts = [
        f"{side} {figure_words(cost)}"
        for key, side in SIDES.items()
        if (cost := getattr(price, key))
    ]
    text = f"{price_name(price)}: {', '.join(parts) or 'no figure'}"
    if price.reference:
        return f"{text}; the others are compared with it."
    ratio = ratio_words(price)
    if not price.compared and ratio != "no interval":
        return f"{text}; interval {ratio}."
    than = "one atomic word alone" if price.only_alone else "one atomic word"
    few = f" (not claimed: {FEW_LAUNCHES})" if price.few and price.ratio else ""
    link = {"same": "the same as", "no interval": "no interval against", "": "undecided against"}
    if ratio.endswith(("less", "more")):
        ratio += " than"
    return f"{text}; {link.get(ratio, ratio)} {than}{few}."
