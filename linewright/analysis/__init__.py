# SPDX-License-Identifier: MIT
"""From records to figures with intervals, and from figures to answers: pure functions over small
records, no English."""

import numpy

from linewright.analysis.findings import Finding, findings
from linewright.analysis.loading import summarise, summarise_groups
from linewright.analysis.summary import Summary

__all__ = ["Finding", "Summary", "findings", "summarise", "summarise_groups"]

numpy.seterr(over="ignore", invalid="ignore")
"""Numbers that no machine measured (a hostile file's 1e308) overflow; what comes of them is not
finite and not shown."""
