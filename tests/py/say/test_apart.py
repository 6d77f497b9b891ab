# SPDX-License-Identifier: MIT
"""What is said of how far apart words have to lie: the decision first, only what is shown, and
what would decide the rest."""

from __future__ import annotations

import json

import pytest

from linewright.analysis import summarise
from linewright.analysis.machine_answers import machines_with_answers
from linewright.say.document import render
from linewright.say.family_sentences import apart_sentences
from linewright.say.machine_document import document, documents
from support.analysis_samples import write
from support.spacing_samples import line_of, machine

ENOUGH = "bytes between two threads' words are enough"
NEIGHBOUR = "the other line of a pair"


def said(near=line_of, **more) -> list[str]:
    contexts, records = machine(near, **more)
    (found,) = machines_with_answers(summarise(contexts, records), contexts)
    return [render(sentence) for sentence in apart_sentences(found)]


def test_the_decision_comes_first_with_what_more_gains_and_less_costs():
    decision, pair = said()
    assert decision.startswith(f"64 {ENOUGH}: more gains at most ")
    assert "; 32 bytes cost two writers that add plainly 19" in decision
    assert decision.endswith(" ns).") and " as much (2" in decision and " instead of 1." in decision
    assert pair.startswith("The other line of a pair does not matter: 64 bytes apart, ")


def test_a_pair_of_lines_is_named_with_both_figures_and_each_kind_has_its_own_line():
    near = lambda form, half, d: d < 64 or (1.6 if (d, half) == (64, "lower") else 1.0)
    decision, pair, *kinds = said(near)
    assert decision.startswith(f"128 {ENOUGH}") and "; 64 bytes cost " in decision
    assert pair.startswith("The other line of a pair matters: 64 bytes apart, ")
    assert len(kinds) == 10
    inside = "inside a pair of lines: 128 bytes are enough, 64 cost more."
    assert sum(line.endswith(inside) for line in kinds) == 5
    assert sum("across two pairs: 64 bytes are enough" in line for line in kinds) == 5


def test_a_reader_that_needs_more_is_said_apart_from_writers():
    near = lambda form, half, d: d < (128 if form == "apart_read" else 64)
    decision, _, *kinds = said(near)
    assert decision.startswith(f"128 {ENOUGH}") and "; 64 bytes cost a reader beside" in decision
    reader = [line for line in kinds if line.startswith("A reader beside a writer")]
    assert reader == ["A reader beside a writer: 128 bytes are enough, 64 cost more."]
    assert not any("128 bytes" in line for line in kinds if line not in reader)


def test_where_nothing_is_enough_no_distance_is_named_as_enough():
    near = lambda form, half, d: d < 64 or (1.0 if d == 512 else 1.5)
    decision = said(near)[0]
    assert decision.startswith("No distance up to 256 bytes is enough: 256 cost ")
    assert ENOUGH not in " ".join(said(near))


@pytest.mark.parametrize("noise", [{"own": 0.4, "within": 0.3}, {"states": 1.5}, {"count": 3}])
def test_what_is_not_shown_is_said_to_be_undecided(noise):
    decision, pair = said(**noise)[:2]
    assert decision.startswith("Undecided how far apart two threads' words have to lie: ")
    assert pair.startswith("Undecided whether the other line of a pair matters: ")
    assert "launches" in decision and "launches" in pair
    assert ENOUGH not in decision and "does not matter" not in pair
    if "count" in noise:
        assert "linewright measure --plan spacing --set launches=" in decision


def test_one_half_alone_says_nothing_of_the_other_line():
    assert NEIGHBOUR not in " ".join(said(halves=["lower"])).lower()


def test_what_even_far_words_cost_is_said_where_it_is_shown():
    text = said(placebo=0.6)[-1]
    assert text.startswith("Even 512 bytes apart, ")
    assert text.endswith(
        "than beside a second thread that touches no memory: the threads share more than cache "
        "lines."
    )
    assert not any(line.startswith("Even") for line in said())


def test_the_document_has_it_as_headline_topic_and_data():
    contexts, records = machine()
    summaries = summarise(contexts, records)
    (found,) = machines_with_answers(summaries, contexts)
    assert ENOUGH in document(found).of("headline")[0].text
    (advised,) = documents(summaries, contexts, "evidence")
    (topic,) = (topic for topic in advised.evidence if topic.name == "spacing")
    assert topic.title == "How far apart" and ENOUGH in topic.lines[0].text
    assert topic.data.needed == 64


def test_every_page_says_it(command):
    contexts, records = machine()
    path = write(command.directory / "apart.jsonl", contexts, records)
    for page in (("show", path), ("advise", path), ("show", "--all", path)):
        assert ENOUGH in " ".join(command(*page).stdout.split()), page
    (advised,) = json.loads(command("advise", "--json", path).stdout)
    (topic,) = (b for b in advised["blocks"] if b["name"] == "spacing")
    nearest = topic["data"]["kinds"][0]["nearer"][0]["first"]
    assert ["bytes_apart", 8] in nearest["situation"]["params"]
    command("report", path, "-o", "page.html")
    assert ENOUGH in (command.directory / "page.html").read_text().replace("&#39;", "'")
