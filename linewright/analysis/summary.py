# SPDX-License-Identifier: MIT
"""One cell on one machine, all its launches merged: the figures that every table, comparison and
sentence starts from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct

from linewright.analysis.intervals import Mode, median, median_of
from linewright.forms import BASELINE_LOOPS, DMA, made_of
from linewright.schema import Cell, DrawnCosts, Interval, Quantiles

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
DISTRUSTED = frozenset({"emulated", "faster_than_floor", "doubled", "zero_cost", "same_cpu"})
"""Flags that keep a cell out of every comparison."""
MISSED = 0.25
"""Logarithm of simulated over measured from which it is said of a simulated figure that the model
missed cells like it."""


def judged_near_or_far(cell: Cell) -> bool:
    """Whether a cell tells where its form is performed: uncontended, back to back, a single LSE
    instruction, alone or behind a prefetch for write."""
    made = made_of(cell.form)
    return (
        cell.contender == "none"
        and not cell.work_iters
        and cell.operation in ("add", "fetch_add", "xchg")
        and made.reach == "near_or_far"
        and made.instruction != ""
    )


def has_work(cell: Cell) -> bool:
    """Whether something around the operation is in its baseline loop too: work, a delay inside
    a read-side critical section, the walk of a scatter list."""
    delayed = cell.situation.param("read_delay") not in (0, "0")
    worked = cell.work_iters > 0 or delayed or cell.operation in DMA.operations
    return worked and cell.operation not in BASELINE_LOOPS and cell.operation != "readers_grace"


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by their key, in the order of first appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


LAUNCH = np.dtype(
    [
        ("context_id", object), ("usable", bool), ("windows", int), ("discarded", int),
        ("issue_ns", float), ("exposed_ns", float), ("baseline_ns", float),
        ("baseline_reach_ns", float), ("total_mops", float), ("fairness", float),
        ("loop_offset_bytes", int), ("thread_ns", object), ("thread_ticks", object),
        ("thread_ops", object), ("stop", object), ("cpus", object), ("placement_class", object),
        ("rounds", object), ("lines", object),
    ]
)  # fmt: skip
"""One launch of a cell.  `usable`: its values count; `windows`: those kept; `issue_ns`,
`exposed_ns` and `baseline_ns`: medians of its windows, of what they take beyond the baseline loop
and of that loop, in ns per operation; `baseline_reach_ns`: from the 10th to the 90th percentile of
the loop's windows; NaN where there is none.  `loop_offset_bytes`: where it placed its timed
functions, as distance from a 64-byte boundary (launches that share it share its luck; 0 where no
context says it).  `rounds` is an array of `WINDOW`, `lines` one of `LINE`; the others are the
record's fields of their names."""
WINDOW = np.dtype([("round", float), ("issue_ns", float), ("exposed_ns", float)])
"""A window by what names its round: comparisons pair those of one round.  Of a launch whose records
do not say which windows share a round there is none."""
LINE = np.dtype(
    [
        ("line", int), ("least_ns", float), ("median_ns", float), ("most_ns", float),
        ("windows", int),
    ]
)  # fmt: skip
"""The windows of a launch on one line, ns per operation; only where `judged_near_or_far`."""


def _each_thread(rows: Iterable[Sequence[float]]) -> list[float]:
    """Median over launches of each thread's figure; launches with another number of threads are
    left out."""
    rows = [row for row in rows if row]
    if not rows:
        return []
    length = Counter(len(row) for row in rows).most_common(1)[0][0]
    columns = zip(*(row for row in rows if len(row) == length), strict=True)
    return [median(np.array(column, dtype=float)) for column in columns]


class Summary(Struct, frozen=True, kw_only=True):
    """One cell on one machine, all its launches merged."""

    cell: Cell
    id: str
    machine_id: str
    arch: str
    """Of the machine, empty where no context says it."""
    by_launch: np.ndarray
    """Of `LAUNCH`: every record of the cell, those whose values count first."""
    clusters: int
    """Groups of launches close in time, which share the machine's state; 0 where the records do not
    say when they were."""
    launch_span_s: float | None
    """From the first launch's first window to the last one's."""
    promise: str
    """What the intervals hold for: ``repeat`` (another run), ``run`` (only while this one lasted:
    its launches are too few or too close together), or ``launch`` (other lines or windows of the
    one launch)."""
    status: str
    """``ok``, ``unavailable``, ``error`` or ``unreliable``."""
    reason: str
    issue: Interval | None
    """Issue interval, work included: median of the launches' medians, and where a repeat's falls as
    far as `promise` says. Of published percentiles the median alone: both ends are it and the
    confidence is 0."""
    exposed: Interval | None
    """Against the baseline loop; only with work around the operation. Negative within noise stays
    negative."""
    completion: Interval | None
    """Operation and its wait, minus the wait alone."""
    batch: Quantiles | None
    small: Quantiles | None
    """Of all launches together, without their histogram."""
    modes: list[Mode]
    """Groups that the launches fall into; more than one: metastable (judged over all cells of the
    machine together)."""
    line_modes: list[Mode]
    """Groups that the lines fall into; more than one: near and far homes, or another property of
    the line."""
    lines_spread: float
    """(p95 - p5) / median over lines."""
    flags: list[str]
    unit: str
    """What `unit_ns` holds one median of: ``launch`` (launches of one cluster are one), or in one
    launch ``line``, ``block`` or ``window``; ``none``."""
    unit_ns: list[float]
    """Medians of the issue interval that the interval is made of."""
    metrics: dict[str, float]
    drawn: DrawnCosts | None = None
    emulated: bool
    withheld: str = ""
    """Why there is no exposed cost: the baseline loop is ``not_proportional`` or ``not_steady`` at
    this work length."""
    nearness: str = ""
    """``near``, ``far``, ``all_far``, ``mixed`` or ``undecided`` on this CPU (see near_far); set
    back to back and uncontended."""
    near_lines: int = 0
    far_lines: int = 0
    published: bool
    """Only percentiles are known: a median without an interval."""

    def of_launches(self, figure: str) -> dict[str, float]:
        """A number of `LAUNCH` for each launch that has it and whose values count, by context; of
        exposed costs none where they are withheld."""
        rows = self._counted
        if figure == "exposed_ns" and self.exposed is None:
            return {}
        pairs = zip(rows["context_id"].tolist(), rows[figure].tolist(), strict=True)
        return {launch: value for launch, value in pairs if math.isfinite(value)}

    def of_rounds(self, figure: str) -> dict[str, dict[float, float]]:
        """The same of each window, ``issue_ns`` or ``exposed_ns``, by context and round."""
        return {
            row["context_id"]: {
                name: ns
                for name, ns in row["rounds"][["round", figure]].tolist()
                if math.isfinite(ns)
            }
            for row in self._counted
            if row["rounds"].size
        }

    def of_lines(self) -> dict[tuple[str, int], list]:
        """The figures of `LINE` by context and line."""
        return {
            (row["context_id"], line): figures
            for row in self._counted
            for line, *figures in row["lines"].tolist()
        }

    @property
    def _counted(self) -> np.ndarray:
        return self.by_launch[self.by_launch["usable"]]

    @property
    def context_ids(self) -> list[str]:
        return sorted(set(self.by_launch["context_id"]))

    @property
    def launches(self) -> int:
        """Launches that gave values."""
        return int((self._counted["windows"] > 0).sum()) or len(self._counted)

    @property
    def windows(self) -> int:
        return int(self._counted["windows"].sum())

    @property
    def discarded(self) -> int:
        """Windows that were not kept."""
        return int(self._counted["discarded"].sum())

    @property
    def places(self) -> dict[str, int]:
        """Where each launch placed its timed functions, bytes beyond a 64-byte boundary."""
        rows = self.by_launch
        return dict(zip(rows["context_id"], rows["loop_offset_bytes"].tolist(), strict=True))

    @property
    def baseline_reach_ns(self) -> float:
        """From the 10th to the 90th percentile of the baseline loop's windows, median over
        launches."""
        return median_of(self._counted["baseline_reach_ns"], 0.0)

    @property
    def total_mops(self) -> float:
        """All threads' operations per microsecond, median over launches."""
        return median_of(self._counted["total_mops"], 0.0)

    @property
    def fairness(self) -> float:
        return median_of(self._counted["fairness"], 1.0)

    @property
    def thread_ns(self) -> list[float]:
        return _each_thread(self._counted["thread_ns"])

    @property
    def thread_ticks(self) -> list[float]:
        return _each_thread(self._counted["thread_ticks"])

    @property
    def thread_ops(self) -> list[int]:
        return list(map(int, _each_thread(self._counted["thread_ops"])))

    @property
    def stop(self) -> str:
        """What ended most launches."""
        values = self._counted["stop"].tolist()
        return max(values, key=values.count, default="")

    @property
    def cpus(self) -> list[int]:
        """Of the first launch, timed thread first."""
        return self.by_launch[0]["cpus"]

    @property
    def placement_class(self) -> str:
        return self.by_launch[0]["placement_class"]

    @property
    def distrust(self) -> str:
        """The flag for which the figure is not shown as what the cell costs; empty for none.  That
        an emulator ran it is said once, of the whole machine."""
        return min((DISTRUSTED - {"emulated"}) & set(self.flags), default="")

    @property
    def usable(self) -> bool:
        """Whether it has a figure to rely on."""
        return self.status == "ok" and self.issue is not None and not self.emulated

    @property
    def trusted(self) -> bool:
        """Whether it may take part in a comparison: usable, and without a flag of `DISTRUSTED`."""
        return self.usable and not self.distrust

    @property
    def metastable(self) -> bool:
        return len(self.modes) > 1

    @property
    def simulated(self) -> bool:
        return "simulated" in self.flags

    @property
    def band(self) -> Interval | None:
        """The issue interval, of a cell simulated on a calibrated machine: from the 5th to the 95th
        percentile over draws of its constants, with the model's own misses."""
        return self.issue if "p05_ns" in self.metrics else None

    @property
    def model_error_range(self) -> tuple[float, float] | None:
        """Simulated over measured, the least and the greatest, of cells like this simulated one
        that no fit had seen; None where the model was less than `MISSED` off, or that is not
        known."""
        misses = self.drawn.misses if self.drawn and self.has_figures else []
        off = max(map(abs, misses), default=0.0) >= MISSED
        return (math.exp(min(misses)), math.exp(max(misses))) if off else None

    @property
    def has_figures(self) -> bool:
        """Whether any window was kept; published results have percentiles instead of windows."""
        return self.issue is not None and (self.windows > 0 or self.published)

    @property
    def equal_loops(self) -> bool:
        """Whether all threads run the same loop: with work or spacing on one side, or one thread
        that holds what the others wait for, shares are unequal by construction."""
        own = self.cell
        return own.operation != "wait_held" and own.work_iters == own.contender_iters == 0

    @property
    def one_launch(self) -> bool:
        """Fewer than two launches: no interval, and nothing that a claim can rest on."""
        return not self.published and len(self.of_launches("issue_ns")) < 2


def machines_of(summaries: Iterable[Summary]) -> dict[str, list[Summary]]:
    """Summaries by their machine's id."""
    return grouped(summaries, lambda s: s.machine_id)


def figure_of(summary: Summary) -> str:
    """What is compared of a cell: ``exposed`` where there is work around the operation, else
    ``issue``."""
    return "exposed" if has_work(summary.cell) and not summary.published else "issue"
