"""The screen's sentences: one idea and its number each, and only what is shown."""

from __future__ import annotations

from collections.abc import Sequence

from linewright.advice.machine import Machine
from linewright.analysis.across import COUNTERS, Across, defaults
from linewright.analysis.contrast import FEWEST_LAUNCHES, Judged
from linewright.analysis.findings import Against, Finding
from linewright.analysis.saying import Sentence, join, number, said
from linewright.analysis.summary import Summary
from linewright.analysis.verdict import control_sentences, undecided_sentences
from linewright.analysis.words import open_text, percent, work_text
from linewright.families import ONE_LINE
from linewright.schema import Interval

MOST_USES = 4
PREFIXES = {"prefetchw_": "PREFETCHW", "prfm_": "PRFM"}


def _range(ns: Interval) -> str:
    """A figure with its interval, as one number where that rounds to one."""
    low, high = number(ns.low_ns), number(ns.high_ns)
    return number(ns.median_ns) if ns.confidence <= 0 or low == high else f"{number(ns.median_ns)} ({low} to {high})"


def headline(cells: Sequence[Summary], m: Machine) -> list[Sentence]:
    """What an atomic add costs alone, and with a second CPU on its line."""
    plain = [s for s in cells if s.has_figures and s.status == "ok" and not s.cell.work_iters and not m.emulated]
    alone = defaults([s for s in plain if s.cell.contender == "none"]).get("add")
    both = [s for s in plain if s.cell.contender == "same_line" and s.cell.threads == 2]
    nearest = min((s.cell.contender_iters for s in both), default=0)
    contended = defaults([s for s in both if s.cell.contender_iters == nearest]).get("add")
    if alone is None:
        return []
    cycle = m.context.cycle_ns if m.context else 0.0
    cycles = f" ({alone.issue.median_ns / cycle:.0f} cycles)" if cycle > 0 else ""
    kind = "locked operation" if m.arch in ("x86_64", "i386") else f"atomic add ({alone.cell.form})"
    text = f"{'an' if kind[0] == 'a' else 'a'} {kind} takes {_range(alone.issue)} ns{cycles} alone"
    if contended is not None:
        text += f", {_range(contended.issue)} ns with a second CPU on the same word"
    return [said(text, "one_line", alone_ns=alone.issue.median_ns)]


def use(found: Sequence[Finding], ratios: Sequence[Across], m: Machine) -> list[Sentence]:
    """What to write in code, the most valuable first."""
    if m.emulated:
        return []
    sentences = [*_operations(ratios), *_counters(ratios), *_guesses(found), *_cheaper(found), *_prefetches(found)]
    return sentences[:MOST_USES]


def _times(j: Judged) -> str:
    """How many times cheaper the first is, with its interval."""
    c = j.contrast
    return f"{1 / c.value:.2g} times ({1 / c.high:.2g} to {1 / c.low:.2g})"


def _operations(ratios: Sequence[Across]) -> list[Sentence]:
    """A contended fetch-and-add against a compare-and-swap loop."""
    return [
        said(
            f"with a second CPU on the word, {a.first.operation} is {_times(a.judged)} cheaper than a CAS loop:"
            f" {number(a.first_ns)} instead of {number(a.second_ns)} ns",
            "one_line",
            ratio=1 / a.judged.contrast.value,
        )
        for a in ratios
        if (a.first.operation, a.second.operation, a.contended) == ("fetch_add", "cmpxchg", True) and a.judged.cheaper
    ][:1]


def _counters(ratios: Sequence[Across]) -> list[Sentence]:
    own = [a for a in ratios if (a.first.form, a.second.form) == COUNTERS and a.judged.cheaper]
    own.sort(key=lambda a: not a.contended)
    return [
        said(
            f"count in per-CPU words: {number(a.first_ns)} instead of {number(a.second_ns)} ns"
            f" {'with two CPUs counting' if a.contended else 'alone'}, {_times(a.judged)} cheaper",
            "percpu",
            ratio=1 / a.judged.contrast.value,
        )
        for a in own[:1]
    ]


def _guesses(found: Sequence[Finding]) -> list[Sentence]:
    """A compare-and-swap loop that guesses first against one that reads first."""
    for f in found:
        for row in f.rows:
            if (
                f.figure == "issue"
                and row.form.endswith("loop_guess_first")
                and row.judged.slower
                and f.contender == "none"
            ):
                c = row.judged.contrast
                less = f"{percent(1 - 1 / c.low, False)} to {percent(1 - 1 / c.high, False)}"
                return [
                    said(
                        f"read before the first compare-and-swap: {number(f.default_ns.median_ns)} instead of"
                        f" {number(row.ns.median_ns)} ns alone ({less} less)",
                        "one_line",
                        ratio=c.value,
                    )
                ]
    return []


def _cheaper(found: Sequence[Finding]) -> list[Sentence]:
    """Other forms that are shown to cost less than the default, alone and contended."""
    best: dict[str, tuple[Finding, Against]] = {}
    for f in found:
        row = f.best
        if row and f.figure == "issue" and f.operation in ONE_LINE.operations and not row.form.endswith("guess_first"):
            size = f.default_ns.median_ns / max(row.ns.median_ns, 1e-9)
            known = best.get(row.form)
            if known is None or size > known[0].default_ns.median_ns / max(known[1].ns.median_ns, 1e-9):
                best[row.form] = (f, row)
    return [said(_cheaper_text(f, row), "one_line", ratio=row.judged.contrast.value) for f, row in best.values()]


def _cheaper_text(f: Finding, row: Against) -> str:
    where = (
        "alone"
        if f.contender == "none"
        else "with a second CPU on the word"
        if f.threads == 2
        else f"with {f.threads} CPUs"
    )
    c = row.judged.contrast
    span = f"{percent(1 - c.high, False)} to {percent(1 - c.low, False)} less"
    note = f", but {row.rate_note}" if row.rate_note else ""
    return f"{f.operation}: {row.form} takes {number(row.ns.median_ns)} instead of {number(f.default_ns.median_ns)} ns {where} ({span}){note}"


def _prefetches(found: Sequence[Finding]) -> list[Sentence]:
    """What a prefetch for write in front gains, alone and contended, where it is the same or undecided everywhere."""
    answers = []
    for prefix, name in PREFIXES.items():
        rows = [(f, r) for f in found if f.figure == "issue" for r in f.rows if _prefixed(r, f, prefix)]
        alone = [r.judged for f, r in rows if f.contender == "none"]
        together = [r.judged for f, r in rows if f.contender == "same_line"]
        if not alone or any(j.answer != "same" for j in alone):
            continue
        text = f"{name} gains nothing alone: within {percent(max(j.within for j in alone), False)}"
        if together and all(j.answer == "same" for j in together):
            text += f", with a second CPU within {percent(max(j.within for j in together), False)}"
        elif together and not any(j.answer == "different" for j in together):
            widest = max((j.contrast for j in together if j.contrast), key=lambda c: c.farthest, default=None)
            text += f"; with a second CPU {open_text(widest)} remains possible" if widest else ""
        answers.append(said(text, "one_line"))
    return answers


def _prefixed(row: Against, f: Finding, prefix: str) -> bool:
    """Whether a form is the default behind a prefetch."""
    return row.form.startswith(prefix) and row.form.endswith(f.default)


def limits(m: Machine, found: Sequence[Finding]) -> list[Sentence]:
    """What is undecided, withheld or holds only here; the most important first."""
    answers = []
    if m.summaries and all(s.launches < FEWEST_LAUNCHES for s in m.summaries):
        answers.append(said(f"fewer than {FEWEST_LAUNCHES} launches: nothing is claimed; {m.measure}"))
    answers += undecided_sentences([f for f in found if not f.published])
    answers += control_sentences(m.summaries) if m.summaries and not m.emulated else []
    works = sorted({f.work_iters for f in found if f.withheld})
    if works:
        answers.append(said(f"{join([work_text(w) for w in works])}: exposed costs are withheld"))
    if m.context and m.context.virtualised == "yes":
        answers.append(said("a virtual machine: another host, or another neighbour, may cost differently"))
    return answers
