"""What cache maintenance over lists costs per line, per entry and per wait, and what one wait for the whole list saves.

The time of a pass over a list is taken to be

    lines · a + entries · b + waits · c        (waits = entries, or 1)

for each instruction, line state and alignment.  The terms are fitted by least squares of the *relative* errors, since
passes span five orders of magnitude; the intervals are Student's t from the residuals, so they widen where the three
terms do not describe the machine, and `worst_percent` says by how much the worst cell misses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from scipy import special

from linewright.analysis.contrast import CONFIDENCE, FEWEST_LAUNCHES, paired
from linewright.analysis.saying import Clause, Sentence
from linewright.analysis.summary import Summary, grouped
from linewright.families import CACHE
from linewright.schema import Cell, Estimate

NEGLIGIBLE_PERCENT = 2.0
"""A saving below this does not matter."""
TRAPPED_NS = 200.0
"""Per line on clean lines: more than any processor takes, as much as a system call does."""


class Group(Struct, frozen=True, order=True):
    """What one fit is for."""

    form: str
    state: str
    align_bytes: int


class Fit(Struct, frozen=True, kw_only=True):
    """The terms, ns, with intervals."""

    group: Group
    per_line: Estimate
    per_entry: Estimate
    per_wait: Estimate
    cells: int
    worst_percent: float
    """Largest relative miss of a measured pass."""

    def pass_ns(self, lines: float, entries: float, waits: float) -> float:
        return lines * self.per_line.value + entries * self.per_entry.value + waits * self.per_wait.value


class Saving(Struct, frozen=True, kw_only=True):
    """One wait against a wait behind each entry, same list."""

    group: Group
    entry_bytes: int
    entries: int
    each_ns: float
    once_ns: float
    percent: Estimate | None
    """Saved of the time with a wait behind each; None with fewer launches than a claim needs."""

    @property
    def matters(self) -> bool:
        """Shown to be more than negligible."""
        return self.percent is not None and self.percent.low > NEGLIGIBLE_PERCENT

    @property
    def negligible(self) -> bool:
        """Shown to be no more than negligible."""
        return self.percent is not None and self.percent.high <= NEGLIGIBLE_PERCENT


def concerns(cell: Cell) -> bool:
    """Whether a cell is a pass of cache maintenance."""
    return cell.operation in CACHE.operations and "entry_bytes" in cell.params


def group_of(cell: Cell) -> Group:
    params = cell.params
    return Group(cell.form, str(params.get("state", "dirty_beyond")), int(params.get("align_bytes", 0)))


def terms_of(cell: Cell, line_bytes: int) -> tuple[int, int, int]:
    """Lines, entries and waits of one pass."""
    size, entries = int(cell.params["entry_bytes"]), int(cell.params["entries"])
    align = int(cell.params.get("align_bytes", 0)) % line_bytes
    lines = -(-(align + size) // line_bytes)
    return lines * entries, entries, entries if cell.params["wait"] == "each" else 1


def usable(summaries: Iterable[Summary]) -> list[Summary]:
    """Passes with a figure to rely on."""
    return [
        s for s in summaries if concerns(s.cell) and s.status == "ok" and s.issue is not None and s.issue.median_ns > 0
    ]


def fits(summaries: Iterable[Summary], line_bytes: int) -> list[Fit]:
    """One fit for each instruction, state and alignment that was measured at enough points."""
    groups = grouped(usable(summaries), lambda s: group_of(s.cell))
    found = (_fit(group, members, line_bytes) for group, members in sorted(groups.items()))
    return [fit for fit in found if fit is not None]


def _fit(group: Group, members: Sequence[Summary], line_bytes: int) -> Fit | None:
    terms = np.array([terms_of(s.cell, line_bytes) for s in members], dtype=float)
    times = np.array([s.issue.median_ns for s in members])
    free = len(members) - terms.shape[1]
    scaled = terms / times[:, None]
    if free < 1 or np.linalg.matrix_rank(scaled) < terms.shape[1]:
        return None
    values, *_ = np.linalg.lstsq(scaled, np.ones(len(members)), rcond=None)
    misses = scaled @ values - 1
    variance = float(misses @ misses) / free
    errors = np.sqrt(np.maximum(np.diag(np.linalg.pinv(scaled.T @ scaled)) * variance, 0))
    reach = float(special.stdtrit(free, (1 + CONFIDENCE) / 2)) * errors
    line, entry, wait = (
        Estimate(value=float(v), low=float(v - r), high=float(v + r)) for v, r in zip(values, reach, strict=True)
    )
    return Fit(
        group=group, per_line=line, per_entry=entry, per_wait=wait, cells=len(members),
        worst_percent=float(np.max(np.abs(misses))) * 100,
    )  # fmt: skip


def savings(summaries: Iterable[Summary]) -> list[Saving]:
    """Every list that was measured with both kinds of wait, by instruction, state, alignment and entry size."""
    pairs: dict[tuple[Group, int, int], dict[str, Summary]] = {}
    for summary in usable(summaries):
        params = summary.cell.params
        key = (group_of(summary.cell), int(params["entry_bytes"]), int(params["entries"]))
        pairs.setdefault(key, {})[str(params["wait"])] = summary
    return [_saving(key, both["once"], both["each"]) for key, both in sorted(pairs.items()) if len(both) == 2]


def _saving(key: tuple[Group, int, int], once: Summary, each: Summary) -> Saving:
    ratio = paired(once.by_launch, each.by_launch)
    percent = None
    if ratio and ratio.launches >= FEWEST_LAUNCHES:
        percent = Estimate(value=100 * (1 - ratio.value), low=100 * (1 - ratio.high), high=100 * (1 - ratio.low))
    return Saving(
        group=key[0], entry_bytes=key[1], entries=key[2],
        each_ns=each.issue.median_ns, once_ns=once.issue.median_ns, percent=percent,
    )  # fmt: skip


def vanishes_at(of_group: Sequence[Saving]) -> int | None:
    """Smallest entry size from which on every measured list is shown to gain nothing that matters; None without one."""
    answer = None
    for size in sorted({s.entry_bytes for s in of_group}, reverse=True):
        if not all(s.negligible for s in of_group if s.entry_bytes == size):
            break
        answer = size
    return answer


def sentences(summaries: Iterable[Summary], line_bytes: int) -> list[Sentence]:
    """Which instruction, what one wait is worth, at which entry size it stops to matter; only what the intervals
    support."""
    passes = usable(summaries)
    found = fits(passes, line_bytes)
    arch = passes[0].arch if passes else ""
    texts = [*_instruction(found), *_wait(found), *_end(savings(passes)), *_trapped(found, arch)]
    texts = texts or [
        "what a line costs, and what a wait, takes lists of several lengths: linewright measure --plan cache"
    ]
    return [Sentence(lead="cache maintenance", clauses=[Clause(text=text)], family=CACHE.name) for text in texts]


def _dirty(found: Iterable[Fit]) -> list[Fit]:
    return [f for f in found if f.group.state == "dirty_beyond" and f.group.align_bytes == 0]


def _instruction(found: Sequence[Fit]) -> list[str]:
    """The cheapest instruction that keeps lines and the cheapest of all, on dirty lines, where they are apart."""
    here = _dirty(found)
    if len(here) < 2:
        return []
    best, *others = sorted(here, key=lambda f: f.per_line.value)
    slower = [f for f in others if f.per_line.low > best.per_line.high]
    text = f"{best.group.form} writes dirty lines back in {_ns(best.per_line)} ns each"
    if slower:
        text += f", less than {', '.join(f'{f.group.form} {_ns(f.per_line)}' for f in slower)}"
    rest = [f for f in others if f not in slower]
    if rest:
        text += f"; undecided against {', '.join(f'{f.group.form} {_ns(f.per_line)}' for f in rest)}"
    return [text]


def _wait(found: Sequence[Fit]) -> list[str]:
    return [
        f"a wait behind {f.group.form} costs {_ns(f.per_wait)} ns ({f.group.state}), {_in_lines(f)}"
        for f in _dirty(found)
        if f.per_line.low > 0 and f.per_wait.low > 0
    ]


def _in_lines(f: Fit) -> str:
    """A wait in lines of the same instruction."""
    lines = f.per_wait.value / f.per_line.value
    return (
        f"as much as {lines:.0f} lines"
        if lines >= 1.5
        else f"{'about as much as' if lines >= 0.75 else 'less than'} one line"
    )


def _end(every: Sequence[Saving]) -> list[str]:
    texts = []
    groups = sorted({s.group for s in every if s.group.state == "dirty_beyond" and s.group.align_bytes == 0})
    for group in groups:
        own = [s for s in every if s.group == group]
        gains = [s for s in own if s.matters]
        if gains:
            most = max(gains, key=lambda s: s.percent.low)
            text = (
                f"{group.form}: one wait for the list saves {most.percent.value:.0f} % at {most.entry_bytes} bytes"
                f" ({most.percent.low:.0f} to {most.percent.high:.0f} %)"
            )
            end = vanishes_at(own)
            texts.append(text + (f"; from entries of {end} bytes on nothing that matters" if end else ""))
        elif all(s.negligible for s in own):
            texts.append(
                f"{group.form}: one wait for the list saves less than {NEGLIGIBLE_PERCENT:g} % at every size measured"
            )
        elif any(s.percent is None for s in own):
            texts.append(f"{group.form}: whether one wait for the list saves anything needs {FEWEST_LAUNCHES} launches")
        else:
            widest = max(own, key=lambda s: s.percent.high - s.percent.low).percent
            texts.append(
                f"{group.form}: undecided whether one wait for the list saves anything:"
                f" {widest.low:.0f} to {widest.high:.0f} % remains possible"
            )
    return texts


def _trapped(found: Sequence[Fit], arch: str) -> list[str]:
    """Only arm64 kernels trap cache maintenance, for errata; on other architectures a long time has other causes."""
    slow = [f for f in found if f.group.state in ("absent", "clean") and f.per_line.low > TRAPPED_NS]
    cause = ": as much as a system call, so the kernel may trap it" if arch == "arm64" else ""
    return [f"{f.group.form} takes {_ns(f.per_line)} ns on {f.group.state} lines{cause}" for f in slow]


def _ns(value: Estimate) -> str:
    return f"{value.value:.3g} [{value.low:.3g}, {value.high:.3g}]"


def published_layout(summaries: Iterable[Summary]) -> list[tuple[str, float, float, Estimate | None]]:
    """The published experiment's rows: map and unmap, µs a pass with a wait behind each entry and with one, change in
    percent.

    Map is for-device (a clean), unmap is for-CPU (an invalidation); 2560 entries of 4 KiB.
    """
    rows = []
    for saving in savings(summaries):
        if (saving.entry_bytes, saving.entries, saving.group.align_bytes) != (4096, 2560, 0):
            continue
        role = {
            ("clwb", "dirty_beyond"): "map",
            ("dc_cvac", "dirty_beyond"): "map",
            ("clflushopt", "clean"): "unmap",
            ("dc_civac", "clean"): "unmap",
        }.get((saving.group.form, saving.group.state))
        if role:
            change = saving.percent and Estimate(
                value=-saving.percent.value, low=-saving.percent.high, high=-saving.percent.low
            )
            rows.append((f"{role} ({saving.group.form})", saving.each_ns / 1e3, saving.once_ns / 1e3, change))
    return sorted(rows, key=lambda row: row[0])
