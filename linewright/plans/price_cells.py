# SPDX-License-Identifier: MIT
"""The price list: a few cells each of what may stand in for a locked operation, for plans that
compare across remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linewright.families import READERS as READER_FAMILY
from linewright.families import family_of
from linewright.forms import Form
from linewright.plans.grid import common
from linewright.schema import Cell
from linewright.target import Topology

KERNEL = ("this_cpu_add", "preempt_this_cpu_add", "irq_this_cpu_add")
"""Counters that exist inside the kernel alone."""
ALONE = (
    "percpu_empty",
    "percpu_thread_local_add",
    "percpu_rseq_add",
    "percpu_shared_c11_add",
    *KERNEL,
)
"""Counters of one thread, and their baseline loop."""
TOGETHER = (
    "percpu_rseq_add",
    "percpu_shared_c11_add",
    "percpu_false_sharing_add",
    "percpu_padded_add",
    *KERNEL,
)
"""Counters of two threads: one for each CPU, one for all, one for each thread on one line, and on
lines of their own."""
READERS = ("rcu", "srcu_fast", "srcu", "biased_rwlock", "rwlock", "rwsem", "mutex")
WAITED = (("rcu",), ("srcu_fast", "srcu"))
"""Readers whose updaters are timed, of each kind the first that there is."""
CLEANING = ("clwb", "dc_cvac", "clflushopt")
"""Instructions that write a line back, the first that the CPU has."""
ONE_LINE = {"align_bytes": 0, "entries": 1, "entry_bytes": 64, "state": "dirty_l1", "wait": "once"}


def cells(forms: Sequence[Form], topology: Topology, lines: int) -> Iterator[Cell]:
    """Counters, readers with the wait of an updater, and one cache line's clean, on `lines` lines
    each."""
    word = {form.name: form for form in forms if form.width_bits == topology.word_bits}
    reader = {form.name: form for form in forms if family_of(form.operation) is READER_FAMILY}
    beside = {"contender": "same_line", "threads": 2, "lines": lines}
    for name in ALONE:
        if name in word:
            yield Cell(**common(word[name]), lines=lines, params={"slots": 1})
    for name in ("readers_empty", *READERS):
        if name in reader:
            yield Cell(**common(reader[name]), lines=lines, params={"read_delay": 0})
    clean = next(
        (
            f
            for name in CLEANING
            for f in forms
            if f.name == name and f.arch == topology.arch and f.available
        ),
        None,
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
    for names in WAITED:
        waited = next((reader[name] for name in names if name in reader), None)
        if waited:
            grace = common(waited) | {"operation": "readers_grace"}
            yield Cell(**grace, **beside, params={"read_delay": 0, "updater": "synchronize"})
