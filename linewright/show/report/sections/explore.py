"""One chart of whatever its reader asks for: an operation's figure along an axis, the rest held."""

from __future__ import annotations

from linewright import numbers
from linewright.say.explorer import explorer
from linewright.say.page_material import Material
from linewright.show.report import charts
from linewright.show.report.parts import Section


def section(material: Material) -> Section | None:
    cells = [c for label in material.labels for c in material.cells_of(label)]
    asked = explorer(cells)
    if not asked:
        return None
    units = dict.fromkeys(numbers.figure(s.contexts[0].unit_ns) for s in material.series)
    return Section.of("explore", explorer=charts.explored(asked, material), unit=" or ".join(units))
