# SPDX-License-Identifier: MIT
"""`linewright advise`: from record files to the setting to use, its margins, and what they cannot
tell."""

from __future__ import annotations

import sys

from linewright.commands._options import AsJson, Every, Records
from linewright.errors import DONE, nothing_finished
from linewright.show.output import console_for, note, print_json

ORDER = 21


def advise(files: Records, every: Every = False, as_json: AsJson = False) -> int:
    """Say which setting the measurement supports, by how much and where, and what it cannot
    tell."""
    from linewright.analysis import loading
    from linewright.say.machine_document import documents
    from linewright.show.terminal import print_advice

    loaded = loading.load(files, note)
    if not loaded.summaries:
        raise nothing_finished(files[0], "advise on")
    contexts = list(loaded.contexts.values())
    said = documents(loaded.summaries, contexts, "evidence")
    if as_json:
        print_json(said)
    else:
        print_advice(said, console_for(sys.stdout), every)
        sys.stdout.flush()
    return DONE
