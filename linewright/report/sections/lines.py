"""Lines that travel between a program's threads, as `linewright find` saw them: one table for each result."""

from __future__ import annotations

from pathlib import PurePath

from linewright.errors import one_line
from linewright.find.schema import Hot, Result
from linewright.find.screen import bytes_text, headline, kind_text, number_text, percent, site_text
from linewright.report.material import Material
from linewright.report.parts import Grid, Section

COLUMNS = ["line", "share of time", "kind", "threads", "bytes", "sites", "at most to gain", "what to do"]


def section(material: Material) -> Section | None:
    """A table for each result among the files."""
    if not material.found:
        return None
    return Section(
        id="lines",
        title="Lines that travel",
        lead="Cache lines that several threads of a program use, the most expensive first, as linewright find saw them."
        " Shares are of the program's samples, with 95 % intervals; gains are ceilings, not promises.",
        grids=[_grid(path, result) for path, result in material.found],
        notes=[text for _, result in material.found for text in _notes(result)],
    )


def _grid(path: str, result: Result) -> Grid:
    caption = f"{headline(result)} ({PurePath(path).name})"
    return Grid(caption=one_line(caption), columns=COLUMNS, rows=[_row(hot) for hot in result.lines], left=len(COLUMNS))


def _row(hot: Hot) -> list[str]:
    share = percent(hot.share) if hot.share is not None else f"{hot.accesses} accesses"
    gain = f"{number_text(hot.ceiling.gain.high)} %" if hot.ceiling else "–"
    values = [
        hot.object,
        f"<= {share}" if hot.at_most else share,
        f"{kind_text(hot)}, {hot.certainty}",
        str(hot.threads),
        "; ".join(bytes_text(hot.touches, hot.threads)),
        "; ".join(site_text(site) for site in hot.sites[:3]),
        gain,
        hot.remedy or "–",
    ]
    return [one_line(value) for value in values]


def _notes(result: Result) -> list[str]:
    """What limits a result; its blind spots always."""
    name = one_line(result.program)
    return [*(f"{name}: {one_line(text)}" for text in result.notes), f"{name}, blind to: {'; '.join(result.blind)}."]
