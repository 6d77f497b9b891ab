# SPDX-License-Identifier: MIT
"""What families with questions of their own say: cache maintenance (which instruction, what a wait
costs and whether this kernel waits once), how far apart two threads' words have to lie, by which
hint threads wait, and what readers cost with their updaters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from linewright import numbers
from linewright.analysis import cache_fit
from linewright.analysis.bytes_apart import ApartAnswers, WordsApart, distance_of
from linewright.analysis.cache_fit import CheapestInstruction, Fit, OneWait
from linewright.analysis.comparison import FEWEST_LAUNCHES, Answer, Comparison, Side
from linewright.analysis.machine_answers import MachineAnswers, hint_choice
from linewright.analysis.questions import QUESTIONS, hint_of
from linewright.analysis.reader_cost import Trade, reader_answers, sections_per_update
from linewright.analysis.summary import Summary, grouped
from linewright.forms import CACHE, DMA, READERS, SPACING, WAIT
from linewright.say.cell_rows import ENDS, DrawnCell, per_part, rounded
from linewright.say.document import Clause, Sentence, names_of, sentence
from linewright.say.phrases import (
    DISTANCES,
    instead_text,
    measure_again,
    measure_on,
    more_text,
    sharers_of,
)


def cache_sentences(m: MachineAnswers) -> list[Sentence]:
    """Which instruction, what one wait is worth, at which entry size it stops to matter; only what
    the intervals support, and nothing where no list can be measured."""
    lists = [s for s in m.summaries if cache_fit.concerns(s.cell) and s.status != "unavailable"]
    cheapest = cache_fit.cheapest_instruction(m.cache_fits, m.select("operations"))
    # Only arm64 kernels trap it, for errata; elsewhere a long time has other causes.
    cause = ": as much as a system call, so the kernel may trap it" if m.arch == "arm64" else ""
    texts: list[tuple[str, Sequence[Any]]] = [
        *([(_instruction(cheapest), [cheapest])] if cheapest else []),
        *((_wait(f), [f]) for f in cache_fit.on_dirty_lines(m.cache_fits) if _has_wait(f)),
        *((_one_wait(found), [found]) for found in cache_fit.one_wait(m.select("waits"))),
        *((f"{_takes(f)}{cause}", [f]) for f in cache_fit.trapped(m.cache_fits)),
    ]
    if not texts and lists:
        text = "lists of several lengths show what a line costs, and what a wait: "
        texts = [(f"{text}{measure_on(m.contexts)} --plan cache", lists)]
    return [sentence(text, CACHE.name, of, lead="cache maintenance") for text, of in texts]


def _instruction(found: CheapestInstruction) -> str:
    """The cheapest instruction on dirty lines, against the others."""
    best = found.best
    per_line = numbers.format_interval(best.per_line, "ns")
    text = f"{best.group.form} writes dirty lines back in {per_line} each"
    text += f", less than {_each(found.slower)}" if found.slower else ""
    same = [f"{f.group.form} the same within {numbers.at_most(share)}" for f, share in found.same]
    text += f"; {numbers.join(same)}" if same else ""
    return text + (f"; undecided against {_each(found.undecided)}" if found.undecided else "")


def _each(found: Iterable[Fit]) -> str:
    return numbers.join(
        [f"{f.group.form} {numbers.format_interval(f.per_line, 'ns')}" for f in found]
    )


def _has_wait(f: Fit) -> bool:
    return f.per_line.low > 0 and f.per_wait.low > 0


def _wait(f: Fit) -> str:
    """What a wait costs, and in lines of the same instruction."""
    lines = f.per_wait.value / f.per_line.value
    much = f"as much as {lines:.0f} lines"
    if lines < 1.5:
        much = f"{'about as much as' if lines >= 0.75 else 'less than'} one line"
    per_wait = numbers.format_interval(f.per_wait, "ns")
    return f"a wait behind {f.group.form} costs {per_wait} on {f.group.state} lines, {much}"


def _one_wait(found: OneWait) -> str:
    """What one wait for the whole list saves with one instruction."""
    saving = "one wait for the list saves"
    percent = cache_fit.saved(found.clearest) if found.clearest else None
    if found.answer == "cheaper":
        end, (_, size, _) = found.vanishes_at, cache_fit.list_of(found.clearest.second)
        return (
            f"{found.form}: {saving} {percent.value:.0f} % at {size} bytes "
            f"({percent.low:.0f} to {percent.high:.0f} %)"
            + (f"; from entries of {end} bytes on nothing that matters" if end else "")
        )
    if found.answer == "same":
        share = f"{100 * QUESTIONS['waits'].same.share:g}"
        return f"{found.form}: {saving} less than {share} % at every size measured"
    if percent is None:
        return f"{found.form}: whether {saving} anything needs {FEWEST_LAUNCHES} launches"
    return (
        f"{found.form}: undecided whether {saving} anything: {percent.low:.0f} to "
        f"{percent.high:.0f} % remains possible"
    )


def _takes(f: Fit) -> str:
    per_line = numbers.format_interval(f.per_line, "ns")
    return f"{f.group.form} takes {per_line} on {f.group.state} lines"


_WAITS = {
    "once": "this kernel waits once per list in {}",
    "each": "this kernel waits behind each entry in {}",
    "": "whether this kernel waits once per list in {} is undecided",
}


def dma_sentences(members: Sequence[Summary]) -> list[Sentence]:
    """For each operation what its lists tell, and the time of the longest list of small entries."""
    longest = cache_fit.longest_mapping(members)
    if longest is None:
        return []
    if cache_fit.devices_see_caches(members):
        text = "this kernel maintains no caches for DMA: devices of this architecture see them"
        return [sentence(text, DMA.name, [longest])]
    found, answers = cache_fit.mapping_waits(members), []
    for answer, text in _WAITS.items():
        if named := [operation for operation, own in found.items() if own == answer]:
            ids = [i for operation in named for i in cache_fit.mapping_ids(members, operation)]
            answers.append(sentence(text.format(numbers.join(named)), DMA.name, ids))
    params, ns = longest.cell.params, longest.exposed.median_ns
    cost = (
        f"a list of {params.get('entries')} entries of {params.get('entry_bytes')} bytes costs "
        f"{numbers.figure(ns)} ns more in {longest.cell.operation} than for a coherent device"
    )
    return [*answers, sentence(cost, DMA.name, [longest], ns=ns)]


WAITS = {"each": "a wait behind each entry", "once": "one wait for the list"}
"""How a list is waited for, as charts name it."""


def list_figures(cells: Iterable[DrawnCell], m: MachineAnswers) -> Iterator[dict[str, Any]]:
    """What charts draw of each list that was maintained: its time for each line, and what the fit
    gives for that."""
    for cell, row in cells:
        if not (cache_fit.concerns(cell) and row["status"] == "ok" and (row["ns"] or 0) > 0):
            continue
        lines, entries, waits = cache_fit.terms_of(cell, m.line_bytes)
        group = cache_fit.group_of(cell)
        fit = next((fit for fit in m.cache_fits if fit.group == group), None)
        yield row | {
            "state": group.state,
            "align": group.align_bytes,
            "bytes": int(cell.params["entry_bytes"]),
            "entries": entries,
            "lines": lines,
            "wait": WAITS[str(cell.params["wait"])],
            **per_part(row, lines),
            "fitted": rounded(fit.pass_ns(lines, entries, waits) / lines) if fit else None,
        }


def saving_figures(label: str, m: MachineAnswers) -> Iterator[dict[str, Any]]:
    """What one wait saves of each list."""
    for saving in m.select("waits"):
        group, size, entries = cache_fit.list_of(saving.second)
        if percent := cache_fit.saved(saving):
            ends = zip(ENDS, (percent.value, percent.low, percent.high), strict=True)
            yield {
                "series": label,
                "form": group.form,
                "state": group.state,
                "align": group.align_bytes,
                "bytes": size,
                "wait": "",
                "entries": entries,
                **{f"saved{end}": rounded(part) for end, part in ends},
                "each": rounded(saving.second.ns.median_ns / 1e3),
                "once": rounded(saving.first.ns.median_ns / 1e3),
            }


_WHO = {
    "apart_plain_add": "two writers that add plainly",
    "apart_c11_add": "two writers that add atomically",
    "apart_reader": "a reader beside a writer",
    "apart_writer": "a writer beside a reader",
    "apart_shared": "a writer beside a word that both write",
}
_HALVES = {"lower": "inside a pair of lines", "upper": "across two pairs"}
"""Where a word 64 bytes up from one in that half lies."""


def apart_sentences(m: MachineAnswers) -> list[Sentence]:
    """The decision first, then the pair of lines, then what each kind needs where they differ."""
    found = m.bytes_apart
    if not found.kinds:
        return []
    return [_decision(found, m), *_neighbour(found, m), *_by_kind(found), *_beside_nothing(found)]


def enough_text(found: ApartAnswers) -> str:
    """The distance that suffices, what more would gain at most, and what less costs."""
    more = numbers.at_most(found.within)
    text = f"{found.enough} bytes between two threads' words are enough: more gains at most {more}"
    if found.open:
        text += f"; undecided: {_bytes(found.open)}"
    if found.too_near:
        text += f"; {found.too_near} bytes cost {_worst_text(found)}"
    return text


def _decision(found: ApartAnswers, m: MachineAnswers) -> Sentence:
    near = f"{found.too_near} cost {_worst_text(found)}" if found.too_near else ""
    if found.enough is not None:
        text = enough_text(found)
    elif found.open:
        text = f"undecided how far apart two threads' words have to lie: {_bytes(found.open)} are "
        text += f"not shown to be enough{near and f', {near}'}"
        text += f"; {_more(_at(found, found.open, 'undecided'), m)}"
    else:
        text = f"no distance up to {found.too_near} bytes is enough: {near}"
    return sentence(text, SPACING.name, [found], bytes_apart=float(found.enough or 0))


def _bytes(distances: Iterable[int]) -> str:
    return f"{numbers.join(list(map(str, distances)))} bytes"


def _more(open_ones: list[Comparison], m: MachineAnswers) -> str:
    """What would decide: launches, or the command where a claim has too few of them."""
    if any(c.why != "wide" for c in open_ones):
        return measure_again(m)
    return more_text(open_ones)


def _at(found: ApartAnswers, distances: Container[int], answer: Answer) -> list[Comparison]:
    every = (d for kind in found.kinds for d in kind.nearer)
    return [d for d in every if distance_of(d) in distances and d.answer == answer]


def _worst_text(found: ApartAnswers) -> str:
    """What the largest distance that is too near costs the kind that it costs most."""
    near = max(_at(found, [found.too_near], "slower"), key=lambda d: d.contrast.value)
    c = near.shown
    times = numbers.about_times(c.value, c.low, c.high)
    return f"{who(near.first)} {times} as much ({instead_text(near)})"


def who(of: WordsApart | Side) -> str:
    """Who does what, by the form where an operation has several."""
    return _WHO.get(of.form) or _WHO[of.operation]


def _neighbour(found: ApartAnswers, m: MachineAnswers) -> Iterator[Sentence]:
    """Whether the other line of a pair matters."""
    pairs, at = found.pairs, "64 bytes apart"
    if found.neighbour == "none":
        bound = numbers.at_most(max(0.0, *(p.contrast.high - 1 for p in pairs)))
        text = f"the other line of a pair does not matter: {at}, words inside a pair of lines cost "
        text += f"at most {bound} more than words across two pairs"
    elif found.neighbour == "matters":
        pairs = [max(pairs, key=lambda p: (p.slower, p.contrast.value))]
        (worst,), c = pairs, pairs[0].shown
        inside, across = (
            numbers.quantity(side.ns.median_ns, "ns") for side in (worst.first, worst.second)
        )
        times = numbers.about_times(c.value, c.low, c.high)
        text = f"the other line of a pair matters: {at}, {who(worst.first)} take {inside} inside a "
        text += f"pair of lines and {across} across two, {times} as much"
    elif found.neighbour:
        open_ones = [p for p in pairs if p.answer == "undecided"]
        text = f"undecided whether the other line of a pair matters: {_more(open_ones, m)}"
    else:
        return
    yield sentence(text, SPACING.name, pairs)


def _by_kind(found: ApartAnswers) -> Iterator[Sentence]:
    """What each kind needs, where not all need the same; both halves together where they do."""
    if len({kind.enough for kind in found.kinds}) < 2:
        return
    for (name, where, needs), kinds in grouped(found.kinds, _needs).items():
        half = f"64 bytes up {_HALVES[kinds[0].half]}" if len({k.half for k in kinds}) == 1 else ""
        lead = ", ".join(filter(None, (name, half, where)))
        yield sentence(needs, SPACING.name, kinds, lead=lead)


def _needs(kind: WordsApart) -> tuple[str, str, str]:
    """Who, where, and what is enough."""
    enough = (
        f"{kind.enough} bytes are enough" if kind.enough else "no distance is shown to be enough"
    )
    more = f", {kind.too_near} cost more" if kind.too_near else ""
    return who(kind), DISTANCES.get(kind.situation.placement, ""), f"{enough}{more}"


def _beside_nothing(found: ApartAnswers) -> Iterator[Sentence]:
    """Where even the farthest words cost more than a second thread that touches nothing: then the
    threads share more than lines, and the farthest is no measure of that."""
    more = [k for k in found.kinds if k.placebo and k.placebo.slower]
    for worst in sorted(more, key=lambda k: -k.placebo.contrast.value)[:1]:
        yield sentence(
            f"even {distance_of(worst.placebo)} bytes apart, {who(worst)} take "
            f"{worst.placebo.words()} than beside a second thread that touches no memory: the "
            "threads share more than cache lines",
            SPACING.name,
            [worst],
        )


def wait_sentences(m: MachineAnswers) -> list[Sentence]:
    """The hint to set, with its margin where that is least; nothing where none is shown to be
    better."""
    found = hint_choice(m)
    if found is None:
        return []
    least, usual = found.woken[0], hint_of(found.woken[0].second.form)
    less = numbers.times(least.shown.low, least.shown.high)
    longer = max(0.0, *(c.contrast.high - 1 for c in found.held))
    where = " where that gains least" * (len(found.woken) > 1)
    text = (
        f"LINEWRIGHT_WAIT={found.hint}: two wake-ups take {instead_text(least)} by {usual} "
        f"{sharers_of(least)}{where} ({less}); sections of the thread that is waited for take at "
        f"most {numbers.at_most(longer)} longer, at {numbers.count(len(found.held), 'point')} "
        "measured; power was not measured"
    )
    return [sentence(text, WAIT.name, [found], ratio=least.contrast.value)]


def reader_sentences(m: MachineAnswers) -> list[Sentence]:
    """Which readers scale and which do not, and what an updater waits for them."""
    found = reader_answers(m.select("readers"))
    scaling = [_scaling(n, found.flat.get(n, []), found.grows.get(n, [])) for n in found.counts]
    return scaling + [_spoken(t) for t in found.trades]


def _scaling(readers: int, flat: Sequence[Comparison], grows: Sequence[Comparison]) -> Sentence:
    clauses = []
    if flat:
        names = numbers.join([r.first.form for r in flat])
        bound = numbers.at_most(max(r.within for r in flat))
        text = f"{names} cost{'s' if len(flat) == 1 else ''} each reader the same as alone"
        clauses.append(Clause(text=f"{text}, within {bound}"))
    if grows:
        more = {r.first.form: r.shown for r in grows}
        parts = [
            f"{form} {numbers.about_times(c.value, c.low, c.high)}" for form, c in more.items()
        ]
        text = f"each costs more than alone: {numbers.join(parts)}"
        clauses.append(Clause(text=text, numbers={form: c.value for form, c in more.items()}))
    return Sentence(
        lead=f"with {readers} readers",
        clauses=clauses,
        family=READERS.name,
        cells=names_of(i for r in (*flat, *grows) for i in reversed(r.ids)),
    )


def _spoken(trade: Trade) -> Sentence:
    reader, update = trade
    readers, cheap = reader.situation.threads, reader.cheapest.form
    beside = f"beside {readers} busy reader{'s' if readers > 1 else ''}"
    sections = sections_per_update(trade)
    # Two significant digits: what its interval supports.
    low, high = (
        f"{float(f'{end:.2g}'):,.0f}" if end >= 1 else "1" for end in (sections.low, sections.high)
    )
    wait = update.size.median_ns
    text = (
        f"readers of {cheap} pay from {high} sections per update on (interval {low} to {high}): "
        f"each takes {numbers.figure(reader.size.median_ns)} ns less than one of "
        f"{update.cheapest.form}, and an updater waits "
        f"{numbers.span_of_cost(wait, wait)} longer, {beside}"
    )
    sides = ("first", "second") if reader.cheaper else ("second", "first")
    cells = [getattr(c, side) for side in sides for c in trade]
    return sentence(text, READERS.name, cells, sections=sections.value)
