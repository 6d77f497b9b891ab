"""The evidence behind a machine's decision, topic by topic, where its records support them."""

from __future__ import annotations

from typing import Any

from linewright.analysis import reader_cost
from linewright.analysis.machine_answers import MachineAnswers
from linewright.families import CACHE, READERS, SPACING, Family
from linewright.say import cores, form_sentences, limits, setting, verdict
from linewright.say.document import Topic
from linewright.say.sentence import sentence_as_written
from linewright.say.verdict import FamilyEvidence


def topics(m: MachineAnswers) -> list[Topic]:
    """The evidence on one machine, in the order of the page: a new kind of record is a line
    here."""
    made = (
        setting.classes(m),
        form_sentences.overtaking(m),
        cores.cores(m),
        cores.several(m),
        form_sentences.code(m),
        cores.nearness(m),
        *(_of_family(e, m) for e in verdict.by_family(m) if e.forms),
        limits.control(m),
        limits.unknown(m),
    )
    return [topic for topic in made if topic]


def _of_family(evidence: FamilyEvidence, m: MachineAnswers) -> Topic:
    family = evidence.family
    lines = [
        sentence_as_written(_line(s.lead, c.text, family), s.cells, s.basis)
        for s in evidence.forms
        for c in s.clauses
    ]
    orders = {f.order for f in m.of_family(family.name)}
    # Of several the lines name each.
    title = family.title + (f" ({orders.pop()})" if len(orders) == 1 else "")
    return Topic(name=family.advice or "where", title=title, lines=lines, data=_data(family, m))


def _line(lead: str, text: str, family: Family) -> str:
    return text if lead in ("", family.title.lower()) else f"{lead}: {text}"


def _data(family: Family, m: MachineAnswers) -> Any:
    """The same for programs."""
    found = m.of_family(family.name)
    if family is CACHE:
        return {"terms": m.cache_fits, "savings": m.select("waits")}
    if family is SPACING:
        return m.bytes_apart
    if family is READERS:
        readers = m.select("readers")
        scaling, trades = reader_cost.scaling(readers), reader_cost.trades(readers)
        return {"choices": found, "scaling": scaling, "trades": trades}
    return found
