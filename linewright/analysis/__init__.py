"""From records to figures with intervals, and from figures to what may be said: pure functions over small records."""

import numpy

from linewright.analysis.findings import Finding, findings
from linewright.analysis.summarise import summarise, summarise_groups
from linewright.analysis.summary import Percentiles, Summary
from linewright.analysis.verdict import verdict, verdict_sentences

__all__ = [
    "Finding", "Percentiles", "Summary", "findings", "summarise", "summarise_groups", "verdict", "verdict_sentences",
]  # fmt: skip

numpy.seterr(over="ignore", invalid="ignore")
"""Numbers that no machine measured (a hostile file's 1e308) overflow; what comes of them is not finite and not
shown."""
