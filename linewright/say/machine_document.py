"""The document of one machine: what its operations cost, in a matrix and a price list, what to
write and to set, and what is undecided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from linewright import numbers
from linewright.analysis import matrix, price_list
from linewright.analysis.machine_answers import MachineAnswers, machines_with_answers
from linewright.analysis.matrix import MatrixColumn, Row
from linewright.analysis.price_list import Price
from linewright.analysis.summary import Summary
from linewright.say import cell_rows
from linewright.say.cost_words import figure_cell
from linewright.say.document import Cost, Document, document_of
from linewright.say.headline import at_the_interconnect, headline
from linewright.say.limits import limits
from linewright.say.machine_lines import EMULATED, machine_facts, of_run
from linewright.say.matrix_table import heading, matrix_table, row_name
from linewright.say.model_error import errors_text, with_errors
from linewright.say.name_words import FEW_LAUNCHES
from linewright.say.phrases import measure_on
from linewright.say.price_table import price_name, price_table
from linewright.say.sentence import Sentence, render_all, sentence, sentence_as_written
from linewright.say.setting import setting
from linewright.say.topics import topics
from linewright.say.uses import use
from linewright.say.verdict import undecided_sentences, verdict_of, verdict_sentences
from linewright.schema import Context
from linewright.units import cpu_text

OTHER_PLANS = 8
"""Sentences of the verdict that stand for the headline where no operation on one line was
measured."""


def documents(
    summaries: Iterable[Summary], contexts: Iterable[Context] | Mapping[str, Context]
) -> list[Document]:
    """One document for each machine, in the order of the records."""
    return [document(m) for m in machines_with_answers(summaries, contexts)]


def advise(
    contexts: Iterable[Context] | Mapping[str, Context], summaries: Iterable[Summary]
) -> list[Document]:
    """The same with the decision on a setting, its evidence, and what is not known."""
    return [
        msgspec.structs.replace(made, blocks=[*made.blocks, *topics(m)])
        for m in machines_with_answers(summaries, contexts)
        for made in [document(m)]
    ]


def for_programs(summaries: Sequence[Summary], contexts: Sequence[Context]) -> dict[str, object]:
    """All of it for programs: the contexts, a row per cell as in the CSV, the verdict, and the
    document of each machine."""
    return {
        "contexts": contexts,
        "cells": cell_rows.of_cells(summaries),
        "verdict": render_all(verdict_sentences(summaries, contexts)),
        "documents": documents(summaries, contexts),
    }


def document(m: MachineAnswers) -> Document:
    """The document of one machine, without its evidence."""
    columns, decision = matrix.columns_of(m), setting(m)
    choice = with_errors([decision.sentence], m.summaries)[0]
    decision = msgspec.structs.replace(decision, sentence=choice)
    launches = max((s.launches for s in m.summaries if s.has_figures), default=0)
    coarse = bool(m.too_few_launches)
    where = "; linewright advise shows where" * (decision.why == "depends")
    choice = sentence(choice.text + where, cells=choice.cells, basis=choice.basis)
    rows, prices = matrix.rows(m, columns), price_list.prices(m)
    floors = [i for floor in m.floors.values() for i in floor.ids]
    return document_of(
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
        undecided=undecided_sentences(m.of_width, m),
        limits=limits(m),
        missing=_missing(m),
        tables=[
            *([matrix_table(columns, rows, m.width_bits, floors)] if rows else []),
            *([price_table(prices)] if prices else []),
        ],
        costs=[*_operation_costs(columns, rows), *_price_costs(prices)],
    )


def _operation_costs(columns: Sequence[MatrixColumn], rows: Sequence[Row]) -> Iterator[Cost]:
    """The back-to-back figures of the matrix."""
    for row in rows:
        for column in columns:
            entry = row.entries.get(column.key)
            if column.key != "work" and entry and entry.default:
                name = f"{row_name(row)}, {heading(column)}"
                yield Cost(name=name, cell=figure_cell(entry.default))


def _price_costs(prices: Sequence[Price]) -> Iterator[Cost]:
    """Each remedy's figure, contended where that was measured."""
    for price in prices:
        cost = price.contended or price.alone
        if cost and not price.reference:
            name = price_name(price) + (", 2 CPUs" if price.contended else "")
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
    span = max((s.launch_span_s for s in m.summaries if s.launch_span_s is not None), default=None)
    parts = [f"plan {c}" for c in dict.fromkeys(c.plan for c in m.contexts)]
    parts += [f"CPU {timed} timed"] if timed else []
    planned = max((c.launches for c in m.contexts), default=0)
    count = (
        f"{launches} of {planned} launches"
        if launches < planned
        else numbers.count(launches, "launch", "launches")
    )
    return (
        [*parts, count + (f" in {span:.0f} s" if span else "")]
        if launches and not m.published
        else parts
    )


def _warning(m: MachineAnswers) -> list[Sentence]:
    """What makes the figures mean something else than usual; nothing where nothing does."""
    wrong = [s for s in m.summaries if s.status == "error"]
    versions = sorted({c.tool_version for c in m.contexts})
    joined = "are joined: show each file by itself, then compare them"
    text, cells = "", []
    if m.emulated:
        text = EMULATED
    elif m.simulated:
        text = "simulated: a model of a machine, not a machine"
        text += "; its file was changed after the calibration" if m.edited else ""
        text = "; ".join(filter(None, [text, errors_text(m.summaries)]))
        cells = [s.id for s in m.summaries if s.model_error_range]
    elif m.published:
        text = "published percentiles of one run: forms differ where these do not overlap"
    elif wrong:
        forms = numbers.join(list(dict.fromkeys(s.cell.form for s in wrong))[:3])
        text, cells = f"WRONG: {numbers.count(len(wrong), 'cell')} ({forms})", [s.id for s in wrong]
        text = f"{text}: {wrong[0].reason}"
    elif len(versions) > 1:
        text = f"launches of versions {numbers.join(versions)} {joined}"
    elif len({c.program for c in m.contexts}) > 1:
        text = f"launches of several builds of the probe {joined}"
    return [sentence_as_written(text, cells, "cells" if cells else "run")] if text else []


def _missing(m: MachineAnswers) -> list[Sentence]:
    """What is absent, with the plan that gives it or the reason why none does."""
    if not any(s.has_figures for s in m.summaries):
        text = "No cell has a figure: linewright show --all FILE says why."
        return [sentence_as_written(text, [s.id for s in m.summaries])]
    words = {
        "alone": "operations alone",
        "work": "operations with work",
        "contended": "operations with a second CPU",
    }
    for s in m.one_line:
        if s.has_figures:
            words.pop(matrix.column_key(s), None)
    lines = []
    if m.context and sum(cpu.allowed for cpu in m.context.cpus) == 1 and "contended" in words:
        text = f"Not measured: {words.pop('contended')}, because only one CPU could be used."
        lines = of_run([text])
    lacking = list(words.values())
    measured = {s.cell.operation for s in m.summaries if s.status == "ok"}
    if not measured & {"percpu_add", "readers_pair"}:
        lacking.append("the price list")
    if lacking:
        text = (
            f"Not measured: {', '.join(lacking)}. {measure_on(m.contexts)} --plan quick measures "
        )
        lines.append(sentence_as_written(f"{text}all of it.", [s.id for s in m.summaries]))
    return lines
