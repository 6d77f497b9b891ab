"""One machine's screen: the matrix of operations and conditions, the price list, and what to write and to set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from linewright.advice.machine import Machine
from linewright.advice.sentences import at_the_interconnect, doubt_of, headline, limits, use
from linewright.advice.setting import setting
from linewright.analysis import verdict_sentences
from linewright.analysis.across import Across, across, defaults, over_one_atomic
from linewright.analysis.contrast import FEWEST_LAUNCHES, SAME_ALONE, SAME_CONTENDED, SAME_NS, Contrast
from linewright.analysis.control import Floor, WorkLoop, condition_of, floors, work_loop
from linewright.analysis.findings import Finding, answer_of, figure_of, plainest
from linewright.analysis.saying import Sentence, join, said
from linewright.analysis.screen_data import Condition, Entry, Figure, Price, Row, Screen, Versus
from linewright.analysis.summarise import by_id
from linewright.analysis.summary import Summary, machines_of
from linewright.families import ONE_LINE
from linewright.schema import Context, Interval
from linewright.units import cpu_text, many

ROWS: tuple[tuple[str, str, str], ...] = (
    ("read", "load", ""),
    ("add", "add", ""),
    ("fetch_add", "fetch_add", ""),
    ("xchg", "exchange", ""),
    ("cmpxchg", "CAS, reads first", "read_first"),
    ("cmpxchg", "CAS, guesses first", "guess_first"),
)
"""Operation, name in words, and how its forms' names end where one operation has two rows."""

PRICES: tuple[tuple[str, str, str, tuple[str, ...], int], ...] = (
    ("count", "count: thread-local word", "percpu_add", ("percpu_thread_local_add",), 4),
    ("count", "count: per-CPU word, rseq", "percpu_add", ("percpu_rseq_add",), 1),
    ("count", "count: shared C11 atomic", "percpu_add", ("percpu_shared_c11_add",), 6),
    ("count", "count: own words, one line", "percpu_add", ("percpu_false_sharing_add",), 2),
    ("count", "count: own words, padded", "percpu_add", ("percpu_padded_add",), 2),
    ("read", "read: SRCU reader, fast", "readers_pair", ("srcu_fast",), 1),
    ("read", "read: SRCU reader", "readers_pair", ("srcu",), 5),
    ("read", "read: rwlock", "readers_pair", ("rwlock",), 2),
    ("lock", "read: mutex", "readers_pair", ("mutex",), 3),
    ("wait", "wait: SRCU updater, 1 reader", "readers_grace", ("srcu_fast",), 5),
    ("flush", "flush: clean a dirty line", "clean", ("clwb", "dc_cvac"), 3),
    ("flush", "flush: evict a dirty line", "clean_invalidate", ("clflushopt", "dc_civac"), 3),
)
"""Group, name in words, operation, the forms of which the first measured is shown, and the rank: where there is no room
for all, the highest ranks are left out first."""
PARAMS: Mapping[str, Mapping[str, object]] = {
    "percpu_add": {"slots": 1},
    "readers_pair": {"read_delay": 0},
    "readers_grace": {"read_delay": 0, "updater": "synchronize"},
    "clean": {"entries": 1, "wait": "once", "state": "dirty_l1"},
    "clean_invalidate": {"entries": 1, "wait": "once", "state": "dirty_l1"},
}
"""Parameters that cells of the price list have; cells with others measure something else."""
OTHER_PLANS = 8
"""Sentences of the verdict that stand for the headline where no operation on one line was measured."""


def screens(summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]) -> list[Screen]:
    """One screen for each machine, in the order of the records."""
    known = by_id(contexts)
    return [
        _screen(machine, own, [c for c in known.values() if c.machine_id == machine])
        for machine, own in machines_of(summaries).items()
    ]


def _screen(machine_id: str, summaries: Sequence[Summary], contexts: Sequence[Context]) -> Screen:
    m = Machine(contexts, summaries)
    width = _width(summaries)
    cells = [s for s in summaries if s.cell.operation in ONE_LINE.operations and s.cell.width_bits == width]
    conditions = _conditions(cells, floors(summaries, m.arch), work_loop(m.contexts))
    ratios = across(summaries)
    found = [f for f in m.findings if f.width_bits == width]
    launches = max((s.launches for s in summaries if s.has_figures), default=0)
    return Screen(
        machine_id=machine_id, arch=m.arch, title=m.context.cpu_model if m.context else "unknown machine",
        facts=_facts(m), run=_run(m, launches),
        coarse=0 < launches < FEWEST_LAUNCHES and not m.published, warning=_warning(m, summaries),
        headline=_headline(m, cells, conditions), use=use(found, ratios, m),
        set=[said(_setting_text(m))] if conditions else [],
        limits=limits(m, found), width_bits=width, conditions=conditions,
        rows=_rows(cells, conditions, found, ratios), prices=_prices(summaries, ratios),
        missing=_missing(conditions, summaries, m),
    )  # fmt: skip


def _headline(m: Machine, cells: Sequence[Summary], conditions: Sequence[Condition]) -> list[Sentence]:
    """What an atomic add costs; of records of another kind, the first sentences of the verdict."""
    if conditions or m.emulated:
        return [*headline(cells, m), *at_the_interconnect(m)]
    said_of_it = verdict_sentences(m.summaries, m.contexts)
    more = len(said_of_it) - OTHER_PLANS
    rest = [said(f"{more} more finding{'s' if more > 1 else ''}: linewright show --all")] if more > 0 else []
    return [*said_of_it[:OTHER_PLANS], *rest]


def _setting_text(m: Machine) -> str:
    """What to set, in a line."""
    chosen = setting(m)
    if chosen.why == "architecture":
        return f"nothing: on {m.arch.replace('_', '-')} there is no choice for {chosen.variable} to make"
    if chosen.why == "depends":
        return "no one setting: which is best depends on contention and work; linewright advise shows where"
    return chosen.sentence.replace("no setting", "nothing", 1) if not chosen.supported else chosen.sentence


def _width(summaries: Sequence[Summary]) -> int:
    """The width that most cells on one line have."""
    widths = [s.cell.width_bits for s in summaries if s.cell.operation in ONE_LINE.operations]
    return max(set(widths), key=widths.count) if widths else 64


def _facts(m: Machine) -> list[str]:
    c = m.context
    if c is None:
        return []
    facts = [many(len(c.cpus), "CPU")] if c.cpus else []
    facts += (["virtual machine"] if c.virtualised == "yes" else []) + [c.arch.replace("_", "-")]
    facts += [] if m.simulated or m.published else [c.kernel]
    return facts + ([f"SMT {c.smt}"] if c.smt == "on" else [])


def _run(m: Machine, launches: int) -> list[str]:
    timed = cpu_text({s.cpus[0] for s in m.summaries if s.cpus})
    span = max((s.launch_span_s for s in m.summaries if s.launch_span_s is not None), default=None)
    parts = [f"plan {c}" for c in dict.fromkeys(c.plan for c in m.contexts)]
    parts += [f"CPU {timed} timed"] if timed else []
    planned = max((c.launches for c in m.contexts), default=0)
    count = f"{launches} of {planned} launches" if launches < planned else many(launches, "launch", "launches")
    return [*parts, count + (f" in {span:.0f} s" if span else "")] if launches and not m.published else parts


def _warning(m: Machine, summaries: Sequence[Summary]) -> str:
    if m.emulated:
        return "run by an emulator: times mean nothing"
    if m.simulated:
        return "simulated: a model of a machine, not a machine"
    if m.published:
        return "published percentiles: medians without intervals, so nothing is claimed"
    wrong = [s for s in summaries if s.status == "error"]
    if wrong:
        forms = join(list(dict.fromkeys(s.cell.form for s in wrong))[:3])
        return f"WRONG: {len(wrong)} cell{'s' if len(wrong) > 1 else ''} ({forms}): {wrong[0].reason}"
    versions = sorted({c.tool_version for c in m.contexts})
    if len(versions) > 1:
        return f"launches of versions {join(versions)} are joined: show each file by itself, then compare them"
    if len({c.program for c in m.contexts}) > 1:
        return "launches of several builds of the probe are joined: show each file by itself, then compare them"
    return ""


# ---------------------------------------------------------------------------------------------------------- the matrix


def _conditions(cells: Sequence[Summary], noise: Mapping[tuple, Floor], loop: WorkLoop | None) -> list[Condition]:
    """The three columns, each at the least work or spacing that was measured."""
    answers = []
    for key in ("alone", "work", "contended"):
        own = [s for s in cells if _key(s) == key]
        if own:
            cell = min((s.cell for s in own), key=lambda c: (c.threads, c.work_iters, c.contender_iters))
            example = next(s for s in own if s.cell == cell)
            exposed = figure_of(example) == "exposed"
            floor = noise.get(condition_of(cell))
            same = SAME_NS if exposed else SAME_CONTENDED if key == "contended" else SAME_ALONE
            answers.append(
                Condition(
                    key=key, work_iters=cell.work_iters, contender_iters=cell.contender_iters, threads=cell.threads,
                    placement=example.placement_class, scale="ns" if exposed else "ratio", same=same,
                    floor=(floor.ns if exposed else floor.share) if floor else 0.0, pairs=floor.pairs if floor else 0,
                    bent=loop.bent if loop and cell.work_iters else None,
                    spread=loop.spread if loop and cell.work_iters else None,
                )
            )  # fmt: skip
    return answers


def _key(s: Summary) -> str:
    if s.cell.contender == "same_line":
        return "" if s.cell.work_iters else "contended"
    return "" if s.cell.contender != "none" else "work" if s.cell.work_iters else "alone"


def _at(condition: Condition, s: Summary | Finding) -> bool:
    cell = s.cell if isinstance(s, Summary) else s
    contender = "same_line" if condition.key == "contended" else "none"
    return (cell.contender, cell.work_iters, cell.contender_iters, cell.threads) == (
        contender, condition.work_iters, condition.contender_iters, condition.threads,
    )  # fmt: skip


def figure(s: Summary) -> Figure:
    """A cell's figure: exposed where there is work around it, else its issue interval."""
    ns = s.exposed if figure_of(s) == "exposed" else s.issue
    modes = tuple(mode.median_ns for mode in s.modes) if s.metastable and ns is s.issue else ()
    return Figure(
        ns=ns, id=s.id, form=s.cell.form, metastable=s.metastable, modes_ns=modes, reliable=s.status == "ok"
    )  # fmt: skip


def _rows(
    cells: Sequence[Summary], conditions: Sequence[Condition], found: Sequence[Finding], ratios: Sequence[Across]
) -> list[Row]:
    answers = []
    for operation, name, ending in ROWS:
        own = [s for s in cells if s.cell.operation == operation and s.cell.form.endswith(ending)]
        if operation == "add" and not any(s.cell.form.startswith("lock_") for s in own):
            own += [s for s in cells if s.cell.operation == "fetch_add"]
        if own:
            entries = {
                c.key: _entry([s for s in own if _at(c, s)], c, operation, ending, found, ratios) for c in conditions
            }
            answers.append(Row(operation=operation, name=name, entries=entries))
    return answers


def _entry(
    own: Sequence[Summary],
    c: Condition,
    operation: str,
    ending: str,
    found: Sequence[Finding],
    ratios: Sequence[Across],
) -> Entry:
    measured = [s for s in own if s.has_figures]
    if not measured:
        return Entry(default=None, why=own[0].status if own else "not measured")
    usable = [s for s in measured if not doubt_of(s)]
    if not usable:
        return Entry(default=None, why=doubt_of(measured[0]).replace("_", " "))
    default = _default(usable, operation, ending)
    if figure_of(default) == "exposed" and default.exposed is None:
        return Entry(default=None, why="withheld" if default.withheld else "no baseline")
    return Entry(default=figure(default), versus=_versus(default, c, operation, found, ratios))


def _default(usable: Sequence[Summary], operation: str, ending: str) -> Summary:
    if ending == "guess_first":
        return min(usable, key=lambda s: s.cell.form.count("_"))
    return defaults(usable).get(operation, usable[0])


def _versus(
    default: Summary, c: Condition, operation: str, found: Sequence[Finding], ratios: Sequence[Across]
) -> Versus | None:
    """The alternative that saves most, or that might."""
    judged = [
        (row.form, row.judged)
        for f in found
        if f.operation == operation and f.default_id == default.id
        for row in f.rows
        if row.form.endswith("guess_first") == default.cell.form.endswith("guess_first")
    ] + [
        (a.first.form, a.judged) for a in ratios if a.second == default.cell and a.first.operation == a.second.operation
    ]
    known = [(form, j) for form, j in judged if j.contrast is not None]
    if not known:
        return None if not judged else Versus(form=judged[0][0], answer="undecided", scale=c.scale, low=None, high=None)
    cheaper = [(form, j) for form, j in known if j.cheaper]
    open_or_same = [(form, j) for form, j in known if not j.slower]
    form, best = min(
        cheaper or open_or_same or known, key=lambda x: x[1].contrast.value if cheaper else x[1].contrast.low
    )
    if cheaper:
        form = plainest(form, dict(cheaper))
        best = dict(cheaper)[form]
    return Versus(
        form=form, answer=answer_of(best), scale=best.contrast.scale, low=best.contrast.low, high=best.contrast.high
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the price list


def _prices(summaries: Sequence[Summary], known: Sequence[Across]) -> list[Price]:
    usable = [s for s in summaries if s.status == "ok" and s.has_figures and not s.cell.work_iters and not s.emulated]
    usable = [s for s in usable if not doubt_of(s)]
    plain = [s for s in usable if s.cell.contender_iters == 0 and s.cell.threads <= 2]
    adds = [s for s in plain if s.cell.operation in ("add", "fetch_add")]
    added = {key: defaults([s for s in adds if _key(s) == key]).get("add") for key in ("alone", "contended")}
    priced = [
        (group, name, rank, {key: _of(plain, operation, forms, key) for key in ("alone", "contended")})
        for group, name, operation, forms, rank in PRICES
    ]
    priced = [item for item in priced if any(item[3].values())]
    if not priced:
        return []
    pairs = [_beside(own, added) for group, _, _, own in priced if group != "wait"]  # a wait is no operation
    ratios = over_one_atomic([pair for pair in pairs if pair], known)
    answers = []
    if any(added.values()):
        answers.append(_price("count", "count: one atomic word", added, None, reference=True))
    for group, name, rank, own in priced:
        pair = _beside(own, added) if group != "wait" else None
        c = ratios[(pair[0].id, pair[1].id)] if pair else None
        made = _price(group, name, own, c, rank=rank)
        answers.append(msgspec.structs.replace(made, only_alone=bool(c) and pair[0] is own["alone"]))
    return answers


def _beside(own: Mapping[str, Summary | None], added: Mapping[str, Summary | None]) -> tuple[Summary, Summary] | None:
    """A price and the atomic add under the same condition: contended where both were measured so, else alone."""
    both = ((own[key], added[key]) for key in ("contended", "alone"))
    return next(((a, b) for a, b in both if a is not None and b is not None), None)


def _of(plain: Sequence[Summary], operation: str, forms: Sequence[str], key: str) -> Summary | None:
    wanted = PARAMS[operation].items()
    return next(
        (
            s for form in forms for s in plain
            if (s.cell.operation, s.cell.form, _key(s)) == (operation, form, key)
            and all(s.cell.params.get(name) == value for name, value in wanted)
        ),
        None,
    )  # fmt: skip


def _price(
    group: str, name: str, own: Mapping[str, Summary | None], c: Contrast | None, reference: bool = False, rank: int = 0
) -> Price:
    alone, contended = (figure(own[key]) if own[key] else None for key in ("alone", "contended"))
    ratio = Interval(median_ns=c.value, low_ns=c.low, high_ns=c.high) if c else None
    return Price(
        group=group, name=name, alone=alone, contended=contended, ratio=ratio, reference=reference, rank=rank,
        few=c is not None and c.launches < FEWEST_LAUNCHES,
    )  # fmt: skip


def _missing(conditions: Sequence[Condition], summaries: Sequence[Summary], m: Machine) -> list[str]:
    """What is absent, with the plan that gives it or the reason why none does."""
    if not any(s.has_figures for s in summaries):
        return ["No cell has a figure: linewright show --all says why."]
    words = {"alone": "operations alone", "work": "operations among work", "contended": "a second CPU on the line"}
    have = {c.key for c in conditions}
    one_cpu = m.context is not None and sum(cpu.allowed for cpu in m.context.cpus) == 1 and "contended" not in have
    never = [f"Not measured: {words.pop('contended')}, because only one CPU could be used."] if one_cpu else []
    lacking = [text for key, text in words.items() if key not in have]
    measured = {s.cell.operation for s in summaries if s.status == "ok"}
    if not measured & {"percpu_add", "readers_pair"}:
        lacking.append("the price list")
    if not lacking:
        return never
    return [f"Not measured: {', '.join(lacking)}. linewright measure --plan quick measures all of it.", *never]
