"""Quantities as text, as people type and read them: durations, percentages, CPU lists, nanoseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from linewright.errors import UserError

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\s*([a-z%]*)", re.ASCII)
LONGEST_S = 604_800.0
"""A week: the longest budget that a plan may state."""


def duration_s(text: str, where: str) -> float:
    """Seconds of ``90``, ``90s``, ``500ms``, ``2m`` or ``1.5h``; above 0 and at most a week."""
    match = _NUMBER.fullmatch(text.strip().lower())
    if not match or match[2] not in _SECONDS:
        raise UserError(f"not a duration: {text!r}", where, "allowed: 90, 90s, 500ms, 2m, 1.5h")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if not 0 < seconds <= LONGEST_S:
        raise UserError(f"out of range: {text!r}", where, "allowed: above 0, at most 168h")
    return seconds


def fraction(text: str, where: str) -> float:
    """A precision as a fraction: ``2%`` and ``0.02`` are the same; above 0 and at most 50 %."""
    match = _NUMBER.fullmatch(text.strip())
    if not match or match[2] not in ("", "%"):
        raise UserError(f"not a percentage: {text!r}", where, "allowed: 2% or 0.02")
    value = float(match[1]) / (100 if match[2] == "%" else 1)
    if not 0 < value <= 0.5:
        raise UserError(f"out of range: {text!r}", where, "allowed: above 0, at most 50%")
    return value


def share(text: str, where: str) -> float:
    """A limit as a fraction: ``5%`` and ``0.05`` are the same, ``0%`` is allowed; at most 100 %."""
    match = _NUMBER.fullmatch(text.strip())
    value = float(match[1]) / (100 if match[2] == "%" else 1) if match and match[2] in ("", "%") else -1.0
    if not 0 <= value <= 1:
        raise UserError(f"not a share: {text!r}", where, "allowed: 0% to 100%, such as 5% or 0.05")
    return value


MOST_EVENTS = 6
"""As many as the probe counts at once."""


def event_list(text: str, where: str) -> list[str]:
    """Names of performance counters of ``cycles,task-clock``; each once."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_./-]{1,64}", name):
            raise UserError(
                f"not the name of an event: {name!r}",
                where,
                "allowed: cycles,instructions,task-clock … or PMU/NAME; none",
            )
    if len(names) > MOST_EVENTS or len(set(names)) < len(names):
        raise UserError(f"too many events, or one twice: {text[:80]!r}", where, f"at most {MOST_EVENTS}, each once")
    return names


def cpu_list(text: str, where: str) -> list[int]:
    """CPU numbers of ``0,2-4``, in the order given; a CPU named twice is refused."""
    cpus: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip(), re.ASCII)
        if not match:
            raise UserError(f"not a list of CPUs: {text!r}", where, "allowed: 0,2-4")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last > 65_535:
            raise UserError(f"not a range of CPUs: {part.strip()!r}", where, "allowed: first-last, at most 65535")
        cpus += range(first, last + 1)
    repeated = sorted({cpu for cpu in cpus if cpus.count(cpu) > 1}) if len(cpus) < 4096 else []
    if repeated or len(set(cpus)) != len(cpus):
        raise UserError(f"CPU named twice: {cpu_text(repeated) or 'in a long list'}", where, "each CPU once")
    return cpus


def cpu_text(cpus: Iterable[int]) -> str:
    """``0-3,8`` of CPU numbers in any order."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def duration_text(seconds: float) -> str:
    """A duration for reading: ``0.4 s``, ``47 s``, ``2 min 5 s``, ``3 h 20 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def many(count: int, one: str, several: str = "") -> str:
    """A count with its noun: ``1 launch``, ``3 launches``; an ``s`` makes the plural unless `several` is given."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def rounded(value: float, digits: int, signed: bool = False) -> str:
    """A number with so many digits behind the point; what rounds to zero has no sign."""
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def value_text(value: float | None, unit: str) -> str:
    """A figure with its unit: ``ns``, ``s``, ``bytes`` (as MiB), or none; an absent one is a dash."""
    if value is None:
        return "–"
    if unit == "ns":
        return f"{ns_text(value)} ns"
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    if unit == "s":
        return f"{value:.3f} s" if abs(value) >= 1 else f"{value * 1e3:.4g} ms"
    return f"{value:.6g}"


def ns_text(value: float | None) -> str:
    """Nanoseconds to three or four figures; an absent value is a dash; values above 1 ms are rounded to one figure."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    if size < 0.005:
        return "0.00"
    if size >= 1e6:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.2f}" if size < 100 else f"{value:.1f}" if size < 1000 else f"{value:.0f}"
