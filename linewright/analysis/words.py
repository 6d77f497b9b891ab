"""The phrases that verdict and advice share: callers, conditions, figures, savings, and what an undecided answer leaves
open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from linewright.analysis.contrast import Contrast, Judged
from linewright.analysis.findings import Against, Finding
from linewright.analysis.saying import at_most, at_most_ns, join, number
from linewright.analysis.summary import grouped
from linewright.families import READERS, family_of
from linewright.schema import Cell
from linewright.units import rounded

PLACES = {
    "near": "behaves as if performed in the core",
    "far": "behaves as if performed at the interconnect",
    "all_far": "is expensive even behind a prefetch: every form behaves as if performed at the interconnect",
    "mixed": "behaves as if performed at the interconnect on some lines and in the core on others",
    "undecided": "is undecided",
}
"""What is said of where an arm64 instruction seems to be performed."""
USUAL = {"slots": 1, "read_delay": 0}
"""Parameters that are not spoken of where they have this value: one word, nothing inside the section."""
MOST_LAUNCHES = 40
"""More launches than this are not asked for: what they would tell costs more than it is worth."""


def caller_of(f: Finding) -> str:
    """What the caller needs, in a word or two."""
    width = "" if f.width_bits == 64 or family_of(f.operation) is READERS else f" u{f.width_bits}"
    order = "" if f.order in ("relaxed", "full") else f" ({f.order})"
    extra = "".join(f" {key}={value}" for key, value in sorted(f.params.items()) if USUAL.get(key) != value)
    return f"{f.operation}{width}{order}{extra}"


def condition(f: Finding | Cell) -> str:
    """The contention class in words."""
    if family_of(f.operation) is READERS:
        return "one reader" if f.threads == 1 else f"{f.threads} readers"
    if f.contender == "none":
        return "alone"
    many = "a contender" if f.threads <= 2 else f"{f.threads - 1} contenders"
    spacing = "without spacing" if f.contender_iters == 0 else f"every {f.contender_iters} iterations"
    where = "" if f.placement == "auto" else f" ({f.placement})"
    return f"with {many} on the line {spacing}{where}"


def work_text(work_iters: int) -> str:
    """The work around an operation in words."""
    return "back to back" if work_iters == 0 else f"with {work_iters} units of work"


def percent(value: float, signed: bool = True) -> str:
    """A share as percent, with as many digits as it deserves."""
    points = 100 * value
    digits = 1 if abs(points) < 10 else 0
    return f"{rounded(points, digits, signed)} %"


def open_text(c: Contrast) -> str:
    """What an interval leaves possible."""
    return open_span(c.low, c.high, c.scale)


def open_span(low: float, high: float, scale: str) -> str:
    """An interval of ratios as ``-22 to +18 %``, or of ns."""
    if scale == "ns":
        return f"{rounded(low, 1, True)} to {rounded(high, 1, True)} ns"
    return f"{percent(low - 1).removesuffix(' %')} to {percent(high - 1)}"


def _short(text: str) -> str:
    """A figure whose unit the next one says."""
    return text.rpartition(" ")[0]


def less_text(row: Against, f: Finding) -> str:
    """How much less a form takes than the default, with its interval."""
    c = row.judged.contrast
    if c.scale == "ns":
        middle, low, high = (f"{rounded(-end, 1)} ns" for end in (c.value, c.high, c.low))
    else:
        middle, low, high = (percent(1 - end, False) for end in (c.value, c.high, c.low))
    return f"{middle} less" if low == high == middle else f"{middle} less ({_short(low)} to {high})"


def within_text(judged: Judged) -> str:
    """Of the same cost, how far apart at most."""
    return at_most_ns(judged.within) if judged.contrast.scale == "ns" else at_most(judged.within)


def all_within_text(same: Iterable[Judged]) -> str:
    """Of several same costs, how far apart at most: a share of issue intervals says nothing of exposed costs."""
    widest: dict[str, Judged] = {}
    for j in same:
        known = widest.get(j.contrast.scale)
        widest[j.contrast.scale] = j if known is None or j.within > known.within else known
    both = [f"{within_text(widest[scale])}{where}" for scale, where in _SCALES.items() if scale in widest]
    return join(both) if len(both) > 1 else within_text(*widest.values())


_SCALES = {"ratio": " back to back", "ns": " among work"}


def figure_text(ns: float, f: Finding) -> str:
    """A figure of a finding: a time, or what is exposed of it."""
    if f.withheld:
        return f"{number(ns)} ns with its work"
    return f"{number(ns)} ns exposed" if f.figure == "exposed" else f"{number(ns)} ns"


def shown_text(f: Finding) -> str:
    """What is shown at one point: the best form or the default, those that cost more, those that cost the same; or
    nothing."""
    best, slower, same = f.best, f.of("slower"), f.of("same")
    if not (best or slower or same):
        return ""
    text = default_text(f)
    if best:
        text = f"{best.form} takes {figure_text(best.ns.median_ns, f)}, {less_text(best, f)} than {f.default}"
        others = [r.form for r in f.of("cheaper") if r is not best]
        text += f"; {join(others)} cost{'s' if len(others) == 1 else ''} less than {f.default} too" if others else ""
        text += f", but {best.rate_note}" if best.rate_note else ""
        if best.order != f.default_order and f.operation == "add":
            text += f" ({best.form} is {best.order}, {f.default} {f.default_order})"
    if slower:
        worst = max(slower, key=lambda r: r.ns.median_ns)
        names = join([r.form for r in slower])
        many = len(slower) > 1
        most = figure_text(worst.ns.median_ns, f)
        text += f"; {names} cost more, up to {most}" if many else f"; {names} costs more, {most}"
    if same:
        widest = max(same, key=lambda r: r.judged.within)
        text += f"; {join([r.form for r in same])} the same within {within_text(widest.judged)}"
    return text


def default_text(f: Finding) -> str:
    """What the default takes."""
    return f"{f.default} takes {figure_text(f.default_ns.median_ns, f)}"


UNPAIRED = 8
"""Times as many launches that runs made one after the other need: their drift is estimated from them too."""


def launches_needed(judged: Judged, same: float) -> int:
    """Launches from which an undecided comparison would probably be decided, its spread staying what it is."""
    c = judged.contrast
    if c is None or c.spread <= 0:
        return 5
    bound = math.log1p(same) if c.scale == "ratio" else same
    return max(c.launches + 2, math.ceil((2.8 * c.spread / bound) ** 2 * (1 if c.paired else UNPAIRED)))


def more_text(judged: Sequence[Judged], same: float) -> str:
    """What would decide the undecided: launches, or nothing that is worth its time."""
    needed = [launches_needed(j, same) for j in judged]
    if not needed or max(needed) <= MOST_LAUNCHES:
        return f"about {max(needed, default=5)} launches would decide them"
    ratios = [j.contrast for j in judged if j.contrast and j.contrast.scale == "ratio"]
    reach = max((c.spread * math.sqrt(1 if c.paired else UNPAIRED) for c in ratios), default=0.0)
    if reach <= 0:
        return "more launches would not decide them in reasonable time"
    visible = math.exp(2.8 * reach / math.sqrt(MOST_LAUNCHES))
    return f"launches differ too much: even {MOST_LAUNCHES} of them show no difference below about {visible:.2f} times"


def runs_of(sweep: Sequence[Finding]) -> list[list[Finding]]:
    """Neighbouring work lengths with the same answer for every form."""

    def answers(f: Finding) -> tuple:
        best = f.best
        return (
            f.default, f.figure, best.form if best else "",
            tuple((r.form, r.judged.answer, r.judged.cheaper) for r in f.rows),
        )  # fmt: skip

    runs: list[list[Finding]] = []
    for f in sweep:
        if runs and answers(runs[-1][0]) == answers(f):
            runs[-1].append(f)
        else:
            runs.append([f])
    return runs


def by_caller(found: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one caller under one condition on one CPU, by rising work."""
    sweeps = grouped(found, lambda f: (caller_of(f), condition(f), f.lines, f.threads, f.cpu))
    return [sorted(sweep, key=lambda f: f.work_iters) for sweep in sweeps.values()]
