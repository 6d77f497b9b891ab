# SPDX-License-Identifier: MIT
"""Quantities as people type them: durations, percentages, names of events, CPU lists; commands as a
shell takes them; and durations as people read them."""

from __future__ import annotations

import re
import shlex

from linewright.errors import UserError
from linewright.numbers import cpu_text

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
    value = _fraction(text)
    if value is None:
        raise UserError(f"not a percentage: {text!r}", where, "allowed: 2% or 0.02")
    if not 0 < value <= 0.5:
        raise UserError(f"out of range: {text!r}", where, "allowed: above 0, at most 50%")
    return value


def share(text: str, where: str) -> float:
    """A limit as a fraction: ``5%`` and ``0.05`` are the same, ``0%`` is allowed; at most 100 %."""
    value = _fraction(text)
    if value is None or value > 1:
        raise UserError(f"not a share: {text!r}", where, "allowed: 0% to 100%, such as 5% or 0.05")
    return value


def multiple(text: str, where: str) -> float:
    """A ratio: ``3.2x`` and ``3.2`` are the same; above 0 and at most 10,000."""
    match = re.fullmatch(r"([0-9]{1,5}(?:\.[0-9]{1,6})?)\s*[x×]?", text.strip(), re.ASCII)
    if not match or not 0 < float(match[1]) <= 10_000:
        raise UserError(f"not a ratio: {text!r}", where, "allowed: above 0, at most 10000, as 3.2x")
    return float(match[1])


def _fraction(text: str) -> float | None:
    match = _NUMBER.fullmatch(text.strip())
    if not match or match[2] not in ("", "%"):
        return None
    return float(match[1]) / (100 if match[2] == "%" else 1)


def shell_words(text: str, where: str, allowed: str) -> list[str]:
    """The words of a command or of assignments, quoted as in a shell."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{text!r} cannot be read: {error}", where, allowed) from None


MOST_EVENTS = 6
"""As many as the probe counts at once."""


def event_list(text: str, where: str) -> list[str]:
    """Names of performance counters of ``cycles,task-clock``; each once."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_./-]{1,64}", name):
            allowed = "allowed: cycles,instructions,task-clock … or PMU/NAME; none"
            raise UserError(f"not the name of an event: {name!r}", where, allowed)
    if len(names) > MOST_EVENTS or len(set(names)) < len(names):
        what = f"too many events, or one twice: {text[:80]!r}"
        raise UserError(what, where, f"at most {MOST_EVENTS}, each once")
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
            allowed = "allowed: first-last, at most 65535"
            raise UserError(f"not a range of CPUs: {part.strip()!r}", where, allowed)
        cpus += range(first, last + 1)
    repeated = sorted({cpu for cpu in cpus if cpus.count(cpu) > 1}) if len(cpus) < 4096 else []
    if repeated or len(set(cpus)) != len(cpus):
        named = cpu_text(repeated) or "in a long list"
        raise UserError(f"CPU named twice: {named}", where, "each CPU once")
    return cpus


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
