"""A fleet's result: the groups as text, and as one self-contained HTML page without a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from linewright.errors import one_line
from linewright.fleet.crew import Outcome
from linewright.fleet.groups import Figure, Groups, Machine
from linewright.output import static_page
from linewright.units import ns_text

PAGES = Path(__file__).parent
MOST_NAMES = 6
"""Machines of a group that the text names; the page names all."""
MOST_FIGURES = 4
"""Differences of a group that the text names."""
LEAST_RATIO = 1.10
"""Smallest ratio between groups that is called a difference."""


def text(found: Groups, failed: dict[str, Outcome]) -> list[str]:
    """What a person should read first: how many groups, who is in them, and what sets them apart."""
    count = sum(map(len, found.groups))
    what = "one group" if len(found.groups) == 1 else f"{len(found.groups)} groups"
    lines = (
        [
            f"{count} machine{'s' if count != 1 else ''}, {what}: within a group no kind of operation"
            " differs by more than "
            f"{found.alike:.0%} beyond its intervals."
        ]
        if count
        else []
    )
    for number, members in enumerate(found.groups):
        names = [one_line(machine.host.name) for machine in members]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines.append(
            f"{letter(number)}  {len(members)}: {', '.join(names[:MOST_NAMES])}{more}  ({counted(models(members))})"
        )
        lines += [f"     {difference(figure, number)}" for figure in apart(found, number)[:MOST_FIGURES]]
    lines += [one_line(f"failed: {target}: {outcome.reason}") for target, outcome in failed.items()]
    return lines


def page(found: Groups, failed: dict[str, Outcome], plan: str) -> str:
    """The whole page as text."""
    return static_page.render(
        PAGES,
        {"ns": ns_text},
        groups=[_part(found, number) for number in range(len(found.groups))],
        figures=found.figures,
        ratio=ratio_text,
        shade=shade,
        letters=[letter(number) for number in range(len(found.groups))],
        failed=failed,
        plan=plan,
        alike=f"{found.alike:.0%}",
        machines=sum(map(len, found.groups)),
    )


def _part(found: Groups, number: int) -> dict:
    members = found.groups[number]
    return {
        "letter": letter(number),
        "members": members,
        "models": counted(models(members)),
        "kernels": counted(machine.context.kernel for machine in members),
        "differences": [difference(figure, number) for figure in apart(found, number)],
    }


def letter(number: int) -> str:
    """A, B … Z, A2, B2 …"""
    again, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(again + 1) if again else "")


def models(members: Sequence[Machine]) -> Iterable[str]:
    return (one_line(f"{machine.context.cpu_model}, {len(machine.context.cpus)} CPUs") for machine in members)


def counted(values: Iterable[str]) -> str:
    """Different values, the most frequent first, each with its number where there are several."""
    often = Counter(values)
    return "; ".join(f"{value} ({count})" if len(often) > 1 else value for value, count in often.most_common())


def apart(found: Groups, number: int) -> list[Figure]:
    """What sets a group apart from the first one, the largest ratio first."""
    return sorted(
        (figure for figure in found.figures if _ratio(figure, number) >= LEAST_RATIO),
        key=lambda figure: -_ratio(figure, number),
    )


def _ratio(figure: Figure, number: int) -> float:
    """By how much a group differs from the first, as a ratio of at least 1; 1 where either has no figure."""
    first, here = figure.values[0], figure.values[number]
    return max(first / here, here / first) if first and here else 1.0


def difference(figure: Figure, number: int) -> str:
    first, here = figure.values[0], figure.values[number]
    word = "slower" if here > first else "faster"
    return (
        f"{_ratio(figure, number):.2g} times {word} than A: {figure.words}, {ns_text(here)} against {ns_text(first)} ns"
    )


def ratio_text(figure: Figure, number: int) -> str:
    first, here = figure.values[0], figure.values[number]
    return f"{here / first:.2f} ×" if first and here and number else ""


def shade(figure: Figure, number: int) -> str:
    """The class of a cell of the page: slower or faster than the first group, and by much or little."""
    first, here = figure.values[0], figure.values[number]
    if not first or not here or _ratio(figure, number) < LEAST_RATIO:
        return "same"
    return ("slower" if here > first else "faster") + ("-much" if _ratio(figure, number) >= 2 else "")
