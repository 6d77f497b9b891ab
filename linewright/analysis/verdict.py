"""Which form is cheaper where: structured findings first, then the few sentences that they support.

Only cells that differ in nothing but the form are compared.  Nothing is inferred from the CPU's name: a finding rests
on intervals that separate and on a difference that survives Holm's correction for every comparison of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis import cache_fit
from linewright.analysis.intervals import Contrast, Estimate, contrast, holm
from linewright.analysis.near_far import Crossover, crossovers
from linewright.analysis.plausible import FLOORS
from linewright.analysis.summary import Summary, by_id
from linewright.schema import Cell, Context, Interval

ALPHA = 0.05
"""Chance of one false claim among all comparisons of one machine's verdict."""
FEWEST_LAUNCHES = 3
"""Contended cells with fewer launches are not judged: a launch has its own luck."""
DISTRUSTED = frozenset({"emulated", "faster_than_floor", "doubled", "zero_cost"})
"""Flags that keep a cell out of every comparison."""

MATRIX_POINTS = 12
"""More contention × work points than this and the verdict speaks at length."""
MOST_CLAUSES = 6
"""Clauses of one sentence; findings() holds the rest."""
MOST_CROSSINGS = 4
LONGEST = 12
"""Sentences of a matrix's verdict."""

_ORDER_GIVES = {
    "relaxed": {"relaxed"},
    "acquire": {"relaxed", "acquire"},
    "release": {"relaxed", "release"},
    "acq_rel": {"relaxed", "acquire", "release", "acq_rel"},
    "seq_cst": {"relaxed", "acquire", "release", "acq_rel", "seq_cst"},
    "full": {"relaxed", "acquire", "release", "acq_rel", "seq_cst", "full"},
}
_MAY_USE = {"add": {"add", "fetch_add"}}
"""A caller who does not want the value may use a form that returns it; never the other way round."""


class Finding(Struct, frozen=True, kw_only=True):
    """One caller's choice at one point: cells that differ in nothing but the form."""

    machine_id: str
    operation: str
    """What the caller needs."""
    order: str
    """The weakest order the caller accepts."""
    width_bits: int
    contender: str
    contender_iters: int
    work_iters: int
    placement: str
    lines: int
    threads: int
    params: dict[str, str | int]
    best: str
    runner_up: str
    best_order: str
    runner_up_order: str
    best_ns: Interval
    runner_up_ns: Interval
    margin: Interval
    """ns per operation that the runner-up costs more."""
    ratio: Estimate | None
    """Runner-up over best; None where only percentiles are known."""
    separated: bool
    """Best and runner-up differ: intervals do not overlap and the corrected p value is below ALPHA."""
    p: float | None
    tied: list[str]
    """Forms not separated from the best, the best first."""
    beaten: str
    """Cheapest form that the best is separated from; empty when none is."""
    beaten_ns: Interval | None
    beaten_ratio: Estimate | None
    worst: str
    why: str
    """Why nothing is claimed: ``noise``, ``one_launch``; empty when something is."""
    rate_note: str
    """Set when the best form's threads together do less than the runner-up's."""


class _Comparison(Struct, frozen=True):
    best: Summary
    other: Summary
    contrast: Contrast | None


def comparable(summary: Summary) -> bool:
    """Whether a cell may take part in a comparison."""
    return (
        summary.status == "ok"
        and summary.issue is not None
        and math.isfinite(summary.issue.median_ns)
        and summary.cell.form not in FLOORS
        and summary.cell.operation != "none"
        and summary.cell.contender != "placebo"
        and not DISTRUSTED & set(summary.flags)
    )


def policy_of(cell: Cell) -> str:
    """The setting that a library operation was measured under, as a user writes it; empty for a form."""
    return str(cell.params.get("policy", "")).replace("+", ",").replace("-", "=")


def name_of(cell: Cell) -> str:
    """What a comparison calls a cell: its form, or for one library operation under several settings the setting."""
    return policy_of(cell) or cell.form


def point_of(cell: Cell) -> tuple:
    """Everything but operation, form and order: cells that share it differ in nothing else.

    Of library operations the settings are compared, so the setting is no part of the point and the operation is.
    """
    return (
        cell.width_bits, cell.contender, cell.contender_iters, cell.work_iters, cell.placement, cell.lines, cell.threads,
        tuple(sorted((key, value) for key, value in cell.params.items() if key != "policy")),
        cell.form if policy_of(cell) else "",
    )  # fmt: skip


def _callers(members: Sequence[Summary]) -> list[tuple[str, str, list[Summary]]]:
    """(operation, order, forms that serve it) for each distinct need that at least two forms serve."""
    needs = list(dict.fromkeys((s.cell.operation, s.cell.order) for s in members))
    answers: list[tuple[str, str, list[Summary]]] = []
    seen: set[tuple[str, ...]] = set()
    weakest = sorted(needs, key=lambda need: len(_ORDER_GIVES[need[1]]))
    for operation, order in sorted(weakest, key=lambda need: [o for o, _ in needs].index(need[0])):
        allowed = _MAY_USE.get(operation, {operation})
        serving = [s for s in members if s.cell.operation in allowed and order in _ORDER_GIVES[s.cell.order]]
        forms = tuple(sorted(s.id for s in serving))
        if len(serving) > 1 and (operation, *forms) not in seen:
            seen.add((operation, *forms))
            answers.append((operation, order, serving))
    return answers


def apart(a: Interval, b: Interval) -> bool:
    """Whether two intervals do not overlap."""
    return a.high_ns < b.low_ns or b.high_ns < a.low_ns


def lone_launch(*summaries: Summary) -> bool:
    """Whether any is contended with too few launches to be judged."""
    return any(s.cell.contender == "same_line" and not s.published and s.launches < FEWEST_LAUNCHES for s in summaries)


def _compare(best: Summary, others: Sequence[Summary]) -> list[_Comparison]:
    return [_Comparison(best, other, contrast(other.unit_ns, best.unit_ns)) for other in others]


def _is_separated(comparison: _Comparison, p: float | None) -> bool:
    if not apart(comparison.best.issue, comparison.other.issue) or lone_launch(comparison.best, comparison.other):
        return False
    return p < ALPHA if p is not None else comparison.best.published and comparison.other.published


def _margin(comparison: _Comparison) -> Interval:
    if comparison.contrast:
        return comparison.contrast.difference
    best, other = comparison.best.issue, comparison.other.issue
    return Interval(
        median_ns=other.median_ns - best.median_ns,
        low_ns=other.low_ns - best.high_ns,
        high_ns=other.high_ns - best.low_ns,
        confidence=min(best.confidence, other.confidence),
    )


def _rate_note(best: Summary, runner_up: Summary) -> str:
    if best.cell.contender != "same_line" or not best.total_mops or not runner_up.total_mops:
        return ""
    found = contrast(runner_up.total_mops_by_launch, best.total_mops_by_launch)
    if found is None or found.ratio is None or found.ratio.low <= 1 or found.p >= ALPHA:
        return ""
    return (
        f"all threads together do more with {name_of(runner_up.cell)}"
        f" ({runner_up.total_mops:.3g} against {best.total_mops:.3g} operations per µs)"
    )


def _finding(operation: str, order: str, comparisons: list[_Comparison], ps: list[float | None]) -> Finding:
    first = comparisons[0]
    best, runner_up, cell = first.best, first.other, first.best.cell
    separate = [_is_separated(c, p) for c, p in zip(comparisons, ps, strict=True)]
    beaten = next((c for c, yes in zip(comparisons, separate, strict=True) if yes), None)
    why = "" if beaten else ("one_launch" if any(lone_launch(c.best, c.other) for c in comparisons) else "noise")
    return Finding(
        machine_id=best.machine_id, operation=operation, order=order, width_bits=cell.width_bits,
        contender=cell.contender, contender_iters=cell.contender_iters, work_iters=cell.work_iters,
        placement=cell.placement, lines=cell.lines, threads=cell.threads,
        params={key: value for key, value in cell.params.items() if key != "policy"},
        best=name_of(cell), runner_up=name_of(runner_up.cell),
        best_order=cell.order, runner_up_order=runner_up.cell.order,
        best_ns=best.issue, runner_up_ns=runner_up.issue,
        margin=_margin(first), ratio=first.contrast.ratio if first.contrast else None,
        separated=separate[0], p=ps[0],
        tied=[name_of(cell)] + [name_of(c.other.cell) for c, yes in zip(comparisons, separate, strict=True) if not yes],
        beaten=name_of(beaten.other.cell) if beaten else "",
        beaten_ns=beaten.other.issue if beaten else None,
        beaten_ratio=beaten.contrast.ratio if beaten and beaten.contrast else None,
        worst=name_of(comparisons[-1].other.cell), why=why, rate_note=_rate_note(best, runner_up),
    )  # fmt: skip


def findings(summaries: Iterable[Summary]) -> list[Finding]:
    """Every choice between forms that the summaries allow, with p values corrected over each machine's comparisons."""
    machines: dict[str, dict[tuple, list[Summary]]] = {}
    for summary in summaries:
        if comparable(summary):
            machines.setdefault(summary.machine_id, {}).setdefault(point_of(summary.cell), []).append(summary)
    return [f for points in machines.values() for f in _machine_findings(points)]


def _machine_findings(points: Mapping[tuple, list[Summary]]) -> list[Finding]:
    choices: list[tuple[str, str, list[_Comparison]]] = []
    for members in points.values():
        for operation, order, serving in _callers(members):
            ranked = sorted(serving, key=lambda s: (s.issue.median_ns, s.id))
            choices.append((operation, order, _compare(ranked[0], ranked[1:])))
    raw = [c.contrast.p for _, _, comparisons in choices for c in comparisons if c.contrast]
    corrected = iter(holm(raw))
    answers = []
    for operation, order, comparisons in choices:
        ps = [next(corrected) if c.contrast else None for c in comparisons]
        answers.append(_finding(operation, order, comparisons, ps))
    return answers


# ---------------------------------------------------------------------------------------------------------- sentences


def number(value: float) -> str:
    """A time in ns with three significant digits and no exponent."""
    if not math.isfinite(value):
        return "-"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def _less(ratio: Estimate | None, best: Interval, other: Interval) -> str:
    """How much less the best takes than the other, in percent of the other."""
    share = 100 * (1 - best.median_ns / other.median_ns) if other.median_ns > 0 else 0.0
    if ratio is None or ratio.low <= 0:
        return f"{share:.0f} % less"
    low, high = (100 * (1 - 1 / bound) for bound in (ratio.low, ratio.high))
    digits = 1 if share < 10 else 0
    span = f"{low:.{digits}f} to {high:.{digits}f} %"
    return (
        f"{share:.{digits}f} % less"
        if f"{low:.{digits}f}" == f"{high:.{digits}f}"
        else f"{share:.{digits}f} % less ({span})"
    )


def join(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def caller_of(f: Finding) -> str:
    """What the caller needs, in a word or two."""
    width = "" if f.width_bits == 64 else f" u{f.width_bits}"
    order = "" if f.order in ("relaxed", "full") else f" ({f.order})"
    extra = "".join(f" {key}={value}" for key, value in sorted(f.params.items()))
    return f"{f.operation}{width}{order}{extra}"


def _orders(f: Finding, other: str) -> str:
    if other != f.runner_up or f.best_order == f.runner_up_order:
        return ""
    return f"; {f.best} is {f.best_order}, {f.runner_up} {f.runner_up_order}"


def _clause(f: Finding) -> str:
    """What a finding with something beaten says, without its condition."""
    lead = f.best if len(f.tied) == 1 else f"{join(f.tied[:4])} (alike within noise)"
    verb = "takes" if len(f.tied) == 1 else "take"
    text = (
        f"{caller_of(f)}: {lead} {verb} {number(f.best_ns.median_ns)} ns,"
        f" {_less(f.beaten_ratio, f.best_ns, f.beaten_ns)} than {f.beaten}{_orders(f, f.beaten)}"
    )
    return text + (f", but {f.rate_note}" if f.rate_note else "")


def condition(f: Finding | Cell) -> str:
    """The contention class in words."""
    if f.contender == "none":
        return "alone"
    many = "a contender" if f.threads <= 2 else f"{f.threads - 1} contenders"
    pause = "without pause" if f.contender_iters == 0 else f"every {f.contender_iters} iterations"
    where = "" if f.placement == "auto" else f" ({f.placement})"
    return f"with {many} on the line {pause}{where}"


def _work(work_iters: int) -> str:
    return "back to back" if work_iters == 0 else f"with {work_iters} iterations of work"


def _sweep(run: Sequence[Finding]) -> str:
    """One clause for findings of one caller and condition that agree on best, ties and loser."""
    if len(run) == 1:
        return f"{_work(run[0].work_iters)}, {_clause(run[0])}"
    return (
        f"from {run[0].work_iters} to {run[-1].work_iters} iterations of work, {_clause(run[0])} at {run[0].work_iters}"
    )


def runs_of(sweep: Sequence[Finding]) -> list[list[Finding]]:
    """Neighbouring work lengths at which the same answer holds: each one's best is among the other's best or ties."""
    runs: list[list[Finding]] = []
    for f in sweep:
        lead = runs[-1][0] if runs else None
        if lead and bool(lead.beaten) == bool(f.beaten) and lead.best in f.tied and f.best in lead.tied:
            runs[-1].append(f)
        else:
            runs.append([f])
    return runs


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _class_of(f: Finding) -> tuple:
    return (f.contender != "none", f.contender_iters, f.threads, f.placement, f.lines)


def _sentence(members: Sequence[Finding]) -> str:
    """Everything separated in one contention class."""
    callers: dict[str, list[Finding]] = {}
    for f in members:
        callers.setdefault(caller_of(f), []).append(f)
    clauses = [
        _sweep(run)
        for sweep in callers.values()
        for run in runs_of(sorted(sweep, key=lambda f: f.work_iters))
        if run[0].beaten
    ]
    if len(clauses) > MOST_CLAUSES:
        clauses[MOST_CLAUSES:] = [f"and {len(clauses) - MOST_CLAUSES} more changes along the way"]
    return _capital(f"{condition(members[0])}: " + "; ".join(clauses)) if clauses else ""


def _brief(members: Sequence[Finding]) -> str:
    """The same for the quick plan: back to back, and the longest work length where it says something else."""
    callers: dict[str, list[Finding]] = {}
    for f in sorted(members, key=lambda f: f.work_iters):
        callers.setdefault(caller_of(f), []).append(f)
    clauses = []
    for sweep in callers.values():
        shown = [sweep[0]] if sweep[0].beaten else []
        last = sweep[-1]
        if last.beaten and (not shown or last.best not in shown[0].tied):
            shown.append(last)
        clauses += [f"{_work(f.work_iters)}, {_clause(f)}" for f in shown]
    return _capital(f"{condition(members[0])}: " + "; ".join(clauses)) if clauses else ""


def _silent(all_findings: Sequence[Finding]) -> str:
    """The one sentence about everything that nothing is said of."""
    noise = [f for f in all_findings if f.why == "noise"]
    single = [f for f in all_findings if f.why == "one_launch"]
    parts = []
    if noise:
        names = _unsaid(noise, all_findings)
        shown = join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} other cases"
        parts.append(f"the difference between forms is within noise for {shown}")
    if single:
        parts.append(f"contended cells had fewer than {FEWEST_LAUNCHES} launches, too few to compare forms")
    return _capital("; ".join(parts)) if parts else ""


def _unsaid(noise: Sequence[Finding], all_findings: Sequence[Finding]) -> list[str]:
    """Caller and condition of each; the work lengths as well where something is said of others."""
    said = {f"{caller_of(f)} {condition(f)}" for f in all_findings if f.beaten}
    works: dict[str, set[int]] = {}
    for f in noise:
        works.setdefault(f"{caller_of(f)} {condition(f)}", set()).add(f.work_iters)
    return [
        f"{name} ({join([str(work) for work in sorted(at)])} iterations of work)" if name in said else name
        for name, at in works.items()
    ]


def _crossing(c: Crossover) -> str:
    unit = "of work" if c.axis == "work_iters" else "between the contender's operations"
    return _capital(
        f"{c.operation} {c.where}: {c.cheaper_below} is cheaper up to {c.below} iterations {unit},"
        f" {c.cheaper_above} from {c.above}"
    )


_PERFORMED = {
    "far_posted": "far and posted ({lines}; enough work around them hides them)",
    "far_waited": "far and waited for ({lines})",
    "mixed": "near on some lines and far on others ({lines})",
}


def places_of(members: Sequence[Summary]) -> str:
    """Which forms are performed far, by core; empty where none is."""
    clauses = []
    for where, text in _PERFORMED.items():
        far = [s for s in members if s.nearness == where]
        for cpu in dict.fromkeys(s.cpus[0] if s.cpus else -1 for s in far):
            here = [s for s in far if (s.cpus[0] if s.cpus else -1) == cpu]
            lines = join(list(dict.fromkeys(f"{s.far_lines} of {s.near_lines + s.far_lines} lines far" for s in here)))
            core = f"from CPU {cpu}, " if cpu >= 0 else ""
            clauses.append(f"{core}{join([s.cell.form for s in here])}: performed {text.format(lines=lines)}")
    return _capital("; ".join(clauses)) if clauses else ""


def _without_echoes(found: Sequence[Finding]) -> list[Finding]:
    """Less the findings for a stronger order that repeat what a weaker one of the same operation and point says."""
    kept: dict[tuple, list[Finding]] = {}
    for f in sorted(found, key=lambda f: len(_ORDER_GIVES[f.order])):
        point = (
            f.operation, f.width_bits, f.contender, f.contender_iters, f.work_iters, f.placement, f.lines, f.threads,
            tuple(sorted(f.params.items())),
        )  # fmt: skip
        same = kept.setdefault(point, [])
        if not any((f.best, f.beaten) == (k.best, k.beaten) or (not f.beaten and not k.beaten) for k in same):
            same.append(f)
    chosen = {id(f) for same in kept.values() for f in same}
    return [f for f in found if id(f) in chosen]


def sentences(found: Sequence[Finding], crossed: Sequence[Crossover] = (), places: str = "") -> list[str]:
    """The findings of one machine in words; `places` is the sentence on near and far."""
    found = _without_echoes(found)
    classes: dict[tuple, list[Finding]] = {}
    for f in sorted(found, key=_class_of):
        classes.setdefault(_class_of(f), []).append(f)
    points = {(key, f.work_iters) for key, members in classes.items() for f in members}
    if len(points) <= MATRIX_POINTS:
        spoken = [_brief(members) for members in classes.values()]
        spoken = [s for s in spoken if s]
        silent = _silent(found)
        return (spoken[:2] + [s for s in (places, silent) if s] + spoken[2:])[:3]
    spoken = [s for members in classes.values() if (s := _sentence(members))]
    spoken = spoken[:1] + ([places] if places else []) + [_crossing(c) for c in crossed][:MOST_CROSSINGS] + spoken[1:]
    silent = _silent(found)
    return spoken[: LONGEST - 1] + ([silent] if silent else [])


def _preface(members: Sequence[Summary], contexts: Mapping[str, Context], several: bool) -> str:
    if not several:
        return ""
    model = next((contexts[i].cpu_model for s in members for i in s.context_ids if i in contexts), "")
    return f"{model or 'machine'} [{members[0].machine_id}]: "


def verdict(summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]) -> list[str]:
    """Which form is cheaper where, in two or three sentences for a quick plan and up to twelve for a matrix."""
    from linewright.analysis import reader_cost  # it builds on this module

    known = by_id(contexts)
    machines: dict[str, list[Summary]] = {}
    for summary in summaries:
        machines.setdefault(summary.machine_id, []).append(summary)
    answers: list[str] = []
    for members in machines.values():
        preface = _preface(members, known, len(machines) > 1)
        if all(s.emulated for s in members):
            answers.append(preface + "Run by an emulator: times mean nothing, so no form is preferred.")
            continue
        lists = [s for s in members if cache_fit.concerns(s.cell)]
        readers = [s for s in members if reader_cost.concerns(s.cell)]
        members = [s for s in members if not cache_fit.concerns(s.cell) and not reader_cost.concerns(s.cell)]
        found = findings(members)
        spoken = sentences(found, crossovers(members), places_of(members)) if found else []
        if lists:
            line_bytes = next((known[i].line_bytes for s in lists for i in s.context_ids if i in known), 64)
            spoken += cache_fit.sentences(lists, line_bytes)
        spoken += reader_cost.sentences(readers)
        if not spoken:
            spoken = ["No two forms of one operation were measured under equal conditions, so nothing is compared."]
        answers += [preface + text for text in spoken]
    return answers
