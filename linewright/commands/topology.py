"""`linewright topology`: the CPUs that threads can be placed on, and how near they are to each other."""

from __future__ import annotations

import sys

from rich.table import Table
from rich.text import Text

from linewright.commands._options import AsJson
from linewright.errors import DONE
from linewright.output.console import console_for, print_json
from linewright.target.probe import Topology
from linewright.target.registry import open_target
from linewright.units import cpu_text

ORDER = 40
COLUMNS = ("core", "cluster", "l3", "socket", "node", "capacity", "midr")
MOST_PAIRS = 16
"""Pairs listed per class before only their number is."""


def topology(as_json: AsJson = False) -> int:
    """Show this machine's CPUs and the placement classes between them."""
    found = open_target("local").topology()
    if as_json:
        print_json(found)
    else:
        _print(found)
    return DONE


def _print(found: Topology) -> None:
    console = console_for(sys.stdout)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("cpu", *COLUMNS, "usable"):
        table.add_column(name, justify="right", no_wrap=True)
    for cpu in found.cpus:
        values = ["–" if getattr(cpu, name) in (-1, "") else str(getattr(cpu, name)) for name in COLUMNS]
        table.add_row(*map(Text, (str(cpu.cpu), *values, "yes" if cpu.allowed else "no")))
    console.print(Text(f"{found.arch}, {len(found.cpus)} CPUs, usable: {cpu_text(found.usable()) or 'none'}"))
    console.print(table)
    for name, pairs in found.pairs.items():
        listed = ", ".join(pair.replace(",", "–") for pair in pairs) if len(pairs) <= MOST_PAIRS else ""
        console.print(Text(f"{name}: {len(pairs)} pair{'s' if len(pairs) > 1 else ''} {listed}".rstrip()))
