# SPDX-License-Identifier: MIT
"""What each sentence rests on: names that the records have, and where it names none, nothing in it
that a measured time could change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import linewright
from linewright.analysis import summarise
from linewright.analysis.machine_answers import machines_with_answers
from linewright.compare.compared_files import ComparedFiles, CompareOptions
from linewright.compare.from_files import compare
from linewright.say import comparison_document
from linewright.say.cell_tables import cell_document
from linewright.say.document import (
    Audience,
    Bars,
    Document,
    Sentence,
    TableCell,
    TextTable,
    Topic,
    document_of,
    render,
    sentence,
    sentence_as_written,
)
from linewright.say.machine_document import documents
from linewright.say.machine_lines import doubts
from linewright.schema import Context, Record
from support import machines
from support.report_samples import write

NAMED = ("cells", "settings", "functions", "lines", "costs")


def sentences(value: Any) -> Iterator[Sentence]:
    """Every sentence in a document, wherever it stands."""
    if isinstance(value, Sentence):
        yield value
    elif isinstance(value, (Document, TextTable, Topic)) or hasattr(value, "sentence"):
        for name in value.__struct_fields__:
            yield from sentences(getattr(value, name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from sentences(item)


def split(values: list[Context | Record]) -> tuple[list[Context], list[Record]]:
    contexts = [value for value in values if isinstance(value, Context)]
    return contexts, [value for value in values if isinstance(value, Record)]


@cache
def spoken(name: str, times: float = 1.0) -> list[Sentence]:
    """All that is said of a recorded machine, whose windows lasted so many times as long, the more
    the later the cell stands in the file."""
    contexts, records = split(machines.records(name))
    order = {i: number for number, i in enumerate(dict.fromkeys(r.id for r in records))}
    records = [
        replace(r, window_ns=[ns * times ** (1 + order[r.id] % 3) for ns in r.window_ns])
        for r in records
    ]
    summaries = summarise(contexts, records)
    (m,) = machines_with_answers(summaries, contexts)
    advised = documents(summaries, contexts, "evidence")
    found = [*advised, *documents(summaries, contexts, "cells")]
    for summary in summaries[:: max(1, len(summaries) // 5)]:
        own = [record for record in records if record.id == summary.id]
        found.append(cell_document(summary, own, m))
    return [*sentences(found), *doubts(m, advised[0], records)]


@pytest.mark.parametrize("name", machines.MACHINES)
def test_every_sentence_names_cells_of_the_records_or_says_why_it_needs_none(name: str) -> None:
    ids = {record.id for record in split(machines.records(name))[1]}
    every = spoken(name)
    assert len(every) > 40
    for line in every:
        assert bool(line.cells) == (line.basis in NAMED), render(line)
        assert line.basis in ("cells", "run", "rule"), render(line)
        assert set(line.cells) <= ids, render(line)


@pytest.mark.parametrize("name", machines.MACHINES)
def test_no_measured_time_changes_a_sentence_that_names_no_cell(name: str) -> None:
    """A sentence with a figure of a cell and without that cell would change with it."""
    before, after = (
        {render(s) for s in spoken(name, times) if s.basis in ("run", "rule")}
        for times in (1.0, 1.37)
    )
    assert before == after
    moved = {render(s) for s in spoken(name) if s.basis == "cells"}
    assert moved != {render(s) for s in spoken(name, 1.37) if s.basis == "cells"}


TABLE = ("name", "title", "headings", "short_headings", "styles", "what")


def test_a_document_has_no_bare_text_that_could_be_a_sentence() -> None:
    """The fields that are text are headings, names and values that programs read."""
    bare = {
        f"{of.__name__}.{field.name}"
        for of in (Document, TextTable, TableCell, Bars, Topic)
        for field in msgspec.structs.fields(of)
        if field.type in (str, list[str])
    }
    assert bare == {
        *(f"Document.{name}" for name in ("machine_id", "arch", "target", "title")),
        *(f"{of}.{name}" for of in ("TextTable", "Bars") for name in TABLE),
        *(f"TableCell.{name}" for name in ("text", "note", "sign")),
        *(f"Topic.{name}" for name in ("name", "title")),
    }


def compared(folder: Path) -> tuple[ComparedFiles, set[str]]:
    values = machines.records("x86-vm")
    slower = [
        replace(v, window_ns=[2 * ns for ns in v.window_ns]) if isinstance(v, Record) else v
        for v in values
        if not isinstance(v, Record) or v.cell.operation != "xchg"
    ]
    paths = [write(folder / f"{n}.jsonl", v) for n, v in enumerate((values, slower))]
    options = CompareOptions(fail_above=0.05)
    return compare(list(paths), options, print), {v.id for v in values if isinstance(v, Record)}


def test_every_sentence_of_a_comparison_names_its_rows(tmp_path: Path) -> None:
    comparison, ids = compared(tmp_path)
    for_whom: list[Audience] = ["everyone", "cells", "page"]
    pages = [comparison_document.document(comparison, audience) for audience in for_whom]
    every = list(sentences(pages))
    assert any("FAILED" in render(s) for s in every) and any("missing" in render(s) for s in every)
    for line in every:
        assert bool(line.cells) == (line.basis in NAMED), render(line)
        assert set(line.cells) <= ids, render(line)


ROOM = Path(linewright.__file__).parent


def literals(text: str) -> list[str]:
    """The texts in a module, docstrings aside."""
    tree = ast.parse(text)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [n.value for n in texts if isinstance(n.value, str) and id(n) not in bare]


def is_sentence(text: str) -> bool:
    return text.count(" ") >= 4 and text.rstrip().endswith(".") and text[:1].isupper()


@pytest.mark.parametrize("room", ["analysis", "show/report", "compare"])
def test_sentences_stand_in_say(room: str) -> None:
    files = list((ROOM / room).rglob("*.py"))
    found = {text for path in files for text in literals(path.read_text()) if is_sentence(text)}
    assert len(files) > 3 and found == set()


def test_a_sentence_elsewhere_is_seen() -> None:
    module = (
        'def f():\n    """What it is for, in a sentence."""\n    return "An add takes five ns."\n'
    )
    assert list(filter(is_sentence, literals(module))) == ["An add takes five ns."]
    words = (ROOM / "say/words.py").read_text()
    assert len(list(filter(is_sentence, literals(words)))) > 10


def test_a_sentence_without_evidence_is_seen() -> None:
    bare = sentence("an add takes 5 ns")
    assert bool(bare.cells) != (bare.basis in NAMED)
    known = document_of(facts=[bare])
    assert list(sentences([known])) == [bare]
    assert sentence_as_written("x", ["a", "b", "a"]).cells == ("a", "b"), "each name once"
