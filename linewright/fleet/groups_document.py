# SPDX-License-Identifier: MIT
"""A fleet's groups in words: how many there are, who is in them, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from linewright import numbers
from linewright.errors import one_line
from linewright.fleet.fleet_run import MeasureOutcome
from linewright.fleet.groups import ALIKE, FleetMachine, GroupCost, Groups
from linewright.say.document import Document, TextTable, document_of
from linewright.say.sentence import Sentence, sentence, sentence_as_written

MOST_NAMES = 6
"""Machines of a group that its line names; the page's table names all."""
MOST_FIGURES = 4
"""Differences of a group that are named before the table."""
MOST_OPEN = 12
"""Machines that the page lists without being asked."""


def document(found: Groups, failed: dict[str, MeasureOutcome], plan: str) -> Document:
    """The groups, what each pays, every machine, and last those that were not measured."""
    letters = [letter(number) for number in range(len(found.groups))]
    members = list(zip(letters, found.groups, strict=True))
    machines = [
        [name, m.host.target, f"{m.host.name}.jsonl", _model(m), m.context.kernel]
        for name, group in members
        for m in group
    ]
    counts = numbers.count(len(machines), "machine"), numbers.count(len(letters), "group")
    return document_of(
        title=f"{' in '.join(counts)}, plan {plan}",
        headline=[
            sentence(
                f"{', '.join(counts)}: within a group no kind of operation differs by more than "
                f"{ALIKE:.0%} beyond its intervals",
                cells=[figure.words for figure in found.figures],
                basis="costs" if found.figures else "run",
            )
        ],
        facts=[
            line
            for number, (name, group) in enumerate(members)
            for line in (
                sentence_as_written(_group(name, group), basis="run"),
                *_apart(found, number),
            )
        ],
        tables=[
            TextTable(
                title="What each group pays: ns per operation, median of the group's machines; the "
                "ratio is to group A. The most different first.",
                headings=["what", *letters],
                left=[True, *[False for _ in letters]],
                rows=[_row(figure) for figure in found.figures],
                styles=[_style(figure) for figure in found.figures],
            ),
            TextTable(
                title="Machines",
                headings=["group", "machine", "records", "processor", "kernel"],
                left=[True] * 5,
                rows=machines,
                closed=len(machines) > MOST_OPEN,
            ),
            TextTable(
                title="Not measured: --resume continues with these machines",
                headings=["machine", "why"],
                left=[True, True],
                rows=[[target, outcome.reason] for target, outcome in failed.items()],
                folds=(0, 1),
            ),
        ],
    )


def letter(number: int) -> str:
    """A, B … Z, A2, B2 …"""
    again, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(again + 1) if again else "")


def _group(name: str, members: Sequence[FleetMachine]) -> str:
    """Who is in a group, and what they are: the most frequent first."""
    names = [one_line(machine.host.name) for machine in members]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    often = Counter(map(_model, members))
    models = "; ".join(
        f"{model} ({count})" if len(often) > 1 else model for model, count in often.most_common()
    )
    count = numbers.count(len(names), "machine")
    return f"{name}, {count}: {', '.join(names[:MOST_NAMES])}{more} ({models})"


def _model(machine: FleetMachine) -> str:
    return one_line(f"{machine.context.cpu_model}, {len(machine.context.cpus)} CPUs")


def _row(figure: GroupCost) -> list[str]:
    first = figure.values[0]
    ratios = [
        f" ({numbers.multiple(here / first)})" if here and first else "" for here in figure.values
    ]
    values = map(numbers.figure, figure.values)
    return [figure.words, *map("".join, zip(values, ["", *ratios[1:]], strict=True))]


def _ratio(figure: GroupCost, number: int) -> float:
    """By how much a group differs from the first, as a ratio of at least 1; 1 where either has no
    figure."""
    first, here = figure.values[0], figure.values[number]
    return max(first / here, here / first) if first and here else 1.0


def _style(figure: GroupCost) -> str:
    """By the group that differs most from the first."""
    number = max(range(len(figure.values)), key=lambda n: _ratio(figure, n))
    if _ratio(figure, number) < 1 + ALIKE:
        return ""
    return "bad" if figure.values[number] > figure.values[0] else "good"


def _apart(found: Groups, number: int) -> list[Sentence]:
    """What sets a group apart from the first one, the largest ratio first."""
    figures = sorted(found.figures, key=lambda figure: -_ratio(figure, number))[:MOST_FIGURES]
    lines = []
    for figure in figures:
        first, here, ratio = figure.values[0], figure.values[number], _ratio(figure, number)
        if ratio >= 1 + ALIKE:
            text = (
                f"  {numbers.multiple(ratio)} {'slower' if here > first else 'faster'} "
                f"than A: {figure.words}, {numbers.figure(here)} against {numbers.figure(first)} ns"
            )
            lines.append(sentence_as_written(text, [figure.words], "costs"))
    return lines
