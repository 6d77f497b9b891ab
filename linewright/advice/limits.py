"""What a measurement cannot tell, and what it says of its own noise."""

from __future__ import annotations

from linewright.advice import choice
from linewright.advice.machine import Machine, Topic
from linewright.analysis.saying import join, render_all
from linewright.analysis.verdict import control_sentences
from linewright.units import cpu_text


def control(m: Machine) -> Topic | None:
    """The run's noise floor and its baseline loop."""
    lines = render_all(control_sentences(m.summaries, m.contexts)) if m.summaries and not m.emulated else []
    return Topic(name="control", title="The run's own control", lines=lines, data=lines) if lines else None


def unknown(m: Machine) -> Topic:
    """What these records cannot tell."""
    lines = [*_machine(m), *_settings(m), *_contention(m)]
    if not any(s.cell.work_iters for s in m.summaries):
        lines.append("what is hidden by work around the operation: no cell had work")
    lines.append("how your program mixes operations, contention and work: `linewright trial -- PROGRAM` measures that")
    return Topic(name="unknown", title="What this measurement cannot tell", lines=lines, data=lines)


def _machine(m: Machine) -> list[str]:
    lines = []
    if m.context is None:
        lines.append("what machine this is: the records' context is missing")
    if m.emulated:
        lines.append("anything about time: an emulator ran this")
    if m.context and m.context.virtualised == "yes":
        lines.append("what the same cores do without the hypervisor: this is a virtual machine")
    if m.context and m.context.target.startswith("simulated"):
        lines.append("what silicon does: a model produced these records")
    if any(s.published for s in m.summaries):
        lines.append("how far medians would move: only percentiles are known, so nothing is claimed beyond their order")
    if any(s.one_launch for s in m.summaries if s.status == "ok"):
        lines.append(f"what another launch would show: some cells ran in one; {m.measure}")
    if any("short_span" in s.flags for s in m.summaries):
        lines.append("what another state of the machine would show: the launches lie close together in time")
    return lines


def _settings(m: Machine) -> list[str]:
    if not m.forms_differ or m.emulated:
        return []
    lines = []
    unmeasured = [c for c in choice.OPERATIONS if not any(x.operations == c for x in m.choices)]
    if unmeasured:
        what = join([choice.CLASS_WORDS[c] for c in unmeasured])
        lines.append(f"a choice for {what}: fewer than two forms were measured under equal conditions")
    valued = [p for x in m.choices if x.operations != "void" for p in x.points]
    if not any(p.choice.startswith("llsc") or p.default_form.startswith(("llsc_", "prfm_strm_llsc_")) for p in valued):
        lines.append(
            "LL/SC for operations that return a value: these records hold no form of it;"
            " `linewright trial --settings default/llsc` tells for a program"
        )
    kept = sorted({s.cell.form for s in m.summaries if s.status == "ok" and s.cell.form.startswith("prfm_keep")})
    return lines + [f"the library's prefetch is PSTL1STRM: {form} has no setting" for form in kept][:1]


def _contention(m: Machine) -> list[str]:
    contended = [s for s in m.summaries if s.cell.contender == "same_line" and s.status == "ok"]
    if not contended:
        return ["anything under contention: no cell had a contender"]
    lines = [f"contention of more than {max(s.cell.threads for s in contended)} threads"]
    timed = {s.cpus[0] for s in m.summaries if s.cpus}
    allowed = [c for c in (m.context.cpus if m.context else []) if c.allowed]
    if len(timed) < len(allowed):
        lines.append(f"other cores and distances: CPU {cpu_text(timed) or 'unknown'} of {len(allowed)} was timed")
    return lines
