"""Which form is cheaper where, as sentences that the findings support; nothing measured is left out of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from linewright.analysis import cache_fit, dma_wait, reader_cost
from linewright.analysis.contrast import FEWEST_LAUNCHES, SAME_ALONE
from linewright.analysis.control import Floor, floors, work_loop
from linewright.analysis.crossovers import crossing_text, crossovers
from linewright.analysis.findings import Finding, findings
from linewright.analysis.saying import Clause, Sentence, at_most, at_most_ns, join, number, render_all, said
from linewright.analysis.summarise import by_id
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.analysis.words import (
    PLACES,
    by_caller,
    caller_of,
    condition,
    more_text,
    open_span,
    open_text,
    runs_of,
    shown_text,
    work_text,
)
from linewright.families import FAMILIES, Family, family_of
from linewright.schema import Context


def _span(run: Sequence[Finding]) -> str:
    first, last = run[0].work_iters, run[-1].work_iters
    return work_text(first) if first == last else f"from {first} to {last} units of work (figures at {first})"


def _numbers(f: Finding) -> dict[str, float]:
    best = f.best
    numbers = {"default_ns": f.default_ns.median_ns}
    return numbers | ({"best_ns": best.ns.median_ns, "change": best.judged.contrast.value} if best else {})


def _clause(run: Sequence[Finding]) -> Clause | None:
    """What is shown of one caller at neighbouring work lengths; None where nothing is."""
    text = shown_text(run[0])
    return Clause(text=f"{_span(run)}, {caller_of(run[0])}: {text}", numbers=_numbers(run[0])) if text else None


def _class_of(f: Finding) -> tuple:
    return (f.contender != "none", f.contender_iters, f.threads, f.placement, f.lines, f.cpu)


def _forms(found: Sequence[Finding], family: Family) -> list[Sentence]:
    """One sentence for each contention class in which anything is shown."""
    sentences = []
    for members in grouped(sorted(found, key=_class_of), _class_of).values():
        clauses = [_clause(run) for sweep in by_caller(members) for run in runs_of(sweep)]
        kept = [c for c in clauses if c]
        if kept:
            sentences.append(Sentence(lead=condition(members[0]), clauses=kept, family=family.name))
    return sentences


def _published(found: Sequence[Finding]) -> list[Sentence]:
    """Of published percentiles: the order of the medians, and their ratios."""
    answers = []
    for f in found:
        ranked = sorted([(f.default_ns.median_ns, f.default), *((r.ns.median_ns, r.form) for r in f.rows)])
        order = ", ".join(f"{name} {number(ns)}" for ns, name in ranked)
        ratio = f", {ranked[-1][0] / ranked[0][0]:.3g} times from first to last" if ranked[0][0] > 0 else ""
        clause = Clause(
            text=f"{work_text(f.work_iters)}, {caller_of(f)}: published medians, work included, in order: {order}"
            f" ns{ratio}",
            numbers={name: ns for ns, name in ranked},
        )
        answers.append(Sentence(lead=condition(f), clauses=[clause], family=family_of(f.operation).name))
    if answers:
        answers.append(said("published percentiles have no interval of a median, so no difference is claimed"))
    return answers


_OPEN = {
    "one_launch": f"one launch only, and a claim needs {FEWEST_LAUNCHES}: measure with --set"
    f" launches={FEWEST_LAUNCHES}",
    "few_launches": f"fewer than {FEWEST_LAUNCHES} launches have these cells: continue with measure --resume FILE, or"
    f" measure with --set launches={FEWEST_LAUNCHES}",
    "noise_floor": "identical machine code differed as much in this run",
    "baseline": "the loop around the operation is no measure of its work here, so exposed costs are withheld",
    "no_figure": "figures are missing",
}


def undecided_sentences(found: Sequence[Finding]) -> list[Sentence]:
    """What was compared without an answer, by reason, with what the intervals leave possible."""
    open_rows = [(f, r) for f in found if not f.published for r in f.of("undecided")]
    answers = []
    for why in dict.fromkeys(r.judged.why for _, r in open_rows):
        rows = [(f, r) for f, r in open_rows if r.judged.why == why]
        where = join(list(dict.fromkeys(f"{caller_of(f)} {condition(f)}" for f, _ in rows))) if len(rows) <= 3 else ""
        count = f"{len(rows)} comparison{'s' if len(rows) > 1 else ''}"
        text = f"undecided: {where or count}: "
        if why == "wide":
            ratios = [r.judged.contrast for _, r in rows if r.judged.contrast.scale == "ratio"]
            span = open_text(rows[0][1].judged.contrast)
            if ratios:
                span = open_span(min(c.low for c in ratios), max(c.high for c in ratios), "ratio")
            text += f"{span} remains possible; {more_text([r.judged for _, r in rows], SAME_ALONE)}"
        else:
            text += _OPEN[why]
        answers.append(said(text, count=len(rows)))
    return answers


def places(members: Sequence[Summary]) -> list[Sentence]:
    """Which arm64 instructions behave as if performed at the interconnect, by core."""
    answers = []
    for s in members:
        if s.nearness in ("far", "all_far", "mixed"):
            lines = f" ({s.far_lines} of {s.near_lines + s.far_lines} lines)" if s.nearness == "mixed" else ""
            cpu = f"from CPU {s.cpus[0]}, " if s.cpus else ""
            answers.append(said(f"{cpu}{s.cell.form} {PLACES[s.nearness]}{lines}", "one_line", ns=s.issue.median_ns))
    return answers


def control_sentences(members: Sequence[Summary], contexts: Sequence[Context]) -> list[Sentence]:
    """The run's own controls: what identical machine code differed by, and whether the baseline loop is a measure."""
    answers = []
    found = floors(members, members[0].arch)
    if found:
        parts = [f"{_floor_where(f)} by up to {_floor_size(f)}" for f in found.values()]
        pairs = max(f.pairs for f in found.values())
        answers.append(
            said(
                f"identical machine code timed twice ({pairs} pairs) differed {'; '.join(parts)}:"
                " nothing smaller is claimed"
            )
        )
    loop = work_loop(contexts)
    if loop and any(s.cell.work_iters for s in members):
        answers.append(
            said(
                f"the loop without an operation: {loop.unit_ns:.3f} ns a unit of work, proportional within"
                f" {at_most(loop.bent)}, windows within {at_most(loop.spread)}",
                unit_ns=loop.unit_ns,
            )
        )
    failed = sorted({s.cell.work_iters for s in members if s.withheld})
    if failed:
        lengths = join([str(work) for work in failed])
        answers.append(
            said(
                f"exposed costs at {lengths} units of work are withheld: the loop without an operation"
                " is no measure there"
            )
        )
    return answers


def _floor_where(f: Floor) -> str:
    contender, spacing, work, *_ = f.condition
    contended = f"contended every {spacing} iterations" if spacing else "contended"
    where = {"none": "alone", "placebo": "beside a placebo"}.get(contender, contended)
    return f"{where}{f' at {work} units of work' if work else ''}"


def _floor_size(f: Floor) -> str:
    return at_most_ns(f.ns) if f.condition[2] else at_most(f.share)


_READERS = ("readers_pair", "readers_shape", "readers_lookup")
"""Operations of readers between which a choice is spoken of."""


def _machine(members: Sequence[Summary], contexts: Sequence[Context]) -> list[Sentence]:
    if all(s.emulated for s in members):
        return [said("run by an emulator: times mean nothing, so no form is preferred")]
    found = findings(members)
    published = [f for f in found if f.published]
    measured = [f for f in found if not f.published]
    answers = _published(published)
    for family in FAMILIES:
        own = [s for s in members if family_of(s.cell.operation) is family]
        mine = [f for f in measured if family_of(f.operation) is family]
        if family.verdict == "forms":
            answers += _forms(mine, family)
            answers += [said(crossing_text(c), family.name, below=c.below, above=c.above) for c in crossovers(mine)]
        elif family.verdict == "cache" and own:
            answers += cache_fit.sentences(own, contexts[0].line_bytes if contexts else 64)
        elif family.verdict == "dma" and own:
            answers += dma_wait.sentences(members)
        elif family.verdict == "readers" and own:
            answers += _forms([f for f in mine if f.operation in _READERS and "updater" not in f.params], family)
            answers += reader_cost.sentences(own)
    answers += places(members)
    answers += undecided_sentences([f for f in measured if family_of(f.operation).verdict == "forms"])
    if not answers:
        return [said("no two forms of one operation were measured under equal conditions, so nothing is compared")]
    return answers + control_sentences(members, contexts)


def verdict_sentences(
    summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]
) -> list[Sentence]:
    """What the measurements show, machine by machine, as data."""
    known = by_id(contexts)
    machines = machines_of(summaries)
    answers = []
    for machine, members in machines.items():
        own = [known[i] for i in dict.fromkeys(i for s in members for i in s.context_ids) if i in known]
        name = f"{(own[0].cpu_model if own else '') or 'machine'} [{machine}]" if len(machines) > 1 else ""
        answers += [
            Sentence(lead=s.lead, clauses=s.clauses, family=s.family, machine=name) for s in _machine(members, own)
        ]
    return answers


def verdict(summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]) -> list[str]:
    """The same as lines of text."""
    return render_all(verdict_sentences(summaries, contexts))
