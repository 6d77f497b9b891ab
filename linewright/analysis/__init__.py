"""From records to figures with intervals, and from figures to what may be said: pure functions over small records."""

from linewright.analysis.summary import Percentiles, Summary, summarise, summarise_groups
from linewright.analysis.verdict import Finding, findings, verdict

__all__ = ["Finding", "Percentiles", "Summary", "findings", "summarise", "summarise_groups", "verdict"]
