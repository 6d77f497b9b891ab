# SPDX-License-Identifier: MIT
"""What the report says of its sections and charts: what is shown, and how it is read."""

from __future__ import annotations

from linewright.say.document import Sentence, sentence_as_written

_SECTIONS = {
    "cache": (
        "Cache maintenance",
        "Writing back or invalidating a list of entries. Points are measured passes, lines are "
        "the fit: a term per line, per entry and per wait. Where the two kinds of wait meet, one "
        "wait for the list saves nothing.",
    ),
    "handoff": (
        "Core to core",
        "One line handed back and forth between two cores. A figure is one handoff, half a round "
        "trip. Published figures mean one of these definitions and rarely say which.",
    ),
    "matrix": (
        "The matrix",
        "Every form at every contention and work length that was measured.{placebo}{marks}",
    ),
    "explore": (
        "Any figure along any axis",
        "Choose an operation, a figure, and what it is shown along; everything else is held. "
        "One unit of work takes {unit} ns. Whiskers are intervals.{marks} The table below the "
        "chart has its figures.",
    ),
    "prices": (
        "Price list",
        "What each remedy costs, in ns per operation: alone{beside}. Ratios are to one shared "
        "atomic word in the same situation. The scale is logarithmic.{plain}",
    ),
    "readers": (
        "Readers and grace periods",
        "What a read-side critical section costs its reader, and what an updater pays to wait "
        "for readers. Cheap readers have expensive grace periods: the choice is between the two.",
    ),
}
"""By section its heading, what it shows and how it is read; what is in braces, where it is so."""
MARKS = {
    "~": "~ marks metastable cells, whose launches fall into separate modes.",
    "?": "? marks unreliable cells.",
}
"""By the sign beside a figure what it says."""
PLACEBO = " A placebo is a second thread that spins and never touches the line."
BESIDE = ", and with a second CPU that does the same"
PLAIN = " Own words take plain adds, part of whose cost a store buffer hides."
"""Said of a list that has them: an atomic add to a line that is written by others hides nothing."""
_CHARTS = {
    "cache-line": "Time of cache maintenance per line over entry size, for {forms}, with one wait "
    "for the list and with one wait after each entry.",
    "cache-saved": "Share of the time that one wait for the list saves against one wait after each "
    "entry, over entry size, for {forms}.",
    "handoff-map": "Map of {count} by {count} CPUs; colour is the time of a handoff.",
    "handoff": "Time of a handoff for {count} pairs and definitions, by how far the cores are "
    "apart.",
    "matrix": "Heat map of {count} forms by contention and units of work; colour is {metrics}, to "
    "choose from.",
    "readers": "Time of {operation} by form, with intervals; logarithmic.",
    "readers-both": "Each form as a point: reader cost across, grace-period cost upwards; both "
    "logarithmic.",
}
"""By chart, or by kind of chart, what it shows to those who do not see it."""
AXES = {
    "who": "who uses the word",
    "work": "units of work between operations",
    "threads": "threads",
    "spacing": "contender spacing, iterations",
    "distance": "how far the CPUs are apart",
    "width": "bits of the operand",
    "order": "memory order",
    "write_percent": "% of writes",
    "entry_bytes": "bytes of an entry",
}
"""What cells differ in, as an axis of the explorer; a parameter's own name stands for others."""


def section_words(section: str, **figures: object) -> tuple[str, Sentence]:
    """A section's heading, and what it shows; figures are of the run."""
    title, lead = _SECTIONS[section]
    return title, sentence_as_written(lead.format(**figures), basis="run" if figures else "rule")


def chart_text(chart: str, **figures: object) -> str:
    """What a chart shows, whose data hold the figures."""
    return _CHARTS[chart].format(**figures)
