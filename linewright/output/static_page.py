"""Self-contained HTML pages without a script: one head, one set of colours, every text escaped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from linewright import __version__
from linewright.errors import one_line


def render(folder: Path, filters: dict[str, Callable], **values: object) -> str:
    """The page of the template ``page.html`` in a folder, which extends ``static_page.html`` of this one."""
    environment = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"line": one_line, **filters}
    return environment.get_template("page.html").render(version=__version__, **values)
