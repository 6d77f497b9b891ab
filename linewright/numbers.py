# SPDX-License-Identifier: MIT
"""Numbers, intervals and ratios as text: the one place that decides how many digits a figure has,
how an interval is written, and how "n times less" is said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import msgspec

from linewright.schema import Estimate, Interval

ABSENT = "–"
"""Stands where there is no value."""
MANY_TIMES = 10.95
"""Ratio from which two costs are said to differ by a multiple, no longer by percents."""
COARSE_NS = 10_000
"""Nanoseconds from which a column shows microseconds."""


def count(number: int, one: str, several: str = "") -> str:
    """A count with its noun: ``1 launch``, ``3 launches``; an ``s`` makes the plural unless
    `several` is given."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def join(names: list[str] | tuple[str, ...]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def rounded(value: float, digits: int, signed: bool = False) -> str:
    """A number with `digits` digits behind the point; what rounds to zero has no sign."""
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def figure(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits, at most two of them behind the point, and without
    an exponent; an absent one is a dash."""
    if value is None or not math.isfinite(value):
        return ABSENT
    ends = ((behind, 10.0 ** (digits - behind) - 0.5 * 10.0**-behind) for behind in range(3))
    return rounded(value, max((behind for behind, end in ends if abs(value) < end), default=0))


def cost(value: float | None) -> str:
    """A time for a column headed ns: three digits, 0.0 below 0.05 ns, microseconds with their unit
    where it is long."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if abs(value) >= COARSE_NS:
        return f"{value / 1000:.0f} µs"
    return "0.0" if abs(value) < 0.05 else figure(value)


def quantity(value: float | None, unit: str) -> str:
    """A figure with its unit: ``ns``, ``s``, ``bytes`` (as MiB), or none; an absent one is a
    dash."""
    if value is None:
        return ABSENT
    if unit == "ns":
        return f"{figure(value)} ns"
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB"
    if unit == "s":
        return f"{value:.3f} s" if abs(value) >= 1 else f"{value * 1e3:.4g} ms"
    return plain(value, 6)


def plain(value: float, digits: int = 4) -> str:
    """A number of any size with `digits` significant digits and no exponent, thousands apart from
    10,000 on: ``19,497,060``, ``0.0000395``."""
    size = math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    behind = min(max(digits - 1 - size, 0), 15)
    text = f"{value:,.{behind}f}" if size > 3 else f"{value:.{behind}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float, signed: bool = True) -> str:
    """A share as percent, with one digit behind the point below ten."""
    points = 100 * share
    return f"{rounded(points, 1 if abs(points) < 10 else 0, signed)} %"


def share(found: Estimate | None) -> str:
    """A share as percent with its interval: ``41 % (38 to 44)``; an absent one is a dash."""
    if found is None:
        return ABSENT
    value, *ends = (percent(part, signed=False) for part in (found.value, found.low, found.high))
    return f"{value} ({' to '.join(end.removesuffix(' %') for end in ends)})"


def at_most(share: float) -> str:
    """A bound in percent, rounded up: what differs by 4.04 % is not the same within 4.0 %."""
    points = 100 * share
    digits = 1 if points < 10 else 0
    return f"{_up(points, digits):.{digits}f} %"


def within(bound: float, scale: str) -> str:
    """The same of a bound on either scale: a share where `scale` is ``ratio``, else a time."""
    return f"{_up(bound, 1):.1f} ns" if scale == "ns" else at_most(bound)


def _up(value: float, digits: int) -> float:
    return math.ceil(value * 10**digits - 1e-6) / 10**digits


def span(low: float, high: float, unit: str = "", digits: int = 3) -> str:
    """``19 to 23 ns``; one figure where both ends round to it."""
    return _span(figure(low, digits), figure(high, digits), f" {unit}" if unit else "")


def span_of_cost(low: float, high: float) -> str:
    """``0.88 to 0.92 ns``, of a long time ``25 to 28 µs``."""
    if high >= COARSE_NS:
        return span(low / 1e3, high / 1e3, "µs", 2)
    return span(low, high, "ns", 2)


_NUMBER = "[0-9]{1,18}(?:[.][0-9]{1,18})?"
_NUMBERS = re.compile(f"({_NUMBER})(?: to ({_NUMBER}))?")
"""A number or a range in a text. A longer one, which only a hostile file has, is taken in
pieces."""


def without_numbers(text: str) -> str:
    """The text with N for every number and range: the same for texts that
    `merge_texts_with_ranges` takes."""
    return _NUMBERS.sub("N", text)


def merge_texts_with_ranges(texts: Sequence[str]) -> str:
    """Texts that differ in their numbers only, as one: "3 to 5 of 12 windows"."""
    columns = iter(zip(*(_NUMBERS.findall(text) for text in texts), strict=True))

    def widest(first: re.Match[str]) -> str:
        ends = next(columns)
        low = min((low for low, _ in ends), key=float)
        high = max((high or low for low, high in ends), key=float)
        return first[0] if float(low) == float(high) else f"{low} to {high}"

    return _NUMBERS.sub(widest, texts[0])


def _span(low: str, high: str, unit: str, to: str = " to ") -> str:
    return f"{low}{unit}" if low == high else f"{low}{to}{high}{unit}"


def estimate(value: float, low: float, high: float, unit: str = "", ends: int = 3) -> str:
    """``20.8 ns (19.2 to 23.1)``, `ends` digits in the interval; the value alone where both of
    its ends round to one number."""
    middle = figure(value) + (f" {unit}" if unit else "")
    first, last = figure(low, ends), figure(high, ends)
    return middle if first == last else f"{middle} ({first} to {last})"


def format_interval(found: Interval | Estimate | None, unit: str = "") -> str:
    """A figure with its interval, where it has one; an absent one is a dash."""
    if found is None:
        return ABSENT
    value, low, high, confidence = msgspec.structs.astuple(found)
    return estimate(value, *((low, high) if confidence > 0 else (value, value)), unit)


def format_cost_interval(found: Interval | None) -> str:
    """The same of a time for a column headed ns; a long one is in microseconds, with their unit."""
    if found is None or found.median_ns < COARSE_NS:
        return format_interval(found)
    parts = {f"{name}_ns": getattr(found, f"{name}_ns") / 1e3 for name in ("median", "low", "high")}
    return format_interval(msgspec.structs.replace(found, **parts), "µs")


def change(low: float | None, high: float | None, scale: str, behind: int = 1) -> str:
    """An interval of ratios as what changes, ``-22 to +18 %`` (from ten times on ``×9.3 to ×12``),
    or of differences, ``-0.4 to +2.6 ns``; empty where there is none.  Below 10 % with `behind`
    digits behind the point, else with one less."""
    if low is None or high is None:
        return ""
    if scale == "ns":
        return _span(rounded(low, 1, True), rounded(high, 1, True), " ns")
    points = [100 * (end - 1) for end in (low, high)]
    if high >= MANY_TIMES:
        return _span(f"×{figure(low, 2)}", f"×{figure(high, 2)}", "")
    digits = behind if max(map(abs, points)) < 9.95 else behind - 1
    if 0 < low < 0.01:  # nothing costs 100 % less
        digits = max(digits, min(4, math.ceil(-math.log10(low)) - 2))
    return _span(*(rounded(end, digits, True) for end in points), " %")


def change_in_words(low: float | None, high: float | None, scale: str) -> str:
    """The same without signs: ``48 to 52 % less``, ``1.2 to 1.4 ns more``, ``4 % less to 9 %
    more``, from ten times on ``12 to 15 times more`` or less."""
    if low is None or high is None:
        return ""
    ends = [low, high] if scale == "ns" else [100 * (end - 1) for end in (low, high)]
    if scale != "ns" and low > 0 and (high >= MANY_TIMES or low <= 1 / MANY_TIMES):
        return times(low, high)
    unit = "ns" if scale == "ns" else "%"
    digits = 1 if scale == "ns" or max(map(abs, ends)) < 9.95 else 0
    sides = ["less" if end < 0 else "more" for end in ends]
    sizes = [f"{abs(end):.{digits}f}" for end in ends]
    if sides[0] != sides[1]:
        return f"{sizes[0]} {unit} less to {sizes[1]} {unit} more"
    return _span(*(sizes[::-1] if sides[0] == "less" else sizes), f" {unit} {sides[0]}")


def times(low: float, high: float) -> str:
    """An interval of ratios in multiples: ``14 to 20 times less``, ``3.4 to 3.8 times more``, or
    where it may be either ``0.8 to 1.4 times``."""
    if 0 < high < 1:
        return f"{multiple(1 / high, 1 / low if low > 0 else math.inf)} less"
    return multiple(low, high) + (" more" if low > 1 else "")


def multiple(low: float, high: float | None = None) -> str:
    """``14 to 20 times``: two digits each, one number where both ends round to it, or for one."""
    ends = (low, low if high is None else high)
    return _span(
        *(f"{end:.{0 if end >= 9.95 else 1 if end >= 0.095 else 2}f}" for end in ends), " times"
    )


def about_times(value: float, low: float, high: float) -> str:
    """``2.5 times (2.3 to 2.8)``."""
    middle, span = multiple(value), multiple(low, high)
    return middle if " to " not in span else f"{middle} ({span.removesuffix(' times')})"


def cpu_text(cpus: Iterable[int]) -> str:
    """``0-3,8`` of CPU numbers in any order."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
