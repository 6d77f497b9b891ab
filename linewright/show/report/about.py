"""The verdict of a report, family by family, and the names that are set as code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from linewright.analysis.machine_answers import MachineAnswers
from linewright.errors import one_line
from linewright.families import CACHE, family_of
from linewright.forms import made_of
from linewright.say.sentence import Clause, Sentence
from linewright.say.verdict import by_family, run_itself
from linewright.show.report.material import Material


def areas(m: MachineAnswers) -> list[tuple[str, list[Sentence]]]:
    """The verdict by family; what concerns the whole machine comes last."""
    found = [(e.family.title, [*e.forms, *e.more]) for e in by_family(m)]
    found.append(("The run itself", run_itself(m, bool(found))))
    kept = [(title, sentences) for title, sentences in found if sentences]
    return [(title if len(kept) > 1 else "", _joined(own)) for title, own in kept]


def _joined(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Each claim on a line of its own; claims without a situation that follow each other stand
    together."""
    made: list[Sentence] = []
    for sentence in sentences:
        clauses = [Clause(text=one_line(_capital(c.text))) for c in sentence.clauses]
        if not sentence.lead and made and not made[-1].lead:
            clauses = made.pop().clauses + clauses
        made.append(Sentence(lead=one_line(_capital(sentence.lead)), clauses=clauses))
    return made


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def pieces(text: str, names: frozenset[str]) -> list[tuple[str, bool]]:
    """A sentence as runs of text, and whether each is the name of a form or operation."""
    return [(part, part in names) for part in re.split(r"([a-z0-9_]+)", text) if part]


def names_of(material: Material) -> frozenset[str]:
    """Forms of the report that are no words of a sentence, as `mutex` is: those of instructions,
    and those with a joint or a digit."""
    cells = [record.cell for series in material.series for record in series.records]
    return frozenset(
        cell.form
        for cell in cells
        if not cell.form.isalpha()
        or made_of(cell.form).instruction
        or family_of(cell.operation) is CACHE
    )
