"""The report's sections in their order; each module makes one, or nothing when its cells were not measured."""

from __future__ import annotations

from importlib import import_module

from linewright.report.material import Material
from linewright.report.parts import Section

ORDER = (
    "prices",
    "lines",
    "glance",
    "matrix",
    "work",
    "threads",
    "fairness",
    "handoff",
    "readers",
    "percpu",
    "cache",
    "wide",
    "operations",
)
"""Modules of this package, each with a function `section`."""


def sections(material: Material) -> list[Section]:
    """Every section that the records have something for."""
    made = (import_module(f"{__name__}.{name}").section(material) for name in ORDER)
    return [section for section in made if section is not None]
