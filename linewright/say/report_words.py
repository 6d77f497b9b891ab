"""What the report says of its sections and charts: what is shown, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable

from linewright.say.sentence import Sentence, sentence_as_written

_SECTIONS = {
    "cache": (
        "Cache maintenance",
        "Writing back or invalidating a list of entries. Points are measured passes, lines are "
        "the fit: a term per line, per entry and per wait. Where the two kinds of wait meet, one "
        "wait for the list saves nothing.",
    ),
    "fairness": (
        "Fairness",
        "Each thread's share of the operations while all use the line. The timed thread is "
        "thread 0. Only it has work between operations. Jain's index is 1 for equal shares and "
        "1/threads when one thread does all; it is shown where all threads run the same loop.",
    ),
    "forms": (
        "Forms side by side",
        "Time of one operation with its work: medians, and the interval of a repeat's median. "
        "Logarithmic.",
    ),
    "handoff": (
        "Core to core",
        "One line handed back and forth between two cores. A figure is one handoff, half a round "
        "trip. Published figures mean one of these definitions and rarely say which.",
    ),
    "matrix": (
        "The matrix",
        "Every form at every contention and work length: alone, beside a placebo, and contended "
        "at each contender spacing. ~ marks metastable cells, whose launches fall into separate "
        "modes; ? marks unreliable cells.",
    ),
    "operations": (
        "Library operations",
        "The operations of linewright/atomic.h with the policy's branch, by operand width and "
        "memory order.",
    ),
    "percpu": (
        "Per-CPU counters",
        "Adding to a counter of the current CPU, by a restartable sequence and by the "
        "alternatives: thread-local and racy counters (floors: they count something else, or "
        "lose counts), atomics on an own line, and one shared line.",
    ),
    "prices": (
        "Price list",
        "What each remedy costs, in ns per operation: alone, and with a second CPU that does the "
        "same. Ratios are to one shared atomic word in the same situation. The scale is "
        "logarithmic.",
    ),
    "readers": (
        "Readers and grace periods",
        "What a read-side critical section costs its reader, and what an updater pays to wait "
        "for readers. Cheap readers have expensive grace periods: the choice is between the two.",
    ),
    "threads": (
        "Scaling over threads",
        "All threads do the operation on one line without contender spacing, or on their own "
        "where the form counts per CPU. Contention shows as a rate that falls with more threads; "
        "without it two threads double the rate.",
    ),
    "wide": (
        "Wide atomics",
        "{widths}-bit reads and writes mixed: every thread does the same share of both. Time of "
        "one operation of the mix.",
    ),
    "exposed": (
        "Exposed cost over work",
        "What an operation adds to a loop that also does other work: the loop minus the same "
        "loop without it. One unit of work takes {iteration} ns. Bands are intervals; a dashed "
        "line marks where two forms cross over.",
    ),
}
"""By section its heading, what it shows and how it is read."""
_CHARTS = {
    "cache-line": "Time of cache maintenance per line over entry size, for {forms}, with one wait "
    "for the list and with one wait after each entry.",
    "cache-saved": "Share of the time that one wait for the list saves against one wait after each "
    "entry, over entry size, for {forms}.",
    "fairness": "Shares of the operations that each thread did, and Jain's index, for {count} "
    "forms.",
    "forms": "Time of {operation} by form, for {classes}, with intervals.",
    "handoff-map": "Map of {count} by {count} CPUs; colour is the time of a handoff.",
    "handoff": "Time of a handoff for {count} pairs and definitions, by how far the cores are "
    "apart.",
    "matrix": "Heat map of {count} forms by contention and units of work; colour is {metrics}, to "
    "choose from.",
    "operations": "Heat map of {operation}: rows are operand widths, columns memory orders, colour "
    "is ns.",
    "percpu": "Time of {operation} by form, for {who}.",
    "readers": "Time of {operation} by form, with intervals; logarithmic.",
    "readers-both": "Each form as a point: reader cost across, grace-period cost upwards; both "
    "logarithmic.",
    "threads": "{operation} over {count} numbers of threads, by form; total rate or time, "
    "logarithmic.",
    "wide": "Time of {operation} by form over the share of writes, for one thread and for several.",
    "exposed": "Exposed cost of {operation} by form over units of work, with intervals and {count} "
    "crossovers.",
    "prices": "Bars, ns per operation. {prices}",
}
"""By chart, or by kind of chart, what it shows to those who do not see it."""


def section_words(
    section: str, cells: Iterable[str] = (), **figures: object
) -> tuple[str, Sentence]:
    """A section's heading, and what it shows; figures are of cells, or of the run."""
    title, lead = _SECTIONS[section]
    ids = tuple(cells)
    basis = "cells" if ids else "run" if figures else "rule"
    return title, sentence_as_written(lead.format(**figures), ids, basis)


def chart_text(chart: str, **figures: object) -> str:
    """What a chart shows, whose data hold the figures."""
    return _CHARTS[chart].format(**figures)
