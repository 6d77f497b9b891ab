# SPDX-License-Identifier: MIT
"""What was measured on, how, and what limits the figures: doubts, what is not believed, withheld or
undecided; how far a model was off cells like those that it simulated is said wherever such a cell
decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from linewright import __version__, numbers
from linewright.analysis.control import changed_cycle_ns, disturbing_load
from linewright.analysis.findings import Finding, open_questions
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import Summary, grouped
from linewright.errors import one_line
from linewright.numbers import cpu_text
from linewright.say.document import (
    Clause,
    Document,
    Sentence,
    of_run,
    render,
    sentence,
    sentence_as_written,
    unique,
)
from linewright.say.phrases import (
    caller_of,
    measure_again,
    measure_enough,
    modes_text,
    more_text,
    sharers_of,
    work_lengths_text,
)
from linewright.say.words import FEW_LAUNCHES, LEFT_OPEN, NO_DRAWS, WITHHELD, explain, in_words
from linewright.schema import Context, Record

MOST_FORMS = 4
"""Forms named in one line before the rest is only counted."""
_DISCARDED = {
    "switched": "a thread was off its CPU",
    "stolen": "the hypervisor took a CPU away (stolen time)",
    "long_batch": "one batch was far longer than the others",
}
EMULATED = "run by an emulator: times mean nothing"


def machine_facts(c: Context) -> list[str]:
    """What tells a machine beside its CPU's name, the weightiest first."""
    known = {
        numbers.count(len(c.cpus), "CPU"): c.cpus,
        "virtual machine": c.virtualised == "yes",
        c.arch.replace("_", "-"): True,
        c.kernel: c.target != "published" and not c.simulated,
        f"SMT {c.smt}": c.smt == "on",
    }
    return [text for text, holds in known.items() if holds]


def describe(contexts: Sequence[Context]) -> list[Sentence]:
    """Machine, clock and launches in two lines, and a line for each remark on how it was
    measured."""
    if not contexts:
        return of_run(["unknown machine: the records' context is missing"])
    c = contexts[0]
    launches = len({context.context_id for context in contexts})
    first = min(context.started_utc for context in contexts)
    doubt = [EMULATED] if c.emulated else []
    clock = ((c.tick_ns, "tick"), (c.unit_ns, "unit of work"), (c.cycle_ns, "cycle"))
    times = ", ".join(f"{name} {numbers.figure(ns)} ns" for ns, name in clock)
    lines = [
        ", ".join([c.cpu_model, *machine_facts(c), f"target {c.target}", *doubt]),
        f"{c.time_source} {times}, {numbers.count(launches, 'launch', 'launches')} from {first}",
        *remarks(contexts),
    ]
    return of_run(map(one_line, lines))


def frequency_text(first: float, second: float, when: tuple[str, str]) -> str:
    """That a core cycle took one time, in ns, and then another."""
    return (
        f"a core cycle took {first:.3f} ns {when[0]} and {second:.3f} ns {when[1]}: the frequency "
        f"changed by {100 * (first / second - 1):+.0f} %, which moves every cell"
    )


def remarks(contexts: Sequence[Context]) -> list[str]:
    """What may have disturbed the figures, or is missing from them."""
    absent = {c.counters_reason for c in contexts} - {"", "not asked for"}
    governors = {c.governor for c in contexts} - {"", "performance"}
    cycles = changed_cycle_ns(contexts)
    return [
        *(f"counters absent: {reason}" for reason in sorted(absent)),
        *other_load_remarks(contexts),
        *_quota_remarks(contexts),
        *(
            f"the frequency governor was {name}: clocks may have changed between windows"
            for name in sorted(governors)
        ),
        *([frequency_text(*cycles, ("in one launch", "in another"))] if cycles else []),
    ]


def facts(contexts: Sequence[Context]) -> list[tuple[str, str]]:
    """What was measured on, by what: names and values."""
    c = contexts[0]
    sockets, nodes = ({getattr(cpu, of) for cpu in c.cpus} - {-1} for of in ("socket", "node"))
    cpus = f"{len(c.cpus)}" + (f" on {len(sockets)} sockets" if len(sockets) > 1 else "")
    cpus += f", {len(nodes)} memory nodes" if len(nodes) > 1 else ""
    begun = sorted(x.started_utc for x in contexts)
    last = f"; the last launch {begun[-1]}" if begun[-1] > begun[0] else ""
    timer, cycle, unit = (
        numbers.span(min(ns), max(ns), "ns")
        for of in ("timer_cost_ns", "cycle_ns", "unit_ns")
        for ns in [[getattr(x, of) for x in contexts]]
    )
    named = [
        ("CPU", c.cpu_model),
        ("Model", ", ".join(c.cpu_ids)),
        ("Architecture", c.arch),
        ("CPUs", f"{cpus}; used: {cpu_text(cpu.cpu for cpu in c.cpus if cpu.allowed)}"),
        ("SMT", c.smt),
        ("Virtual machine", c.virtualised),
        ("Kernel", c.kernel),
        ("Boot parameters", c.boot_parameters),
        ("Governor", c.governor or "none to be seen"),
        ("Features", ", ".join(c.features)),
        ("Cache line", f"{c.line_bytes} bytes"),
        ("Clock", f"{c.time_source}, tick {numbers.figure(c.tick_ns)} ns, reading it {timer}"),
        ("Core cycle, as seen", cycle),
        ("Unit of work", unit),
        ("Hardware counters", c.counters),
        ("Restartable sequences", c.rseq),
        ("Real-time priority", _yes(x.realtime for x in contexts)),
        ("Memory locked", _yes(x.locked_memory for x in contexts)),
        ("Target", c.target),
        ("Plans", ", ".join(dict.fromkeys(x.plan for x in contexts))),
        ("Launches", str(len(contexts))),
        ("Begun", begun[0] + last),
        ("Program", f"linewright {c.tool_version}, {c.compiler}"),
        ("Machine id", c.machine_id),
    ]
    return [(name, one_line(value)) for name, value in named if value]


def _yes(values: Iterable[object]) -> str:
    given = set(map(bool, values))
    return "in some launches" if len(given) > 1 else "yes" if given == {True} else "no"


def lacking(summaries: Iterable[Summary]) -> Iterator[Sentence]:
    """For each status and reason why cells lack a figure or have an unreliable one a line; numbers
    in reasons become ranges."""
    wrong = [s for s in summaries if s.status != "ok"]
    kinds = grouped(wrong, lambda s: (s.status, numbers.without_numbers(s.reason)))
    for (status, _), own in kinds.items():
        forms = unique(s.cell.form for s in own)
        rest = f" and {len(forms) - MOST_FORMS} other forms" if len(forms) > MOST_FORMS else ""
        which = f"{', '.join(forms[:MOST_FORMS])}{rest} ({len(own)} cells)"
        which = own[0].id if len(own) == 1 else which
        why = numbers.merge_texts_with_ranges([s.reason for s in own]) or "no reason given"
        yield sentence_as_written(one_line(f"{status}: {which}: {why}"), own)


def doubts(m: MachineAnswers, document: Document, records: Iterable[Record]) -> list[Sentence]:
    """Everything a careful reader would ask about; the worst first."""
    texts = remarks(m.contexts)
    if not (m.published or m.simulated or all(c.realtime for c in m.contexts)):
        texts.append("not run at real-time priority: kernel housekeeping could run inside windows")
    answers = [
        *(sentence(one.text, cells=one.cells, basis=one.basis) for one in document.of("warning")),
        *document.of("limits"),
        *(sentence(text, basis="run") for text in texts),
        *_discarded(records),
        *(sentence(render(s), cells=s.cells) for s in lacking(m.summaries)),
    ]
    ended = [s for s in m.summaries if s.stop]
    if out := [s for s in ended if s.stop == "budget"]:
        text = f"{len(out)} of {numbers.count(len(ended), 'cell')} used up their time before their "
        answers.append(sentence(f"{text}interval was as narrow as asked for", cells=out))
    flagged = grouped(((flag, s) for s in m.summaries for flag in s.flags), lambda pair: pair[0])
    for flag, pairs in sorted(flagged.items(), key=lambda item: -len(item[1])):
        own = [s for _, s in pairs]
        which = numbers.join([in_words(s.cell) for s in own[:2]])
        which = which if len(own) <= 2 else f"{len(own)} cells"
        answers.append(sentence_as_written(f"{flag}: {which}. {explain(flag)}", own))
    return answers


def _discarded(records: Iterable[Record]) -> list[Sentence]:
    lost: Counter[str] = Counter()
    kept, lacked = 0, []
    for record in records:
        lost.update(msgspec.structs.asdict(record.discarded))
        lacked += [record] if record.discarded.total else []
        kept += len(record.window_ns)
    parts = [f"{lost[name]} because {why}" for name, why in _DISCARDED.items() if lost[name]]
    whole = kept + lost.total()
    share = numbers.percent(lost.total() / max(1, whole), signed=False)
    text = f"{lost.total()} of {whole} windows ({share}) were discarded: {'; '.join(parts)}"
    return [sentence(text, cells=lacked)] if parts else []


def other_load_remarks(contexts: Sequence[Context]) -> Iterator[str]:
    """Who else used the machine, as far as it may have disturbed the figures."""
    if any(context.other_probe for context in contexts):
        yield "another run was measuring on this machine at the same time: each disturbs the other"
    if load := disturbing_load(contexts):
        yield f"other programs kept {load:.1f} CPUs busy meanwhile: figures may be disturbed"


HELD_BACK = 0.01
"""Of a run's time, how long a CPU quota held threads back from which that is said."""


def held_back_remarks(held_s: float, ran_s: float) -> list[str]:
    """That a CPU quota took the probe's threads from their CPUs during a run."""
    times = f"{held_s:.1f} s in {ran_s:.1f} s"
    text = f"a CPU quota (cgroup) held threads back for {times}: figures may be disturbed"
    return [text] if held_s > HELD_BACK * ran_s else []


def _quota_remarks(contexts: Sequence[Context]) -> list[str]:
    """That a CPU quota was in force, of which records do not say whether it held threads back."""
    known = [(c.cpu_quota, sum(cpu.allowed for cpu in c.cpus)) for c in contexts if c.cpu_quota]
    quota, cpus = min(known, default=(0.0, 0))
    of = f"{quota:.2g} of {numbers.count(cpus, 'CPU')}"
    text = f"a CPU quota (cgroup) allowed {of}: figures may be disturbed"
    return [text] if quota < cpus else []


def doubts_of_printed(contexts: Sequence[Context]) -> Iterator[str]:
    """What a reader should know of a file that was made elsewhere: another version's probe,
    launches that are missing."""
    if versions := sorted({context.tool_version for context in contexts} - {__version__}):
        named = ", ".join(versions)
        yield f"printed by version {named} of the probe, this is {__version__}"
    wanted = max(context.launches for context in contexts)
    missing = sorted(set(range(wanted)) - {context.launch for context in contexts})
    if missing:
        named = ", ".join(map(str, missing))
        yield f"launches {named} of {wanted} are not in it: run the probe with --launch N"


MOST_NAMED = 2


def error_text(low: float, high: float) -> str:
    """What a model says of figures that were measured, from the least and the greatest ratio."""
    change = numbers.change_in_words(low, high, "ratio")
    return f"the model says {change} {'what' if change.endswith('times') else 'than'} was measured"


def errors_text(summaries: Iterable[Summary]) -> str:
    """Of which of these cells the model is how far off; empty where it is of none."""
    missed = [s for s in summaries if s.model_error_range]
    kinds = grouped(missed, lambda s: (s.cell.situation.contended, s.model_error_range))
    return "; ".join(f"{_of_model(own)} {error_text(*ends)}" for (_, ends), own in kinds.items())


def _of_model(own: Sequence[Summary]) -> str:
    """Of which cells: the first of their forms, and how many there are besides."""
    names = unique(s.cell.form for s in own)
    more = len(names) - MOST_NAMED
    some = numbers.join([*names[:MOST_NAMED], f"{more} more forms"] if more > 1 else names)
    return f"of {'contended' if own[0].cell.situation.contended else 'uncontended'} {some}"


def errors(summaries: Sequence[Summary]) -> list[Sentence]:
    """The same as a sentence, where there is any, and of which cells no error is known."""
    missed = [s for s in summaries if s.model_error_range]
    unknown = [s for s in summaries if s.drawn and not s.drawn.misses and s.has_figures]
    kinds = grouped(unknown, lambda s: s.cell.situation.contended).values()
    text = "; ".join(f"{_of_model(own)} no error of the model is known" for own in kinds)
    said = ((errors_text(missed), missed), (text, unknown))
    return [sentence(text, cells=own) for text, own in said if own]


def with_errors(sentences: Sequence[Sentence], summaries: Sequence[Summary]) -> list[Sentence]:
    """Sentences, each with the model's error on the cells that it rests on."""
    texts = [errors_text(s for s in summaries if s.id in of.cells) for of in sentences]
    return [
        replace(of, clauses=[*of.clauses, Clause(text=text)]) if text else of
        for of, text in zip(sentences, texts, strict=True)
    ]


def limits(m: MachineAnswers) -> Iterator[Sentence]:
    """What is not believed, withheld or holds only here; the most important first."""
    if few := m.too_few_launches:
        yield sentence(f"{FEW_LAUNCHES}: nothing is claimed; {measure_enough(m)}", cells=few)
    if members := [s for s in m.summaries if s.metastable]:
        text = f"launches fall into separate modes, {modes_text(members[0].modes)}"
        yield _named(members, "metastable (~)", text)
    yield from _unshown(m.summaries)
    if withheld := [f for f in m.of_width if f.withheld]:
        text = f"{work_lengths_text(f.situation for f in withheld)}: {WITHHELD}"
        yield sentence(text, cells=withheld)
    if m.context and m.context.virtualised == "yes":
        text = "a virtual machine: another host, or another neighbour, may cost differently"
        yield sentence(text, basis="run")


def _named(members: Sequence[Summary], kind: str, rest: str) -> Sentence:
    """``44 cells are metastable (~), such as lock_add: …``, or ``one cell is …, lock_add: …``."""
    form = members[0].cell.form
    which = f"{len(members)} cells are {kind}, such as {form}"
    which = which if len(members) > 1 else f"one cell is {kind}, {form}"
    return sentence(f"{which}: {rest}", cells=members)


_UNSHOWN = {"unreliable": "unreliable (?)", "unavailable": "not available", "ok": "not believed"}


def _unshown(summaries: Sequence[Summary]) -> Iterator[Sentence]:
    """How many cells are unreliable, were not available or are not believed, with the first one's
    reason."""
    for status, kind in _UNSHOWN.items():
        own = [s for s in summaries if s.status == status and (status != "ok" or s.distrust)]
        if own:
            why = explain(own[0].distrust).rstrip(".") if status == "ok" else ""
            reason = own[0].reason or "no reason given"
            yield _named(own, kind, f"{why[:1].lower()}{why[1:]}" if why else reason)


_OPEN = {
    "one_launch": f"{FEW_LAUNCHES}: {{enough}}",
    "few_launches": f"{FEW_LAUNCHES}: {{enough}}",
    "no_draws": f"{NO_DRAWS}; {{again}}",
    "baseline_loop": WITHHELD,
    "no_figure": "figures are missing",
}


def undecided_sentences(found: Sequence[Finding], m: MachineAnswers) -> Iterator[Sentence]:
    """What was compared without an answer, by reason, with what the intervals leave possible."""
    for question in open_questions(found):
        rows, why = question.rows, question.why
        what = numbers.count(len(rows), "comparison")
        if len(rows) <= 3:
            what = numbers.join(unique(f"{caller_of(f)} {sharers_of(f)}" for f, _ in rows))
        if why in ("wide", "model"):
            more = LEFT_OPEN
            if why == "wide":
                more = more_text(question.comparisons, m.launches_asked)
            changes = " or ".join(numbers.change(*ends) for ends in question.possible)
            rest = f"{changes} remains possible; {more}"
        else:
            rest = _OPEN[why].format(enough=measure_enough(m), again=measure_again(m))
        yield sentence(f"undecided: {what}: {rest}", cells=question.ids, count=len(rows))
