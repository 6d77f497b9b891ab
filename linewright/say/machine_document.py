# SPDX-License-Identifier: MIT
"""The document of one machine: what its operations cost, in a matrix and a price list, what to
write and to set, and what is undecided."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from linewright import numbers
from linewright.analysis import machine_figures
from linewright.analysis.machine_answers import (
    MachineAnswers,
    add_cost,
    far_add,
    machines_with_answers,
)
from linewright.analysis.machine_figures import MatrixColumn, Price, Row
from linewright.analysis.summary import Summary
from linewright.numbers import cpu_text
from linewright.say import cell_rows
from linewright.say.advice import setting, use
from linewright.say.cell_tables import cell_blocks
from linewright.say.document import (
    GIVES_WAY,
    LIMITS,
    Audience,
    Block,
    Cost,
    Document,
    Sentence,
    Topic,
    document_of,
    of_run,
    rank_at,
    render_all,
    sentence,
    sentence_as_written,
    unique,
)
from linewright.say.machine_lines import (
    EMULATED,
    errors_text,
    limits,
    machine_facts,
    undecided_sentences,
    with_errors,
)
from linewright.say.machine_tables import heading, matrix_table, price_name, price_table, row_name
from linewright.say.phrases import FAR, figure_cell, measure_on, modes_text, sharers_of
from linewright.say.verdict import areas, topics, verdict_of, verdict_sentences
from linewright.say.words import FEW_LAUNCHES
from linewright.schema import Context

OTHER_PLANS = 8
"""Sentences of the verdict that stand for the headline where no operation on one line was
measured."""


def documents(
    summaries: Iterable[Summary],
    contexts: Iterable[Context] | Mapping[str, Context],
    audience: Audience = "everyone",
) -> list[Document]:
    """One document for each machine, in the order of the records."""
    return [document(m, audience) for m in machines_with_answers(summaries, contexts)]


def for_programs(summaries: Sequence[Summary], contexts: Sequence[Context]) -> dict[str, object]:
    """All of it for programs: the contexts, a row per cell as in the CSV, the verdict, and the
    document of each machine."""
    return {
        "contexts": contexts,
        "cells": cell_rows.of_cells(summaries),
        "verdict": render_all(verdict_sentences(summaries, contexts)),
        "documents": documents(summaries, contexts),
    }


def document(m: MachineAnswers, audience: Audience = "everyone") -> Document:
    """The document of one machine: what everyone is shown, then the blocks for the audience."""
    columns, decision = machine_figures.columns_of(m), setting(m)
    (choice,) = with_errors([decision.sentence], m.summaries)
    decision = replace(decision, sentence=choice)
    launches = max((s.launches for s in m.summaries if s.has_figures), default=0)
    coarse = bool(m.too_few_launches)
    where = "; linewright advise shows where" * (decision.why == "depends")
    choice = sentence(choice.text + where, cells=choice.cells, basis=choice.basis)
    rows, prices = machine_figures.rows(m, columns), machine_figures.prices(m)
    whole = document_of(
        machine_id=m.summaries[0].machine_id,
        arch=m.arch,
        target=m.context.target if m.context else "",
        decision=decision,
        title=m.context.cpu_model if m.context else "unknown machine",
        facts=of_run(machine_facts(m.context) if m.context else []),
        run=of_run([*_run(m, launches), *[f"coarse: {FEW_LAUNCHES}"] * coarse]),
        coarse=coarse,
        warning=_warning(m),
        headline=with_errors(_headline(m, columns), m.summaries),
        uses=with_errors(use(m), m.summaries),
        settings=[choice] if columns else [],
        undecided=undecided_sentences(m.on_screen, m),
        limits=limits(m),
        missing=_missing(m),
        tables=[
            *([matrix_table(columns, rows, m.width_bits)] if rows else []),
            *([price_table(prices)] if prices else []),
        ],
        costs=[*_costs(columns, rows, prices)],
    )
    ranked = _ranked(whole.blocks, "everyone" if columns or m.emulated else "short")
    seen = [b for b in ranked if audience != "cells" or b.audience != "short"]
    return replace(whole, blocks=[*seen, *_FOR.get(audience, lambda m: ())(m)])


def _ranked(blocks: Iterable[Block], of_headline: Audience) -> Iterator[Block]:
    """The blocks, the headline for its audience, with the ranks of the sentences that a screen may
    leave out; those on what is missing, undecided or withheld are one list."""
    places = {name: itertools.count() for name in GIVES_WAY}
    for block in blocks:
        of = "limits" if block.name in LIMITS else block.name
        if isinstance(block, Topic) and of in places:
            block = replace(block, ranks=[rank_at(next(places[of]), of) for _ in block.lines])
        yield replace(block, audience=of_headline) if block.name == "headline" else block


def _costs(
    columns: Sequence[MatrixColumn], rows: Sequence[Row], prices: Sequence[Price]
) -> Iterator[Cost]:
    """The back-to-back figures of the matrix, then each remedy's, contended where that was
    measured."""
    for row, column in itertools.product(rows, columns):
        entry = row.entries.get(column.key)
        if column.key != "work" and entry and entry.default:
            name = f"{row_name(row)}, {heading(column)}"
            yield Cost(name=name, cell=figure_cell(entry.default))
    for price in prices:
        cost = price.contended or price.alone
        if cost and not price.reference:
            name = price_name(price) + ", 2 CPUs" * bool(price.contended)
            yield Cost(name=name, cell=figure_cell(cost))


def _headline(m: MachineAnswers, columns: Sequence[MatrixColumn]) -> list[Sentence]:
    """What an atomic add costs; of records of another kind, the first sentences of the verdict."""
    if columns or m.emulated:
        return [*headline(m), *at_the_interconnect(m)]
    found = verdict_of(m)
    more = len(found) - OTHER_PLANS
    rest = f"{numbers.count(more, 'more finding')}: linewright show --all FILE"
    cells = [i for s in found[OTHER_PLANS:] for i in s.cells]
    return found[:OTHER_PLANS] + ([sentence(rest, cells=cells)] if more > 0 else [])


def _run(m: MachineAnswers, launches: int) -> list[str]:
    timed = cpu_text({s.cpus[0] for s in m.summaries if s.cpus})
    parts = [f"plan {plan}" for plan in unique(c.plan for c in m.contexts)]
    parts += [f"CPU {timed} timed"] if timed else []
    if launches and not m.published:
        planned = max((c.launches for c in m.contexts), default=0)
        of = f"{launches} of {planned} launches"
        count = of if launches < planned else numbers.count(launches, "launch", "launches")
        span = max((s.launch_span_s for s in m.summaries if s.launch_span_s is not None), default=0)
        parts.append(count + (f" in {span:.0f} s" if span else ""))
    return parts


def _warning(m: MachineAnswers) -> list[Sentence]:
    """What makes the figures mean something else than usual; nothing where nothing does."""
    wrong = [s for s in m.summaries if s.status == "error"]
    versions = sorted({c.tool_version for c in m.contexts})
    joined = "are joined: show each file by itself, then compare them"
    text, cells = "", list[Summary]()
    if m.emulated:
        text = EMULATED
    elif m.simulated:
        text = "simulated: a model of a machine, not a machine"
        text += "; its file was changed after the calibration" if m.edited else ""
        text = "; ".join(filter(None, [text, errors_text(m.summaries)]))
        cells = [s for s in m.summaries if s.model_error_range]
    elif m.published:
        text = "published percentiles of one run: forms differ where these do not overlap"
    elif wrong:
        forms, cells = numbers.join(unique(s.cell.form for s in wrong)[:3]), wrong
        text = f"WRONG: {numbers.count(len(wrong), 'cell')} ({forms}): {wrong[0].reason}"
    elif len(versions) > 1:
        text = f"launches of versions {numbers.join(versions)} {joined}"
    elif len({c.program for c in m.contexts}) > 1:
        text = f"launches of several builds of the probe {joined}"
    return [sentence_as_written(text, cells, "cells" if cells else "run")] if text else []


def _missing(m: MachineAnswers) -> Iterator[Sentence]:
    """What is absent, with the plan that gives it or the reason why none does."""
    if not any(s.has_figures for s in m.summaries):
        text = "No cell has a figure: linewright show --all FILE says why."
        yield sentence_as_written(text, m.summaries)
        return
    known = {machine_figures.column_key(s) for s in m.one_line if s.has_figures}
    lacking = {key: f"operations {how}" for key, how in _COLUMNS.items() if key not in known}
    if m.context and sum(cpu.allowed for cpu in m.context.cpus) == 1 and "contended" in lacking:
        text = f"Not measured: {lacking.pop('contended')}, because only one CPU could be used."
        yield from of_run([text])
    measured = {s.cell.operation for s in m.summaries if s.status == "ok"}
    if not measured & {"percpu_add", "readers_pair"}:
        lacking["prices"] = "the price list"
    if lacking:
        text = f"Not measured: {', '.join(lacking.values())}. {measure_on(m.contexts)} --plan quick"
        yield sentence_as_written(f"{text} measures all of it.", m.summaries)


_COLUMNS = {"alone": "alone", "work": "with work", "contended": "with a second CPU"}


def headline(m: MachineAnswers) -> list[Sentence]:
    """What an atomic add costs alone, and with a second CPU."""
    alone, contended, ns = add_cost(m)
    if alone is None:
        return []
    cycle = m.context.cycle_ns if m.context else 0.0
    beside = f"{alone.issue.median_ns / cycle:.0f} cycles" if cycle > 0 else ""
    if band := alone.band:
        beside = numbers.span(band.low_ns, band.high_ns)
    kind = "a locked operation" if m.arch in ("x86_64", "i386") else "an atomic add"
    text = f"{kind}: {numbers.figure(alone.issue.median_ns)} ns{beside and f' ({beside})'} alone"
    if contended is not None and ns is None:
        modes = modes_text(contended.modes)
        text += f"; {sharers_of(contended.cell)} {modes} of the launches"
    elif contended is not None:
        ends = (ns.low_ns, ns.high_ns) if ns.confidence > 0 else (ns.median_ns, ns.median_ns)
        shown = numbers.estimate(ns.median_ns, *ends, "ns", ends=2)
        text += f", {shown} {sharers_of(contended.cell)}"
    cells = filter(None, (alone, contended))
    return [sentence(text, "one_line", cells, alone_ns=alone.issue.median_ns)]


def at_the_interconnect(m: MachineAnswers) -> list[Sentence]:
    """The form of add that behaves as if performed at the interconnect, and whether work around it
    hides that."""
    found = far_add(m)
    if found is None:
        return []
    f, far, hidden_at, hidden_ids = found
    rows = [r for r in f.rows if r.first.form in far]
    first, *others = [
        f"{side.form} {numbers.figure(side.ns.median_ns)}"
        for side in (*(r.first for r in rows), f.side)
    ]
    takes = numbers.join([f"{first} ns", *others])
    every = len(far) > len(f.rows)
    who = "every form" if every else f"form{'s' * (len(far) > 1)} {numbers.join(far)}"
    verb = "behaves" if every or len(far) == 1 else "behave"
    text = f"{who} {verb} {FAR}: back to back, {takes}"
    if hidden_at:
        text += f"; with {hidden_at} units of work around each they cost the same"
    return [sentence(text, "one_line", (f.side, *(r.first for r in rows), *hidden_ids))]


_FOR: Mapping[Audience, Callable[[MachineAnswers], Sequence[Block]]] = {
    "evidence": topics,
    "cells": cell_blocks,
    "page": areas,
}
