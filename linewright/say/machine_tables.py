# SPDX-License-Identifier: MIT
"""The two tables of a machine: the matrix, operation × {alone, with work, with a second CPU} with
the best other form beside each figure; and the price list with bars, what each remedy costs alone
and with a second CPU, and how many times the price of one shared atomic word that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from linewright import numbers
from linewright.analysis.comparison import Side
from linewright.analysis.machine_figures import Entry, MatrixColumn, Price, Row
from linewright.say.document import (
    LETTERS,
    Axis,
    Bars,
    Column,
    Sentence,
    TableCell,
    TextTable,
    rank_at,
    sentence_as_written,
    table_of,
    text_of,
)
from linewright.say.phrases import figure_cell, figure_words, form_name, span
from linewright.say.words import FEW_LAUNCHES, in_english

_ROWS = {"read": "load", "xchg": "exchange"}
_CAS_ROWS = {"read_first": "CAS, reads first", "guess_first": "CAS, guesses first"}


def row_name(row: Row) -> str:
    """An operation of the matrix: ``add``, ``CAS, reads first``."""
    return _CAS_ROWS.get(row.loop) or _ROWS.get(row.operation, row.operation)


def heading(column: MatrixColumn) -> str:
    """A column of the matrix: ``alone``, ``work 20``, ``2 CPUs``."""
    return column.situation.without("contender_iters").short()


def matrix_table(columns: Sequence[MatrixColumn], rows: Sequence[Row], bits: int) -> TextTable:
    """The table without columns that have no figure; the limits say why one has none."""
    entries = [entry for row in rows for entry in row.entries.values()]
    shown = [c for c in columns if any(_known(rows, c))]
    shared = _shared_name(entries)
    made: list[Column[Row]] = [Column(f"ns, {bits} bit", row_name, text=True)]
    for c in shown:
        made.append(Column(heading(c), _of(c, _figure)))
        if c.key == "contended":
            sure = [side.ns.confidence for side in _known(rows, c) if side.ns.confidence > 0]
            ends = lambda entry: span(entry.default) if entry.default else ""
            made.append(Column(f"{100 * min(sure, default=0.95):.0f} %", _of(c, ends), spare=True))
        other = _of(c, lambda entry: _versus(entry, shared))
        made.append(Column(shared or "best other", other, text=True))
    made = [column for column in made if any(text_of(column.value(row)) for row in rows)]
    headings = [column.title for column in made]
    return table_of(
        f"Matrix of {bits}-bit operations, nanoseconds per operation",
        made,
        rows,
        name="matrix",
        # The first rows are the cheap ones.
        ranks=[rank_at(place, "matrix") for place in reversed(range(len(rows)))],
        short_headings=["other" if text == "best other" else text for text in headings],
        legend=_legend(shown, rows),
        notes=_controls(shown),
        spoken=[
            _spoken(f"{row_name(row)}, {_where(column)}: {_words(entry, column)}", entry.default)
            for row in rows
            for column in columns
            if (entry := row.entries.get(column.key))
        ],
    )


def _known(rows: Sequence[Row], column: MatrixColumn) -> list[Side]:
    """The figures of a column."""
    entries = (row.entries.get(column.key) for row in rows)
    return [entry.default for entry in entries if entry and entry.default]


def _of(
    column: MatrixColumn, text: Callable[[Entry], str | TableCell]
) -> Callable[[Row], str | TableCell]:
    return lambda row: text(row.entries[column.key]) if column.key in row.entries else ""


def _shared_name(entries: Sequence[Entry]) -> str:
    """The one name of all alternatives, which the heading then bears; empty where they differ.

    An alternative that is another row's form, such as the loop that reads first, does not count.
    """
    defaults = {entry.default.form for entry in entries if entry.default}
    compared = (entry for entry in entries if entry.versus and entry.versus.contrast)
    names = {_other_form(e) for e in compared if e.versus.first.form not in defaults}
    return names.pop() if len(names) == 1 else ""


def _other_form(entry: Entry) -> str:
    """What sets the best other form of an entry apart from its default."""
    return form_name(entry.versus.first.form, entry.default.form if entry.default else "")


def _figure(entry: Entry) -> str | TableCell:
    return figure_cell(entry.default) if entry.default else in_english(entry.why) or "–"


def _versus(entry: Entry, shared: str) -> str | TableCell:
    """``=``, ``? -14 to +9 %``, ``-52 to -48 %`` or ``more``; empty where no other form was
    measured."""
    versus = entry.versus
    if versus is None:
        return ""
    ends = versus.shown
    known = {"low": ends.low, "high": ends.high} if ends else {}
    if versus.answer in ("same", "slower"):
        sign = "=" if versus.answer == "same" else "more"
        return TableCell(text=sign, sign=sign, **known)
    change, open_sign = versus.change(), "?" * (versus.answer == "undecided")
    tight = change.replace(" to ", "..").replace(" %", "%").replace(" ns", "ns")
    shorter = [" ".join(filter(None, (open_sign, tight))), *[open_sign] * bool(open_sign)]
    name = _other_form(entry)
    return TableCell(
        text=" ".join(filter(None, (open_sign, change))) or "?",
        shorter=tuple(shorter) if change else () if open_sign else ("?",),
        sign=open_sign,
        note="" if name == shared or not change else name,
        **known,
    )


def _legend(shown: Sequence[MatrixColumn], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """What the signs mean, ``=`` with what it promises in each column, and how long work takes, or
    where that is unknown its units."""
    same = [max([c.same, *_tolerances(rows, c)]) for c in shown]
    every = [entry.versus for row in rows for entry in row.entries.values() if entry.versus]
    drawn = any(versus.contrast and versus.contrast.over == "draws" for versus in every)
    within = ", ".join(
        f"{numbers.within(most, 'ns') if c.scale == 'ns' else f'{100 * most:.0f} %'} ({heading(c)})"
        for c, most in zip(shown, same, strict=True)
    )
    made = [
        ("=", f"= same within {within}"),
        ("?", "? undecided" + ", corrected for all comparisons" * (not drawn)),
        ("more", "more: all others cost more"),
        (LETTERS, ""),
        ("~", "~ metastable"),
    ]
    for c in shown:
        if c.key == "work":
            units, kind = c.situation.work_iters, "added to" if c.scale == "ns" else "with"
            ns = numbers.figure(units * c.unit_ns, 2)
            length = f"{ns} ns" if units * c.unit_ns > 0 else f"{units} units"
            made.append(("", f"{heading(c)}: ns {kind} {length} of work"))
    return made


def _tolerances(rows: Sequence[Row], column: MatrixColumn) -> list[float]:
    """Within what the answers of a column are the same: a share of a long exposed cost."""
    found = (entry.versus for row in rows if (entry := row.entries.get(column.key)))
    return [versus.same for versus in found if versus and versus.answer == "same"]


def _controls(shown: Sequence[MatrixColumn]) -> list[Sentence]:
    """The run's own controls, its noise floor and its loop of work, in one sentence; nothing where
    none was measured."""
    known = [(c.floor, c) for c in shown if c.floor]
    floors = [f"{numbers.within(floor.size, c.scale)} ({heading(c)})" for floor, c in known]
    parts = [f"Noise floor: {', '.join(floors)}"] * bool(floors) + [
        f"{'w' if floors else 'W'}ork: {numbers.at_most(c.loop.nonlinearity)} nonlinear, "
        f"{numbers.at_most(c.loop.spread)} spread"
        for c in shown
        if c.loop
    ]
    cells = [floor for floor, _ in known]
    basis = "cells" if cells else "run"
    return [sentence_as_written(f"{'; '.join(parts)}.", cells, basis)] if parts else []


# ---- without columns ---------------------------------------------------------------------------


def _spoken(text: str, *sides: Side | None) -> Sentence:
    cells = [side for side in sides if side]
    return sentence_as_written(text, cells, "cells" if cells else "run")


def _where(column: MatrixColumn) -> str:
    situation = column.situation
    return situation.sharers if situation.contended else situation.words()


def _words(entry: Entry, column: MatrixColumn) -> str:
    """An entry of the matrix without signs: its cost, contended the interval, and what is known of
    the best other form."""
    if entry.default is None:
        return f"{in_english(entry.why) or 'no figure'}."
    text, versus = figure_words(entry.default), entry.versus
    if column.key == "contended" and (ends := span(entry.default)):
        text += f", interval {ends.replace('–', ' to ')}"
    if versus is None:
        return f"{text}."
    more = "Every other form costs more."
    return f"{text}. {more if versus.slower else f'{_other_form(entry)}: {versus.words()}.'}"


MOST_APART = 100
"""An interval of ratios of few launches whose ends are further apart says nothing."""
LONGEST_NS = 2000.0
"""Costs above this are waits, not operations: the scale is made for the others."""
_PRICES: Mapping[str, str] = {
    "": "one atomic word",
    "percpu_thread_local_add": "thread-local word",
    "percpu_rseq_add": "per-CPU word, rseq",
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
    "rwlock": "rwlock, spinning",
    "rwsem": "rwlock, sleeping",
    "spinlock_irq": "spinlock, IRQs off",
    "readers_grace rcu": "RCU updater, 1 reader",
    "readers_grace srcu_fast": "SRCU updater, 1 reader",
    "hint_pause": "one PAUSE",
    "hint_isb": "one ISB",
    "woken_pause": "woken and back, PAUSE",
    "woken_isb": "woken and back, ISB",
    "clwb": "clean a dirty line",
    "clflushopt": "evict a dirty line",
}
"""By the form, or where two prices have it by operation and form; of others the form itself."""


def price_name(price: Price) -> str:
    """A line of the price list: ``count: per-CPU word, rseq``."""
    form = price.form
    name = _PRICES.get(f"{price.operation} {form}") or _PRICES.get(form, form)
    return f"{'read' if price.group == 'lock' else price.group}: {name}"


def price_table(prices: Sequence[Price]) -> Bars:
    """The prices, and beside each figure a bar."""
    contended = any(price.contended for price in prices)
    order = sorted(range(len(prices)), key=lambda n: prices[n].rank)
    cell = lambda cost: figure_cell(cost) if cost else ""
    # Of the uncontended costs, where other lines compare the contended ones.
    ratio = lambda price: ratio_text(price) + ", alone" * (contended and price.only_alone)
    columns: list[Column[Price]] = [
        Column("price list, ns", price_name, text=True),
        Column("alone", lambda price: cell(price.alone)),
        *[Column("2 CPUs", lambda price: cell(price.contended))] * contended,
        Column("vs one atomic", ratio),
    ]
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
        ranks=[rank_at(order.index(n), "prices") for n in range(len(prices))],
        spoken=[_spoken(price_words(price), price.alone, price.contended) for price in prices],
    )


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
    text = in_signs(ratio_words(price))
    if not price.compared and text.endswith(" ns") and "–" not in text:
        return ""  # the cost beside it says the same with a digit more
    return f"{text} {'?' if price.few and price.ratio else ''}".strip()


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
