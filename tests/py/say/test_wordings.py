# SPDX-License-Identifier: MIT
"""One wording for each fact: whatever lines, advice, verdict, tables and page of a machine, a
comparison and a result of find say of it, they say in the glossary's words."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace
from rich.console import Console

from linewright.analysis import summarise
from linewright.compare.compared_files import CompareOptions
from linewright.compare.from_files import compare
from linewright.find import result_document
from linewright.say import comparison_document
from linewright.say.document import render
from linewright.say.machine_document import documents
from linewright.say.page_material import gather
from linewright.schema import Context, Record
from linewright.show import plain
from linewright.show.report import report_page
from linewright.show.terminal import print_cells, print_tables
from support import find_results, machines
from support.report_samples import write
from support.said import verdict

FACTS = {
    "another thread uses the line": (
        r"\b(?:with|by|beside|against) (?:an?|one|another) (?:second|other|more)? ?"
        r"(?:CPU|core|thread|contender)\b(?: on (?:its|the) line)?|\b(?:2nd|two) CPUs?\b|"
        r"\bcontended, ",
        {"with a second CPU"},
    ),
    "nothing between operations": (
        r"\bback[ -]to[ -]back\b|\b(?:without|no|zero) (?:units of )?work\b",
        {"back to back"},
    ),
    "work between operations": (
        r"\b\d+ (?:work units|units of \w+|(?:work )?iterations)\b",
        {"units of work"},
    ),
    "no difference": (
        r"\b(?:(?:the )?same|alike|equal|identical) (?:to )?within\b",
        {"the same within", "same within"},
    ),
    "a ratio": (r"(?<=\d )(?:times|fold)\b", {"times"}),
    "several modes": (
        r"\bfall into (?:\w+ )?\w+\b|\b(?:several|separate|\d) (?:modes|groups)\b",
        {"fall into separate modes"},
    ),
    "fewer launches than a claim needs": (
        r"\b(?:too few|few|fewer|only one)(?: than \w+)? launch(?:es)?\b(?: than a claim)?",
        {"fewer than 5 launches"},
    ),
    "no exposed cost": (
        r"\b(?:no|without(?: an)?) exposed costs?\b|\b(?:[a-z]+ [a-z]+ [a-z]+ )?withheld\b",
        {"exposed costs are withheld", "withheld"},
    ),
    "not known": (r"\b(?:undecided|inconclusive|unclear|uncertain)\b", {"undecided"}),
}
"""Each fact with whatever might say it, numbers aside, and the wordings that may."""


MACHINES = ("x86-vm", "arm64-far", "undecided", "metastable")
SPOKEN = (*MACHINES, "three launches", "crooked loop", "page", "compare", "find")


def printed(of: Callable[[Console], None]) -> str:
    console = Console(file=io.StringIO(), width=400)
    of(console)
    return console.file.getvalue()


def all_lines(values: list[Context | Record]) -> str:
    """Plain lines, advice, verdict and tables of a machine."""
    contexts = [value for value in values if isinstance(value, Context)]
    summaries = summarise(contexts, [value for value in values if isinstance(value, Record)])
    (document,) = documents(summaries, contexts, "evidence")
    lines = [render(line) for topic in document.evidence for line in topic.lines]
    tables = printed(lambda console: print_cells(documents(summaries, contexts, "cells"), console))
    return "\n".join([*plain.lines([document]), *lines, *verdict(summaries, contexts), tables])


def crooked(value: Context | Record) -> Context | Record:
    """A loop with work that takes twice as long as its length says."""
    if isinstance(value, Context) or value.cell.work_iters != 200:
        return value
    return replace(value, baseline_ns=[2 * ns for ns in value.baseline_ns])


def page(path: str) -> str:
    material = gather([path], print)
    text = report_page.render(material)
    return re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", "\n", text, flags=re.S)


def comparison(first: str, second: str) -> str:
    found = compare([first, second], CompareOptions(), print)
    return printed(lambda c: print_tables(comparison_document.document(found, "cells"), c))


def finding() -> str:
    lines = [find_results.line(kind) for kind in ("true", "false")]
    said = result_document.document(find_results.result(*lines, command=["./p"]))
    return printed(lambda console: print_tables(said, console))


@cache
def text_of(name: str) -> str:
    if name in MACHINES:
        return all_lines(machines.records(name))
    if name == "find":
        return finding()
    values = machines.records("x86-vm")
    few = [value for value in values if value.launch < 3]
    if name == "three launches":
        return all_lines(few)
    if name == "crooked loop":
        return all_lines([crooked(value) for value in values])
    with TemporaryDirectory() as folder:
        whole, part = (write(Path(folder) / f"{n}.jsonl", v) for n, v in ((1, values), (2, few)))
        return page(whole) if name == "page" else comparison(whole, part)


def wordings(pattern: str, text: str) -> set[str]:
    return {
        re.sub(r"^\d+ ", "", found.lower()).replace("cpu", "CPU")
        for found in re.findall(pattern, text, re.I)
    }


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_has_one_wording(fact: str, name: str) -> None:
    pattern, allowed = FACTS[fact]
    assert wordings(pattern, text_of(name)) <= allowed


def test_another_wording_is_seen() -> None:
    """Each pattern finds its own wording, and one that once stood for it."""
    once = (
        "alone without work; with a contender on the line; 20 iterations; alike within 2 %; 3 fold;"
        " inconclusive; launches fall into 2 groups; too few launches; no exposed cost"
    )
    for fact, (pattern, allowed) in FACTS.items():
        assert not wordings(pattern, once) <= allowed, fact
    spoken = "\n".join(map(text_of, SPOKEN))
    assert [fact for fact, (pattern, _) in FACTS.items() if not wordings(pattern, spoken)] == []
