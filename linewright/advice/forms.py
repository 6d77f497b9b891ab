"""What to write in code: each operation's forms against the default by contention and work, and where the answer
turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linewright.advice.machine import Machine, Topic
from linewright.analysis.crossovers import crossing_text, crossovers
from linewright.analysis.findings import Finding
from linewright.analysis.saying import join, number
from linewright.analysis.summary import grouped
from linewright.analysis.words import (
    all_within_text,
    by_caller,
    caller_of,
    condition,
    default_text,
    less_text,
    open_text,
    runs_of,
    shown_text,
)
from linewright.families import FAMILIES, family_of


def need_of(f: Finding) -> str:
    """Operation and order; `caller_of` names the orders between the two ends itself."""
    caller = caller_of(f)
    return caller if f"({f.order})" in caller else f"{caller} ({f.order})"


def _span(run: Sequence[Finding]) -> str:
    first, last = run[0].work_iters, run[-1].work_iters
    return f"work {first}" if first == last else f"work {first} to {last} (figures at {first})"


def answer_text(f: Finding) -> str:
    """What is shown at one point, and what is undecided there."""
    if f.published:
        medians = [
            f"{f.default} {number(f.default_ns.median_ns)}",
            *(f"{r.form} {number(r.ns.median_ns)}" for r in f.rows),
        ]
        return f"published medians: {', '.join(medians)} ns"
    unknown = f.of("undecided")
    open_forms = f"; undecided: {join([_open(r) for r in unknown])}" if unknown else ""
    return (shown_text(f) or default_text(f)) + open_forms


def _open(row) -> str:
    c = row.judged.contrast
    return (
        f"{row.form} ({open_text(c)})"
        if c and row.judged.why == "wide"
        else f"{row.form} ({row.judged.why.replace('_', ' ')})"
    )


def _sweeps(found: Sequence[Finding]) -> list[str]:
    return [
        f"{need_of(run[0])}, {condition(run[0])}, {_span(run)}: {answer_text(run[0])}"
        for sweep in by_caller(found)
        for run in runs_of(sweep)
    ]


def of_family(name: str, section: str) -> Callable[[Machine], Topic | None]:
    """The section of one family: every form against the default, where such records exist."""
    title = next(f.title for f in FAMILIES if f.name == name)

    def make(m: Machine) -> Topic | None:
        found = m.of_family(name)
        return Topic(name=section, title=title, lines=_sweeps(found), data=found) if found else None

    return make


def overtaking(m: Machine) -> Topic | None:
    """Where one form overtakes the default."""
    found = crossovers([f for f in m.findings if not family_of(f.operation).advice])
    lines = [crossing_text(c, m.time_of(c.above) if c.axis == "work_iters" else "") for c in found]
    title = "Where one form overtakes another"
    return Topic(name="crossovers", title=title, lines=lines, data=found) if lines else None


def code(m: Machine) -> Topic | None:
    """What to write in code, where no setting chooses: one line for each need."""
    chosen = ("add", "fetch_add", "xchg") if m.forms_differ else ()
    wanted = (f for f in m.of_family("one_line") if f.operation not in chosen and not f.published)
    lines, data, unknown = [], [], []
    for need, found in grouped(wanted, need_of).items():
        text, forms = _written(found)
        if text:
            lines.append(f"{need}: {text}")
        else:
            unknown.append(f"{forms[0]} for {need}")
        data.append({"operation": need, "default": found[0].default, "forms": forms})
    if unknown:
        lines.append(
            f"until more is known, since other forms are undecided at some point: {join(unknown)}; {m.measure}"
        )
    return Topic(name="code", title="In code", lines=lines, data=data) if lines else None


def _written(found: Sequence[Finding]) -> tuple[str, list[str]]:
    """What the findings of one need support writing: a form, any of several, or (no text) nothing yet but the
    default."""
    default = found[0].default
    names = list(dict.fromkeys(r.form for f in found for r in f.rows))
    rows = {name: [(f, r) for f in found for r in f.rows if r.form == name] for name in names}
    better = [n for n in names if _never(rows[n], "slower", "undecided") and any(r.judged.cheaper for _, r in rows[n])]
    same = [n for n in names if all(r.judged.answer == "same" for _, r in rows[n])]
    if better:
        best = min(better, key=lambda n: sum(r.ns.median_ns for _, r in rows[n]))
        f, r = max(((f, r) for f, r in rows[best] if r.judged.cheaper), key=lambda x: x[0].default_ns.median_ns)
        return f"{best}: {less_text(r, f)} than {default} {condition(f)}, work {f.work_iters}, the same elsewhere", [
            best
        ]
    if len(same) == len(names):
        widest = all_within_text(r.judged for n in names for _, r in rows[n])
        return f"any of {join([default, *names])}: the same within {widest}", [default, *names]
    if all(any(r.judged.slower for _, r in rows[n]) or n in same for n in names):
        return f"{default}: nothing measured costs less", [default, *same]
    if any(any(r.judged.cheaper for _, r in rows[n]) for n in names):
        return "depends on contention and work, see above", []
    return "", [default]


def _never(rows: Sequence[tuple], *answers: str) -> bool:
    return not any((r.judged.slower and "slower" in answers) or r.judged.answer in answers for _, r in rows)
