"""`linewright advise`: from record files to the setting to use, its margins, and what they cannot tell."""

from __future__ import annotations

import sys

from linewright.commands._options import AsJson, Every, Records, require
from linewright.errors import DONE
from linewright.output.console import console_for, note, print_json

ORDER = 30


def advise(files: Records, every: Every = False, as_json: AsJson = False) -> int:
    """Say which setting the measurement supports, by how much and where, and what it cannot tell."""
    from linewright.advice.advice import advise as advices
    from linewright.advice.screen import screens
    from linewright.analysis import loading
    from linewright.output import advice_text

    loaded = loading.load(files, note)
    require(len(loaded.summaries), files, "advise on")
    contexts = list(loaded.contexts.values())
    answers = advices(contexts, loaded.summaries)
    if as_json:
        print_json(answers)
    else:
        advice_text.show(answers, screens(loaded.summaries, contexts), console_for(sys.stdout), every)
        sys.stdout.flush()
    return DONE
