"""From records to figures with intervals, and from figures to what may be said: pure functions over small records."""

import numpy

from linewright.analysis.summary import Percentiles, Summary, summarise, summarise_groups
from linewright.analysis.verdict import Finding, findings, verdict

__all__ = ["Finding", "Percentiles", "Summary", "findings", "summarise", "summarise_groups", "verdict"]

numpy.seterr(over="ignore", invalid="ignore")
"""Numbers that no machine measured (a hostile file's 1e308) overflow; what comes of them is not finite and not shown."""
