"""Records of several launches become one summary per cell and machine: figures with intervals, modes, flags."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from linewright.analysis import histogram
from linewright.analysis.intervals import CONFIDENCE, Groups, finite, median, medians_of, repeat_interval
from linewright.analysis.modes import LINE_SHARE, Mode, lines_spread, modes
from linewright.errors import UserError
from linewright.schema import Cell, Context, Interval, Quantiles, Record

if TYPE_CHECKING:
    from linewright.analysis.near_far import CoreClass

MOST_HELD = 8_000_000
"""Figures (of launches, lines and threads) that all summaries of one request may hold: about 300 MB."""
LOOK_S = 25.0
"""Launches that began closer together than this saw the machine in one state: together they are one look at it."""
LOOK_VIRTUAL_S = 300.0
"""The same where a hypervisor may place virtual CPUs anew: states of one such machine lasted 7 s to 10 minutes, 28 of 33 less than 130 s."""
FEWEST_LOOKS = 8
"""Looks from which an interval promises that a repeat falls inside."""
STATES = 0.4
"""Relative standard deviation between runs that is assumed where a contended cell had fewer looks.

States of one virtual machine differed by factors of 1.5 to 2.4; see docs/reference/method.md.
"""
FEWEST_LINES = 8
"""Lines (or blocks of windows) below which one launch's windows are not grouped."""
SHARES = (0.50, 0.95, 0.99)


class Percentiles(Struct, frozen=True, kw_only=True):
    """Percentiles of all launches together; `of` says of what (see schema.Quantiles)."""

    of: str
    ops_per_sample: int
    samples: int
    p50_ns: float
    p95_ns: float
    p99_ns: float
    max_ns: float


class Summary(Struct, frozen=True, kw_only=True):
    """One cell on one machine, all its launches merged."""

    cell: Cell
    id: str
    machine_id: str
    context_ids: list[str]
    launches: int
    """Launches that gave values."""
    looks: int
    """Launches at least `LOOK_S` (`LOOK_VIRTUAL_S`) apart; 0 where the records do not say when they were made."""
    launch_span_s: float | None
    """From the first launch's first window to the last one's."""
    promise: str
    """What the intervals hold for: ``repeat`` (another run), ``run`` (only while this one lasted: its launches are too
    few or too close together), or ``launch`` (other lines or windows of the one launch)."""
    status: str
    """``ok``, ``unavailable``, ``error`` or ``unreliable``."""
    reason: str
    issue: Interval | None
    """Issue interval, work included: median of the launches and where a repeat's median falls, as far as `promise` says."""
    repeat: Interval | None
    """Contended: where the median of another run falls, `STATES` allowed for unless `promise` is ``repeat``."""
    exposed: Interval | None
    """Against the empty twin; only with work around the operation. Negative within noise stays negative."""
    completion: Interval | None
    """Operation and its wait, minus the wait alone."""
    batch: Percentiles | None
    small: Percentiles | None
    total_mops: float
    fairness: float
    thread_ns: list[float]
    thread_ticks: list[float]
    thread_ops: list[int]
    modes: list[Mode]
    """Groups that the launches fall into; more than one: metastable."""
    line_modes: list[Mode]
    """Groups that the lines fall into; more than one: near and far homes, or another property of the line."""
    lines_spread: float
    """(p95 - p5) / median over lines."""
    flags: list[str]
    cpus: list[int]
    placement_class: str
    stop: str
    unit: str
    """What `unit_ns` holds one median of: ``launch`` (launches of one look are one), or in one launch ``line``, ``block`` or ``window``; ``none``."""
    unit_ns: list[float]
    """Medians of the issue interval that comparisons take as independent."""
    exposed_unit_ns: list[float]
    completion_unit_ns: list[float]
    total_mops_by_launch: list[float]
    windows: int
    discarded: int
    metrics: dict[str, float]
    emulated: bool
    nearness: str = ""
    """``near``, ``far_posted``, ``far_waited``, ``mixed`` or ``undecided`` on this CPU; set back to back and uncontended."""
    near_lines: int = 0
    far_lines: int = 0
    published: bool
    """Only percentiles are known: the interval is made of them and is no interval of a median."""

    @property
    def metastable(self) -> bool:
        return len(self.modes) > 1

    @property
    def has_figures(self) -> bool:
        """Whether any window was kept; published results have percentiles instead of windows."""
        return self.issue is not None and (self.windows > 0 or self.published)


def _twin_differences(values: list[float], twin: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Each window minus the twin's window beside it, and which windows were kept; unequal counts pair the nearest."""
    a, b = np.asarray(values, dtype=float), np.asarray(twin, dtype=float)
    if not a.size or not b.size:
        return np.empty(0), np.zeros(a.size, dtype=bool)
    if a.size != b.size:
        b = b[np.arange(a.size) * b.size // a.size]
    kept = np.isfinite(a) & np.isfinite(b)
    difference = np.subtract(a, b, where=kept, out=np.zeros(a.size))
    return difference[kept], kept


def _by_line(values: np.ndarray, lines: np.ndarray) -> list[np.ndarray]:
    """The values of each line."""
    order = np.argsort(lines, kind="stable")
    cuts = [0, *(np.flatnonzero(np.diff(lines[order])) + 1).tolist(), values.size]
    ordered = values[order]
    return [ordered[low:high] for low, high in itertools.pairwise(cuts)] if values.size else []


def _grouped(values: np.ndarray, lines: np.ndarray) -> tuple[Groups, str]:
    """Split one launch's windows by line, else into blocks of consecutive windows, else one by one."""
    if lines.size == values.size and len(by_line := _by_line(values, lines)) >= FEWEST_LINES:
        return by_line, "line"
    if values.size >= 3 * FEWEST_LINES:
        return np.array_split(values, FEWEST_LINES), "block"
    return np.split(values, values.size) if values.size else [], "window"


def _started(record: Record, contexts: Mapping[str, Context]) -> float | None:
    """When the cell's first window opened, in seconds of one clock for all launches; None where that is unknown."""
    context = contexts.get(record.context_id)
    if context is None or record.started_s is None:
        return None
    try:
        return datetime.fromisoformat(context.started_utc).timestamp() + record.started_s
    except (ValueError, OverflowError):
        return None


def look_numbers(started: Sequence[float], apart_s: float = LOOK_S) -> list[int]:
    """For each launch which look it belongs to: one that began `apart_s` or more after the last look began opens another."""
    numbers, look, opened = [0] * len(started), -1, -math.inf
    for index in sorted(range(len(started)), key=lambda i: started[i]):
        if started[index] - opened >= apart_s:
            look, opened = look + 1, started[index]
        numbers[index] = look
    return numbers


def _looks(usable: list[Record], contexts: Mapping[str, Context]) -> tuple[list[int], float | None]:
    """Look of every launch that gave windows, and the time from first to last; nothing where a time is unknown."""
    started = [_started(r, contexts) for r in usable if r.window_ns]
    if not started or None in started:
        return [], None
    steady = all(contexts[r.context_id].virtualised == "no" for r in usable if r.window_ns)
    return look_numbers(started, LOOK_S if steady else LOOK_VIRTUAL_S), max(started) - min(started)


def _promise(launches: int, looks: int) -> str:
    if launches < 2:
        return "launch"
    return "repeat" if looks >= FEWEST_LOOKS else "run"


def _repeat(issue: Interval | None, promise: str, contended: bool) -> Interval | None:
    """The interval for another run of a contended cell: both runs may have met the machine in any of its states."""
    if issue is None or not contended or promise == "repeat":
        return issue if contended else None
    factor = math.exp(NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(2) * STATES)
    return Interval(
        median_ns=issue.median_ns, low_ns=issue.low_ns / factor, high_ns=issue.high_ns * factor, confidence=CONFIDENCE
    )


def _joined(launches: list[tuple[np.ndarray, np.ndarray]], looks: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Launches of one look as one, if there are looks enough to stand for themselves."""
    if len(looks) != len(launches) or not FEWEST_LOOKS <= len(set(looks)) < len(launches):
        return launches
    joined = []
    for look in sorted(set(looks)):
        parts = [part for part, number in zip(launches, looks, strict=True) if number == look]
        complete = all(lines.size == values.size for values, lines in parts)
        lines = np.concatenate([lines for _, lines in parts]) if complete else np.empty(0, dtype=np.int64)
        joined.append((np.concatenate([values for values, _ in parts]), lines))
    return joined


def _groups(launches: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Groups, str]:
    """Launches as groups; a single launch by what varies inside it."""
    launches = [(values, lines) for values, lines in launches if values.size]
    if not launches:
        return [], "none"
    if len(launches) == 1:
        return _grouped(*launches[0])
    return [values for values, _ in launches], "launch"


def _estimate(
    launches: list[tuple[np.ndarray, np.ndarray]], looks: Sequence[int], logarithmic: bool = True
) -> tuple[Interval | None, list[float], str]:
    groups, unit = _groups(_joined(launches, looks))
    return repeat_interval(groups, logarithmic=logarithmic), medians_of(groups).tolist() if groups else [], unit


def _windows(record: Record) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(record.window_ns, dtype=float)
    lines = np.asarray(record.window_line, dtype=np.int64)
    kept = np.isfinite(values)
    return values[kept], lines[kept] if lines.size == values.size else np.empty(0, dtype=np.int64)


def _differences(record: Record, values: list[float], twin: list[float]) -> tuple[np.ndarray, np.ndarray]:
    difference, kept = _twin_differences(values, twin)
    lines = np.asarray(record.window_line, dtype=np.int64)
    return difference, lines[kept] if lines.size == kept.size else np.empty(0, dtype=np.int64)


def _percentiles(parts: list[Quantiles]) -> Percentiles | None:
    if not parts:
        return None
    common = Counter(part.ops_per_sample for part in parts).most_common(1)[0][0]
    merged = histogram.merge(part.histogram for part in parts)
    if merged:
        p50, p95, p99 = histogram.percentiles(merged, SHARES)
    else:
        p50, p95, p99 = (
            float(np.median([getattr(part, name) for part in parts])) for name in ("p50_ns", "p95_ns", "p99_ns")
        )
    highest = max(part.max_ns for part in parts)
    return Percentiles(
        of=parts[0].of,
        ops_per_sample=common,
        samples=sum(part.samples for part in parts),
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        max_ns=highest,
    )


def _from_percentiles(batch: Percentiles | None) -> Interval | None:
    """A stand-in where windows are missing: p50 with p95 above and the same distance below (wider than a median's interval)."""
    if batch is None:
        return None
    reach = max(0.0, batch.p95_ns - batch.p50_ns)
    return Interval(median_ns=batch.p50_ns, low_ns=batch.p50_ns - reach, high_ns=batch.p50_ns + reach, confidence=0.9)


def _status(records: list[Record]) -> tuple[str, str, list[Record]]:
    """Merged status, its reason, and the records whose values count.

    A wrong sum anywhere makes the cell an error; otherwise launches that worked speak for it, unless half or more
    were unreliable.  A launch that `--resume` ran again, and that worked then, is as good as any other.
    """
    worked = {r.launch for r in records if r.status == "ok"}
    records = [r for r in records if r.status == "ok" or r.launch not in worked or r.sum_expected != r.sum_found]
    by_status = {
        name: [r for r in records if r.status == name] for name in ("ok", "error", "unreliable", "unavailable")
    }
    if by_status["error"]:
        return "error", next((r.reason for r in by_status["error"] if r.reason), ""), []
    usable = by_status["ok"] + by_status["unreliable"]
    if not usable:
        return "unavailable", records[0].reason, []
    if 2 * len(by_status["unreliable"]) >= len(usable):
        return "unreliable", next((r.reason for r in by_status["unreliable"] if r.reason), ""), usable
    return "ok", next((r.reason for r in by_status["ok"] if r.reason), ""), by_status["ok"]


def _thread_means(rows: list[list[float]]) -> list[float]:
    """Median over launches of each thread's figure; launches with another number of threads are left out."""
    rows = [row for row in rows if row]
    if not rows:
        return []
    length = Counter(len(row) for row in rows).most_common(1)[0][0]
    return [float(x) for x in np.median([row for row in rows if len(row) == length], axis=0)]


def _median(values: Iterable[float], otherwise: float) -> float:
    array = finite(list(values))
    return median(array) if array.size else otherwise


def _line_medians(launches: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """Each line's median, relative to its launch's median and scaled back, over all launches' lines."""
    medians: list[float] = []
    whole = _median([median(values) for values, _ in launches if values.size], 0.0)
    for values, lines in launches:
        if lines.size != values.size or not values.size:
            continue
        launch = median(values) if len(launches) > 1 else whole
        if launch <= 0:
            continue
        medians += (medians_of(_by_line(values, lines)) / launch * whole).tolist()
    return medians


def _flags(
    usable: list[Record], contended: bool, unit: str, looks: int, launch_modes: list[Mode], line_modes: list[Mode]
) -> list[str]:
    flags = {flag for record in usable for flag in record.flags}
    if len(launch_modes) > 1:
        flags.add("metastable")
    if len(line_modes) > 1:
        flags.add("bimodal_lines")
    if contended and unit != "launch" and usable:
        flags.add("one_launch")
    elif contended and 0 < looks < FEWEST_LOOKS:
        flags.add("short_span")
    return sorted(flags)


def _merge(machine_id: str, records: list[Record], contexts: Mapping[str, Context]) -> Summary:
    records = sorted(records, key=lambda r: (r.launch, r.context_id))
    first = records[0]
    status, reason, usable = _status(records)
    measured = [record for record in usable if record.window_ns]
    looks, span_s = _looks(usable, contexts)
    windows = [_windows(record) for record in measured]
    issue, unit_ns, unit = _estimate(windows, looks)
    exposed, exposed_ns = None, []
    # A delay inside a section is work too: the empty twin has it as well.
    worked = first.cell.work_iters > 0 or first.cell.params.get("read_delay", 0) not in (0, "0")
    if worked and first.cell.operation not in ("none", "readers_none", "readers_grace"):
        differences = [_differences(r, r.window_ns, r.baseline_ns) for r in measured]
        exposed, exposed_ns, _ = _estimate(differences, looks, logarithmic=False)
    completion, completion_ns, _ = _estimate(
        [_differences(r, r.completion_ns, r.completion_baseline_ns) for r in measured],
        looks,
        logarithmic=False,
    )
    batch = _percentiles([r.batch for r in usable if r.batch])
    published = issue is None and batch is not None
    if published:
        issue = _from_percentiles(batch)
    elif issue is None:
        issue = next((r.issue for r in usable if r.issue), None)
    launch_modes = modes(unit_ns) if unit == "launch" else []
    line_medians = _line_medians(windows)
    line_modes = modes(line_medians, LINE_SHARE)
    known = [contexts[r.context_id] for r in records if r.context_id in contexts]
    values = [w for w in windows if w[0].size]
    promise = _promise(len(values), len(set(looks)))
    return Summary(
        cell=first.cell,
        id=first.cell.id,
        machine_id=machine_id,
        context_ids=sorted(
            {contexts[r.context_id].context_id if r.context_id in contexts else r.context_id for r in records}
        ),
        launches=len(values) or len(usable),
        looks=len(set(looks)),
        launch_span_s=span_s,
        promise=promise,
        repeat=_repeat(None if published else issue, promise, first.cell.contender == "same_line"),
        status=status,
        reason=reason,
        issue=issue,
        exposed=exposed,
        completion=completion,
        batch=batch,
        small=_percentiles([r.small_batch for r in usable if r.small_batch]),
        total_mops=_median((r.total_mops for r in usable), 0.0),
        fairness=_median((r.fairness for r in usable), 1.0),
        thread_ns=_thread_means([r.thread_ns for r in usable]),
        thread_ticks=_thread_means([r.thread_ticks for r in usable]),
        thread_ops=[int(x) for x in _thread_means([r.thread_ops for r in usable])],
        modes=launch_modes,
        line_modes=line_modes if len(line_modes) > 1 else [],
        lines_spread=lines_spread(line_medians),
        flags=_flags(usable, first.cell.contender == "same_line", unit, len(set(looks)), launch_modes, line_modes),
        cpus=usable[0].cpus if usable else first.cpus,
        placement_class=usable[0].placement_class if usable else first.placement_class,
        stop=Counter(r.stop for r in usable).most_common(1)[0][0] if usable else "",
        unit=unit,
        unit_ns=unit_ns,
        exposed_unit_ns=exposed_ns,
        completion_unit_ns=completion_ns,
        total_mops_by_launch=[r.total_mops for r in usable],
        windows=sum(w[0].size for w in windows),
        discarded=sum(r.discarded.switched + r.discarded.stolen + r.discarded.long_batch for r in usable),
        metrics={name: _median((r.metrics[name] for r in usable if name in r.metrics), 0.0) for name in _names(usable)},
        emulated=any(c.emulated for c in known),
        published=published,
    )


def _names(records: list[Record]) -> list[str]:
    return sorted({name for record in records for name in record.metrics})


def by_id(contexts: Iterable[Context] | Mapping[str, Context]) -> dict[str, Context]:
    """Contexts by their id, whichever way they come."""
    return dict(contexts) if isinstance(contexts, Mapping) else {c.context_id: c for c in contexts}


def summarise(contexts: Iterable[Context] | Mapping[str, Context], records: Iterable[Record]) -> list[Summary]:
    """One summary per machine and cell, in the order of first appearance.

    Records whose context is missing are kept apart under their context id, since their machine is unknown.  Flags of
    `linewright.analysis.plausible` are part of every summary.
    """
    from linewright.analysis.near_far import near_far

    known = by_id(contexts)
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        context = known.get(record.context_id)
        machine = context.machine_id if context else record.context_id
        groups.setdefault((machine, record.cell.id), []).append(record)
    every = (record for members in groups.values() for record in members)
    return summarise_groups(
        known, ((machine, members) for (machine, _), members in groups.items()), near_far(known, every)
    )


def summarise_groups(
    contexts: Mapping[str, Context], groups: Iterable[tuple[str, list[Record]]], classes: Iterable[CoreClass]
) -> list[Summary]:
    """The same from one cell's records after the other: a machine's id with all records of a cell there.

    Only the summaries stay in memory; UserError when they come to more than `MOST_HELD` values.
    """
    from linewright.analysis.near_far import with_nearness
    from linewright.analysis.plausible import with_flags

    merged: list[Summary] = []
    held = 0
    for machine, members in groups:
        merged.append(_merge(machine, members, contexts))
        s = merged[-1]
        held += sum(
            map(
                len,
                (
                    s.unit_ns,
                    s.exposed_unit_ns,
                    s.completion_unit_ns,
                    s.thread_ns,
                    s.thread_ops,
                    s.cpus,
                    s.total_mops_by_launch,
                ),
            )
        )
        if held > MOST_HELD:
            raise UserError(
                f"more than {MOST_HELD} figures of launches, lines and threads",
                "records",
                "fewer files or cells at once, by --only",
            )
    return with_flags(with_nearness(merged, classes), contexts)
