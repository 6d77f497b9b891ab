# SPDX-License-Identifier: MIT
"""The sub-commands: each module here whose name has no leading underscore is one, and so is each
module of a wing's folder `commands`; adding it adds the command.

A module NAME has a function NAME, which is the command, and `ORDER`, its place in the help; behind
a word of Python's own, such as `import`, stands a `_`.  `CONTEXT`, if it is there, has settings of
Click's context. Heavy imports (NumPy, SciPy) belong inside the functions
that need them: `linewright --help` must stay quick."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import typer

from linewright.wings import PACKAGE, wings


def register_all(app: typer.Typer) -> None:
    """Hang every command on the app, in the order of the help page."""
    for module in sorted(_modules(), key=lambda module: (module.ORDER, module.__name__)):
        name = module.__name__.rpartition(".")[2]
        app.command(name.rstrip("_"), context_settings=getattr(module, "CONTEXT", None))(
            getattr(module, name)
        )


def _modules() -> Iterator[ModuleType]:
    """The core's commands and those of the wings that are present."""
    for folder in ("", *wings()):
        for module in pkgutil.iter_modules([str(PACKAGE / folder / "commands")]):
            if not module.name.startswith("_"):
                parts = ("linewright", folder, "commands", module.name)
                yield importlib.import_module(".".join(filter(None, parts)))
