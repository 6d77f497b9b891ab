# SPDX-License-Identifier: MIT
"""Cache maintenance in sentences: which instruction, what a wait costs, from which entry size one
wait for a whole list stops to matter, and whether this kernel waits once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from linewright import numbers
from linewright.analysis import cache_fit
from linewright.analysis.cache_fit import CheapestInstruction, Fit, OneWait
from linewright.analysis.comparison import FEWEST_LAUNCHES
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary
from linewright.families import CACHE, DMA
from linewright.say.cell_figures import ENDS, DrawnCell, rounded
from linewright.say.phrases import measure_on
from linewright.say.sentence import Sentence, sentence


def cache_sentences(m: MachineAnswers) -> list[Sentence]:
    """Which instruction, what one wait is worth, at which entry size it stops to matter; only what
    the intervals support, and nothing where no list can be measured."""
    lists = [s for s in m.summaries if cache_fit.concerns(s.cell) and s.status != "unavailable"]
    cheapest = cache_fit.cheapest_instruction(m.cache_fits, m.select("operations"))
    texts = [
        *([(_instruction(cheapest), cheapest.ids)] if cheapest else []),
        *_wait(m.cache_fits),
        *((_one_wait(found), found.ids) for found in cache_fit.one_wait(m.select("waits"))),
        *((_trapped(f, m.arch), f.ids) for f in cache_fit.trapped(m.cache_fits)),
    ]
    if not texts and lists:
        text = "what a line costs, and what a wait, takes lists of several lengths: "
        text += f"{measure_on(m.contexts)} --plan cache"
        texts = [(text, [s.id for s in lists])]
    return [sentence(text, CACHE.name, ids, lead="cache maintenance") for text, ids in texts]


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


def _wait(found: Sequence[Fit]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (
            f"a wait behind {f.group.form} costs {numbers.format_interval(f.per_wait, 'ns')} on "
            f"{f.group.state} lines, {_in_lines(f)}",
            f.ids,
        )
        for f in cache_fit.on_dirty_lines(found)
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


def _trapped(f: Fit, arch: str) -> str:
    """Only arm64 kernels trap cache maintenance, for errata; on other architectures a long time has
    other causes."""
    cause = ": as much as a system call, so the kernel may trap it" if arch == "arm64" else ""
    per_line = numbers.format_interval(f.per_line, "ns")
    return f"{f.group.form} takes {per_line} on {f.group.state} lines{cause}"


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
        return [sentence(text, DMA.name, [longest.id])]
    found = cache_fit.mapping_waits(members)
    answers = [
        sentence(
            text.format(numbers.join(named)),
            DMA.name,
            [i for operation in named for i in cache_fit.mapping_ids(members, operation)],
        )
        for answer, text in _WAITS.items()
        if (named := [operation for operation, own in found.items() if own == answer])
    ]
    params, ns = longest.cell.params, longest.exposed.median_ns
    cost = (
        f"a list of {params.get('entries')} entries of {params.get('entry_bytes')} bytes costs "
        f"{numbers.figure(ns)} ns more in {longest.cell.operation} than for a coherent device"
    )
    return [*answers, sentence(cost, DMA.name, [longest.id], ns=ns)]


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
        times = (row[f"ns{end}"] for end in ENDS)
        per_line = [None if ns is None else rounded(ns / lines) for ns in times]
        yield row | {
            "state": group.state,
            "align": group.align_bytes,
            "bytes": int(cell.params["entry_bytes"]),
            "entries": entries,
            "lines": lines,
            "wait": WAITS[str(cell.params["wait"])],
            **dict(zip((f"ns{end}" for end in ENDS), per_line, strict=True)),
            "fitted": rounded(fit.pass_ns(lines, entries, waits) / lines) if fit else None,
        }


def saving_figures(label: str, m: MachineAnswers) -> Iterator[dict[str, Any]]:
    """What one wait saves, of aligned entries of each size the longest list."""
    longest: dict[tuple, int] = {}
    savings = m.select("waits")
    for group, size, entries in (cache_fit.list_of(s.second) for s in savings):
        longest[group, size] = max(longest.get((group, size), 0), entries)
    for saving in savings:
        group, size, entries = cache_fit.list_of(saving.second)
        percent = cache_fit.saved(saving)
        if percent and group.align_bytes == 0 and entries == longest[group, size]:
            yield {
                "series": label,
                "form": group.form,
                "state": group.state,
                "bytes": size,
                "entries": entries,
                "saved": rounded(percent.value),
                "saved_low": rounded(percent.low),
                "saved_high": rounded(percent.high),
                "each": rounded(saving.second.ns.median_ns / 1e3),
                "once": rounded(saving.first.ns.median_ns / 1e3),
            }
