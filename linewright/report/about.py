"""The words of a report: decision, verdict, figures at a glance, machines, and everything that casts doubt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis import verdict_sentences
from linewright.analysis.plausible import explain
from linewright.analysis.saying import Clause, Sentence, render
from linewright.analysis.screen_data import Entry, Screen
from linewright.analysis.summary import Summary
from linewright.errors import one_line
from linewright.families import FAMILIES, default_of
from linewright.output.screen import words
from linewright.report import facts
from linewright.report.material import Material, Series
from linewright.schema import Interval
from linewright.units import cpu_text, ns_text


class Saying(Struct, frozen=True, kw_only=True):
    """Claims of the verdict that hold under one condition."""

    lead: str
    clauses: list[str]


class Area(Struct, frozen=True, kw_only=True):
    """What the verdict says of one family of operations."""

    name: str
    """Empty where there is one area alone."""
    sayings: list[Saying]


class Answer(Struct, frozen=True, kw_only=True):
    """The decision and the verdict on one series."""

    label: str
    kind: str
    headline: list[str]
    decisions: list[tuple[str, list[str]]]
    """What to use and what to set."""
    areas: list[Area]


class Tile(Struct, frozen=True, kw_only=True):
    """One large figure."""

    name: str
    value: str
    unit: str
    note: str


FEW_PAIRS = 2
"""Pairs of cores above which the verdict speaks of all pairs of a distance together."""


def answers(material: Material) -> list[Answer]:
    """What the measurements support, series by series."""
    return [_answer(series) for series in material.series]


def _answer(series: Series) -> Answer:
    screen = series.screen
    decisions = [("Use", _texts(screen.use)), ("Set", _texts(screen.set))] if screen else []
    return Answer(
        label=series.label,
        kind=series.kind,
        headline=_texts(screen.headline) if screen else [],
        decisions=[(name, texts) for name, texts in decisions if texts],
        areas=_areas(series),
    )


def _texts(sentences: Sequence[Sentence]) -> list[str]:
    return [one_line(render(sentence)) for sentence in sentences]


def _areas(series: Series) -> list[Area]:
    """The verdict's sentences by family, in the order of the families; what concerns the whole machine comes last."""
    said: dict[str, list[Sentence]] = {family.name: [] for family in FAMILIES}
    for sentence in verdict_sentences(series.summaries, series.contexts):
        said.setdefault(sentence.family, []).append(sentence)
    pairs = {s.cell.placement for s in series.summaries if s.cell.operation == "handoff"}
    if len(pairs) > FEW_PAIRS:
        said["handoff"] = _handoffs(series.summaries)
    titles = {family.name: family.title for family in FAMILIES}
    kept = {name: sentences for name, sentences in said.items() if sentences}
    return [
        Area(name=titles.get(name, "The run itself") if len(kept) > 1 else "", sayings=_sayings(sentences))
        for name, sentences in kept.items()
    ]


def _sayings(sentences: Sequence[Sentence]) -> list[Saying]:
    """Each claim on a line of its own; claims without a condition that follow each other stand together."""
    made: list[Saying] = []
    for sentence in sentences:
        clauses = [one_line(_capital(clause.text)) for clause in sentence.clauses]
        if not sentence.lead and made and not made[-1].lead:
            clauses = made.pop().clauses + clauses
        made.append(Saying(lead=one_line(_capital(sentence.lead)), clauses=clauses))
    return made


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _handoffs(members: Sequence[Summary]) -> list[Sentence]:
    """For each distance: the middle pair's time by each definition, and the range over the pairs."""
    found: dict[str, dict[str, list[float]]] = {}
    for s in members:
        if s.cell.operation == "handoff" and s.status == "ok" and s.issue and not s.cell.work_iters:
            found.setdefault(s.placement_class, {}).setdefault(s.cell.form, []).append(s.issue.median_ns / 2)
    answers = []
    for distance, forms in found.items():
        clauses = [
            Clause(
                text=f"a handoff by {form} takes {ns_text(float(np.median(v)))} ns"
                f" ({ns_text(min(v))} to {ns_text(max(v))} over {len(v)} pairs)"
            )
            for form, v in forms.items()
        ]
        where = facts.PLACES.get(distance, distance.replace("_", " ") or "any distance")
        answers.append(Sentence(lead=where, clauses=clauses, family="handoff"))
    return answers


def pieces(text: str, names: frozenset[str]) -> list[tuple[str, bool]]:
    """A sentence as runs of text, and whether each is the name of a form or operation."""
    return [(part, part in names) for part in re.split(r"([a-z0-9_]+)", text) if part]


def names_of(material: Material) -> frozenset[str]:
    """Forms of the report; only those with a joint or a digit, since plain words are words."""
    forms = {s.cell.form for series in material.series for s in series.summaries}
    return frozenset(
        form
        for form in forms
        if "_" in form or any(c.isdigit() for c in form) or form in ("clwb", "clflushopt", "clflush")
    )


# -------------------------------------------------------------------------------------------------------------- tiles


TILES = (("add", "alone"), ("add", "contended"), ("fetch_add", "contended"), ("cmpxchg", "contended"))
"""Operations and conditions of the matrix that get a large figure, where they were measured."""
PRICED = ("percpu_rseq_add", "srcu_fast")
"""Remedies of the price list that get one."""


def tiles(series: Series) -> list[Tile]:
    """The default form's figure for what is asked for most; another one is named only where it costs less."""
    made = _matrix_tiles(series.screen) + _price_tiles(series.screen) if series.screen else []
    handoffs = {
        s.cell.form: s.issue
        for s in sorted(series.summaries, key=lambda s: -s.issue.median_ns if s.issue else 0.0)
        if s.cell.operation == "handoff" and s.status == "ok" and s.has_figures and s.cell.work_iters == 0
    }
    if handoffs:
        form = default_of("handoff", handoffs)
        note = f"{form}, nearest pair, {_span(handoffs[form], 0.5)}"
        made.append(Tile(name="core to core", value=ns_text(handoffs[form].median_ns / 2), unit="ns", note=note))
    return made


def _matrix_tiles(screen: Screen) -> list[Tile]:
    conditions = {condition.key: condition for condition in screen.conditions}
    made = []
    for operation, key in TILES:
        row = next((row for row in screen.rows if row.operation == operation), None)
        entry = row.entries.get(key) if row else None
        if entry and entry.default:
            name = f"{row.name}, {'alone' if key == 'alone' else 'second CPU on the line'}"
            note = _note(entry, words.same_within(conditions[key]))
            made.append(Tile(name=name, value=words.figure(entry.default), unit="ns", note=note))
    return made


def _note(entry: Entry, within: str) -> str:
    form, versus = entry.default.form, entry.versus
    if versus is None:
        return form
    if versus.answer == "cheaper":
        return f"{form}; {versus.form} {words.change(versus)}"
    if versus.answer == "same":
        return f"{form}; no other form saves more than {within}"
    return f"{form}; every other form costs more" if versus.answer == "slower" else f"{form}; others undecided"


def _price_tiles(screen: Screen) -> list[Tile]:
    return [
        Tile(name=price.name, value=words.figure(price.alone), unit="ns", note=f"alone, {words.span(price.alone)}")
        for price in screen.prices
        if price.alone and price.alone.form in PRICED
    ]


def _span(interval: Interval, share: float = 1.0) -> str:
    if interval.confidence <= 0:
        return "no interval"
    return f"{ns_text(share * interval.low_ns)} to {ns_text(share * interval.high_ns)}"


# ------------------------------------------------------------------------------------------------------------ machine


def about(series: Series) -> list[tuple[str, str]]:
    """What was measured on, by what: names and values."""
    c = series.contexts[0]
    every = series.contexts
    sockets = len({cpu.socket for cpu in c.cpus if cpu.socket >= 0})
    nodes = len({cpu.node for cpu in c.cpus if cpu.node >= 0})
    allowed = [cpu.cpu for cpu in c.cpus if cpu.allowed]
    said = [
        ("CPU", c.cpu_model),
        ("Model", ", ".join(c.cpu_ids)),
        ("Architecture", c.arch),
        (
            "CPUs",
            f"{len(c.cpus)}"
            + (f" on {sockets} sockets" if sockets > 1 else "")
            + (f", {nodes} memory nodes" if nodes > 1 else "")
            + f"; used: {cpu_text(allowed)}",
        ),
        ("SMT", c.smt),
        ("Virtual machine", c.virtualised),
        ("Kernel", c.kernel),
        ("Boot parameters", c.boot_parameters),
        ("Governor", c.governor or "none to be seen"),
        ("Features", ", ".join(c.features)),
        ("Cache line", f"{c.line_bytes} bytes"),
        (
            "Clock",
            f"{c.time_source}, tick {ns_text(c.tick_ns)} ns, reading it {_range([x.timer_cost_ns for x in every])} ns",
        ),
        ("Core cycle, as seen", f"{_range([x.cycle_ns for x in every])} ns"),
        ("Unit of work", f"{_range([x.unit_ns for x in every])} ns"),
        ("Hardware counters", c.counters),
        ("Restartable sequences", c.rseq),
        ("Real-time priority", _yes(x.realtime for x in every)),
        ("Memory locked", _yes(x.locked_memory for x in every)),
        ("Target", c.target),
        ("Plans", ", ".join(facts.once(x.plan for x in every))),
        ("Launches", str(len(every))),
        ("Begun", _begun(series)),
        ("Program", f"linewright {c.tool_version}, {c.compiler}"),
        ("Machine id", series.machine_id),
        ("Files", ", ".join(series.files)),
    ]
    return [(name, one_line(value)) for name, value in said if value]


def _begun(series: Series) -> str:
    first, last = (end(c.started_utc for c in series.contexts) for end in (min, max))
    return first if first == last else f"{first}; the last launch {last}"


def _range(values: Sequence[float]) -> str:
    low, high = ns_text(min(values)), ns_text(max(values))
    return low if low == high else f"{low} to {high}"


def _yes(values) -> str:
    given = {bool(v) for v in values}
    return "yes" if given == {True} else "no" if given == {False} else "in some launches"


# ------------------------------------------------------------------------------------------------------------- doubts


def doubts(series: Series) -> list[str]:
    """Everything a careful reader would ask about, as sentences; the worst first."""
    return [
        one_line(text)
        for text in (*_conditions(series), *_discarded(series), *_statuses(series), *_budget(series), *_flags(series))
    ]


def _conditions(series: Series) -> list[str]:
    c, said = series.contexts[0], []
    if series.kind == "simulated":
        said.append(
            "Simulated: these figures come from a model of a machine, not from one; intervals are the model's bands."
        )
    if series.kind == "published":
        said.append("Published percentiles only: intervals are ranges of percentiles, not of a median.")
        return said
    if any(x.emulated for x in series.contexts):
        said.append("Run by an emulator: times mean nothing, only the sums do.")
    if c.virtualised == "yes":
        said.append(
            "A virtual machine: the hypervisor may take CPUs away; which host it is, and who shares it, is unknown."
        )
    if c.counters != "available" and series.kind == "measured":
        said.append("Hardware counters were not available: cycles, instructions and snoops are not in the records.")
    if c.governor and c.governor != "performance":
        said.append(f"The frequency governor was {c.governor}: clocks may have changed between windows.")
    cycles = [x.cycle_ns for x in series.contexts if x.cycle_ns > 0]
    if cycles and max(cycles) > 1.05 * min(cycles):
        said.append(
            f"The core cycle was {ns_text(min(cycles))} ns in one launch and {ns_text(max(cycles))} ns in another:"
            " the frequency changed."
        )
    if not all(x.realtime for x in series.contexts) and series.kind == "measured":
        said.append("Not run at real-time priority: kernel housekeeping could run inside windows.")
    return said


def _discarded(series: Series) -> list[str]:
    lost = Counter()
    for record in series.records:
        lost.update(msgspec.structs.asdict(record.discarded))
    kept = sum(len(record.window_ns) for record in series.records)
    names = {
        "switched": "a thread was off its CPU",
        "stolen": "the hypervisor took a CPU away (stolen time)",
        "long_batch": "one batch was far longer than the others",
    }
    parts = [f"{lost[name]} because {why}" for name, why in names.items() if lost[name]]
    if not parts:
        return []
    total = sum(lost.values())
    share = 100 * total / (kept + total)
    return [f"{total} of {kept + total} windows ({share:.1f} %) were discarded: {'; '.join(parts)}."]


def _statuses(series: Series) -> list[str]:
    groups: dict[tuple[str, str], list[Summary]] = {}
    for s in series.summaries:
        if s.status != "ok":
            groups.setdefault((s.status, re.sub("[0-9]+", "N", s.reason)), []).append(s)
    said = []
    for (status, reason), members in groups.items():
        forms = facts.once(s.cell.form for s in members)
        which = ", ".join(forms[:4]) + (f" and {len(forms) - 4} other forms" if len(forms) > 4 else "")
        why = members[0].reason if len({s.reason for s in members}) == 1 else reason
        said.append(
            f"{len(members)} {'cell' if len(members) == 1 else 'cells'} {status} ({which}): {why or 'no reason given'}"
        )
    return said


def _budget(series: Series) -> list[str]:
    ended = Counter(s.stop for s in series.summaries if s.stop)
    if not ended.get("budget"):
        return []
    return [
        f"{ended['budget']} of {sum(ended.values())} cells used up their time"
        " before their interval was as narrow as asked for."
    ]


def _flags(series: Series) -> list[str]:
    flagged: dict[str, list[Summary]] = {}
    for s in series.summaries:
        for flag in s.flags:
            flagged.setdefault(flag, []).append(s)
    return [
        f"{flag}: {_which(members)}. {explain(flag)}"
        for flag, members in sorted(flagged.items(), key=lambda item: -len(item[1]))
    ]


def _which(members: Sequence[Summary]) -> str:
    if len(members) > 2:
        return f"{len(members)} cells"
    return " and ".join(f"{s.cell.form} {facts.contention(s.cell)} work {s.cell.work_iters}" for s in members)
