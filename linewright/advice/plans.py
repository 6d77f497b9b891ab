"""Sections about records of plans of their own: readers with their updaters, and cache maintenance over lists."""

from __future__ import annotations

from linewright.advice.forms import answer_text
from linewright.advice.machine import Machine, Topic
from linewright.analysis import cache_fit, reader_cost
from linewright.analysis.findings import Finding
from linewright.families import CACHE, READERS

_NEEDS = {
    "readers_pair": "protecting a read-side critical section",
    "readers_shape": "increments of an SRCU-shaped pair",
    "readers_lookup": "looking up an object",
}


def readers(m: Machine) -> Topic | None:
    """Which reader is right: each against the default, those that scale, and what an updater pays for it."""
    own = [s for s in m.summaries if reader_cost.concerns(s.cell)]
    if m.emulated or not own:
        return None
    found = [f for f in m.of_family("readers") if f.operation in _NEEDS and "updater" not in f.params]
    rows, trades = reader_cost.scaling(own), reader_cost.trades(own)
    lines = [_reader(f, m) for f in found]
    lines += [f"{s.lead}: {clause.text}".removeprefix(": ") for s in reader_cost.sentences(own) for clause in s.clauses]
    data = {"choices": found, "scaling": rows, "trades": trades}
    return Topic(name="readers", title=READERS.title, lines=lines, data=data) if lines else None


def _reader(f: Finding, m: Machine) -> str:
    """The readers of one need, delay and number of readers."""
    delay = int(f.params.get("read_delay", 0))
    inside = f", {delay} units of work{m.time_of(delay)} inside" if delay else ""
    return f"{_NEEDS[f.operation]}, {f.threads} reader{'s' if f.threads > 1 else ''}{inside}: {answer_text(f)}"


def cache(m: Machine) -> Topic | None:
    """Which instruction, what a wait costs, and at which entry size one wait for the whole list stops to matter."""
    own = [s for s in m.summaries if cache_fit.concerns(s.cell)]
    if m.emulated or not m.context or not own:
        return None
    lines = [clause.text for s in cache_fit.sentences(own, m.context.line_bytes) for clause in s.clauses]
    data = {"terms": cache_fit.fits(own, m.context.line_bytes), "savings": cache_fit.savings(own)}
    return Topic(name="cache", title=CACHE.title, lines=lines, data=data)
