"""From records to what to do: one advice per machine, made of sections that appear where the records support them.

A section is a function from a `Machine` to a `Section`, or None where there is nothing to say; `SECTIONS` lists them in
the order of the page, and adding one there is all that a new kind of record needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from msgspec import Struct

from linewright import policy
from linewright.advice import choice
from linewright.advice.choice import Against, Choice
from linewright.analysis import cache_fit, reader_cost, summarise
from linewright.analysis.near_far import CoreClass, crossovers, near_far
from linewright.analysis.summary import Summary
from linewright.analysis.verdict import Finding, apart, caller_of, condition, findings, join, number, runs_of
from linewright.schema import Context, Record
from linewright.units import cpu_text, ns_text

VERSION = 1
"""Of the JSON of `linewright advise --json`."""
MOST_GROUPS = 8
"""Cells with several figures that are told one by one; `data` has all."""
DEARER = 1.05
"""Cores of one type are called different when a form's interval on one lies above this many times that on another."""


FAMILIES = {
    "percpu": ("Per-CPU counters", ("percpu_",)), "wide": ("Wider than a register", ("wide_",)),
    "cache": ("Cache maintenance", ("clean", "invalidate")), "readers": ("Readers", ("readers_",)),
    "library": ("The library's operations, by setting", ("library_",)),
}  # fmt: skip
"""Operations that belong to plans of their own: title of their section, and how their operations' names begin."""


class Section(Struct, frozen=True, kw_only=True):
    """One part of the page: `lines` for people, `data` for programs, both saying the same."""

    name: str
    title: str
    lines: list[str]
    data: Any


class Setting(Struct, frozen=True, kw_only=True):
    """What to set for a process."""

    variable: str
    value: str
    """By the grammar of policy.h; ``default`` when no setting is supported."""
    supported: bool
    why: str
    """``better``, ``noise``, ``default_best``, ``depends``, ``default_unmeasured``, ``one_launch``, ``emulated``,
    ``architecture`` (one form for each operation there) or ``not_measured``."""
    sentence: str


class Advice(Struct, frozen=True, kw_only=True):
    """All that one machine's records support."""

    linewright_advice: int
    machine_id: str
    cpu_model: str
    """Told so that machines can be told apart; nothing is concluded from it."""
    arch: str
    target: str
    setting: Setting
    choices: list[Choice]
    sections: list[Section]


@dataclass(frozen=True)
class Machine:
    """One machine's records and what analysis makes of them, computed once."""

    contexts: Sequence[Context]
    summaries: Sequence[Summary]
    classes: Sequence[CoreClass]
    """Of operations on one word, see `one_word`."""

    @property
    def context(self) -> Context | None:
        return self.contexts[0] if self.contexts else None

    @property
    def arch(self) -> str:
        return self.context.arch if self.context else "unknown"

    @property
    def emulated(self) -> bool:
        return any(c.emulated for c in self.contexts)

    @cached_property
    def default(self) -> str:
        return choice.default_choice(self.context.features if self.context else [])

    @cached_property
    def findings(self) -> list[Finding]:
        return findings(self.summaries)

    def of_family(self, name: str) -> list[Finding]:
        """Findings of one family of operations; ``""`` for the operations on one word that belong to none."""
        return [f for f in self.findings if _family(f.operation) == name]

    @cached_property
    def choices(self) -> list[Choice]:
        return choice.choices(self.summaries, self.default) if self.arch == "arm64" and not self.emulated else []

    @cached_property
    def core_types(self) -> list[choice.CoreType]:
        return choice.core_types(self.summaries, self.contexts, self.default) if self.choices else []

    def time_of(self, work_iters: int) -> str:
        """Iterations of work as a time, where the machine's own figure is known."""
        length = self.context.unit_ns if self.context else 0.0
        return f" (about {ns_text(work_iters * length)} ns)" if length > 0 and work_iters else ""


def _family(operation: str) -> str:
    return next((name for name, (_, starts) in FAMILIES.items() if operation.startswith(starts)), "")


# ------------------------------------------------------------------------------------------------------- the setting


def _percent(a: Against) -> str:
    """How a candidate stands to the default, in percent of the default, with its interval where there is one."""
    if a.ratio is None:
        share = 100 * (a.ns.median_ns / a.default_ns.median_ns - 1) if a.default_ns.median_ns > 0 else 0.0
        return f"{abs(share):.0f} % {'less' if share < 0 else 'more'}, percentile ranges apart"
    value, low, high = (100 * (x - 1) for x in (a.ratio.value, a.ratio.low, a.ratio.high))
    if value < 0:
        value, low, high = -value, -high, -low
        return f"{value:.1f} % less ({low:.1f} to {high:.1f} %)"
    return f"{value:.1f} % more ({low:.1f} to {high:.1f} %)"


def _at(a: Against, machine: Machine) -> str:
    work = (
        "back to back"
        if a.work_iters == 0
        else f"with {a.work_iters} iterations of work{machine.time_of(a.work_iters)}"
    )
    return f"{a.condition}, {work}"


def _size(a: Against) -> float:
    return abs(a.ns.median_ns - a.default_ns.median_ns) / max(a.default_ns.median_ns, 1e-9)


def _most(rows: Iterable[Against], finding: str) -> Against | None:
    return max((r for r in rows if r.finding == finding), key=_size, default=None)


def _told(a: Against, machine: Machine) -> str:
    return (
        f"{a.form} {number(a.ns.median_ns)} ns against {number(a.default_ns.median_ns)} ns of {a.default_form},"
        f" {_percent(a)}, {_at(a, machine)}"
    )


def _choice_lines(c: Choice, machine: Machine) -> list[str]:
    """One class: what was found against the default, at its clearest point, and where the answer turns."""
    what = choice.CLASS_WORDS[c.operations]
    own = [r for r in c.points if r.choice == c.choice]
    if c.choice != c.default:
        clearest, others = _most(own, "better"), sum(r.finding == "same" for r in own)
        line = f"{what}: {c.choice.replace(',', ' with ')}. {_told(clearest, machine)}"
        if others:
            line += f"; within noise at {others} of {len(own)} points, worse at none"
        lines = [line]
        if c.why == "default_unmeasured":
            lines.append(
                f"{what}: the form taken by default ({c.default}) is not in the records, so the gain over it is unknown: measure it too"
            )
        if c.also:
            lines.append(f"{what}: within noise of it: {join([x.replace(',', ' with ') for x in c.also])}")
        return lines
    if c.why in ("noise", "one_launch"):
        words = (
            "the difference is within noise"
            if c.why == "noise"
            else "contended cells had too few launches to be judged"
        )
        return [f"{what}: no setting: {words}"]
    if c.why == "default_best":
        return [
            f"{what}: no setting: nothing measured is certainly better than the default; clearest: {_told(_most(c.points, 'worse'), machine)}"
        ]
    return [f"{what}: no one setting: it depends on the program", *_turns(c, machine)]


def _turns(c: Choice, machine: Machine) -> list[str]:
    """Where each candidate with both answers is better and where it is worse."""
    lines = []
    for name in dict.fromkeys(r.choice for r in c.points):
        rows = [r for r in c.points if r.choice == name]
        better, worse = _most(rows, "better"), _most(rows, "worse")
        if better and worse:
            value = _value(c.operations, name, c.default)
            for word, finding in (("better", "better"), ("worse", "worse")):
                places: dict[str, list[int]] = {}
                for r in rows:
                    if r.finding == finding:
                        places.setdefault(r.condition, []).append(r.work_iters)
                told = "; ".join(
                    f"{where} at work {', '.join(map(str, sorted(set(works))))}" for where, works in places.items()
                )
                lines.append(
                    f"  LINEWRIGHT_ATOMICS={value} is {word} than the default {told}; most: {_told(better if finding == 'better' else worse, machine)}"
                )
    return lines


def _value(operations: str, name: str, default: str) -> str:
    form, _, prefetch = name.partition(",")
    items = ([f"{operations}={form}"] if form != default else []) + ([f"{operations}=prefetch"] if prefetch else [])
    return policy.check(",".join(items) or "default", "advice")


_SILENT = {
    "noise": "no setting: the difference is within noise",
    "default_best": "no setting: nothing measured is certainly better than what is done by default",
    "depends": "no one setting for every program: it depends on contention or on the work between operations, see below",
    "one_launch": "no setting: contended cells had fewer launches than can be judged",
}


def setting(machine: Machine) -> Setting:
    """The value for a process, checked by the same reader as a user's own, and one sentence that says why."""

    def no(why: str, sentence: str) -> Setting:
        return Setting(variable="LINEWRIGHT_ATOMICS", value="default", supported=False, why=why, sentence=sentence)

    if machine.emulated:
        return no("emulated", "no setting: run by an emulator, times mean nothing")
    if machine.arch != "arm64":
        return no(
            "architecture",
            f"no setting: on {machine.arch} each operation has one form and LINEWRIGHT_ATOMICS is without effect; which form to write in code is below",
        )
    if not machine.choices:
        return no(
            "not_measured",
            "no setting: fewer than two forms that a setting can choose were measured under equal conditions",
        )
    value = policy.check(choice.setting_of(machine.choices), "advice")
    if value == "default":
        reasons = {c.why for c in machine.choices}
        why = next(w for w in ("depends", "default_best", "noise", "one_launch") if w in reasons)
        return no(why, _SILENT[why])
    why = "default_unmeasured" if any(c.why == "default_unmeasured" for c in machine.choices) else "better"
    clause = (
        "the cheapest of what was measured, the default's form is missing"
        if why == "default_unmeasured"
        else "certainly better than the default at one measured point or more, certainly worse at none"
    )
    return Setting(
        variable="LINEWRIGHT_ATOMICS",
        value=value,
        supported=True,
        why=why,
        sentence=f"LINEWRIGHT_ATOMICS={value}: {clause}",
    )


# ---------------------------------------------------------------------------------------------------------- sections


def _classes(m: Machine) -> Section | None:
    """Each class of operations against the default."""
    lines = [line for c in m.choices for line in _choice_lines(c, m)]
    return Section(name="classes", title="By class of operations", lines=lines, data=m.choices) if lines else None


def _where(m: Machine) -> Section | None:
    """Best form by operation, contention and work length; neighbouring lengths with one answer share a line."""
    found = m.of_family("")
    return (
        Section(name="where", title="Best form by operation, contention and work", lines=_sweeps(found), data=found)
        if found
        else None
    )


def _sweeps(found: Sequence[Finding]) -> list[str]:
    sweeps: dict[tuple, list[Finding]] = {}
    for f in found:
        sweeps.setdefault((caller_of(f), f.order, condition(f), f.lines, f.threads), []).append(f)
    return [
        f"{_need(caller, order)}, {where}, {_span(run)}: {_best(run[0])}"
        for (caller, order, where, *_), sweep in sweeps.items()
        for run in runs_of(sorted(sweep, key=lambda f: f.work_iters))
    ]


def _of_plans(name: str) -> Callable[[Machine], Section | None]:
    """The section of one family: the same comparison of forms, told where such records exist."""

    def make(m: Machine) -> Section | None:
        found = m.of_family(name)
        return Section(name=name, title=FAMILIES[name][0], lines=_sweeps(found), data=found) if found else None

    return make


MOST_TRADES = 6
"""Pairs of readers whose trade is told; `data` has all."""


def _readers(m: Machine) -> Section | None:
    """Which reader is right: the cheapest by section and number of readers, those that scale, and what an updater pays for it."""
    if m.emulated or not any(reader_cost.concerns(s.cell) for s in m.summaries):
        return None
    found = [
        f
        for f in m.of_family("readers")
        if f.operation in ("readers_pair", "readers_shape", "readers_lookup") and "updater" not in f.params
    ]
    rows, trades = reader_cost.scaling(m.summaries), reader_cost.trades(m.summaries)
    lines = [_of_readers(f, m) for f in found]
    pairs = [r for r in rows if r.operation == "readers_pair" and r.read_delay == 0]
    flat, dearer = [r for r in pairs if r.flat], [r for r in pairs if r.grows and not r.flat]
    if flat:
        lines.append(f"cost each of {flat[0].readers} readers the same as one alone: {join([r.form for r in flat])}")
    if dearer:
        told = [f"{r.form} {r.ratio.value:.1f} ({r.ratio.low:.1f} to {r.ratio.high:.1f})" for r in dearer]
        lines.append(f"dearer with {dearer[0].readers} readers than for one alone, times: {join(told)}")
    lines += _traded(trades, {form for f in found if f.operation == "readers_pair" for form in f.tied})
    if not lines:
        return None
    return Section(
        name="readers",
        title=FAMILIES["readers"][0],
        lines=lines,
        data={"choices": found, "scaling": rows, "trades": trades},
    )


_READER_NEEDS = {
    "readers_pair": "protecting a section", "readers_shape": "increments of an SRCU-shaped pair", "readers_lookup": "looking up an object",
}  # fmt: skip


def _of_readers(f: Finding, m: Machine) -> str:
    """The cheapest reader of one need, delay and number of readers."""
    delay = int(f.params.get("read_delay", 0))
    inside = f", {delay} iterations{m.time_of(delay)} inside" if delay else ""
    return f"{_READER_NEEDS[f.operation]}, {f.threads} reader{'s' if f.threads > 1 else ''}{inside}: {_best(f)}"


def _traded(trades: Sequence[reader_cost.Trade], best: set[str]) -> list[str]:
    """What the updater of a reader that is best somewhere waits more, and from how many sections on that is worth it."""
    shortest = min((t.read_delay for t in trades), default=0)
    plain = [t for t in trades if t.read_delay == shortest and t.updater == "synchronize" and t.cheap_reader in best]
    ranked = sorted(plain, key=lambda t: (t.cheap_reader, t.sections_per_update.value))
    lines = []
    for t in ranked[:MOST_TRADES]:
        lines.append(
            f"{t.cheap_reader} instead of {t.cheap_update}, {t.readers} reader{'s' if t.readers > 1 else ''}: {number(t.saved_ns.median_ns)} ns less a section,"
            f" {number(t.waited_ns.median_ns)} ns more an update: cheaper in all from {_rounded(t.sections_per_update.high)} sections an update on"
            f" (not below {_rounded(t.sections_per_update.low)})"
        )
    if len(ranked) > MOST_TRADES:
        lines.append(f"and {len(ranked) - MOST_TRADES} more such pairs, in --json")
    return lines


def _cache(m: Machine) -> Section | None:
    """Which instruction, what a wait costs, and at which entry size one wait for the whole list stops to matter."""
    if m.emulated or not m.context or not any(cache_fit.concerns(s.cell) for s in m.summaries):
        return None
    lines = cache_fit.sentences(m.summaries, m.context.line_bytes)
    data = {"terms": cache_fit.fits(m.summaries, m.context.line_bytes), "savings": cache_fit.savings(m.summaries)}
    return Section(name="cache", title=FAMILIES["cache"][0], lines=lines, data=data)


def _rounded(value: float) -> str:
    """A count with two significant digits: what its interval supports."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 1 else "1"


def _need(caller: str, order: str) -> str:
    """Operation and order; caller_of() names the orders between the two ends itself."""
    return caller if f"({order})" in caller else f"{caller} ({order})"


def _span(run: Sequence[Finding]) -> str:
    first, last = run[0].work_iters, run[-1].work_iters
    return f"work {first}" if first == last else f"work {first} to {last} (figures at {first})"


def _best(f: Finding) -> str:
    if not f.beaten:
        return "within noise" if f.why == "noise" else "contended with too few launches to be judged"
    apart_by = f.beaten_ns.median_ns - f.best_ns.median_ns
    ratio = f" ({f.beaten_ratio.low:.2f} to {f.beaten_ratio.high:.2f} times as dear)" if f.beaten_ratio else ""
    note = f"; but {f.rate_note}" if f.rate_note else ""
    return f"{' = '.join(f.tied)} {number(f.best_ns.median_ns)} ns, {number(apart_by)} ns less than {f.beaten}{ratio}{note}"


def _crossings(m: Machine) -> Section | None:
    usable = [s for s in m.summaries if not _family(s.cell.operation)]
    found = crossovers(usable) if not m.emulated else []
    lines = []
    for c in found:
        work = c.axis == "work_iters"
        unit = "iterations of work" if work else "iterations between the contender's operations"
        time = m.time_of(c.above) if work else ""
        lines.append(
            f"{c.operation} {c.where}: {c.cheaper_below} up to {c.below} {unit} (by {number(c.margin_below_ns)} ns),"
            f" {c.cheaper_above} from {c.above}{time} (by {number(c.margin_above_ns)} ns)"
        )
    return (
        Section(name="crossovers", title="Where one form overtakes another", lines=lines, data=found) if lines else None
    )


_PLACES = {
    "near": "near", "far_posted": "far, posted (hidden by enough work)", "far_waited": "far, waited for",
    "mixed": "near on some lines, far on others", "undecided": "undecided",
}  # fmt: skip


def _nearness(m: Machine) -> Section | None:
    """Class of each core × form, with the count of lines; every line's own class is in the data."""
    cpus: dict[tuple, list[int]] = {}
    for c in m.classes:
        cpus.setdefault(
            (
                c.form,
                c.where,
                f"{c.near} near, {c.far} far, {c.undecided} undecided of {c.near + c.far + c.undecided} lines",
            ),
            [],
        ).append(c.cpu)
    forms: dict[tuple, list[str]] = {}
    for (form, where, counts), which in cpus.items():
        forms.setdefault((where, counts, cpu_text(c for c in which if c >= 0) or "unknown"), []).append(form)
    lines = [
        f"{join(names)}: {_PLACES[where]}; {counts}; CPU {which}" for (where, counts, which), names in forms.items()
    ]
    return (
        Section(name="near_far", title="Near or far, by core and line", lines=lines, data=list(m.classes))
        if lines
        else None
    )


class Difference(Struct, frozen=True, kw_only=True):
    """One form, alone and back to back, on two cores."""

    form: str
    width_bits: int
    cheapest_cpu: int
    cheapest_ns: float
    dearest_cpu: int
    dearest_ns: float


def _core_differences(m: Machine) -> list[Difference]:
    by_form: dict[tuple, list[Summary]] = {}
    for s in m.summaries:
        alone = s.cell.contender == "none" and s.cell.work_iters == 0 and s.cell.operation != "none"
        if alone and s.status == "ok" and s.issue and s.cpus and not s.emulated:
            params = tuple(sorted(s.cell.params.items()))
            by_form.setdefault((s.cell.form, s.cell.width_bits, s.cell.operation, params), []).append(s)
    answers = []
    for (form, width, *_), members in by_form.items():
        low, high = (pick(members, key=lambda s: s.issue.median_ns) for pick in (min, max))
        if (
            low.cpus[0] != high.cpus[0]
            and apart(low.issue, high.issue)
            and high.issue.low_ns > DEARER * low.issue.high_ns
        ):
            answers.append(
                Difference(
                    form=form,
                    width_bits=width,
                    cheapest_cpu=low.cpus[0],
                    cheapest_ns=low.issue.median_ns,
                    dearest_cpu=high.cpus[0],
                    dearest_ns=high.issue.median_ns,
                )
            )
    return answers


def _cores(m: Machine) -> Section | None:
    """Cores that differ; on mixed chips a setting per type and what one setting for all costs each."""
    differing, types = _core_differences(m), m.core_types
    lines = [
        f"{d.form}: {number(d.cheapest_ns)} ns on CPU {d.cheapest_cpu}, {number(d.dearest_ns)} ns on CPU {d.dearest_cpu}"
        for d in differing
    ]
    costs: list[choice.OneSetting] = []
    if len(types) > 1:
        costs = choice.one_setting(types)
        lines += [f"{_type(t)}, CPU {cpu_text(t.cpus)}: LINEWRIGHT_ATOMICS={t.setting}" for t in types]
        for c in costs:
            loss = (
                f"costs up to {c.cost_percent:.0f} % more than its own setting ({c.where})"
                if c.cost_percent
                else "costs nothing certain"
            )
            lines.append(f"one setting for the whole process, {c.setting}: {_type(c)} {loss}")
        if len({t.setting for t in types}) > 1:
            lines.append(
                "a process has one setting: pin it to cores of one type, or take the setting whose cost you can bear"
            )
    return (
        Section(
            name="cores",
            title="Cores that differ",
            lines=lines,
            data={"differences": differing, "types": types, "one_setting": costs},
        )
        if lines
        else None
    )


def _type(t: choice.CoreType | choice.OneSetting) -> str:
    capacity = f"capacity {t.capacity}" if t.capacity >= 0 else "unknown capacity"
    return f"cores of {capacity} ({t.midr or 'no MIDR'})"


def _several(m: Machine) -> Section | None:
    """Cells that have several figures: lines in groups, launches in groups."""
    data, lines = [], []
    for s in m.summaries:
        for kind, modes in (("lines", s.line_modes), ("launches", s.modes)):
            if len(modes) > 1 and s.status == "ok" and not s.emulated:
                groups = ", ".join(f"{number(x.median_ns)} ns ({x.share:.0%})" for x in modes)
                lines.append(
                    f"{s.cell.form}, {condition(s.cell)}, work {s.cell.work_iters}: its {kind} fall into groups: {groups}"
                )
                data.append({"id": s.id, "kind": kind, "modes": modes})
    if len(lines) > MOST_GROUPS:
        lines[MOST_GROUPS:] = [
            f"and {len(lines) - MOST_GROUPS} more cells, in --json: on a machine that others use, measure again when it is quiet"
        ]
    return (
        Section(name="bimodal", title="More than one figure: no single number is right", lines=lines, data=data)
        if lines
        else None
    )


def _built(m: Machine) -> Section | None:
    """The same choice at compile time, and in programs that are built already."""
    if m.arch != "arm64" or not m.choices:
        return None
    chosen = {c.operations: c.choice for c in m.choices}
    changed = {c.operations: c.choice for c in m.choices if c.choice != c.default}
    lines, flags = [], []
    if not changed and m.default == "load":
        flags = ["-DLW_NO_POLICY", "-march=armv8-a+lse"]
        lines.append(
            f"the default, fixed at compile time: {' '.join(flags)} (load forms inline, no branch; the program then needs LSE)"
        )
    elif set(chosen.values()) == {"llsc"}:
        flags = ["-DLW_NO_POLICY", "-march=armv8-a", "-mno-outline-atomics"]
        lines.append(f"LL/SC at compile time: {' '.join(flags)} (for operations not measured too)")
    elif "llsc" in chosen.values():
        lines.append(
            "no compiler option gives one class of operations LL/SC; -DLW_NO_POLICY -march=armv8-a -mno-outline-atomics gives it to all"
        )
    if any("store" in c or "prefetch" in c for c in changed.values()):
        lines.append(
            "no compiler option gives store forms or the prefetch: compilers do not emit STADD for an atomic add, nor PRFM; only the library's run-time setting does"
        )
    reaching = policy.check(choice.setting_of(c for c in m.choices if c.operations != "void"), "advice")
    if reaching != "default":
        lines.append(f"programs that are built already: linewright run --atomics {reaching} -- PROGRAM")
    else:
        lines.append(
            "programs that are built already: nothing to switch; their outlined atomics return values, so a choice for operations without a value does not reach them"
        )
    return Section(
        name="compile_time",
        title="Compile-time and already-built equivalents",
        lines=lines,
        data={"flags": flags, "run_atomics": reaching},
    )


def _beats(m: Machine, winner: str, loser: str) -> Against | None:
    """`winner` certainly better than `loser` somewhere and worse nowhere, among operations without a value."""
    names = choice.REACH["void"]
    members = [s for s in m.summaries if s.cell.form in (winner, loser)]
    rows = [
        r
        for r in choice.against_default(members, names[loser]).get("void", [])
        if r.form == winner and r.default_form == loser
    ]
    kinds = {r.finding for r in rows}
    return _most(rows, "better") if "better" in kinds and "worse" not in kinds else None


def _kernel(m: Machine) -> Section | None:
    """Options of the kernel that the same figures speak for; only a trial across boots can tell what they do."""
    if m.arch != "arm64" or m.emulated:
        return None
    ideas = {
        "prefetch": ("prfm_strm_stadd", "stadd", "the option that prefetches before LSE atomics (a compile-time option with a boot parameter, off by default, in kernels that have that patch)"),
        "percpu_load": ("ldadd", "stadd", "a kernel whose per-CPU operations use load forms (merged upstream; older kernels use STADD there)"),
        "no_lse": ("llsc_add", "stadd", "a kernel built with CONFIG_ARM64_USE_LSE_ATOMICS=n"),
    }  # fmt: skip
    lines, data = [], []
    for name, (winner, loser, text) in ideas.items():
        found = _beats(m, winner, loser)
        if found and (name != "no_lse" or any(c.operations == "void" and c.choice == "llsc" for c in m.choices)):
            lines.append(f"worth trying: {text}: {_told(found, m)}")
            data.append({"option": name, "evidence": found})
    if lines:
        lines.append(
            "these cannot be switched from user space: `linewright trial --save` on each boot, then `linewright compare`"
        )
    return Section(name="kernel", title="Kernel-side options", lines=lines, data=data) if lines else None


def _code(m: Machine) -> Section | None:
    """What to write in code, where no setting chooses: operations for which one form is certainly cheaper throughout."""
    lines, data = [], []
    callers: dict[tuple, list[Finding]] = {}
    for f in m.of_family(""):
        if m.arch != "arm64" or f.operation not in ("add", "fetch_add", "xchg"):
            callers.setdefault((caller_of(f), f.order), []).append(f)
    for (caller, order), found in callers.items():
        decided = [f for f in found if f.beaten]
        common = set.intersection(*(set(f.tied) for f in found))
        if decided and common:
            ranked = [form for form in decided[0].tied if form in common]
            certain = max(decided, key=lambda f: f.beaten_ns.median_ns / max(f.best_ns.median_ns, 1e-9))
            lines.append(
                f"{_need(caller, order)}: {' or '.join(ranked)}, cheapest or alike within noise wherever measured; clearest {condition(certain)}, work {certain.work_iters}: {_best(certain)}"
            )
            data.append({"operation": caller, "order": order, "forms": ranked})
        elif decided:
            lines.append(f"{_need(caller, order)}: depends on contention and work, see above")
            data.append({"operation": caller, "order": order, "forms": []})
        else:
            lines.append(f"{_need(caller, order)}: any of its forms: the difference is within noise")
            data.append({"operation": caller, "order": order, "forms": sorted(common)})
    return Section(name="code", title="In code", lines=lines, data=data) if lines else None


def _unknown(m: Machine) -> Section:
    """What these records cannot tell."""
    lines = []
    forms = {s.cell.form for s in m.summaries if s.status == "ok"}
    if m.context is None:
        lines.append("what machine this is: the records' context is missing")
    if m.emulated:
        lines.append("anything about time: an emulator ran this")
    if m.context and m.context.virtualised == "yes":
        lines.append("what the same cores do without the hypervisor: this is a virtual machine")
    if m.context and m.context.target.startswith("simulated"):
        lines.append("what silicon does: a model produced these records")
    if any(s.published for s in m.summaries):
        lines.append(
            "intervals of medians: only percentiles are known, so forms are told apart only where their ranges do not touch"
        )
    if m.arch == "arm64" and not m.emulated:
        unmeasured = [c for c in choice.REACH if not any(x.operations == c for x in m.choices)]
        if unmeasured:
            lines.append(
                f"a choice for {join([choice.CLASS_WORDS[c] for c in unmeasured])}: fewer than two forms were measured under equal conditions"
            )
        if not any(
            r.choice.startswith("llsc") or r.default_form.startswith(("llsc_", "prfm_strm_llsc_"))
            for x in m.choices
            if x.operations != "void"
            for r in x.points
        ):
            lines.append(
                "LL/SC for operations that return a value: these records hold no form of it; `linewright trial --settings default/llsc` tells for a program"
            )
        lines += [
            f"the library's prefetch is PSTL1STRM: {f} has no setting"
            for f in sorted(forms)
            if f.startswith("prfm_keep")
        ][:1]
    contended = [s for s in m.summaries if s.cell.contender == "same_line" and s.status == "ok"]
    threads = max((s.cell.threads for s in contended), default=1)
    lines.append(
        f"contention of more than {threads} threads"
        if contended
        else "anything under contention: no cell had a contender"
    )
    if contended and len(timed := {s.cpus[0] for s in m.summaries if s.cpus}) < len(
        allowed := [c for c in (m.context.cpus if m.context else []) if c.allowed]
    ):
        lines.append(f"other cores and distances: CPU {cpu_text(timed) or 'unknown'} of {len(allowed)} was timed")
    if not any(s.cell.work_iters for s in m.summaries):
        lines.append("what is hidden by work around the operation: no cell had work")
    lines.append("how your program mixes operations, contention and work: `linewright trial -- PROGRAM` measures that")
    return Section(name="unknown", title="What this measurement cannot tell", lines=lines, data=lines)


SECTIONS: tuple[Callable[[Machine], Section | None], ...] = (
    _classes, _crossings, _cores, _several, _code, _built, _kernel, _nearness, _where,
    *(_of_plans(name) for name in FAMILIES if name not in ("cache", "readers")), _cache, _readers, _unknown,
)  # fmt: skip


def one_word(record: Record) -> bool:
    """Whether a record is of an operation on one word, and so counts for where lines are near or far."""
    return not _family(record.cell.operation)


def advise(contexts: Iterable[Context], records: Iterable[Record]) -> list[Advice]:
    """One advice per machine, in the order of the records."""
    known, rows = list(contexts), list(records)
    return advise_summaries(known, summarise(known, rows), near_far(known, filter(one_word, rows)))


def advise_summaries(
    contexts: Iterable[Context], summaries: Iterable[Summary], classes: Iterable[CoreClass]
) -> list[Advice]:
    """The same from what analysis made of the records already."""
    known, every = list(contexts), list(classes)
    by_machine: dict[str, list[Summary]] = {}
    for s in summaries:
        by_machine.setdefault(s.machine_id, []).append(s)
    return [
        _of(
            machine_id,
            own,
            [c for c in known if c.machine_id == machine_id],
            [c for c in every if c.machine_id == machine_id],
        )
        for machine_id, own in by_machine.items()
    ]


def _of(machine_id: str, summaries: list[Summary], contexts: list[Context], classes: list[CoreClass]) -> Advice:
    machine = Machine(contexts, summaries, classes)
    made = [found for make in SECTIONS if (found := make(machine))]
    return Advice(
        linewright_advice=VERSION, machine_id=machine_id, cpu_model=machine.context.cpu_model if machine.context else "",
        arch=machine.arch, target=machine.context.target if machine.context else "", setting=setting(machine),
        choices=machine.choices, sections=made,
    )  # fmt: skip
