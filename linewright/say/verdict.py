# SPDX-License-Identifier: MIT
"""Which form is cheaper where, family by family: the text that verdict, advice and report share.
Nothing measured is left out of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from linewright import numbers
from linewright.analysis.control import Floor
from linewright.analysis.findings import Finding
from linewright.analysis.machine_answers import (
    Handoff,
    MachineAnswers,
    handoffs,
    machines_with_answers,
)
from linewright.analysis.summary import Summary, grouped
from linewright.errors import one_line
from linewright.forms import FAMILIES, HANDOFF, ONE_LINE, Family, family_of
from linewright.say.document import (
    Clause,
    Sentence,
    Topic,
    capital,
    sentence,
    unique,
)
from linewright.say.family_sentences import (
    apart_sentences,
    cache_sentences,
    dma_sentences,
    reader_sentences,
    wait_sentences,
)
from linewright.say.machine_lines import EMULATED, undecided_sentences
from linewright.say.phrases import (
    DISTANCES,
    PLACES,
    answer_text,
    by_caller,
    caller_of,
    crossing_text,
    need_of,
    runs_of,
    sharers_of,
    work_lengths_text,
)
from linewright.say.words import WITHHELD, in_english
from linewright.schema import Context


def _span(run: Sequence[Finding]) -> str:
    first, last = run[0].situation.work_iters, run[-1].situation.work_iters
    if first == last:
        return run[0].situation.around
    return f"from {first} to {last} units of work (figures at {first})"


def _clause(run: Sequence[Finding], caller: str) -> Clause:
    """What is known of one caller at neighbouring work lengths."""
    f, best = run[0], run[0].best
    known = {"default_ns": f.side.ns.median_ns}
    if best:
        known |= {"best_ns": best.first.ns.median_ns, "change": best.contrast.value}
    return Clause(text=f"{_span(run)}, {caller}: {answer_text(f)}", numbers=known)


def _class_of(f: Finding) -> tuple:
    s = f.situation
    return (s.contender != "none", s.contender_iters, s.threads, s.placement, s.lines, f.side.cpu)


def _forms(found: Sequence[Finding], family: Family) -> list[Sentence]:
    """One sentence for each contention class; each line names its order where they are several."""
    caller = need_of if len({f.order for f in found}) > 1 else caller_of
    return [
        Sentence(
            lead=sharers_of(members[0]),
            clauses=[
                _clause(run, caller(run[0]))
                for sweep in by_caller(members)
                for run in runs_of(sweep)
            ],
            family=family.name,
            cells=tuple(unique(i for f in members for i in f.ids)),
        )
        for members in grouped(sorted(found, key=_class_of), _class_of).values()
    ]


def _handoffs(distance: str, found: Sequence[Handoff]) -> Sentence:
    """For one distance the middle pair's time by each form, and the range over the pairs."""
    where = DISTANCES.get(distance, in_english(distance) or "any distance")
    clauses = [
        Clause(
            text=f"a handoff by {h.form} takes {numbers.figure(h.median_ns)} ns "
            f"({numbers.figure(h.least_ns)} to {numbers.figure(h.most_ns)} over {h.pairs} pairs)"
        )
        for h in found
    ]
    cells = tuple(unique(i for h in found for i in h.ids))
    return Sentence(lead=where, clauses=clauses, family=HANDOFF.name, cells=cells)


def _of_family(family: Family, m: MachineAnswers) -> list[Sentence]:
    own = [s for s in m.summaries if family_of(s.cell.operation) is family]
    found = m.of_family(family.name)
    if family is HANDOFF and (by_distance := handoffs(own)):
        return [_handoffs(distance, members) for distance, members in by_distance.items()]
    if family.verdict == "cache":
        return cache_sentences(m)
    if family.verdict == "spacing":
        return apart_sentences(m)
    if family.verdict == "dma":
        return dma_sentences(m.summaries) if own else []
    if family.verdict == "hints":
        return wait_sentences(m)
    if family.verdict == "readers":
        read = [f for f in found if f.operation in _READERS and not f.situation.param("updater")]
        return _forms(read, family) + reader_sentences(m)
    return _forms(found, family)


def places(members: Iterable[Summary]) -> Iterator[Sentence]:
    """Which arm64 instructions behave as if performed at the interconnect, by core."""
    for s in members:
        if s.nearness in ("far", "all_far", "mixed"):
            lines = (
                f" ({s.far_lines} of {s.near_lines + s.far_lines} lines)"
                if s.nearness == "mixed"
                else ""
            )
            cpu = f"from CPU {s.cpus[0]}, " if s.cpus else ""
            text = f"{cpu}{s.cell.form} {PLACES[s.nearness]}{lines}"
            yield sentence(text, "one_line", [s.id], ns=s.issue.median_ns)


def control_sentences(m: MachineAnswers) -> Iterator[Sentence]:
    """The run's own controls: what identical machine code differed by, and whether the baseline
    loop is a measure."""
    if m.floors:
        known = m.floors.values()
        widest = grouped(known, _floor_where)
        parts = [
            f"{where} by up to {numbers.within(max(f.size for f in own), own[0].scale)}"
            for where, own in widest.items()
        ]
        pairs = max(f.pairs for f in known)
        yield sentence(
            f"identical machine code timed twice ({pairs} pairs) differed {'; '.join(parts)}:"
            " what exceeds chance widens every comparison",
            cells=[i for f in known for i in f.ids],
        )
    if loop := m.work_loop:
        yield sentence(
            f"the loop without an operation: {loop.unit_ns:.3f} ns a unit of work, "
            f"proportional within {numbers.at_most(loop.nonlinearity)}, windows within "
            f"{numbers.at_most(loop.spread)}",
            basis="run",
            unit_ns=loop.unit_ns,
        )
    if failed := [s for s in m.summaries if s.withheld]:
        text = f"{work_lengths_text(s.cell.situation for s in failed)}: {WITHHELD}"
        yield sentence(text, cells=[s.id for s in failed])


def _floor_where(f: Floor) -> str:
    """The contention of a noise floor, and whether exposed costs are what it is of."""
    sharers = f.group.situation.without("contender_iters").sharers
    return f"{sharers} with work" if f.scale == "ns" else sharers


_READERS = ("readers_pair", "readers_shape", "readers_lookup")
"""Operations of readers between which a choice is spoken of."""


class FamilyEvidence(NamedTuple):
    """What is known of one family."""

    family: Family
    forms: list[Sentence]
    """Its forms, or lists, or readers, beside each other."""
    more: list[Sentence]
    """Where forms change places, and where they seem to be performed: topics of their own in
    advice."""


def by_family(m: MachineAnswers) -> list[FamilyEvidence]:
    """What the measurements show, family by family: of verdict, advice and report the same."""
    answers = []
    for family in () if m.emulated else FAMILIES:
        more = []
        if family.verdict == "forms":
            more = [
                sentence(crossing_text(c, m.context), family.name, c.ids, below=low, above=high)
                for c in m.crossovers
                if family_of(c.operation) is family
                for low, high in [c.ends]
            ]
        more += places(m.summaries) if family is ONE_LINE else []
        answers.append(FamilyEvidence(family, _of_family(family, m), more))
    return [e for e in answers if e.forms or e.more]


def run_itself(m: MachineAnswers, compared: bool = True) -> list[Sentence]:
    """What concerns the whole machine: what is undecided, what is published only, and the run's
    controls; `compared`: whether anything else is said."""
    if m.emulated:
        return [sentence(f"{EMULATED}, so no form is preferred", basis="run")]
    found = [f for f in m.findings if family_of(f.operation).verdict == "forms"]
    answers = undecided_sentences(found, m)
    if m.published:
        answers.append(
            sentence(
                "published percentiles of one run on one pair of CPUs: forms are said to differ "
                "where the median of one lies above the 99th percentile of the other",
                basis="rule",
            )
        )
    if not answers and not compared and not m.select("hints"):
        answers = [
            sentence(
                "no two forms of one operation were measured in equal situations, so nothing is "
                "compared",
                cells=[s.id for s in m.summaries],
            )
        ]
    return [*answers, *control_sentences(m)]


def verdict_of(m: MachineAnswers) -> list[Sentence]:
    """What the measurements of one machine show."""
    shown = [line for e in by_family(m) for line in (*e.forms, *e.more)]
    return shown + run_itself(m, bool(shown))


def verdict_sentences(
    summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]
) -> list[Sentence]:
    """What the measurements show, machine by machine, as data."""
    machines = list(machines_with_answers(summaries, contexts))
    answers = []
    for m in machines:
        model = m.context.cpu_model if m.context else "machine"
        name = f"{model} [{m.summaries[0].machine_id}]" if len(machines) > 1 else ""
        answers += [msgspec.structs.replace(s, machine=name) for s in verdict_of(m)]
    return answers


def areas(m: MachineAnswers) -> list[Topic]:
    """The verdict of a page, by family; what concerns the whole machine comes last."""
    found = [(e.family.title, [*e.forms, *e.more]) for e in by_family(m)]
    found.append(("The run itself", run_itself(m, bool(found))))
    kept = [(title, sentences) for title, sentences in found if sentences]
    return [
        Topic(
            name="findings",
            title=title if len(kept) > 1 else "",
            audience="page",
            lines=_joined(own),
        )
        for title, own in kept
    ]


def _joined(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Each claim on a line of its own; claims of one situation that follow each other stand
    together."""
    return [
        Sentence(
            lead=lead,
            clauses=[Clause(text=one_line(capital(c.text))) for one in own for c in one.clauses],
        )
        for lead, own in itertools.groupby(sentences, lambda one: one_line(capital(one.lead)))
    ]
