"""JSON for programs: the contexts, a row per cell as in the CSV, the verdict, and the document of
each machine."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from linewright.analysis import Summary
from linewright.say.machine_document import documents
from linewright.say.verdict import verdict
from linewright.schema import Context
from linewright.show.export import rows


def of_cells(summaries: Sequence[Summary], contexts: Sequence[Context]) -> bytes:
    """One indented JSON object that ends in a newline."""
    result = {
        "contexts": contexts,
        "cells": rows.of_cells(summaries),
        "verdict": verdict(summaries, contexts),
        "documents": documents(summaries, contexts),
    }
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"
