"""The screen's sentences: one idea and its number each, and only what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linewright.advice.machine import Machine
from linewright.analysis.across import COUNTER, PADDED, READERS, Across, defaults
from linewright.analysis.contrast import FEWEST_LAUNCHES, Judged
from linewright.analysis.findings import DISTRUSTED, Against, Finding
from linewright.analysis.plausible import explain
from linewright.analysis.saying import Sentence, at_most, join, number, said
from linewright.analysis.summary import Summary
from linewright.analysis.verdict import undecided_sentences
from linewright.analysis.words import PLACES, condition, open_text, work_text
from linewright.families import ONE_LINE
from linewright.schema import Interval

MOST_FORMS = 2
"""Sentences about other forms than the default; the matrix holds all."""
COUNTERS = (COUNTER, "")
"""The per-CPU counter against whatever stands for one atomic word."""
INSTEAD = {
    COUNTERS: ("percpu", "count in per-CPU words: {0}, not {1} ns {3} ({4} less)"),
    ("fetch_add", "cmpxchg"): ("one_line", "contended, fetch_add is {2} cheaper than a CAS loop: {0}, not {1} ns"),
}
REMEDIES = {
    PADDED: ("", "give each thread's word its own line: {0}, not {1} ns with two CPUs ({4} less)"),
    READERS: ("", "read under SRCU (fast), not an rwlock: {0}, not {1} ns with two readers ({4} less)"),
}
"""By what is cheaper than what (forms, or operations): the family that is spoken of, and the sentence."""
PREFIXES = {"prefetchw_": "PREFETCHW", "prfm_": "PRFM"}


def _range(ns: Interval) -> str:
    """A figure with its interval, as one number where that rounds to one."""
    low, high = (f"{end:.{0 if end >= 9.95 else 1}f}" for end in (ns.low_ns, ns.high_ns))
    text = f"{number(ns.median_ns)} ns"
    return text if ns.confidence <= 0 or low == high else f"{text} ({low} to {high})"


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
    kind = "a locked operation" if m.arch in ("x86_64", "i386") else "an atomic add"
    text = f"{kind}: {number(alone.issue.median_ns)} ns{cycles} alone"
    if contended is not None and contended.metastable:
        text += f"; with a second CPU on its line {_groups(contended)}"
    elif contended is not None:
        text += f", {_range(contended.issue)} with a second CPU on its line"
    return [said(text, "one_line", alone_ns=alone.issue.median_ns)]


def use(found: Sequence[Finding], ratios: Sequence[Across], m: Machine) -> list[Sentence]:
    """What to write in code, the most valuable first."""
    if m.emulated:
        return []
    return [
        *_cheaper(found)[:MOST_FORMS], *_instead(ratios, INSTEAD, alone=[COUNTERS]), *_guesses(found),
        *_instead(ratios, REMEDIES), *_prefetches(found),
    ]  # fmt: skip


def _times(j: Judged) -> str:
    """How many times cheaper the first is, with its interval."""
    c = j.contrast
    ends = [f"{end:.{0 if end >= 9.95 else 1}f}" for end in (1 / c.value, 1 / c.high, 1 / c.low)]
    return f"{ends[0]} times" if ends[1] == ends[2] else f"{ends[0]} times ({ends[1]} to {ends[2]})"


def _many_times(j: Judged) -> str:
    """The interval of how many times cheaper the first is, as one number where both ends round to it."""
    low, high = (f"{end:.{0 if end >= 9.95 else 1}f}" for end in (1 / j.contrast.high, 1 / j.contrast.low))
    return f"{low} times" if low == high else f"{low} to {high} times"


def _either(figures: Sequence[float]) -> str:
    """``14.5``, or of a metastable cell ``25.3 or 103``: no launch costs what lies between."""
    return " or ".join(number(ns) for ns in figures)


def _instead(
    ratios: Sequence[Across], texts: Mapping[tuple[str, str], tuple[str, str]], alone: Sequence[tuple[str, str]] = ()
) -> list[Sentence]:
    """What is shown to be cheaper than what; contended, or for the pairs in `alone` without contention where need
    be."""
    answers = []
    for names, (family, text) in texts.items():
        found = [
            a for a in ratios
            if names in (
                (a.first.form, a.second.form), (a.first.operation, a.second.operation), (a.first.form, "")
            )
            and a.judged.cheaper and (a.contended or names in alone)
        ]  # fmt: skip
        for a in sorted(found, key=lambda a: not a.contended)[:1]:
            where = "with two CPUs" if a.contended else "alone"
            figures = (_either(a.first_ns), _either(a.second_ns), _times(a.judged), where, _many_times(a.judged))
            answers.append(said(text.format(*figures), family, ratio=1 / a.judged.contrast.value))
    return answers


def _guesses(found: Sequence[Finding]) -> list[Sentence]:
    """A compare-and-swap loop that guesses first against one that reads first, and where the guess is cheaper."""
    for f in found:
        for row in f.rows:
            if (
                f.figure == "issue"
                and row.form.endswith("loop_guess_first")
                and row.judged.slower
                and f.contender == "none"
            ):
                c = row.judged.contrast
                less = _share(1 - 1 / c.low, 1 - 1 / c.high)
                return [
                    said(
                        f"alone, read before the first CAS: {number(f.default_ns.median_ns)} instead of"
                        f" {number(row.ns.median_ns)} ns ({less} less){_but_more(f, row.form, found, 'cheaper')}",
                        "one_line",
                        ratio=c.value,
                    )
                ]
    return []


def _cheaper(found: Sequence[Finding]) -> list[Sentence]:
    """Other forms that are shown to cost less than the default, alone or contended; those that save most come first."""
    best: dict[str, tuple[Finding, Against]] = {}
    for f in found:
        row = f.best
        if row and f.figure == "issue" and f.operation in ONE_LINE.operations and not row.form.endswith("guess_first"):
            size = f.default_ns.median_ns / max(row.ns.median_ns, 1e-9)
            known = best.get(row.form)
            if known is None or size > known[0].default_ns.median_ns / max(known[1].ns.median_ns, 1e-9):
                best[row.form] = (f, row)
    ranked = sorted(best.values(), key=lambda pair: round(pair[1].ns.median_ns / pair[0].default_ns.median_ns, 1))
    return [
        said(
            _cheaper_text(f, row) + _but_more(f, row.form, found, "slower"), "one_line", ratio=row.judged.contrast.value
        )
        for f, row in ranked
    ]


def _but_more(f: Finding, form: str, found: Sequence[Finding], answer: str) -> str:
    """Where else the advice costs more, because there the form is shown to be `answer` ("slower" or "cheaper") than the
    default: a caller has one form for all."""
    others = (g for g in found if g.operation == f.operation and g.figure == "issue" and g is not f)
    against = [g for g in others if any(r.form == form and getattr(r.judged, answer) for r in g.rows)]
    where = join(list(dict.fromkeys(condition(g) if g.contender == "none" else "contended" for g in against)))
    return f", but more {where}" if where else ""


def _cheaper_text(f: Finding, row: Against) -> str:
    where = "alone" if f.contender == "none" else "contended" if f.threads == 2 else f"with {f.threads} CPUs"
    c = row.judged.contrast
    span = f"{_share(1 - c.high, 1 - c.low)} less"
    note = f", but {row.rate_note}" if row.rate_note else ""
    figures = f"{number(row.ns.median_ns)} instead of {number(f.default_ns.median_ns)} ns"
    return f"{where}, {f.operation} by {row.form}: {figures} ({span}){note}"


def _share(low: float, high: float) -> str:
    """``49 to 50 %``, or one figure where both round to it."""
    ends = [f"{100 * end:.0f}" for end in (low, high)]
    return f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"


def at_the_interconnect(m: Machine) -> list[Sentence]:
    """The form of add that behaves as if performed at the interconnect, and whether work around it hides that."""
    far = {s.id for s in m.summaries if s.nearness in ("far", "all_far")}
    alone = [f for f in m.findings if f.operation == "add" and f.contender == "none"]
    for f in alone:
        row = next((r for r in f.rows if r.id in far), None)
        if row is None or f.work_iters:
            continue
        text = (
            f"back to back, {row.form} takes {number(row.ns.median_ns)} ns and {f.default}"
            f" {number(f.default_ns.median_ns)}:"
            f" {row.form} {PLACES['far']}"
        )
        same = [x.work_iters for x in alone for r in x.rows if r.form == row.form and r.judged.answer == "same"]
        if same:
            text += f"; with {max(same)} units of work around each they cost the same"
        return [said(text, "one_line")]
    return []


def _prefetches(found: Sequence[Finding]) -> list[Sentence]:
    """What a prefetch for write in front gains, alone and contended, where it is the same or undecided everywhere."""
    answers = []
    for prefix, name in PREFIXES.items():
        rows = [(f, r) for f in found if f.figure == "issue" for r in f.rows if _prefixed(r, f, prefix)]
        alone = [r.judged for f, r in rows if f.contender == "none"]
        together = [r.judged for f, r in rows if f.contender == "same_line"]
        if not alone or any(j.answer != "same" for j in alone):
            continue
        text = f"{name} gains nothing alone: within {at_most(max(j.within for j in alone))}"
        if together and all(j.answer == "same" for j in together):
            text += f", with a second CPU within {at_most(max(j.within for j in together))}"
        elif together and not any(j.answer == "different" for j in together):
            widest = max((j.contrast for j in together if j.contrast), key=lambda c: c.farthest, default=None)
            text += f"; with a second CPU {open_text(widest)} remains possible" if widest else ""
        answers.append(said(text, "one_line"))
    return answers


def _prefixed(row: Against, f: Finding, prefix: str) -> bool:
    """Whether a form is the default behind a prefetch."""
    return row.form.startswith(prefix) and row.form.endswith(f.default)


def _groups(s: Summary) -> str:
    """``25.3 ns in 50 % of the launches and 103 ns in 50 %``."""
    first, *others = (f"{number(mode.median_ns)} ns in {100 * mode.share:.0f} %" for mode in s.modes)
    return join([f"{first} of the launches", *others])


def _modes(summaries: Sequence[Summary]) -> list[Sentence]:
    """One sentence for all metastable cells, with the groups of the first."""
    members = [s for s in summaries if s.metastable]
    if not members:
        return []
    count = f"{len(members)} cells are" if len(members) > 1 else "one cell is"
    example = f"{members[0].cell.form}: {_groups(members[0])}"
    return [said(f"{count} metastable (~), which means that launches fall into separate groups, as of {example}")]


def doubt_of(s: Summary) -> str:
    """The flag for which a cell's figure is not shown as what the cell costs; empty for none.  What an emulator ran is
    said once, of everything."""
    return min((DISTRUSTED - {"emulated"}) & set(s.flags), default="")


def _unshown(summaries: Sequence[Summary]) -> list[Sentence]:
    """How many cells are unreliable or were not available, with the first one's reason."""
    found = []
    for status, words in (("unreliable", "unreliable (?)"), ("unavailable", "not available")):
        members = [s for s in summaries if s.status == status]
        if members:
            count = f"{len(members)} cells are" if len(members) > 1 else "one cell is"
            reason = members[0].reason or "no reason given"
            found.append(said(f"{count} {words}, such as {members[0].cell.form}: {reason}"))
    doubted = [s for s in summaries if s.status == "ok" and doubt_of(s)]
    if doubted:
        count = f"{len(doubted)} cells are" if len(doubted) > 1 else "one cell is"
        why = explain(doubt_of(doubted[0])).rstrip(".")
        found.append(said(f"{count} not believed, such as {doubted[0].cell.form}: {why[:1].lower()}{why[1:]}"))
    return found


def limits(m: Machine, found: Sequence[Finding]) -> list[Sentence]:
    """What is undecided, withheld or holds only here; the most important first."""
    answers = []
    if (
        not m.published
        and any(s.has_figures for s in m.summaries)
        and all(s.launches < FEWEST_LAUNCHES for s in m.summaries)
    ):
        planned = max((c.launches for c in m.contexts), default=0)
        more = "linewright measure --resume FILE measures the rest" if planned >= FEWEST_LAUNCHES else m.measure
        answers.append(said(f"fewer than {FEWEST_LAUNCHES} launches: nothing is claimed; {more}"))
    answers += _modes(m.summaries)
    answers += _unshown(m.summaries)
    answers += undecided_sentences([f for f in found if not f.published])
    works = sorted({f.work_iters for f in found if f.withheld})
    if works:
        answers.append(said(f"{join([work_text(w) for w in works])}: exposed costs are withheld"))
    if m.context and m.context.virtualised == "yes":
        answers.append(said("a virtual machine: another host, or another neighbour, may cost differently"))
    return answers
