"""Lines that travel between a program's threads, as `linewright find` saw them: one table for each result."""

from __future__ import annotations

from pathlib import PurePath

from linewright.errors import one_line
from linewright.find.schema import Hot, Result
from linewright.find.screen import bytes_text, headline, kind_text, number_text, percent, site_text
from linewright.output.columns import Column
from linewright.report.material import Material
from linewright.report.parts import Grid, Section

COLUMNS = (
    Column("line", lambda hot: one_line(hot.object), text=True),
    Column("share of time", lambda hot: one_line(_share(hot)), text=True),
    Column("kind", lambda hot: one_line(f"{kind_text(hot)}, {hot.certainty}"), text=True),
    Column("threads", lambda hot: str(hot.threads), text=True),
    Column("bytes", lambda hot: one_line("; ".join(bytes_text(hot.touches, hot.threads))), text=True),
    Column("sites", lambda hot: one_line("; ".join(site_text(site) for site in hot.sites[:3])), text=True),
    Column("at most to gain", lambda hot: f"{number_text(hot.ceiling.gain.high)} %" if hot.ceiling else "–", text=True),
    Column("what to do", lambda hot: one_line(hot.remedy or "–"), text=True),
)


def section(material: Material) -> Section | None:
    """A table for each result among the files."""
    if not material.found:
        return None
    return Section(
        id="lines",
        title="Lines that travel",
        lead="Cache lines that several threads of a program use, the most expensive first, as linewright find saw them."
        " Shares are of the program's samples, with 95 % intervals; gains are ceilings, not promises.",
        grids=[
            Grid.of(one_line(f"{headline(result)} ({PurePath(path).name})"), COLUMNS, result.lines)
            for path, result in material.found
        ],
        notes=[text for _, result in material.found for text in _notes(result)],
    )


def _share(hot: Hot) -> str:
    share = percent(hot.share) if hot.share is not None else f"{hot.accesses} accesses"
    return f"<= {share}" if hot.at_most else share


def _notes(result: Result) -> list[str]:
    """What limits a result; its blind spots always."""
    name = one_line(result.program)
    return [*(f"{name}: {one_line(text)}" for text in result.notes), f"{name}, blind to: {'; '.join(result.blind)}."]
