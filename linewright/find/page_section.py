# SPDX-License-Identifier: MIT
"""Lines that travel between a program's threads, as `linewright find` saw them: one table for each
result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

from linewright import numbers
from linewright.errors import one_line
from linewright.find import results
from linewright.find.line_words import (
    advice,
    amount_text,
    blind_text,
    bytes_text,
    kind_text,
    line_text,
    site_text,
)
from linewright.find.result_document import headline, limits
from linewright.find.results import Hot, Result
from linewright.say.document import Column, Section, Sentence, sentence_as_written, table_of


def _column(name: str, text: Callable[[Hot], str]) -> Column:
    return Column(name, lambda hot: one_line(text(hot)), text=True)


COLUMNS = (
    _column("line", lambda hot: line_text(hot)),
    _column("share of time", lambda hot: amount_text(hot)),
    _column("kind", lambda hot: f"{kind_text(hot)}, {hot.certainty}"),
    _column("threads", lambda hot: str(hot.threads)),
    _column("bytes", lambda hot: "; ".join(bytes_text(hot))),
    _column("sites", lambda hot: "; ".join(site_text(site) for site in hot.sites[:3])),
    _column("at most to gain", lambda hot: _most(hot)),
    _column("what to do", lambda hot: advice(hot)),
)


def section(paths: Sequence[str]) -> tuple[list[str], Section | None]:
    """The results of `linewright find` among some files, and a section with a table for each."""
    found = {path: results.read(path) for path in paths if results.is_result(path)}
    if not found:
        return [], None
    return list(found), Section(
        id="lines",
        title="Lines that travel",
        lead=sentence_as_written(
            "Cache lines that several threads of a program use, the most expensive first, as "
            "linewright find saw them. Shares are of the program's samples, with 95 % intervals; "
            "gains are ceilings, not promises.",
            basis="rule",
        ),
        blocks=[
            table_of(one_line(f"{headline(result)} ({PurePath(path).name})"), COLUMNS, result.lines)
            for path, result in found.items()
        ],
        notes=[text for result in found.values() for text in _notes(result)],
    )


def _most(hot: Hot) -> str:
    return numbers.percent(hot.ceiling.gain.high, False) if hot.ceiling else numbers.ABSENT


def _notes(result: Result) -> list[Sentence]:
    """What limits a result; its blind spots always."""
    name = one_line(result.program)
    return [
        *(sentence_as_written(f"{name}: {one_line(text)}", basis="run") for text in limits(result)),
        sentence_as_written(f"{name}, {blind_text(result)}.", basis="rule"),
    ]
