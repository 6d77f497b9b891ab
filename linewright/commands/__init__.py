# SPDX-License-Identifier: MIT
"""The sub-commands: each module here whose name has no leading underscore is one, and so is each
module of a wing's folder `commands`; adding it adds the command.

A module NAME has a function NAME, which is the command, and `ORDER`, its place in the help, of
which the tens are one of GROUPS; behind a word of Python's own, such as `import`, stands a `_`.
`CONTEXT`, if it is there, has settings of Click's context. A wing whose folder `commands` has
`ABOUT` has its commands behind its own name (`linewright model explain`), with that sentence as
their help. Heavy imports (NumPy, SciPy) belong inside the functions that need them: `linewright
--help` must stay quick."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from inspect import getdoc
from types import ModuleType

import typer

from linewright.wings import PACKAGE, wings

GROUPS = (
    "Measure",
    "My program",
    "My machine's description",
    "Simulated machines",
    "Tools",
)
"""What the help shows together, in this order."""


class Grouped(typer.core.TyperGroup):
    """The app: its commands by their groups, a wing's among them."""

    def list_commands(self, ctx: typer.Context) -> list[str]:
        """The names in the order of the help; Typer has a wing's first."""
        return sorted(self.commands, key=lambda name: GROUPS.index(self._group(name)))

    def _group(self, name: str) -> str:
        return str(getattr(self.commands[name], "rich_help_panel", GROUPS[0]))


def register_all(app: typer.Typer) -> None:
    """Hang every command on the app, in the order of the help page."""
    inner: dict[str, typer.Typer] = {}
    for module in sorted(_modules(), key=lambda module: (module.ORDER, module.__name__)):
        folder, _, name = module.__name__.rpartition(".")
        about, group = getattr(importlib.import_module(folder), "ABOUT", ""), app
        panel = GROUPS[module.ORDER // 10]
        if about:
            wing = folder.split(".")[1]
            if wing not in inner:
                inner[wing] = typer.Typer(no_args_is_help=True)
                app.add_typer(inner[wing], name=wing, help=about, rich_help_panel=panel)
            group = inner[wing]
        function = getattr(module, name)
        group.command(
            name.rstrip("_"),
            help=_unwrapped(getdoc(function) or ""),
            context_settings=getattr(module, "CONTEXT", None),
            rich_help_panel=None if about else panel,
        )(function)


def _unwrapped(text: str) -> str:
    """Paragraphs of one line each, which the help wraps to the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _modules() -> Iterator[ModuleType]:
    """The core's commands and those of the wings that are present."""
    for folder in ("", *wings()):
        for module in pkgutil.iter_modules([str(PACKAGE / folder / "commands")]):
            if not module.name.startswith("_"):
                parts = ("linewright", folder, "commands", module.name)
                yield importlib.import_module(".".join(filter(None, parts)))
