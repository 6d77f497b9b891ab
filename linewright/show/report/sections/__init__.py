"""The report's sections in their order; each module makes one, or nothing when its cells were not
measured."""

from __future__ import annotations

from importlib import import_module

from linewright.say.page_material import Material
from linewright.show.report.parts import Section

ORDER = ("prices", "matrix", "explore", "handoff", "readers", "cache")
"""Modules of this package, each with a function `section`."""


def sections(material: Material) -> list[Section]:
    """Every section that the records have something for; those of wings behind the prices."""
    own = [import_module(f"{__name__}.{name}").section(material) for name in ORDER]
    return [section for section in (own[0], *material.of_wings, *own[1:]) if section is not None]
