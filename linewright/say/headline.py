"""The first sentences on a machine: what an atomic add costs, and where arm64 seems to perform
it."""

from __future__ import annotations

from linewright import numbers
from linewright.analysis import code_advice
from linewright.analysis.machine_answers import MachineAnswers
from linewright.say.phrases import FAR, modes_text, sharers_of
from linewright.say.sentence import Sentence, sentence


def headline(m: MachineAnswers) -> list[Sentence]:
    """What an atomic add costs alone, and with a second CPU."""
    alone, contended, ns = code_advice.add_cost(m)
    if alone is None:
        return []
    cycle = m.context.cycle_ns if m.context else 0.0
    beside = f"{alone.issue.median_ns / cycle:.0f} cycles" if cycle > 0 else ""
    if band := alone.band:
        beside = numbers.span(band.low_ns, band.high_ns)
    kind = "a locked operation" if m.arch in ("x86_64", "i386") else "an atomic add"
    text = f"{kind}: {numbers.figure(alone.issue.median_ns)} ns{beside and f' ({beside})'} alone"
    if contended is not None and ns is None:
        modes = modes_text(contended.modes)
        text += f"; {sharers_of(contended.cell)} {modes} of the launches"
    elif contended is not None:
        ends = (ns.low_ns, ns.high_ns) if ns.confidence > 0 else (ns.median_ns, ns.median_ns)
        shown = numbers.estimate(ns.median_ns, *ends, "ns", ends=2)
        text += f", {shown} {sharers_of(contended.cell)}"
    cells = tuple(s.id for s in (alone, contended) if s is not None)
    return [sentence(text, "one_line", cells, alone_ns=alone.issue.median_ns)]


def at_the_interconnect(m: MachineAnswers) -> list[Sentence]:
    """The form of add that behaves as if performed at the interconnect, and whether work around it
    hides that."""
    found = code_advice.far_add(m)
    if found is None:
        return []
    f, far, hidden_at, hidden_ids = found
    rows = [r for r in f.rows if r.first.form in far]
    figures = [(r.first.form, r.first.ns.median_ns) for r in rows] + [
        (f.default, f.default_ns.median_ns)
    ]
    (first, ns), *others = [(name, numbers.figure(ns)) for name, ns in figures]
    takes = numbers.join([f"{first} takes {ns} ns", *(f"{name} {ns}" for name, ns in others)])
    every = len(far) > len(f.rows)
    who = "every form" if every else numbers.join(far)
    verb = "behaves" if every or len(far) == 1 else "behave"
    text = f"back to back, {takes}: {who} {verb} {FAR}"
    if hidden_at:
        text += f"; with {hidden_at} units of work around each they cost the same"
    return [sentence(text, "one_line", (f.default_id, *(r.first.id for r in rows), *hidden_ids))]
