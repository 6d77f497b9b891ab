"""The screen in linear order for screen readers: one statement a line, no columns, no bars, no signs to look up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from linewright.analysis.saying import render
from linewright.analysis.screen_data import Condition, Entry, Figure, Price, Screen
from linewright.errors import one_line
from linewright.output.screen import side_by_side, words
from linewright.output.screen.chart import ratio_text
from linewright.output.screen.matrix import control_line


def lines(screens: Sequence[Screen]) -> list[str]:
    """Every line of every machine's screen; of several machines, then the figures that they have in common."""
    marks = side_by_side.marks(screens)
    screens = [msgspec.structs.replace(s, title=s.title + mark) for s, mark in zip(screens, marks, strict=True)]
    said = [one_line(line) for screen in screens for line in _of(screen)]
    for row in side_by_side.lines(screens) if len(screens) > 1 else ():
        costs = (f"{s.title} {words.figure(cost)}" for s, cost in zip(screens, row.costs, strict=True) if cost)
        said.append(one_line(f"{row.name}, nanoseconds: {'; '.join(costs)}."))
    return said


def _of(screen: Screen) -> Iterator[str]:
    yield f"Machine: {', '.join([screen.title, *screen.facts])}."
    yield f"Run: {', '.join(screen.run)}."
    if screen.warning:
        yield f"Warning: {screen.warning}"
    yield from map(render, screen.headline)
    for label, sentences in (("Use", screen.use), ("Set", screen.set)):
        yield from (f"{label}: {render(sentence)}" for sentence in sentences)
    if screen.rows:
        yield f"Matrix of {screen.width_bits}-bit operations, nanoseconds per operation."
    for row in screen.rows:
        for condition in screen.conditions:
            if entry := row.entries.get(condition.key):
                yield f"{row.name}, {words.where(condition)}: {_entry(entry, condition)}"
    if noise := control_line(screen):
        yield noise
    if screen.prices:
        yield "Price list, nanoseconds per operation."
    yield from (_price(price, screen.coarse) for price in screen.prices)
    yield from screen.missing
    yield from (f"Limit: {render(sentence)}" for sentence in screen.limits)


def _figure(found: Figure) -> str:
    text = words.ns(found.ns.median_ns)
    if found.modes_ns:
        text = f"{' or '.join(map(words.ns, found.modes_ns))}, by launch"
    return text + ("" if found.reliable else " (unreliable, too many windows were disturbed)")


def _entry(entry: Entry, condition: Condition) -> str:
    if entry.default is None:
        return f"{entry.why or 'no figure'}."
    text = _figure(entry.default)
    if condition.key == "contended" and not entry.default.modes_ns and (span := words.span(entry.default)):
        text += f", interval {span.replace('–', ' to ')}"
    return f"{text}.{_versus(entry, condition)}"


def _versus(entry: Entry, condition: Condition) -> str:
    versus = entry.versus
    if versus is None:
        return ""
    name = words.form_name(versus.form, entry.default.form if entry.default else "")
    change = words.change_in_words(versus)
    if versus.answer == "same":
        return f" {name}: the same within {words.same_within(condition)}."
    if versus.answer == "undecided":
        return f" {name}: undecided{f', {change} remains possible' if change else ''}."
    if versus.answer == "slower":
        return " Every other form costs more."
    return f" {name}: {change}."


def _price(price: Price, coarse: bool) -> str:
    parts = []
    if price.alone:
        parts.append(f"alone {_figure(price.alone)}")
    if price.contended:
        parts.append(f"with a second CPU {_figure(price.contended)}")
    text = f"{price.name}: {', '.join(parts) or 'no figure'}"
    than = "one atomic word alone" if price.only_alone else "one atomic word"
    if price.reference:
        return f"{text}; the others are compared with it."
    ratio = ratio_text(price.ratio, False, coarse or price.few).replace("–", " to ").replace("×", " times")
    if ratio == "same":
        return f"{text}; the same as {than}."
    if ratio.endswith("times"):
        return f"{text}; {ratio} {than}."
    return f"{text}; {ratio} than {than}." if ratio else f"{text}."
