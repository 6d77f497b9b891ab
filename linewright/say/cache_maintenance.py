"""Cache maintenance in sentences: which instruction, what a wait costs, from which entry size one
wait for a whole list stops to matter, and whether this kernel waits once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linewright import numbers
from linewright.analysis import cache_fit, dma_wait
from linewright.analysis.cache_fit import Fit, Saving
from linewright.analysis.hypothesis_tests import FEWEST_LAUNCHES
from linewright.analysis.summary import Summary
from linewright.families import CACHE, DMA
from linewright.say.phrases import measure_on
from linewright.say.sentence import (
    Clause,
    Sentence,
    said,
)
from linewright.schema import Context

TRAPPED_NS = 200.0
"""Per line on clean lines: more than any processor takes, as much as a system call does."""


def cache_sentences(
    summaries: Iterable[Summary], contexts: Sequence[Context] = ()
) -> list[Sentence]:
    """Which instruction, what one wait is worth, at which entry size it stops to matter; only what
    the intervals support, and nothing where no list can be measured."""
    lists = [summary for summary in summaries if cache_fit.concerns(summary.cell)]
    passes = cache_fit.usable(lists)
    found = cache_fit.fits(passes, contexts[0].line_bytes if contexts else 64)
    arch = passes[0].arch if passes else ""
    texts = [
        *_instruction(found),
        *_wait(found),
        *_end(cache_fit.savings(passes)),
        *_trapped(found, arch),
    ]
    if not texts and any(summary.status != "unavailable" for summary in lists):
        texts = [
            "what a line costs, and what a wait, takes lists of several lengths: "
            f"{measure_on(contexts)} --plan cache"
        ]
    return [
        Sentence(lead="cache maintenance", clauses=[Clause(text=text)], family=CACHE.name)
        for text in texts
    ]


def _dirty(found: Iterable[Fit]) -> list[Fit]:
    return [f for f in found if f.group.state == "dirty_beyond" and f.group.align_bytes == 0]


def _instruction(found: Sequence[Fit]) -> list[str]:
    """The cheapest instruction that keeps lines and the cheapest of all, on dirty lines, where they
    are apart."""
    here = _dirty(found)
    if len(here) < 2:
        return []
    best, *others = sorted(here, key=lambda f: f.per_line.value)
    slower = [f for f in others if f.per_line.low > best.per_line.high]
    text = f"{best.group.form} writes dirty lines back in {numbers.of(best.per_line, 'ns')} each"
    if slower:
        text += f", less than {_each(slower)}"
    rest = [f for f in others if f not in slower]
    if rest:
        text += f"; undecided against {_each(rest)}"
    return [text]


def _each(found: Iterable[Fit]) -> str:
    return numbers.join([f"{f.group.form} {numbers.of(f.per_line, 'ns')}" for f in found])


def _wait(found: Sequence[Fit]) -> list[str]:
    return [
        f"a wait behind {f.group.form} costs {numbers.of(f.per_wait, 'ns')} on "
        f"{f.group.state} lines, {_in_lines(f)}"
        for f in _dirty(found)
        if f.per_line.low > 0 and f.per_wait.low > 0
    ]


def _in_lines(f: Fit) -> str:
    """A wait in lines of the same instruction."""
    lines = f.per_wait.value / f.per_line.value
    return (
        f"as much as {lines:.0f} lines"
        if lines >= 1.5
        else f"{'about as much as' if lines >= 0.75 else 'less than'} one line"
    )


def _end(every: Sequence[Saving]) -> list[str]:
    texts = []
    groups = sorted(
        {s.group for s in every if s.group.state == "dirty_beyond" and s.group.align_bytes == 0}
    )
    for group in groups:
        own = [s for s in every if s.group == group]
        gains = [s for s in own if s.matters]
        if gains:
            most = max(gains, key=lambda s: s.percent.low)
            text = (
                f"{group.form}: one wait for the list saves {most.percent.value:.0f} % at "
                f"{most.entry_bytes} bytes ({most.percent.low:.0f} to {most.percent.high:.0f} %)"
            )
            end = cache_fit.vanishes_at(own)
            texts.append(
                text + (f"; from entries of {end} bytes on nothing that matters" if end else "")
            )
        elif all(s.negligible for s in own):
            texts.append(
                f"{group.form}: one wait for the list saves less than "
                f"{cache_fit.NEGLIGIBLE_PERCENT:g} % at every size measured"
            )
        elif any(s.percent is None for s in own):
            texts.append(
                f"{group.form}: whether one wait for the list saves anything needs "
                f"{FEWEST_LAUNCHES} launches"
            )
        else:
            widest = max(own, key=lambda s: s.percent.high - s.percent.low).percent
            texts.append(
                f"{group.form}: undecided whether one wait for the list saves anything:"
                f" {widest.low:.0f} to {widest.high:.0f} % remains possible"
            )
    return texts


def _trapped(found: Sequence[Fit], arch: str) -> list[str]:
    """Only arm64 kernels trap cache maintenance, for errata; on other architectures a long time has
    other causes."""
    slow = [
        f for f in found if f.group.state in ("absent", "clean") and f.per_line.low > TRAPPED_NS
    ]
    cause = ": as much as a system call, so the kernel may trap it" if arch == "arm64" else ""
    return [
        f"{f.group.form} takes {numbers.of(f.per_line, 'ns')} on {f.group.state} lines{cause}"
        for f in slow
    ]


def dma_sentences(members: Sequence[Summary]) -> list[Sentence]:
    """For each operation what its lists tell, and the time of the longest list of small entries."""
    mappings = [s for s in members if s.cell.operation in DMA.operations and s.exposed is not None]
    if not mappings:
        return []
    if any(s.cell.form in ("clwb", "clflushopt", "clflush") for s in members):
        return [
            said(
                "this kernel maintains no caches for DMA: devices of this architecture see them",
                DMA.name,
            )
        ]
    answers = []
    for found, words in (
        ("once", "waits once per list"),
        ("each", "waits behind each entry"),
        ("", "undecided"),
    ):
        named = sorted(
            {s.cell.operation for s in mappings if _of_operation(members, mappings, s) == found}
        )
        if named and found:
            answers.append(said(f"this kernel {words} in {numbers.join(named)}", DMA.name))
        elif named:
            answers.append(
                said(
                    f"whether this kernel waits once per list in {numbers.join(named)} "
                    "is undecided",
                    DMA.name,
                )
            )
    longest = max(mappings, key=lambda s: int(s.cell.params.get("entries", 0)))
    params = longest.cell.params
    answers.append(
        said(
            f"a list of {params.get('entries')} entries of {params.get('entry_bytes')} bytes costs "
            f"{numbers.figure(longest.exposed.median_ns)} ns more in {longest.cell.operation} than "
            "for a coherent device",
            DMA.name,
            ns=longest.exposed.median_ns,
        )
    )
    return answers


def _of_operation(members: Sequence[Summary], mappings: Sequence[Summary], one: Summary) -> str:
    """What the lists of one operation say together; contradictions are undecided."""
    found = {
        dma_wait.waits(members, s) for s in mappings if s.cell.operation == one.cell.operation
    } - {""}
    return found.pop() if len(found) == 1 else ""
