"""The report's sections in their order; each module makes one, or nothing when its cells were not measured."""

from __future__ import annotations

from collections.abc import Callable

from linewright.report.material import Material
from linewright.report.parts import Section
from linewright.report.sections import (
    cache,
    fairness,
    glance,
    handoff,
    lines,
    matrix,
    operations,
    percpu,
    prices,
    readers,
    threads,
    wide,
    work,
)

MAKERS: tuple[Callable[[Material], Section | None], ...] = (
    prices.section,
    lines.section,
    glance.section,
    matrix.section,
    work.section,
    threads.section,
    fairness.section,
    handoff.section,
    readers.section,
    percpu.section,
    cache.section,
    wide.section,
    operations.section,
)


def sections(material: Material) -> list[Section]:
    """Every section that the records have something for."""
    made = (make(material) for make in MAKERS)
    return [section for section in made if section is not None]
