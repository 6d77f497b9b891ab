# SPDX-License-Identifier: MIT
"""A machine's document beside the answers that its tables word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linewright.analysis import machine_figures
from linewright.analysis.machine_answers import machines_with_answers
from linewright.analysis.summary import Summary
from linewright.say.machine_document import document
from linewright.say.machine_tables import price_name, row_name
from linewright.schema import Context


class Screen:
    """One machine: `document`, and the columns, rows and prices of its tables by name."""

    def __init__(self, machine) -> None:
        self.document, self.of = (made := document(machine)), made.of
        self.coarse = made.coarse
        self.columns = machine_figures.columns_of(machine)
        self.rows = {row_name(row): row for row in machine_figures.rows(machine, self.columns)}
        self.prices = {price_name(price): price for price in machine_figures.prices(machine)}


def screens(summaries: Iterable[Summary], contexts: Sequence[Context]) -> list[Screen]:
    """One for each machine, in the order of the records."""
    return [Screen(machine) for machine in machines_with_answers(summaries, contexts)]
