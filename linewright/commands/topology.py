# SPDX-License-Identifier: MIT
"""`linewright topology`: the CPUs that threads can be placed on, and how near they are to each
other."""

from __future__ import annotations

import sys

from rich.text import Text

from linewright import numbers
from linewright.errors import DONE
from linewright.numbers import ABSENT, cpu_text
from linewright.run.registry import open_target
from linewright.show.output import console_for

ORDER = 20
COLUMNS = ("core", "cluster", "l3", "socket", "node", "capacity", "midr")
MOST_PAIRS = 16
"""Pairs listed per class before only their number is."""


def topology() -> int:
    """Show this machine's CPUs and the placement classes between them."""
    # These import NumPy.
    from linewright.say.document import TextTable
    from linewright.show.terminal import table

    found = open_target("local").topology()
    console = console_for(sys.stdout)
    rows = []
    for cpu in found.cpus:
        values = (getattr(cpu, name) for name in COLUMNS)
        shown = (ABSENT if value in (-1, "") else str(value) for value in values)
        rows.append([str(cpu.cpu), *shown, "yes" if cpu.allowed else "no"])
    headings = ["cpu", *COLUMNS, "usable"]
    left = [False] * len(headings)
    listed = TextTable(title="", headings=headings, left=left, rows=rows, folds=())
    console.print(
        Text(f"{found.arch}, {len(found.cpus)} CPUs, usable: {cpu_text(found.usable()) or 'none'}")
    )
    console.print(table(listed, space=2))
    for name, pairs in found.pairs.items():
        listed = (
            ", ".join(pair.replace(",", "–") for pair in pairs) if len(pairs) <= MOST_PAIRS else ""
        )
        console.print(Text(f"{name}: {numbers.count(len(pairs), 'pair')} {listed}".rstrip()))
    return DONE
