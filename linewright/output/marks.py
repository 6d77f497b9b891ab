"""Letters behind flagged figures, and the cells that have no figure or one that is not to be relied on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from linewright.analysis.plausible import explain
from linewright.analysis.summary import Summary
from linewright.errors import one_line
from linewright.units import ns_text

MOST_FORMS = 4
"""Forms named in one line below the tables before the rest is only counted."""
_NUMBER = re.compile("[0-9]{1,18}")
"""A longer number, which only a hostile file has, is taken in pieces."""


class Marks:
    """Letters behind flagged figures, explained once below the tables."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}
        self._modes: list[str] = []
        self._doubted = False

    def of(self, summary: Summary) -> str:
        """The letters of a summary's flags, with ``?`` before them where its status is not ok."""
        for flag in summary.flags:
            if flag not in self._letters:
                self._letters[flag] = chr(ord("a") + len(self._letters) % 26)
        doubt = "" if summary.status == "ok" else "?"
        self._doubted = self._doubted or bool(doubt)
        return doubt + "".join(self._letters[flag] for flag in summary.flags)

    def note_modes(self, summary: Summary) -> None:
        """Keep the modes of a metastable cell for the explanation."""
        if len(summary.modes) > 1:
            groups = ", ".join(f"{ns_text(mode.median_ns)} ns ({mode.share:.0%})" for mode in summary.modes)
            cell = summary.cell
            self._modes.append(f"{cell.form}, work {cell.work_iters}, spacing {cell.contender_iters}: {groups}")

    def explain(self, console: Console) -> None:
        """Print what each letter used so far means."""
        if self._doubted:
            text = (
                "?  Too many windows were disturbed by other programs. The figure is not reliable."
                " An idle machine, or real-time priority for root, helps."
            )
            console.print(Text(text))
        for flag, letter in self._letters.items():
            console.print(Text(f"{letter}  {one_line(flag)}: {one_line(explain(flag))}"))
            if flag == "metastable":
                for line in self._modes:
                    console.print(Text(f"     {one_line(line)}"))


def print_missing(summaries: Sequence[Summary], console: Console) -> None:
    """One line for each reason why cells lack a figure or have an unreliable one; numbers in reasons become ranges."""
    groups: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        if summary.status != "ok":
            groups.setdefault((summary.status, _NUMBER.sub("N", summary.reason)), []).append(summary)
    for (status, _), members in groups.items():
        which = members[0].id if len(members) == 1 else f"{_forms_text(members)} ({len(members)} cells)"
        text = one_line(f"{status}: {which}: {_with_ranges([member.reason for member in members])}")
        console.print(Text(text, style="" if status == "unavailable" else "bold"))


def _with_ranges(reasons: Sequence[str]) -> str:
    """Reasons that differ in their numbers only, as one: "3 to 5 of 12 windows"."""
    columns = iter(zip(*(map(int, _NUMBER.findall(reason)) for reason in reasons), strict=True))

    def span(first: re.Match[str]) -> str:
        numbers = next(columns)
        return f"{min(numbers)} to {max(numbers)}" if min(numbers) < max(numbers) else first[0]

    return _NUMBER.sub(span, reasons[0])


def _forms_text(members: Sequence[Summary]) -> str:
    forms = list(dict.fromkeys(member.cell.form for member in members))
    if len(forms) <= MOST_FORMS:
        return ", ".join(forms)
    return f"{', '.join(forms[:MOST_FORMS])} and {len(forms) - MOST_FORMS} other forms"
