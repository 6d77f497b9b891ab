# SPDX-License-Identifier: MIT
"""What to write in code, and where one form overtakes the default."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import code_advice
from linewright.analysis.findings import Finding
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import grouped
from linewright.families import family_of
from linewright.say.document import Topic, topic
from linewright.say.phrases import (
    all_within_text,
    crossing_text,
    measure_again,
    need_of,
)
from linewright.say.sentence import sentence_as_written


def overtaking(m: MachineAnswers) -> Topic | None:
    """Where one form overtakes the default."""
    found = [c for c in m.crossovers if not family_of(c.operation).advice]
    lines = [sentence_as_written(crossing_text(c, m.context), c.ids) for c in found]
    return topic("crossovers", "Where one form overtakes another", lines, found)


def code(m: MachineAnswers) -> Topic | None:
    """What to write in code, where no setting chooses: one line for each need."""
    chosen = ("add", "fetch_add", "xchg") if m.forms_differ else ()
    wanted = (f for f in m.of_family("one_line") if f.operation not in chosen and not f.published)
    lines, data, unknown = [], [], []
    for need, found in grouped(wanted, need_of).items():
        text, forms = _written(found)
        ids = [i for f in found for i in f.ids]
        if text:
            lines.append(sentence_as_written(f"{need}: {text}", ids))
        else:
            unknown.append((f"{forms[0]} for {need}", ids))
        data.append({"operation": need, "default": found[0].default, "forms": forms})
    if unknown:
        text = "until more is known, since other forms are undecided at some point: "
        text += numbers.join([each for each, _ in unknown])
        text += "" if m.drawn else f"; {measure_again(m)}"
        lines.append(sentence_as_written(text, [i for _, ids in unknown for i in ids]))
    return topic("code", "In code", lines, data)


def _written(found: Sequence[Finding]) -> tuple[str, list[str]]:
    """What the findings of one need support writing, in words, and the forms; no text while nothing
    but the default is known."""
    (why, forms, clearest), default, text = code_advice.written(found), found[0].default, ""
    if why == "better":
        where = clearest.situation.words()
        text = (
            f"{clearest.first.form}, {clearest.words()} than {default} {where}, the same elsewhere"
        )
    elif why == "same":
        widest = all_within_text(r for f in found for r in f.rows)
        text = f"any of {numbers.join(forms)}, which are the same within {widest}"
    elif why == "default_best":
        text = f"{default}, since nothing measured costs less"
    elif why == "depends":
        text = "depends on contention and work, see above"
    return text, forms
