"""Sections about records of plans of their own: readers with their updaters, and cache maintenance over lists."""

from __future__ import annotations

from collections.abc import Sequence

from linewright.advice.forms import answer_text
from linewright.advice.machine import Machine, Section
from linewright.analysis import cache_fit, reader_cost
from linewright.analysis.findings import Finding
from linewright.analysis.saying import join, number
from linewright.families import CACHE, READERS

MOST_TRADES = 6
"""Pairs of readers whose trade is spoken of; `data` has all."""

_NEEDS = {
    "readers_pair": "protecting a read-side critical section",
    "readers_shape": "increments of an SRCU-shaped pair",
    "readers_lookup": "looking up an object",
}


def readers(m: Machine) -> Section | None:
    """Which reader is right: each against the default, those that scale, and what an updater pays for it."""
    own = [s for s in m.summaries if reader_cost.concerns(s.cell)]
    if m.emulated or not own:
        return None
    found = [f for f in m.of_family("readers") if f.operation in _NEEDS and "updater" not in f.params]
    rows, trades = reader_cost.scaling(own), reader_cost.trades(own)
    lines = [_reader(f, m) for f in found]
    pairs = [r for r in rows if r.operation == "readers_pair" and r.read_delay == 0]
    for count in sorted({r.readers for r in pairs}):
        flat = [r.form for r in pairs if r.readers == count and r.flat]
        grows = [r for r in pairs if r.readers == count and r.grows]
        if flat:
            lines.append(
                f"cost each of {count} readers the same as one alone, within {reader_cost.FLAT:.0%}: {join(flat)}"
            )
        if grows:
            shown = [f"{r.form} {r.ratio.value:.1f} ({r.ratio.low:.1f} to {r.ratio.high:.1f})" for r in grows]
            lines.append(f"cost more with {count} readers than for one alone, times: {join(shown)}")
    lines += _traded(trades)
    data = {"choices": found, "scaling": rows, "trades": trades}
    return Section(name="readers", title=READERS.title, lines=lines, data=data) if lines else None


def _reader(f: Finding, m: Machine) -> str:
    """The readers of one need, delay and number of readers."""
    delay = int(f.params.get("read_delay", 0))
    inside = f", {delay} units of work{m.time_of(delay)} inside" if delay else ""
    return f"{_NEEDS[f.operation]}, {f.threads} reader{'s' if f.threads > 1 else ''}{inside}: {answer_text(f)}"


def _traded(trades: Sequence[reader_cost.Trade]) -> list[str]:
    """What the updater of a cheaper reader waits more, and from how many read-side critical sections that pays."""
    shortest = min((t.read_delay for t in trades), default=0)
    plain = [t for t in trades if t.read_delay == shortest and t.updater == "synchronize"]
    ranked = sorted(plain, key=lambda t: (t.cheap_reader, t.sections_per_update.value))
    lines = [
        f"{t.cheap_reader} instead of {t.cheap_update}, {t.readers} reader{'s' if t.readers > 1 else ''}:"
        f" {number(t.saved_ns.median_ns)} ns less per section, {number(t.waited_ns.median_ns)} ns more per update:"
        f" {reader_cost.break_even(t)}"
        for t in ranked[:MOST_TRADES]
    ]
    more = len(ranked) - MOST_TRADES
    return [*lines, f"and {more} more such pairs, in --json"] if more > 0 else lines


def cache(m: Machine) -> Section | None:
    """Which instruction, what a wait costs, and at which entry size one wait for the whole list stops to matter."""
    own = [s for s in m.summaries if cache_fit.concerns(s.cell)]
    if m.emulated or not m.context or not own:
        return None
    lines = [clause.text for s in cache_fit.sentences(own, m.context.line_bytes) for clause in s.clauses]
    data = {"terms": cache_fit.fits(own, m.context.line_bytes), "savings": cache_fit.savings(own)}
    return Section(name="cache", title=CACHE.title, lines=lines, data=data)
