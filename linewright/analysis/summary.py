"""One cell on one machine, all its launches merged: the figures that every table, comparison and
sentence starts from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.intervals import median, median_of
from linewright.analysis.modes import Mode
from linewright.families import BASELINES, DMA
from linewright.forms import made_of
from linewright.schema import Cell, DrawnCosts, Interval, Quantiles

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
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
    """Whether something around the operation is in its baseline too: work, a delay inside a
    read-side critical section, the walk of a scatter list."""
    delayed = cell.situation.param("read_delay") not in (0, "0")
    worked = cell.work_iters > 0 or delayed or cell.operation in DMA.operations
    return worked and cell.operation not in BASELINES and cell.operation != "readers_grace"


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by their key, in the order of first appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _over(made: Callable[[list], Any]) -> msgspec.Meta:
    """How a field is made of the records' fields of its name, one value for each launch."""
    return msgspec.Meta(extra={"made": made})


def _each_thread(rows: Iterable[Sequence[float]]) -> list[float]:
    """Median over launches of each thread's figure; launches with another number of threads are
    left out."""
    rows = [row for row in rows if row]
    if not rows:
        return []
    length = Counter(len(row) for row in rows).most_common(1)[0][0]
    columns = zip(*(row for row in rows if len(row) == length), strict=True)
    return [median(np.array(column, dtype=float)) for column in columns]


_MIDDLE, _EVEN = (_over(lambda values, w=w: median_of(values, w)) for w in (0.0, 1.0))
_BY_THREAD = _over(_each_thread)
_COUNTS = _over(lambda rows: list(map(int, _each_thread(rows))))
_MOST_OFTEN = _over(lambda values: max(values, key=values.count, default=""))
_ALL = _over(lambda values: sum(each.total for each in values))
_FIRST = _over(lambda values: next(filter(None, values), None))


class Summary(Struct, frozen=True, kw_only=True):
    """One cell on one machine, all its launches merged."""

    cell: Cell
    id: str
    machine_id: str
    arch: str
    """Of the machine, empty where no context says it."""
    context_ids: list[str]
    launches: int
    """Launches that gave values."""
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
    total_mops: Annotated[float, _MIDDLE]
    fairness: Annotated[float, _EVEN]
    thread_ns: Annotated[list[float], _BY_THREAD]
    thread_ticks: Annotated[list[float], _BY_THREAD]
    thread_ops: Annotated[list[int], _COUNTS]
    modes: list[Mode]
    """Groups that the launches fall into; more than one: metastable (judged over all cells of the
    machine together)."""
    line_modes: list[Mode]
    """Groups that the lines fall into; more than one: near and far homes, or another property of
    the line."""
    lines_spread: float
    """(p95 - p5) / median over lines."""
    flags: list[str]
    cpus: list[int]
    placement_class: str
    stop: Annotated[str, _MOST_OFTEN]
    unit: str
    """What `unit_ns` holds one median of: ``launch`` (launches of one cluster are one), or in one
    launch ``line``, ``block`` or ``window``; ``none``."""
    unit_ns: list[float]
    """Medians of the issue interval that the interval is made of."""
    place_by_launch: dict[str, int]
    """Where each launch placed its timed functions, as distance from a 64-byte boundary: launches
    that share it share its luck."""
    by_launch: dict[str, float]
    """Median issue interval of each launch, by context."""
    exposed_by_launch: dict[str, float]
    rounds: dict[str, dict[float, float]]
    """Issue interval of each window, by context and round: what comparisons pair. A launch whose
    records do not say which windows share a round is left out."""
    exposed_rounds: dict[str, dict[float, float]]
    baseline_by_launch: dict[str, float]
    mops_by_launch: dict[str, float]
    baseline_reach_ns: float
    """From the 10th to the 90th percentile of the baseline loop's windows, median over launches."""
    line_figures: dict[str, dict[int, tuple[float, float, float, int]]]
    """Least, median and most of the windows on each line, and their number, by launch; only where
    `judged_near_or_far`."""
    windows: int
    discarded: Annotated[int, _ALL]
    metrics: dict[str, float]
    drawn: Annotated[DrawnCosts | None, _FIRST] = None
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

    @property
    def usable(self) -> bool:
        """Whether it has a figure to rely on."""
        return self.status == "ok" and self.issue is not None and not self.emulated

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
        """Whether all threads run the same loop: with work or spacing on one side shares are
        unequal by construction."""
        return self.cell.work_iters == 0 and self.cell.contender_iters == 0

    @property
    def one_launch(self) -> bool:
        """Fewer than two launches: no interval, and nothing that a claim can rest on."""
        return not self.published and len(self.by_launch) < 2


def machines_of(summaries: Iterable[Summary]) -> dict[str, list[Summary]]:
    """Summaries by their machine's id."""
    return grouped(summaries, lambda s: s.machine_id)


MADE_OF_LAUNCHES: dict[str, Callable[[list], Any]] = {
    name: hint.__metadata__[0].extra["made"]
    for name, hint in get_type_hints(Summary, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
"""The fields of a `Summary` that say themselves how they are made of the launches' values."""


def figure_of(summary: Summary) -> str:
    """What is compared of a cell: ``exposed`` where there is work around the operation, else
    ``issue``."""
    return "exposed" if has_work(summary.cell) and not summary.published else "issue"
