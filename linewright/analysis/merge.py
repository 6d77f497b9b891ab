# SPDX-License-Identifier: MIT
"""Records of several launches become one summary per cell and machine.

A record's histogram of times is log-linear: picoseconds, 7 sub-bucket bits, relative bucket width
below 0.8 %."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np

from linewright.analysis.intervals import (
    BAND,
    LINE_ALARM,
    LINE_SHARE,
    Mode,
    ValueGroups,
    between,
    finite,
    lines_spread,
    median,
    median_of,
    medians_of,
    modes,
    repeat_interval,
)
from linewright.analysis.summary import (
    LAUNCH,
    LINE,
    WINDOW,
    Summary,
    grouped,
    has_work,
    judged_near_or_far,
)
from linewright.schema import Context, Interval, Quantiles, Record

SUB_BITS = 7
LINEAR_BUCKETS = 1 << (SUB_BITS + 1)
"""Values below this are their own bucket."""

Buckets = Sequence[tuple[int, int]]


def bucket_bounds(index: int) -> tuple[int, int]:
    """Lowest and highest picosecond value of a bucket, both inside it."""
    if index < LINEAR_BUCKETS:
        return index, index
    exponent = (index >> SUB_BITS) - 1
    low = (index - (exponent << SUB_BITS)) << exponent
    return low, low + (1 << exponent) - 1


def merge_histograms(histograms: Iterable[Buckets]) -> list[tuple[int, int]]:
    """One histogram of everything the given ones hold."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for index, count in histogram:
            counts[index] = counts.get(index, 0) + count
    return sorted(pair for pair in counts.items() if pair[1])


def histogram_percentiles(histogram: Buckets, shares: Sequence[float]) -> list[float]:
    """Times in ns that the given shares (0..1) of the samples do not exceed, as middles of their
    buckets.

    The sample of rank ceil(share·n) (at least the first), as HdrHistogram and NumPy's
    `inverted_cdf` choose it."""
    pairs = [(index, count) for index, count in sorted(histogram) if count]
    if not pairs:
        raise ValueError("an empty histogram has no percentiles")
    reached = np.cumsum([float(count) for _, count in pairs])
    answers = []
    for share in shares:
        rank = max(1.0, np.ceil(share * reached[-1] - 1e-9))
        low, high = bucket_bounds(pairs[int(np.searchsorted(reached, rank))][0])
        answers.append((low + high) / 2000)
    return answers


CLUSTER_S = 25.0
"""Launches that began closer together than this saw the machine in one state: together they are one
cluster."""
CLUSTER_VIRTUAL_S = 300.0
"""The same where a hypervisor may place virtual CPUs anew: states of one such machine lasted 7 s to
10 minutes, 28 of 33 less than 130 s."""

FEWEST_CLUSTERS = 8
"""Clusters from which an interval promises that a repeat falls inside."""
FEWEST_LINES = 8
"""Lines (or blocks of windows) below which one launch's windows are not grouped."""
FEWEST_ON_A_LINE = 3
"""Windows on a line from which it counts when differences between lines are separated from
differences in time."""
LINE_AGREEMENT = 0.8
"""Share of the variance that must lie between lines before lines are called different."""
SHARES = (0.50, 0.95, 0.99)
Windows = tuple[np.ndarray, np.ndarray]
"""The values of windows, and the line of each; no lines where they are unknown."""
NO_WINDOWS: Windows = (np.empty(0), np.empty(0, np.int64))


def _by_line(values: np.ndarray, lines: np.ndarray) -> list[np.ndarray]:
    """The values of each line."""
    order = np.argsort(lines, kind="stable")
    cuts = [0, *(np.flatnonzero(np.diff(lines[order])) + 1).tolist(), values.size]
    ordered = values[order]
    return [ordered[low:high] for low, high in itertools.pairwise(cuts)] if values.size else []


def _grouped(values: np.ndarray, lines: np.ndarray) -> tuple[ValueGroups, str]:
    """Split one launch's windows by line, else into blocks of consecutive windows, else one by
    one."""
    if lines.size == values.size and len(by_line := _by_line(values, lines)) >= FEWEST_LINES:
        return by_line, "line"
    if values.size >= 3 * FEWEST_LINES:
        return np.array_split(values, FEWEST_LINES), "block"
    return np.split(values, values.size) if values.size else [], "window"


def _started(record: Record, contexts: Mapping[str, Context]) -> float | None:
    """When the cell's first window opened, in seconds of one clock for all launches; None where
    that is unknown."""
    context = contexts.get(record.context_id)
    if context is None or record.started_s is None:
        return None
    began = began_at(context)
    return None if began is None else began + record.started_s


def began_at(context: Context) -> float | None:
    """When a launch began, in seconds of one clock for all; None where its file gives no time."""
    try:
        return datetime.fromisoformat(context.started_utc).timestamp()
    except (ValueError, OverflowError):
        return None


def on_metal(contexts: Iterable[Context]) -> bool:
    """Whether these launches are known to have had no hypervisor, which may move their CPUs."""
    return all(c.virtualised == "no" for c in contexts)


def cluster_numbers(started: Sequence[float], apart_s: float = CLUSTER_S) -> list[int]:
    """For each launch its cluster: one that began `apart_s` or more after the last cluster began
    opens another."""
    numbers, cluster, opened = [0] * len(started), -1, -math.inf
    for index in sorted(range(len(started)), key=lambda i: started[i]):
        if started[index] - opened >= apart_s:
            cluster, opened = cluster + 1, started[index]
        numbers[index] = cluster
    return numbers


def _clusters(
    usable: list[Record], contexts: Mapping[str, Context]
) -> tuple[list[int], float | None]:
    """Cluster of every launch that gave windows, and the time from first to last; nothing where a
    time is unknown."""
    started = [_started(r, contexts) for r in usable if r.window_ns]
    if not started or None in started:
        return [], None
    steady = on_metal(contexts[r.context_id] for r in usable if r.window_ns)
    apart_s = CLUSTER_S if steady else CLUSTER_VIRTUAL_S
    return cluster_numbers(started, apart_s), max(started) - min(started)


def _joined(launches: list[Windows], clusters: Sequence[int]) -> list[Windows]:
    """Launches of one cluster as one, if there are clusters enough to stand for themselves."""
    if len(clusters) != len(launches) or not FEWEST_CLUSTERS <= len(set(clusters)) < len(launches):
        return launches
    joined = []
    for cluster in sorted(set(clusters)):
        parts = [part for part, number in zip(launches, clusters, strict=True) if number == cluster]
        complete = all(lines.size == values.size for values, lines in parts)
        values, lines = map(np.concatenate, zip(*parts, strict=True))
        joined.append((values, lines if complete else lines[:0]))
    return joined


def _groups(launches: list[Windows]) -> tuple[ValueGroups, str]:
    """Launches as groups; a single launch by what varies inside it."""
    launches = [(values, lines) for values, lines in launches if values.size]
    if not launches:
        return [], "none"
    if len(launches) == 1:
        return _grouped(*launches[0])
    return [values for values, _ in launches], "launch"


def _estimate(
    launches: list[Windows], clusters: Sequence[int], logarithmic: bool = True
) -> tuple[Interval | None, list[float], str]:
    groups, unit = _groups(_joined(launches, clusters))
    medians = medians_of(groups).tolist() if groups else []
    return repeat_interval(groups, logarithmic=logarithmic), medians, unit


def _windows(record: Record, values: list[float], loop: list[float] | None = None) -> Windows:
    """The windows that have a finite value, less the baseline loop's beside each where these are
    given (unequal counts pair the nearest), and the line of each; no lines where they are
    unknown."""
    array = np.asarray(values, dtype=float)
    if loop is not None:
        loops = np.asarray(loop, dtype=float)
        if loops.size != array.size:
            array = array[: array.size * bool(loops.size)]
            loops = loops[np.arange(array.size) * loops.size // max(array.size, 1)]
        array = array - loops
    kept = np.isfinite(array)
    lines = np.asarray(record.window_line, dtype=np.int64)
    return array[kept], lines[kept] if lines.size == array.size else lines[:0]


def _percentiles(parts: list[Quantiles]) -> Quantiles | None:
    if not parts:
        return None
    common = Counter(part.ops_per_sample for part in parts).most_common(1)[0][0]
    merged = merge_histograms(part.histogram for part in parts)
    names = ("p50_ns", "p95_ns", "p99_ns")
    medians = (float(np.median([getattr(part, name) for part in parts])) for name in names)
    values = histogram_percentiles(merged, SHARES) if merged else medians
    return Quantiles(
        of=parts[0].of,
        histogram=[],
        ops_per_sample=common,
        samples=sum(part.samples for part in parts),
        max_ns=max(part.max_ns for part in parts),
        **dict(zip(names, values, strict=True)),
    )


def _status(records: list[Record]) -> tuple[str, str, list[Record]]:
    """Merged status, its reason, and the records whose values count.

    A wrong sum anywhere makes the cell an error; otherwise launches that worked speak for it,
    unless half or more were unreliable.  A launch that `--resume` ran again, and that worked then,
    is as good as any other."""
    worked = {r.launch for r in records if r.status == "ok"}
    counted = [
        r
        for r in records
        if r.status == "ok" or r.launch not in worked or r.sum_expected != r.sum_found
    ]
    by_status = grouped(counted, lambda r: r.status)
    ok, unreliable = by_status.get("ok", []), by_status.get("unreliable", [])
    if "error" in by_status:
        status, usable = "error", []
    elif not ok and not unreliable:
        return "unavailable", counted[0].reason, []
    elif len(unreliable) >= len(ok):
        status, usable = "unreliable", ok + unreliable
    else:
        status, usable = "ok", ok
    return status, next((r.reason for r in by_status[status] if r.reason), ""), usable


def _line_medians(launches: list[Windows]) -> list[float]:
    """Each line's median, relative to its launch's median and scaled back, over all launches'
    lines."""
    medians: list[float] = []
    whole = median_of([median(values) for values, _ in launches if values.size], 0.0)
    for values, lines in launches:
        if lines.size != values.size or not values.size:
            continue
        launch = median(values) if len(launches) > 1 else whole
        if launch <= 0:
            continue
        medians += (medians_of(_by_line(values, lines)) / launch * whole).tolist()
    return medians


def _on_lines(values: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """The windows on each line."""
    parts = _by_line(values, lines) if lines.size == values.size else []
    found = zip(np.unique(lines), parts, strict=bool(parts))
    rows = [(line, part.min(), median(part), part.max(), part.size) for line, part in found]
    return np.array(rows, LINE)


def _flags(
    usable: list[Record], contended: bool, launches: int, clusters: int, line_modes: list[Mode]
) -> list[str]:
    flags = {flag for record in usable for flag in record.flags}
    if len(line_modes) > 1:
        flags.add("bimodal_lines")
    if "simulated" in flags:
        return sorted(flags)  # launches are random numbers, of which any will do
    if launches == 1:
        flags.add("one_launch")
    elif contended and 0 < clusters < FEWEST_CLUSTERS:
        flags.add("short_span")
    return sorted(flags)


def rounds_of(record: Record) -> list[float]:
    """What names the round of each window: its number, or without one the baseline loop's time,
    which all windows of a round share; empty where windows cannot be told apart by it."""
    names = list(map(float, record.window_round)) or record.baseline_ns
    told_apart = len(names) == len(record.window_ns) and len(set(names)) == len(names)
    return names if told_apart else []


def _by_round(record: Record, worked: bool) -> np.ndarray:
    """Each window by its round, and what it takes beyond its baseline loop."""
    names = rounds_of(record)
    rows = np.full(len(names), math.nan, WINDOW)
    if names:
        rows["round"], rows["issue_ns"] = names, record.window_ns
        if worked and len(record.baseline_ns) == len(names):
            rows["exposed_ns"] = rows["issue_ns"] - np.asarray(record.baseline_ns)
    return rows


def _launch(
    record: Record, contexts: Mapping[str, Context], usable: bool, windows: Windows, beyond: Windows
) -> tuple:
    """A row of `LAUNCH`; `windows` and `beyond` as `_windows` gives them."""
    loops, cell = finite(record.baseline_ns), record.cell
    medians = (median(v) if v.size else math.nan for v in (windows[0], beyond[0], loops))
    known, measured = contexts.get(record.context_id), usable and bool(record.window_ns)
    return (
        record.context_id, usable, windows[0].size, record.discarded.total,
        *(value if measured else math.nan for value in medians),
        between(loops, 0.1, 0.9) if measured and loops.size else math.nan,
        record.total_mops or math.nan, record.fairness, known.loop_offset_bytes if known else 0,
        record.thread_ns, record.thread_ticks, record.thread_ops, record.stop, record.cpus,
        record.placement_class, _by_round(record, has_work(cell)),
        _on_lines(*windows) if judged_near_or_far(cell) else np.empty(0, LINE),
    )  # fmt: skip


def _lines_stay_apart(windows: Sequence[Windows]) -> bool:
    """Whether windows on one line agree and lines differ, in most launches: at least
    `LINE_AGREEMENT` of the variance of log time lies between lines (intraclass correlation, one-way
    analysis of variance).  A state that comes and goes, or a slowdown halfway through a launch,
    splits the windows of a line too; where a line has fewer than `FEWEST_ON_A_LINE` windows,
    nothing tells the two apart."""
    agree = []
    for values, lines in windows:
        own = [np.log(values[lines == line]) for line in np.unique(lines)]
        own = [part for part in own if part.size >= FEWEST_ON_A_LINE and np.isfinite(part).all()]
        if len(own) < 2:
            continue
        sizes = np.array([part.size for part in own])
        inside = sum(float(((part - part.mean()) ** 2).sum()) for part in own)
        inside /= sizes.sum() - len(own)
        means = np.array([part.mean() for part in own])
        middle = float((means * sizes).sum() / sizes.sum())
        between = float((sizes * (means - middle) ** 2).sum()) / (len(own) - 1)
        size = float(sizes.mean())
        whole = between + (size - 1) * inside
        agree.append(whole > 0 and (between - inside) / whole >= LINE_AGREEMENT)
    return bool(agree) and sum(agree) > len(agree) / 2


def _issue(
    usable: list[Record], windows: list[Windows], clusters: list[int]
) -> tuple[Interval | None, list[float], str, Quantiles | None, bool]:
    """The issue interval with its units, the percentiles, and whether these are all that is
    known."""
    issue, unit_ns, unit = _estimate(windows, clusters)
    batch = _percentiles([r.batch for r in usable if r.batch])
    published = issue is None and batch is not None
    if published:
        issue = Interval(
            median_ns=batch.p50_ns, low_ns=batch.p50_ns, high_ns=batch.p50_ns, confidence=0.0
        )
    elif issue is None:
        issue = next((r.issue for r in usable if r.issue), None)
    return issue, unit_ns, unit, batch, published


def merge(machine_id: str, records: list[Record], contexts: Mapping[str, Context]) -> Summary:
    """One cell of one machine from its records; what depends on other cells (modes, flags,
    controls) is added later."""
    records = sorted(records, key=lambda r: (r.launch, r.context_id))
    cell = records[0].cell
    status, reason, usable = _status(records)
    measured = [record for record in usable if record.window_ns]
    clusters, span_s = _clusters(usable, contexts)
    windows = [_windows(r, r.window_ns) for r in measured]
    differences = [
        _windows(r, r.window_ns, r.baseline_ns) if has_work(cell) else NO_WINDOWS for r in measured
    ]
    issue, unit_ns, unit, batch, published = _issue(usable, windows, clusters)
    waits = [_windows(r, r.completion_ns, r.completion_baseline_ns) for r in measured]
    line_medians = _line_medians(windows)
    line_modes = modes(line_medians, LINE_SHARE, LINE_ALARM)
    if len(line_modes) < 2 or not _lines_stay_apart(windows):
        line_modes = []
    known = [contexts[r.context_id] for r in records if r.context_id in contexts]
    launches = sum(w[0].size > 0 for w in windows)
    repeated = len(set(clusters)) >= FEWEST_CLUSTERS
    contended = cell.contender == "same_line"
    metrics = _metrics(usable)
    exposed = _estimate(differences, clusters, logarithmic=False)[0]
    if issue is not None and "p05_ns" in metrics:
        ns, issue = issue.median_ns, _band(issue.median_ns, metrics)
        exposed = exposed and _band(exposed.median_ns, metrics, ns - exposed.median_ns)
    own = {id(r): both for r, *both in zip(measured, windows, differences, strict=True)}
    counted = {id(r) for r in usable}
    rows = [
        _launch(r, contexts, id(r) in counted, *own.get(id(r), (NO_WINDOWS, NO_WINDOWS)))
        for r in (*usable, *(r for r in records if id(r) not in counted))
    ]
    return Summary(
        cell=cell,
        id=cell.id,
        machine_id=machine_id,
        arch=next((c.arch for c in known), ""),
        by_launch=np.array(rows, LAUNCH),
        clusters=len(set(clusters)),
        launch_span_s=span_s,
        promise="launch" if launches < 2 else "repeat" if repeated else "run",
        status=status,
        reason=reason,
        issue=issue,
        exposed=exposed,
        completion=_estimate(waits, clusters, logarithmic=False)[0],
        batch=batch,
        small=_percentiles([r.small_batch for r in usable if r.small_batch]),
        modes=[],
        line_modes=line_modes,
        lines_spread=lines_spread(line_medians),
        flags=_flags(usable, contended, launches, len(set(clusters)), line_modes),
        unit=unit,
        unit_ns=unit_ns,
        emulated=any(c.emulated for c in known),
        published=published,
        metrics=metrics,
        drawn=next((r.drawn for r in usable if r.drawn), None),
    )


def _band(ns: float, metrics: Mapping[str, float], work_ns: float = 0.0) -> Interval:
    """What a model may say of a cell: windows and launches alike have the same constants, so theirs
    is no interval of the machine. The work that is taken off takes nothing off the doubt."""
    low, high = (metrics[name] - work_ns for name in ("p05_ns", "p95_ns"))
    return Interval(median_ns=ns, low_ns=min(low, ns), high_ns=max(high, ns), confidence=BAND)


def _metrics(usable: list[Record]) -> dict[str, float]:
    """Each metric's median over the launches that have it."""
    names = sorted({name for record in usable for name in record.metrics})
    return {
        name: median_of((r.metrics[name] for r in usable if name in r.metrics), 0.0)
        for name in names
    }
