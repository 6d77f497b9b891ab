"""The column layout of the published arm64 table, so that rows of another machine can be laid beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import numpy as np

from linewright.schema import Record

COLUMNS = ("form", "contender", "contender_iters", "work_iters", "p50_ns", "p95_ns", "p99_ns")


def as_csv(records: Iterable[Record]) -> str:
    """CSV with the published columns: percentiles of the means of windows, work included, all launches of a cell together.

    The published percentiles are of 100 means of 10,000,000 operations; a window of plan `published` is about as long.
    ``contender_iters`` is empty without a contender, as in the table. Placebo cells and cells without windows are left
    out: the published experiment had none.
    """
    windows: dict[tuple, list[float]] = {}
    for record in records:
        cell = record.cell
        if cell.contender == "placebo" or not record.window_ns:
            continue
        gap = "" if cell.contender == "none" else cell.contender_iters
        windows.setdefault((cell.form, cell.contender, gap, cell.work_iters), []).extend(record.window_ns)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row, values in windows.items():
        writer.writerow([*row, *(f"{value:.2f}" for value in np.percentile(values, [50, 95, 99]))])
    return text.getvalue()
