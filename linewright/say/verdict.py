# SPDX-License-Identifier: MIT
"""Which form is cheaper where, family by family, of which nothing measured is left out: the text
that verdict, advice and page share; and the evidence beside it: what the measurement cannot tell,
what it says of its own noise, and where no single number or setting is right, since cores, lines or
launches differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from linewright import numbers
from linewright.analysis import reader_cost, setting_choice
from linewright.analysis.control import Floor
from linewright.analysis.findings import Finding
from linewright.analysis.machine_answers import (
    Handoff,
    MachineAnswers,
    handoffs,
    hint_choice,
    machines_with_answers,
)
from linewright.analysis.summary import Summary, grouped
from linewright.errors import one_line
from linewright.forms import (
    CACHE,
    FAMILIES,
    HANDOFF,
    ONE_LINE,
    READERS,
    SPACING,
    WAIT,
    Family,
    family_of,
    made_of,
)
from linewright.numbers import cpu_text
from linewright.say.advice import CLASS_WORDS, classes, code, overtaking
from linewright.say.document import (
    ASKED,
    Clause,
    Sentence,
    Topic,
    capital,
    names_of,
    of_run,
    render,
    render_all,
    sentence,
    sentence_as_written,
    topic,
)
from linewright.say.family_sentences import (
    apart_sentences,
    cache_sentences,
    dma_sentences,
    reader_sentences,
    wait_sentences,
)
from linewright.say.machine_lines import EMULATED, errors, undecided_sentences
from linewright.say.phrases import (
    DISTANCES,
    PLACES,
    answer_text,
    by_caller,
    caller_of,
    crossing_text,
    measure_again,
    modes_text,
    need_of,
    runs_of,
    sharers_of,
    work_lengths_text,
)
from linewright.say.words import WITHHELD, in_english
from linewright.schema import Context


def _clause(run: Sequence[Finding], caller: str) -> Clause:
    """What is known of one caller at neighbouring work lengths."""
    f, best = run[0], run[0].best
    first, last = f.situation.work_iters, run[-1].situation.work_iters
    span = f"from {first} to {last} units of work (figures at {first})"
    known = {"default_ns": f.side.ns.median_ns}
    if best:
        known |= {"best_ns": best.first.ns.median_ns, "change": best.contrast.value}
    where = f.situation.around if first == last else span
    return Clause(text=f"{where}, {caller}: {answer_text(f)}", numbers=known)


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
            cells=names_of(members),
        )
        for members in grouped(sorted(found, key=_class_of), _class_of).values()
    ]


def _handoffs(distance: str, found: Sequence[Handoff]) -> Sentence:
    """For one distance the middle pair's time by each form, and the range over the pairs."""
    clauses = [
        Clause(
            text=f"a handoff by {h.form} takes {numbers.figure(h.median_ns)} ns "
            f"({numbers.figure(h.least_ns)} to {numbers.figure(h.most_ns)} over {h.pairs} pairs)"
        )
        for h in found
    ]
    where = DISTANCES.get(distance, in_english(distance) or "any distance")
    return Sentence(lead=where, clauses=clauses, family=HANDOFF.name, cells=names_of(found))


_QUESTIONS = {
    "cache": cache_sentences,
    "spacing": apart_sentences,
    "dma": lambda m: dma_sentences(m.summaries),
    "hints": wait_sentences,
}
"""What families say that have a question of their own."""
_READERS = ("readers_pair", "readers_shape", "readers_lookup")
"""Operations of readers between which a choice is spoken of."""


def _of_family(family: Family, m: MachineAnswers) -> list[Sentence]:
    own = [s for s in m.summaries if family_of(s.cell.operation) is family]
    found = m.of_family(family.name)
    if family is HANDOFF and (by_distance := handoffs(own)):
        return [_handoffs(distance, members) for distance, members in by_distance.items()]
    if family.verdict in _QUESTIONS:
        return _QUESTIONS[family.verdict](m)
    if family.verdict == "readers":
        read = [f for f in found if f.operation in _READERS and not f.situation.param("updater")]
        return _forms(read, family) + reader_sentences(m)
    return _forms(found, family)


def places(members: Iterable[Summary]) -> Iterator[Sentence]:
    """Which arm64 instructions behave as if performed at the interconnect, by core."""
    for s in members:
        if s.nearness in ("far", "all_far", "mixed"):
            lines = f" ({s.far_lines} of {s.near_lines + s.far_lines} lines)"
            cpu = f"from CPU {s.cpus[0]}, " if s.cpus else ""
            text = f"{cpu}{s.cell.form} {PLACES[s.nearness]}{lines * (s.nearness == 'mixed')}"
            yield sentence(text, "one_line", [s], ns=s.issue.median_ns)


def control_sentences(m: MachineAnswers) -> Iterator[Sentence]:
    """The run's own controls: what identical machine code differed by, and whether the baseline
    loop is a measure."""
    if m.floors:
        known = m.floors.values()
        parts = [
            f"{where} by up to {numbers.within(max(f.size for f in own), own[0].scale)}"
            for where, own in grouped(known, _floor_where).items()
        ]
        pairs = max(f.pairs for f in known)
        yield sentence(
            f"identical machine code timed twice ({pairs} pairs) differed {'; '.join(parts)}:"
            " what exceeds chance widens every comparison",
            cells=known,
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
        yield sentence(text, cells=failed)


def _floor_where(f: Floor) -> str:
    """The contention of a noise floor, and whether exposed costs are what it is of."""
    sharers = f.group.situation.without("contender_iters").sharers
    return f"{sharers} with work" if f.scale == "ns" else sharers


def by_family(m: MachineAnswers) -> list[tuple[Family, list[Sentence], list[Sentence]]]:
    """What the measurements show, family by family, of verdict, advice and page the same: its
    forms, or lists, or readers, beside each other, then where forms change places and where they
    seem to be performed, which are topics of their own in advice."""
    answers = []
    for family in () if m.emulated else FAMILIES:
        more = [
            sentence(crossing_text(c, m.context), family.name, c.ids, below=low, above=high)
            for c in (m.crossovers if family.verdict == "forms" else ())
            if family_of(c.operation) is family
            for low, high in [c.ends]
        ]
        more += places(m.summaries) if family is ONE_LINE else []
        answers.append((family, _of_family(family, m), more))
    return [(family, forms, more) for family, forms, more in answers if forms or more]


def _run_itself(m: MachineAnswers, compared: bool) -> list[Sentence]:
    """What concerns the whole machine: what is undecided, what is published only, and the run's
    controls; `compared`: whether anything else is said."""
    if m.emulated:
        return [sentence(f"{EMULATED}, so no form is preferred", basis="run")]
    found = [f for f in m.findings if family_of(f.operation).verdict == "forms"]
    answers = list(undecided_sentences(found, m))
    if m.published:
        text = "published percentiles of one run on one pair of CPUs: forms are said to differ "
        text += "where the median of one lies above the 99th percentile of the other"
        answers.append(sentence(text, basis="rule"))
    if not answers and not compared and not m.select("hints"):
        text = "no two forms of one operation were measured in equal situations, so nothing is "
        answers = [sentence(f"{text}compared", cells=m.summaries)]
    return [*answers, *control_sentences(m)]


def _parts(m: MachineAnswers) -> list[tuple[str, list[Sentence]]]:
    """What the measurements of one machine show, by family; what concerns the whole machine comes
    last."""
    found = [(family.title, [*forms, *more]) for family, forms, more in by_family(m)]
    parts = [*found, ("The run itself", _run_itself(m, bool(found)))]
    return [(title, sentences) for title, sentences in parts if sentences]


def verdict_of(m: MachineAnswers) -> list[Sentence]:
    """What the measurements of one machine show."""
    return [line for _, sentences in _parts(m) for line in sentences]


def verdict_sentences(
    summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]
) -> list[Sentence]:
    """What the measurements show, machine by machine, as data."""
    machines = list(machines_with_answers(summaries, contexts))
    answers = []
    for m in machines:
        model = m.context.cpu_model if m.context else "machine"
        name = f"{model} [{m.summaries[0].machine_id}]" if len(machines) > 1 else ""
        answers += [replace(s, machine=name) for s in verdict_of(m)]
    return answers


def areas(m: MachineAnswers) -> list[Topic]:
    """The verdict of a page, by family: each claim on a line of its own, and claims of one
    situation that follow each other together."""
    parts = _parts(m)
    return [
        Topic(
            name="findings",
            title=title if len(parts) > 1 else "",
            audience="page",
            lines=[
                Sentence(
                    lead=lead,
                    clauses=[
                        Clause(text=one_line(capital(c.text))) for one in own for c in one.clauses
                    ],
                )
                for lead, own in itertools.groupby(said, lambda one: one_line(capital(one.lead)))
            ],
        )
        for title, said in parts
    ]


# ---- evidence ----------------------------------------------------------------------------------


def topics(m: MachineAnswers) -> list[Topic]:
    """The evidence on one machine, in the order of the page: a new kind of record is a line
    here."""
    made = (
        classes(m),
        overtaking(m),
        cores(m),
        several(m),
        code(m),
        nearness(m),
        *(_family_topic(family, forms, m) for family, forms, _ in by_family(m) if forms),
        control(m),
        unknown(m),
    )
    return [
        replace(topic, ranks=_ranks(topic, number))
        for number, topic in enumerate(topic for topic in made if topic)
    ]


def _ranks(topic: Topic, number: int) -> list[int]:
    """When the lines of a topic give way: those of the longest topic first, of equals the last;
    what the measurement cannot tell stays to its first line, as the first topic does, and the run's
    own control is for those who ask for everything."""
    if topic.name == "control":
        return [ASKED] * len(topic.lines)
    ranks = [100 * min(place, 99) + number for place, _ in enumerate(topic.lines)]
    return [0, *ranks[1:]] if topic.name == "unknown" else ranks


def _family_topic(family: Family, forms: Sequence[Sentence], m: MachineAnswers) -> Topic:
    found = m.of_family(family.name)
    lines = [
        sentence_as_written(
            c.text if s.lead in ("", family.title.lower()) else f"{s.lead}: {c.text}",
            s.cells,
            s.basis,
        )
        for s in forms
        for c in s.clauses
    ]
    orders = {f.order for f in found}
    # Of several the lines name each.
    title = family.title + (f" ({orders.pop()})" if len(orders) == 1 else "")
    data = _DATA[family.name](m) if family.name in _DATA else found
    return Topic(name=family.advice or "where", title=title, lines=lines, data=data)


def _reader_data(m: MachineAnswers) -> dict[str, Any]:
    found, readers = m.of_family(READERS.name), m.select("readers")
    scaling, trades = reader_cost.scaling(readers), reader_cost.trades(readers)
    return {"choices": found, "scaling": scaling, "trades": trades}


_DATA = {
    CACHE.name: lambda m: {"terms": m.cache_fits, "savings": m.select("waits")},
    SPACING.name: lambda m: m.bytes_apart,
    WAIT.name: hint_choice,
    READERS.name: _reader_data,
}
"""What programs get of families other than their findings."""


def control(m: MachineAnswers) -> Topic | None:
    """The run's noise floor and its baseline loop."""
    own = control_sentences(m) if m.summaries and not m.emulated else []
    lines = [sentence_as_written(render(s), s.cells, s.basis) for s in own]
    data = {"floors": list(m.floors.values()), "work_loop": m.work_loop}
    return topic("control", "The run's own control", lines, data)


_TRIALS = {
    True: "`linewright trial -- PROGRAM` measures that under each setting",
    False: "`linewright trial -- PROGRAM --versus OTHER` measures that of two builds",
}
"""Which trial can show something: by whether the library has settings on this architecture."""


def unknown(m: MachineAnswers) -> Topic | None:
    """What these records cannot tell."""
    of_cells = [sentence_as_written(*said) for said in (*_settings(m), *_contention(m))]
    asked = "how your program mixes operations, contention and work: "
    asked = sentence_as_written(asked + _TRIALS[m.forms_differ], basis="rule")
    lines = [*_machine(m), *of_cells, asked]
    return topic("unknown", "What this measurement cannot tell", lines, render_all(lines))


def _machine(m: MachineAnswers) -> list[Sentence]:
    of_machine = {
        "what machine this is: the records' context is missing": m.context is None,
        "anything about time: an emulator ran this": m.emulated,
        "what the same cores do without the hypervisor: this is a virtual machine": m.context
        and m.context.virtualised == "yes",
        "what silicon does: a model produced these records": m.simulated and not m.edited,
        "how many of the differences hold at once: the band of each is of 90 % by itself": m.drawn,
        "what silicon does: a model produced these records, and its file was changed after the "
        "calibration: no machine like it was measured": m.edited,
    }
    one = [s for s in m.summaries if s.one_launch and s.status == "ok" and not s.drawn]
    of_cells = {
        "how far medians would move: the percentiles of one run are known, so nothing is claimed "
        "of those that overlap": [s for s in m.summaries if s.published],
        f"what another launch would show: some cells ran in one; {measure_again(m)}": one,
        "what another state of the machine would show: the launches lie close together in time": [
            s for s in m.summaries if "short_span" in s.flags
        ],
        "how far apart words have to lie whose lines leave the caches: these stayed in use": [
            s for s in m.summaries if s.cell.operation in SPACING.operations and s.usable
        ],
    }
    cells = [sentence_as_written(text, own) for text, own in of_cells.items() if own]
    return [*of_run(text for text, so in of_machine.items() if so), *errors(m.summaries), *cells]


def _settings(m: MachineAnswers) -> Iterator[tuple[str, Sequence[Summary]]]:
    """What is not known of settings, with the cells that this rests on."""
    if not m.forms_differ or m.emulated:
        return
    measured = {x.operations for x in m.choices}
    if unmeasured := [CLASS_WORDS[c] for c in setting_choice.OPERATIONS if c not in measured]:
        text = f"a choice for {numbers.join(unmeasured)}: fewer than two forms were measured in "
        yield f"{text}equal situations", m.summaries
    valued = [x for x in m.choices if x.operations != "void"]
    tried = {policy.form for x in valued for policy in x.by_policy}
    forms = {p.second.form for x in valued for p in x.points}
    if "llsc" not in tried and not any(made_of(form).exclusive for form in forms):
        text = "LL/SC for operations that return a value: these records hold no form of it; "
        text += "`linewright trial --settings default/llsc -- PROGRAM` tells for a program"
        yield text, m.summaries
    kept = [s for s in m.summaries if made_of(s.cell.form).prefetch == "prfm_keep"]
    by_form = grouped((s for s in kept if s.status == "ok"), lambda s: s.cell.form)
    for form, own in sorted(by_form.items())[:1]:
        named = sorted(own, key=lambda s: s.id)
        yield f"the library's prefetch is PSTL1STRM: {form} has no setting", named


def _contention(m: MachineAnswers) -> Iterator[tuple[str, Sequence[Summary]]]:
    """What is not known of contention and work, with the cells that this rests on."""
    contended = [s for s in m.summaries if s.cell.contender == "same_line" and s.status == "ok"]
    timed = {s.cpus[0] for s in m.summaries if s.cpus}
    allowed = [c for c in (m.context.cpus if m.context else []) if c.allowed]
    if not contended:
        yield "anything under contention: no cell had a contender", m.summaries
    else:
        yield f"contention of more than {max(s.cell.threads for s in contended)} threads", contended
        if len(timed) < len(allowed):
            text = f"CPU {cpu_text(timed) or 'unknown'} of {len(allowed)} was timed"
            yield f"other cores and distances: {text}", m.summaries
    if not any(s.cell.work_iters for s in m.summaries):
        yield "what is hidden by work around the operation: no cell had work", m.summaries


MOST_GROUPS = 8
"""Cells with several figures that are listed; `data` has all."""


def nearness(m: MachineAnswers) -> Topic | None:
    """Class of each core and form, with the count of lines; every line's own class is in the
    data."""
    lines = []
    for c in m.classes:
        seen = c.near + c.far + c.undecided
        counts = f"; none of its {seen} lines is decided by itself" if seen else ""
        if c.near or c.far:
            counts = f"; {c.near} near, {c.far} far, {c.undecided} undecided of {seen} lines"
        form, reference, r = c.comparison.first, c.comparison.second, c.comparison.contrast
        times = numbers.about_times(r.value, r.low, r.high) if r else ""
        ratio = f", and takes {times} what {reference.form} takes" if r else ""
        cpu = f"CPU {form.cpu}: " if form.cpu >= 0 else ""
        text = f"{cpu}{form.form} {PLACES[c.where]}{ratio}{counts}"
        lines.append(sentence_as_written(text, [c.comparison]))
    return topic("near_far", "Near or far, by core and line", lines, list(m.classes))


def cores(m: MachineAnswers) -> Topic | None:
    """Cores that differ; on mixed chips a setting per type and what one setting for all costs
    each."""
    differing, types = [c for c in m.select("cores") if c.differs], m.core_types
    lines = []
    for c in differing:
        low, high = (c.first, c.second) if c.cheaper else (c.second, c.first)
        text = f"{low.form}: {numbers.figure(low.ns.median_ns)} ns on CPU {low.cpu}, "
        text += f"{numbers.figure(high.ns.median_ns)} ns on CPU {high.cpu}"
        lines.append(sentence_as_written(text, (low, high)))
    points = {_type(t): [p for c in t.choices for p in c.points] for t in types}
    costs = setting_choice.one_setting(types) if len(types) > 1 else []
    for t in types if costs else ():
        text = f"{_type(t)}, CPU {cpu_text(t.cpus)}: LINEWRIGHT_ATOMICS={t.setting}"
        lines.append(sentence_as_written(text, points[_type(t)]))
    for cost in costs:
        loss = "is not shown to cost more"
        if cost.cost_percent:
            loss = f"costs up to {numbers.percent(cost.cost_percent / 100, False)} more "
            loss += f"({sharers_of(cost.worst)}, {cost.worst.situation.work_iters} units of work)"
        text = f"one setting for the whole process, {cost.setting}: on {_type(cost)} it {loss}"
        lines.append(sentence_as_written(text, points[_type(cost)]))
    if len({t.setting for t in types}) > 1:
        text = "a process has one setting: pin it to cores of one type, or take the setting "
        lines.append(sentence_as_written(text + "whose cost you can bear", basis="rule"))
    data = {"differences": differing, "types": types, "one_setting": costs}
    return topic("cores", "Cores that differ", lines, data)


def _type(t: setting_choice.CoreType | setting_choice.OneSetting) -> str:
    capacity = f"capacity {t.capacity}" if t.capacity >= 0 else "unknown capacity"
    return f"cores of {capacity} ({t.midr or 'no MIDR'})"


def several(m: MachineAnswers) -> Topic | None:
    """Cells that have several figures: modes of lines, modes of launches."""
    data, lines = [], []
    for s in m.summaries:
        for kind, modes in (("lines", s.line_modes), ("launches", s.modes)):
            if len(modes) > 1 and s.status == "ok" and not s.emulated:
                text = f"{s.cell.form}, {s.cell.situation.words()}: its {kind} fall into separate "
                text += f"modes: {modes_text(modes, surely=True)}"
                lines.append(sentence_as_written(text, [s]))
                data.append({"id": s.id, "kind": kind, "modes": modes})
    if rest := [d["id"] for d in data[MOST_GROUPS:]]:
        text = f"and {len(rest)} more cells, in --json: on a machine that others use, measure again"
        lines[MOST_GROUPS:] = [sentence_as_written(f"{text} when it is quiet", rest)]
    return topic("bimodal", "More than one figure: no single number is right", lines, data)
