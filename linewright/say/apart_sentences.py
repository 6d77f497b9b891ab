# SPDX-License-Identifier: MIT
"""How far apart two threads' words have to lie, in sentences: the distance that suffices, whether
the other line of a pair matters, and what is undecided."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from linewright import numbers
from linewright.analysis.bytes_apart import ApartAnswers, WordsApart, distance_of
from linewright.analysis.comparison import Answer, Comparison, Side
from linewright.analysis.machine_answers import MachineAnswers
from linewright.families import SPACING
from linewright.say.phrases import DISTANCES, instead_text, measure_again, more_text
from linewright.say.sentence import Sentence, sentence

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
    if found.enough is not None:
        text = enough_text(found)
    elif found.open:
        text = f"undecided how far apart two threads' words have to lie: {_bytes(found.open)} "
        text += "are not shown to be enough"
        text += f", {found.too_near} cost {_worst_text(found)}" if found.too_near else ""
        text += f"; {_more(_at(found, found.open, 'undecided'), m)}"
    else:
        text = f"no distance up to {found.too_near} bytes is enough: {found.too_near} cost "
        text += _worst_text(found)
    return sentence(text, SPACING.name, found.ids, bytes_apart=float(found.enough or 0))


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
    c = near.contrast
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
        (worst,), c = pairs, pairs[0].contrast
        times = numbers.about_times(c.value, c.low, c.high)
        text = f"the other line of a pair matters: {at}, {who(worst.first)} take "
        text += f"{numbers.quantity(worst.first.ns.median_ns, 'ns')} inside a pair of lines and "
        text += f"{numbers.quantity(worst.second.ns.median_ns, 'ns')} across two, {times} as much"
    elif found.neighbour:
        open_ones = [p for p in pairs if p.answer == "undecided"]
        text = f"undecided whether the other line of a pair matters: {_more(open_ones, m)}"
    else:
        return
    yield sentence(text, SPACING.name, [i for p in pairs for i in p.ids])


def _by_kind(found: ApartAnswers) -> Iterator[Sentence]:
    """What each kind needs, where not all need the same; both halves together where they do."""
    if len({kind.enough for kind in found.kinds}) < 2:
        return
    alike: dict[tuple[str, str, str], list[WordsApart]] = {}
    for kind in found.kinds:
        needs = (
            f"{kind.enough} bytes are enough"
            if kind.enough
            else "no distance is shown to be enough"
        )
        needs += f", {kind.too_near} cost more" if kind.too_near else ""
        where = DISTANCES.get(kind.situation.placement, "")
        alike.setdefault((who(kind), where, needs), []).append(kind)
    for (name, where, needs), kinds in alike.items():
        half = f"64 bytes up {_HALVES[kinds[0].half]}" if len({k.half for k in kinds}) == 1 else ""
        lead = ", ".join(filter(None, (name, half, where)))
        yield sentence(needs, SPACING.name, [i for kind in kinds for i in kind.ids], lead=lead)


def _beside_nothing(found: ApartAnswers) -> Iterator[Sentence]:
    """Where even the farthest words cost more than a second thread that touches nothing: then the
    threads share more than lines, and the farthest is no measure of that."""
    more = [k for k in found.kinds if k.placebo and k.placebo.slower]
    if more:
        worst = max(more, key=lambda k: k.placebo.contrast.value)
        text = f"even {distance_of(worst.placebo)} bytes apart, {who(worst)} take "
        text += f"{worst.placebo.words()} than beside a second thread "
        text += "that touches no memory: the threads share more than cache lines"
        yield sentence(text, SPACING.name, worst.ids)
