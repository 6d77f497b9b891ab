"""Records of several launches become one summary per cell and machine."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import numpy as np

from linewright.analysis import histogram
from linewright.analysis.intervals import Groups, between, finite, median, medians_of, repeat_interval
from linewright.analysis.modes import LINE_ALARM, LINE_SHARE, Mode, lines_spread, modes, one_after_the_other
from linewright.analysis.summary import Percentiles, Summary, has_work, judged_near_or_far
from linewright.schema import Context, Interval, Quantiles, Record

CLUSTER_S = 25.0
"""Launches that began closer together than this saw the machine in one state: together they are one cluster."""
CLUSTER_VIRTUAL_S = 300.0
"""The same where a hypervisor may place virtual CPUs anew: states of one such machine lasted 7 s to 10 minutes, 28 of
33 less than 130 s."""
FEWEST_CLUSTERS = 8
"""Clusters from which an interval promises that a repeat falls inside."""
FEWEST_LINES = 8
"""Lines (or blocks of windows) below which one launch's windows are not grouped."""
FEWEST_ON_A_LINE = 3
"""Windows on every line from which lines may be told apart whatever the order of time in which they were visited."""
SHARES = (0.50, 0.95, 0.99)


def _less_baseline(values: list[float], baseline: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Each window minus the baseline's window beside it, and which windows were kept; unequal counts pair the
    nearest."""
    a, b = np.asarray(values, dtype=float), np.asarray(baseline, dtype=float)
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


def cluster_numbers(started: Sequence[float], apart_s: float = CLUSTER_S) -> list[int]:
    """For each launch its cluster: one that began `apart_s` or more after the last cluster began opens another."""
    numbers, cluster, opened = [0] * len(started), -1, -math.inf
    for index in sorted(range(len(started)), key=lambda i: started[i]):
        if started[index] - opened >= apart_s:
            cluster, opened = cluster + 1, started[index]
        numbers[index] = cluster
    return numbers


def _clusters(usable: list[Record], contexts: Mapping[str, Context]) -> tuple[list[int], float | None]:
    """Cluster of every launch that gave windows, and the time from first to last; nothing where a time is unknown."""
    started = [_started(r, contexts) for r in usable if r.window_ns]
    if not started or None in started:
        return [], None
    steady = all(contexts[r.context_id].virtualised == "no" for r in usable if r.window_ns)
    return cluster_numbers(started, CLUSTER_S if steady else CLUSTER_VIRTUAL_S), max(started) - min(started)


def _promise(launches: int, clusters: int) -> str:
    if launches < 2:
        return "launch"
    return "repeat" if clusters >= FEWEST_CLUSTERS else "run"


def _joined(
    launches: list[tuple[np.ndarray, np.ndarray]], clusters: Sequence[int]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Launches of one cluster as one, if there are clusters enough to stand for themselves."""
    if len(clusters) != len(launches) or not FEWEST_CLUSTERS <= len(set(clusters)) < len(launches):
        return launches
    joined = []
    for cluster in sorted(set(clusters)):
        parts = [part for part, number in zip(launches, clusters, strict=True) if number == cluster]
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
    launches: list[tuple[np.ndarray, np.ndarray]], clusters: Sequence[int], logarithmic: bool = True
) -> tuple[Interval | None, list[float], str]:
    groups, unit = _groups(_joined(launches, clusters))
    return repeat_interval(groups, logarithmic=logarithmic), medians_of(groups).tolist() if groups else [], unit


def _windows(record: Record) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(record.window_ns, dtype=float)
    lines = np.asarray(record.window_line, dtype=np.int64)
    kept = np.isfinite(values)
    return values[kept], lines[kept] if lines.size == values.size else np.empty(0, dtype=np.int64)


def _differences(record: Record, values: list[float], baseline: list[float]) -> tuple[np.ndarray, np.ndarray]:
    difference, kept = _less_baseline(values, baseline)
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


def _line_figures(values: np.ndarray, lines: np.ndarray) -> dict[int, tuple[float, float, float, int]]:
    """Least, median and most of the windows on each line, and their number."""
    parts = _by_line(values, lines) if lines.size == values.size else []
    return {
        int(line): (float(part.min()), median(part), float(part.max()), part.size)
        for line, part in zip(np.unique(lines), parts, strict=bool(parts))
    }


def _flags(usable: list[Record], contended: bool, launches: int, clusters: int, line_modes: list[Mode]) -> list[str]:
    flags = {flag for record in usable for flag in record.flags}
    if len(line_modes) > 1:
        flags.add("bimodal_lines")
    if launches == 1:
        flags.add("one_launch")
    elif contended and 0 < clusters < FEWEST_CLUSTERS:
        flags.add("short_span")
    return sorted(flags)


def _by_launch(records: Sequence[Record], values: Iterable[np.ndarray]) -> dict[str, float]:
    """Each launch's median, by its context."""
    return {r.context_id: median(v) for r, v in zip(records, values, strict=True) if v.size}


def _line_modes(windows: Sequence[tuple[np.ndarray, np.ndarray]], medians: Sequence[float]) -> list[Mode]:
    """Groups of lines; none where the order of time explains them as well, as a slowdown halfway through a launch
    does."""
    found = modes(medians, LINE_SHARE, LINE_ALARM)
    if len(found) < 2:
        return []
    fewest = min((int(np.unique(lines, return_counts=True)[1].min()) for _, lines in windows if lines.size), default=0)
    if fewest < FEWEST_ON_A_LINE and any(one_after_the_other(values) for values, _ in windows):
        return []
    return found


def _issue(
    usable: list[Record], windows: list[tuple[np.ndarray, np.ndarray]], clusters: list[int]
) -> tuple[Interval | None, list[float], str, Percentiles | None, bool]:
    """The issue interval with its units, the percentiles, and whether these are all that is known."""
    issue, unit_ns, unit = _estimate(windows, clusters)
    batch = _percentiles([r.batch for r in usable if r.batch])
    published = issue is None and batch is not None
    if published:
        issue = Interval(median_ns=batch.p50_ns, low_ns=batch.p50_ns, high_ns=batch.p50_ns, confidence=0.0)
    elif issue is None:
        issue = next((r.issue for r in usable if r.issue), None)
    return issue, unit_ns, unit, batch, published


def merge(machine_id: str, records: list[Record], contexts: Mapping[str, Context]) -> Summary:
    """One cell of one machine from its records; what depends on other cells (modes, flags, controls) is added later."""
    records = sorted(records, key=lambda r: (r.launch, r.context_id))
    cell = records[0].cell
    status, reason, usable = _status(records)
    measured = [record for record in usable if record.window_ns]
    clusters, span_s = _clusters(usable, contexts)
    windows = [_windows(record) for record in measured]
    issue, unit_ns, unit, batch, published = _issue(usable, windows, clusters)
    differences = [_differences(r, r.window_ns, r.baseline_ns) for r in measured] if has_work(cell) else []
    waits = [_differences(r, r.completion_ns, r.completion_baseline_ns) for r in measured]
    line_medians = _line_medians(windows)
    line_modes = _line_modes(windows, line_medians)
    known = [contexts[r.context_id] for r in records if r.context_id in contexts]
    launches = sum(w[0].size > 0 for w in windows)
    contended = cell.contender == "same_line"
    return Summary(
        cell=cell,
        id=cell.id,
        machine_id=machine_id,
        arch=next((c.arch for c in known), ""),
        context_ids=sorted({r.context_id for r in records}),
        launches=launches or len(usable),
        clusters=len(set(clusters)),
        launch_span_s=span_s,
        promise=_promise(launches, len(set(clusters))),
        status=status,
        reason=reason,
        issue=issue,
        exposed=_estimate(differences, clusters, logarithmic=False)[0],
        completion=_estimate(waits, clusters, logarithmic=False)[0],
        batch=batch,
        small=_percentiles([r.small_batch for r in usable if r.small_batch]),
        modes=[],
        line_modes=line_modes,
        lines_spread=lines_spread(line_medians),
        flags=_flags(usable, contended, launches, len(set(clusters)), line_modes),
        unit=unit,
        unit_ns=unit_ns,
        place_by_launch={c.context_id: c.loop_offset_bytes for c in known},
        by_launch=_by_launch(measured, [values for values, _ in windows]),
        exposed_by_launch=_by_launch(measured, [d for d, _ in differences]) if differences else {},
        line_figures={r.context_id: _line_figures(*w) for r, w in zip(measured, windows, strict=True)}
        if judged_near_or_far(cell)
        else {},
        windows=sum(w[0].size for w in windows),
        emulated=any(c.emulated for c in known),
        published=published,
        **_plain(usable, measured, records[0]),
    )


def _plain(usable: list[Record], measured: list[Record], first: Record) -> dict:
    """The fields that are medians over launches, or what the launches agree on."""
    loops = [finite(r.baseline_ns) for r in measured]
    reach = [between(values, 0.1, 0.9) for values in loops if values.size]
    names = sorted({name for record in usable for name in record.metrics})
    return {
        "baseline_by_launch": _by_launch(measured, loops),
        "baseline_reach_ns": _median(reach, 0.0),
        "mops_by_launch": {r.context_id: r.total_mops for r in usable if r.total_mops > 0},
        "total_mops": _median((r.total_mops for r in usable), 0.0),
        "fairness": _median((r.fairness for r in usable), 1.0),
        "thread_ns": _thread_means([r.thread_ns for r in usable]),
        "thread_ticks": _thread_means([r.thread_ticks for r in usable]),
        "thread_ops": [int(x) for x in _thread_means([r.thread_ops for r in usable])],
        "cpus": usable[0].cpus if usable else first.cpus,
        "placement_class": usable[0].placement_class if usable else first.placement_class,
        "stop": Counter(r.stop for r in usable).most_common(1)[0][0] if usable else "",
        "discarded": sum(r.discarded.total for r in usable),
        "metrics": {name: _median((r.metrics[name] for r in usable if name in r.metrics), 0.0) for name in names},
    }
