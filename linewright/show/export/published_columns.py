"""The column layout of the published arm64 table, so that rows of another machine can be laid
beside it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from linewright.schema import Context, Record
from linewright.show.export import csv

COLUMNS = ("form", "contender", "contender_iters", "work_iters", "p50_ns", "p95_ns", "p99_ns")


def as_csv(records: Iterable[Record]) -> str:
    """CSV with the published columns: percentiles of window means, work included, over all launches
    of a cell.

    The published percentiles are of 100 means of 10,000,000 operations; a window of plan
    `published` is about as long. ``contender_iters`` is empty without a contender, as in the table.
    Placebo cells and cells without windows are left out: the published experiment had none."""
    windows: dict[tuple, list[float]] = {}
    for record in records:
        cell = record.cell
        if cell.contender == "placebo" or not record.window_ns:
            continue
        spacing = "" if cell.contender == "none" else cell.contender_iters
        windows.setdefault((cell.form, cell.contender, spacing, cell.work_iters), []).extend(
            record.window_ns
        )
    rows = (
        (*row, *(f"{ns:.2f}" for ns in np.percentile(v, [50, 95, 99])))
        for row, v in windows.items()
    )
    return csv.text((dict(zip(COLUMNS, row, strict=True)) for row in rows), COLUMNS)


WIDE_COLUMNS = ("form", "threads", "reads_each", "cycles_per_read")


def wide_as_csv(contexts: Iterable[Context], records: Iterable[Record]) -> str:
    """CSV in the layout of the 2009 experiment: N threads read one location; mean ticks of the time
    source per read.

    A thread's mean is over its kept windows; on x86 a tick is a cycle of the time-stamp counter,
    not of the core. Records from before ticks were counted give them as nanoseconds over the length
    of a tick. It has only cells without writes, one row for each form and number of threads over
    all launches; `reads_each` is the smallest number of reads of any thread in any launch."""
    tick_ns = {context.context_id: context.tick_ns for context in contexts}
    rows: dict[tuple[str, int], tuple[list[int], list[float]]] = {}
    for record in records:
        if record.cell.params != {"write_percent": 0} or not any(record.thread_ops):
            continue
        reads, cycles = rows.setdefault((record.cell.form, record.cell.threads), ([], []))
        reads.append(min(record.thread_ops))
        ticks = record.thread_ticks or [ns / tick_ns[record.context_id] for ns in record.thread_ns]
        cycles.append(float(np.mean(ticks)))
    flat = ((*row, min(reads), f"{np.median(cycles):.1f}") for row, (reads, cycles) in rows.items())
    return csv.text((dict(zip(WIDE_COLUMNS, row, strict=True)) for row in flat), WIDE_COLUMNS)
