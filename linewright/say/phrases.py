# SPDX-License-Identifier: MIT
"""The phrases that verdict, advice and tables share: callers, situations, figures with their
intervals, savings, and what an undecided answer leaves open."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence

from linewright import numbers, plans, wings
from linewright.analysis.comparison import (
    FEWEST_LAUNCHES,
    MOST_LAUNCHES,
    Comparison,
    Judgement,
    Side,
    detectable,
    launches_needed,
)
from linewright.analysis.findings import Crossover, Finding
from linewright.analysis.intervals import Mode
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary, grouped
from linewright.forms import PREFETCHES, READERS, family_of, made_of
from linewright.plans.request import DEFAULT_PLAN, options_of_run
from linewright.say.document import TableCell, unique
from linewright.say.words import in_english
from linewright.schema import Cell, Context, Estimate, Situation
from linewright.units import duration_s

FAR = "as if performed at the interconnect"
PLACES = {
    "near": "behaves as if performed in the core",
    "far": f"behaves {FAR}",
    "all_far": f"behaves {FAR}, even behind a prefetch",
    "mixed": "behaves as if performed at the interconnect on some lines and in the core on others",
    "undecided": "is undecided between core and interconnect",
}
"""What is said of where an arm64 instruction seems to be performed."""
DISTANCES = {
    "smt_sibling": "same core",
    "same_l3": "same last-level cache",
    "other_l3": "other last-level cache",
    "other_socket": "other socket",
}
"""How far two CPUs are apart, by their topology class."""
USUAL = {"slots": 1, "read_delay": 0}
"""Parameters that are not spoken of where they have this value: one word, nothing inside the
section."""


def measure_on(contexts: Sequence[Context]) -> str:
    """``linewright measure``, with the ``--on`` that names where records with these contexts come
    from."""
    target = contexts[0].target if contexts else "local"
    if target in ("", "local", "published"):
        return "linewright measure"
    kind = target.partition(":")[0]
    where = shlex.quote(wings.scheme_of(kind) + target[len(kind) :])
    return f"linewright measure --on {where}"


USUAL_LAUNCHES = 8
"""What the budgets of plans have room for."""


def measure_again(m: MachineAnswers) -> str:
    """The commands that measure a machine's cells again with enough launches: one for each way in
    which `linewright measure` was called."""
    runs = grouped(m.contexts, _lasting_options) or {(("--plan", DEFAULT_PLAN),): []}
    begin = measure_on(m.contexts)
    again = [
        shlex.join(itertools.chain(*options, *_more_launches(run, m.launches_asked)))
        for options, run in runs.items()
    ]
    return numbers.join([f"{begin} {words}" for words in again])


def _lasting_options(context: Context) -> tuple[tuple[str, str], ...]:
    """The options that a run had, beginning with its plan, but for launches and time."""
    given = options_of_run(context.command)
    own = [(o, v) for o, v in given if o not in ("--plan", "--budget")]
    plan = dict(given).get("--plan", context.plan)
    return ("--plan", plan), *((o, v) for o, v in own if not v.startswith("launches="))


def _more_launches(run: Sequence[Context], asked: int) -> Iterator[tuple[str, str]]:
    """Options for as many launches, and for time for them."""
    planned = _planned(run)
    launches = max(planned, asked)
    yield "--set", f"launches={launches}"
    known = dict(options_of_run(run[-1].command)) if run else {}
    if "--budget" in known:
        own_s = duration_s(known["--budget"], "--budget")
        yield "--budget", f"{math.ceil(own_s / max(run[-1].launches, 1) * launches)}s"
    elif launches > max(planned, USUAL_LAUNCHES):
        # Many launches do not fit the plan's own budget, which is for some five.
        plan = plans.built_in().get(run[-1].plan if run else DEFAULT_PLAN)
        yield "--budget", f"{math.ceil((plan.budget_s if plan else 60) / 5 * launches)}s"


def measure_enough(m: MachineAnswers) -> str:
    """What gives every comparison the launches that a claim needs: the rest of the run, where that
    has them, or a longer one."""
    if _planned(m.contexts) < FEWEST_LAUNCHES:
        return measure_again(m)
    return f"continue with {measure_on(m.contexts)} --resume FILE"


def _planned(contexts: Sequence[Context]) -> int:
    """Launches that a run was to have."""
    return max((c.launches for c in contexts), default=0)


def time_of(work_iters: int, context: Context | None) -> str:
    """Units of work as a time, where the machine's own figure is known."""
    length = work_iters * context.unit_ns if context else 0.0
    return f" (about {numbers.figure(length)} ns)" if length > 0 else ""


def caller_of(f: Finding) -> str:
    """What the caller needs, in a word or two."""
    usual = f.situation.width_bits == 64 or family_of(f.operation) is READERS
    width = "" if usual else f" u{f.situation.width_bits}"
    order = "" if f.order in ("relaxed", "full") else f" ({f.order})"
    extra = "".join(
        f" {key}={value}" for key, value in f.situation.params if USUAL.get(key) != value
    )
    return f"{f.operation}{width}{order}{extra}"


def need_of(f: Finding) -> str:
    """The same with the memory order, whichever it is."""
    caller = caller_of(f)
    return caller if f"({f.order})" in caller else f"{caller} ({f.order})"


def sharers_of(f: Finding | Comparison | Side | Cell | Crossover) -> str:
    """Who shares the word, in the words of its situation; of readers how many there are."""
    if family_of(f.operation) is READERS:
        return f"with {numbers.count(f.situation.threads, 'reader')}"
    return f.situation.sharers


def work_lengths_text(situations: Iterable[Situation]) -> str:
    """The work of several situations: ``back to back and with 10 and 200 units of work``."""
    by_work = {s.work_iters: s for s in sorted(situations, key=lambda s: s.work_iters)}
    parts = [by_work.pop(0).around] if 0 in by_work else []
    if by_work:
        units = by_work[max(by_work)].units
        parts.append(f"with {numbers.join(list(map(str, by_work)))} {units}")
    return numbers.join(parts)


def modes_text(modes: Iterable[Mode], unit: str = "ns", surely: bool = False) -> str:
    """The modes that launches, lines or runs fall into: ``25.0 ns in 50 % and 100 ns in 50 %``;
    `surely` with the intervals of their shares."""
    share = lambda m: numbers.share(Estimate(value=m.share, low=m.share_low, high=m.share_high))
    bare = lambda m: numbers.percent(m.share, False)
    parts = ((mode, (share if surely else bare)(mode)) for mode in modes)
    return numbers.join([f"{numbers.quantity(m.median_ns, unit)} in {text}" for m, text in parts])


def all_within_text(same: Iterable[Judgement]) -> str:
    """Of several same costs, how far apart at most: a share of issue intervals says nothing of
    exposed costs."""
    of_scale = grouped(same, lambda j: j.contrast.scale)
    widest = {scale: max(j.within for j in own) for scale, own in of_scale.items()}
    texts = {scale: numbers.within(bound, scale) for scale, bound in widest.items()}
    if len(texts) > 1:
        return f"{texts['ratio']} back to back and {texts['ns']} with work"
    return "".join(texts.values())


BETTER = {"cheaper": "better", "slower": "worse"}
"""Answers of a program's metric, of which more may be what is wanted, and of a setting."""


def instead_text(c: Comparison, reverse: bool = False, of: Side | None = None) -> str:
    """``29.1 instead of 66 ns``: what the first side takes, or with `reverse` the second, and what
    the other one or `of` takes."""
    one, other = (c.second, c.first) if reverse else (c.first, of or c.second)
    return f"{numbers.figure(one.ns.median_ns)} instead of {numbers.figure(other.ns.median_ns)} ns"


def either(figures: Sequence[float]) -> str:
    """``14.5``, or of a metastable cell ``25.3 or 103``: no launch costs what lies between."""
    return " or ".join(map(numbers.figure, figures))


def figure_text(ns: float, f: Finding) -> str:
    """A figure of a finding: a time, or what is exposed of it."""
    kind = " with its work" if f.withheld else " exposed" if f.figure == "exposed" else ""
    # A cost that work hides comes out on either side of nothing.
    hidden = f.figure == "exposed" and -0.05 < ns < 0.05
    return f"{'0.0' if hidden else numbers.figure(ns)} ns{kind}"


def shown_text(f: Finding) -> str:
    """What is shown at one point: the best form or the default, those that cost more, those that
    cost the same."""
    best, slower, same = f.best, f.of("slower"), f.of("same")
    text = _takes(f.side, f)
    if best:
        text = f"{_takes(best.first, f)}, {best.words()} than {f.default}"
        if others := [r.first.form for r in f.of("cheaper") if r is not best]:
            cost = "costs" if len(others) == 1 else "cost"
            text += f"; {numbers.join(others)} {cost} less than {f.default} too"
        text += rate_text(f.lost_rates.get(best.first.form), f.default)
        if best.first.order != f.side.order and f.operation == "add":
            text += f" ({best.first.form} is {best.first.order}, {f.default} {f.side.order})"
    if slower:
        names = numbers.join([r.first.form for r in slower])
        most = figure_text(max(r.first.ns.median_ns for r in slower), f)
        text += f"; {names} " + ("cost more, up to " if len(slower) > 1 else "costs more, ") + most
    if same:
        widest = max(same, key=lambda j: j.within)
        bound = numbers.within(widest.within, widest.contrast.scale)
        text += f"; {numbers.join([r.first.form for r in same])} the same within {bound}"
    return text


def answer_text(f: Finding) -> str:
    """What is shown at one point, and what is undecided there."""
    if f.published:
        own = ((side.ns.median_ns, side.form) for side in (f.side, *(r.first for r in f.rows)))
        (first, _), *_, (last, _) = ranked = sorted(own)
        order = ", ".join(f"{name} {numbers.figure(ns)}" for ns, name in ranked)
        apart = last >= (1 + QUESTIONS["forms"].same.share) * first > 0
        ratio = f", {numbers.multiple(last / first)} from first to last" if apart else ""
        differ = [f"{r.first.form} ({r.change()})" for r in f.rows if r.differs]
        beyond = f"; percentiles apart from {f.default}'s: {numbers.join(differ)}" if differ else ""
        return f"published medians, work included, in order: {order} ns{ratio}{beyond}"
    return shown_text(f) + _open_text(f)


def _open_text(f: Finding) -> str:
    """The forms that are undecided, those of one reason together."""
    why_of = lambda r: r.change() if r.why in ("wide", "model") else in_english(r.why)
    parts = []
    for why, rows in grouped(f.of("undecided"), why_of).items():
        which = numbers.join([row.first.form for row in rows])
        which = f"all {len(rows)} others" if len(rows) == len(f.rows) > 3 else which
        parts.append(f"{which} ({why})")
    return f"; undecided: {', '.join(parts)}" if parts else ""


def rate_text(lost: tuple[float, float] | None, name: str) -> str:
    """That all threads together do less with a form that costs the timed thread less than the
    default of this name; else nothing."""
    if lost is None:
        return ""
    default, form = lost
    return (
        f", but all threads together do more with {name}"
        f" ({default:.3g} against {form:.3g} operations per µs)"
    )


def _takes(side: Side, f: Finding) -> str:
    if f.figure == "issue":
        return f"{side.form} takes {either(side.figures_ns)} ns"
    between = ", a median between modes" if side.metastable else ""
    return f"{side.form} takes {figure_text(side.ns.median_ns, f)}{between}"


def more_text(judgements: Sequence[Judgement], asked: int = 0) -> str:
    """What would decide the undecided, each by its own tolerance: launches, or nothing that is
    worth its time.  `asked`: the launches that the page suggests elsewhere."""
    wild = [j for j in judgements if launches_needed(j) > MOST_LAUNCHES]
    if not wild:
        return f"about {asked or max(map(launches_needed, judgements))} launches would decide them"
    bounds = [
        numbers.within(math.expm1(least) if scale == "ratio" else least, scale)
        for scale, own in grouped(wild, lambda j: j.contrast.scale).items()
        for least in [max(detectable(j, MOST_LAUNCHES) for j in own)]
    ]
    return (
        f"even {MOST_LAUNCHES} launches would show no difference below about {' or '.join(bounds)}"
    )


def runs_of(sweep: Sequence[Finding]) -> list[list[Finding]]:
    """Neighbouring work lengths with the same answer for every form."""

    def answers(f: Finding) -> tuple:
        best = f.best.first.form if f.best else ""
        return f.default, f.figure, best, [(r.first.form, r.answer) for r in f.rows]

    return [list(run) for _, run in itertools.groupby(sweep, answers)]


def by_caller(found: Iterable[Finding]) -> list[list[Finding]]:
    """Findings of one caller in one situation on one CPU, by rising work."""
    sweeps = grouped(found, lambda f: (caller_of(f), f.situation.without("work_iters"), f.side.cpu))
    return [sorted(sweep, key=lambda f: f.situation.work_iters) for sweep in sweeps.values()]


def crossing_text(c: Crossover, context: Context | None) -> str:
    """One crossover in words."""
    (low, high), work = c.ends, c.axis == "work_iters"
    unit = "units of work" if work else "iterations between the contender's operations"
    where = f"{sharers_of(c)}, {c.situation.around}" if c.situation.work_iters else sharers_of(c)
    margins = [abs(at.first.ns.median_ns - at.second.ns.median_ns) for at in (c.below, c.above)]
    by = [f"by {numbers.figure(ns)} ns" for ns in margins]
    return (
        f"{c.operation} {where}: {c.below.cheapest.form} is cheaper up to {low} {unit}, {by[0]}; "
        f"{c.above.cheapest.form} from {high}{time_of(high, context) if work else ''}, {by[1]}"
    )


_LOOPS = {"guess_first": "guess first", "read_first": "read first"}


def form_name(form: str, default: str = "") -> str:
    """A form by its instructions; against `default` only what sets it apart, such as
    ``PREFETCHW``."""
    made = made_of(form)
    if made.prefetch:
        prefetch = PREFETCHES[made.prefetch]
        return prefetch if made.base == default else f"{prefetch} + {form_name(made.base, default)}"
    return "LL/SC" if made.exclusive else _LOOPS.get(made.loop) or made.instruction or form


def doubt_mark(s: Summary) -> str:
    """The mark beside a cell's figure that is not one number, or not to be relied on."""
    return "~" if s.metastable else "" if s.status == "ok" else "?"


def span(found: Side) -> str:
    """The ends of an interval to two digits, ``14–17``; one figure where they are equal; empty for
    no interval, and for a metastable cell."""
    known = (found.ns.low_ns, found.ns.high_ns)
    if found.modes_ns or found.ns.confidence <= 0 or not all(map(math.isfinite, known)):
        return ""
    return "–".join(unique(numbers.figure(end, 2) for end in known))


def figure_words(found: Side) -> str:
    """A cost without signs."""
    text = numbers.cost(found.ns.median_ns)
    if found.modes_ns:
        text = f"{' or '.join(map(numbers.cost, found.modes_ns))}, by launch"
    return text + ("" if found.reliable else " (unreliable, too many windows were disturbed)")


def figure_cell(found: Side) -> TableCell:
    """A cost as a cell of a table, of several modes the first and last as ``25.3~103``; ``?``
    behind that of an unreliable cell. The ends of an interval that says nothing are left out."""
    ns, sign = found.ns, "~" * found.metastable
    text = f"{numbers.cost(ns.median_ns)}{sign}"
    modes = (min(found.modes_ns), max(found.modes_ns)) if found.modes_ns else ()
    text = "~".join(map(numbers.cost, modes)) or text
    text += "" if found.reliable else "?"
    known = ns.confidence > 0 and not modes
    low, high = (ns.low_ns, ns.high_ns) if known else (None, None)
    return TableCell(text=text, value=ns.median_ns, modes=modes, low=low, high=high, sign=sign)
