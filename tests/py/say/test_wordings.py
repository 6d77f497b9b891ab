"""One wording for each fact: whatever the plain lines, the advice and the verdict of a machine say
of it, they say in the glossary's words."""

from __future__ import annotations

import re
from functools import cache

import pytest

from linewright.analysis import summarise
from linewright.say.machine_document import advise
from linewright.say.verdict import verdict
from linewright.schema import Context, Record
from linewright.show import plain
from support import machines

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
    "not known": (r"\b(?:undecided|inconclusive|unclear|uncertain)\b", {"undecided"}),
}
"""Each fact with whatever might say it, numbers aside, and the wordings that may."""


MACHINES = ("x86-vm", "arm64-far", "undecided", "metastable")


@cache
def text_of(name: str) -> str:
    values = machines.records(name)
    contexts = [value for value in values if isinstance(value, Context)]
    summaries = summarise(contexts, [value for value in values if isinstance(value, Record)])
    (document,) = advise(contexts, summaries)
    lines = [line for topic in document.topics for line in topic.lines]
    return "\n".join([*plain.lines([document]), *lines, *verdict(summaries, contexts)])


def wordings(pattern: str, text: str) -> set[str]:
    return {
        re.sub(r"^\d+ ", "", found.lower()).replace("cpu", "CPU")
        for found in re.findall(pattern, text, re.I)
    }


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_has_one_wording(fact: str, name: str) -> None:
    pattern, allowed = FACTS[fact]
    assert wordings(pattern, text_of(name)) <= allowed


def test_another_wording_is_seen() -> None:
    """Each pattern finds its own wording, and one that once stood for it."""
    once = (
        "alone without work; with a contender on the line; 20 iterations; alike within 2 %; 3 fold;"
        " inconclusive; launches fall into 2 groups"
    )
    for fact, (pattern, allowed) in FACTS.items():
        assert not wordings(pattern, once) <= allowed, fact
    spoken = "\n".join(map(text_of, MACHINES))
    assert [fact for fact, (pattern, _) in FACTS.items() if not wordings(pattern, spoken)] == []
