"""Names and figures as the screen writes them: forms by their instructions, costs to three digits, intervals."""

from __future__ import annotations

import math

from linewright.analysis.saying import at_most, at_most_ns
from linewright.analysis.screen_data import Condition, Figure, Versus
from linewright.units import rounded

_PREFIXES = {"prefetchw_": "PREFETCHW", "prfm_keep_": "PRFM keep", "prfm_strm_": "PRFM strm"}
_LOOPS = {"guess_first": "guess first", "read_first": "read first"}
_INSTRUCTIONS = {
    "stadd": "STADD",
    "ldadd": "LDADD",
    "ldaddal": "LDADDAL",
    "swp": "SWP",
    "xchg": "XCHG",
    "lock_add": "LOCK ADD",
    "lock_xadd": "LOCK XADD",
}


def encodes(text: str, encoding: str) -> bool:
    """Whether an encoding can express a text."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def form_name(form: str, default: str = "") -> str:
    """A form by its instructions; against `default` only what sets it apart, such as ``PREFETCHW``."""
    for start, prefix in _PREFIXES.items():
        if form.startswith(start):
            rest = form.removeprefix(start)
            return prefix if rest == default else f"{prefix} + {form_name(rest, default)}"
    if form.startswith("llsc_"):
        return "LL/SC"
    for end, words in _LOOPS.items():
        if form.endswith(end):
            return words
    return _INSTRUCTIONS.get(form, form)


def ns(value: float | None) -> str:
    """Nanoseconds to three digits; 0.0 below 0.05 ns, microseconds from 10,000 ns, a dash without a value."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 10_000:
        return f"{value / 1000:.0f} µs"
    if abs(value) < 0.05:
        return "0.0"
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


def figure(found: Figure | None) -> str:
    """A cost, of several modes the first and last as ``25.3~103``; ``?`` behind that of an unreliable cell."""
    if found is None:
        return "–"
    text = ns(found.ns.median_ns) + ("~" if found.metastable else "")
    if found.modes_ns:
        text = f"{ns(min(found.modes_ns))}~{ns(max(found.modes_ns))}"
    return text + ("" if found.reliable else "?")


def span(found: Figure) -> str:
    """The ends of an interval to two digits, ``14–17``; one figure where they are equal; empty for no interval."""
    if found.ns.confidence <= 0 or not (math.isfinite(found.ns.low_ns) and math.isfinite(found.ns.high_ns)):
        return ""
    ends = [_two_digits(end) for end in (found.ns.low_ns, found.ns.high_ns)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def _two_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 0.995 else f"{value:.1f}" if size < 9.95 else f"{value:.0f}"


def change(versus: Versus) -> str:
    """The interval of what a form changes: ``-52 to -48 %`` or ``-0.4 to +2.6 ns``; empty where there is none."""
    if versus.low is None or versus.high is None:
        return ""
    if versus.scale == "ns":
        return _between(rounded(versus.low, 1, True), rounded(versus.high, 1, True), "ns")
    low, high = (100 * (end - 1) for end in (versus.low, versus.high))
    digits = 1 if max(abs(low), abs(high)) < 9.95 else 0
    if max(abs(low), abs(high)) >= 995:
        return f"×{versus.low:.1f} to ×{versus.high:.1f}"
    return _between(rounded(low, digits, True), rounded(high, digits, True), "%")


def change_in_words(versus: Versus) -> str:
    """The same without signs: ``48 to 52 % less``, ``1.2 to 1.4 ns more``, ``4 % less to 9 % more``."""
    if versus.low is None or versus.high is None:
        return ""
    if versus.scale == "ns":
        ends, unit, digits = [versus.low, versus.high], "ns", 1
    else:
        ends = [100 * (end - 1) for end in (versus.low, versus.high)]
        unit, digits = "%", 1 if max(map(abs, ends)) < 9.95 else 0
    sides = ["less" if end < 0 else "more" for end in ends]
    low, high = (f"{abs(end):.{digits}f}" for end in ends)
    if sides[0] != sides[1]:
        return f"{low} {unit} less to {high} {unit} more"
    low, high = (high, low) if sides[0] == "less" else (low, high)
    return f"{low} {unit} {sides[0]}" if low == high else f"{low} to {high} {unit} {sides[0]}"


def _between(low: str, high: str, unit: str) -> str:
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def where(condition: Condition) -> str:
    """A condition in words, as a heading and in sentences."""
    if condition.key == "alone":
        return "alone, back to back"
    if condition.key == "work":
        return f"alone, {condition.work_iters} units of work"
    others = "a second CPU" if condition.threads <= 2 else f"{condition.threads - 1} more CPUs"
    return f"{others} on the line"


def same_within(condition: Condition) -> str:
    """What ``=`` promises under a condition: ``5 %`` or ``0.5 ns``."""
    return f"{condition.same:.1f} ns" if condition.scale == "ns" else f"{100 * condition.same:.0f} %"


def floor(condition: Condition) -> str:
    """What identical machine code differed by under a condition."""
    return at_most_ns(condition.floor) if condition.scale == "ns" else at_most(condition.floor)
