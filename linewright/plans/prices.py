"""The price list: a few cells each of what may stand in for a locked operation, for plans that compare across
remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linewright.plans.grid import common
from linewright.schema import Cell
from linewright.target.probe import Form, Topology

ALONE = ("percpu_empty", "percpu_thread_local_add", "percpu_rseq_add", "percpu_shared_c11_add")
"""Counters of one thread, and their baseline loop."""
TOGETHER = ("percpu_rseq_add", "percpu_shared_c11_add", "percpu_false_sharing_add", "percpu_padded_add")
"""Counters of two threads: one for each CPU, one for all, one for each thread on one line, and on lines of their
own."""
READERS = ("srcu_fast", "srcu", "rwlock", "mutex")
CLEANING = ("clwb", "dc_cvac", "clflushopt")
"""Instructions that write a line back, the first that the CPU has."""
ONE_LINE = {"align_bytes": 0, "entries": 1, "entry_bytes": 64, "state": "dirty_l1", "wait": "once"}


def cells(forms: Sequence[Form], topology: Topology, lines: int) -> Iterator[Cell]:
    """Counters, readers with the wait of an updater, and one cache line's clean, on `lines` lines each."""
    word = {form.name: form for form in forms if form.arch == "any" and form.width_bits == topology.word_bits}
    reader = {form.name: form for form in forms if form.operation.startswith("readers_") and form.arch == "any"}
    beside = {"contender": "same_line", "threads": 2, "lines": lines}
    for name in ALONE:
        if name in word:
            yield Cell(**common(word[name]), lines=lines, params={"slots": 1})
    for name in ("readers_empty", *READERS):
        if name in reader:
            yield Cell(**common(reader[name]), lines=lines, params={"read_delay": 0})
    clean = next(
        (f for name in CLEANING for f in forms if f.name == name and f.arch == topology.arch and f.available), None
    )
    if clean:
        yield Cell(**common(clean), lines=1, params=ONE_LINE)
    if len(topology.usable()) < 2:
        return
    for name in TOGETHER:
        if name in word:
            yield Cell(**common(word[name]), **beside, params={"slots": 1})
    for name in READERS:
        if name in reader:
            yield Cell(**common(reader[name]), **beside, params={"read_delay": 0})
    if "srcu_fast" in reader:
        grace = common(reader["srcu_fast"]) | {"operation": "readers_grace"}
        yield Cell(**grace, **beside, params={"read_delay": 0, "updater": "synchronize"})
