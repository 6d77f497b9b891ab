"""The sub-commands: each module here whose name has no leading underscore is one, and adding it adds the command.

A module has `register(app)`, which hangs its function on the Typer app, and `ORDER`, its place in the help.
Heavy imports (NumPy, SciPy) belong inside the functions that need them: `linewright --help` must stay quick.
"""

from __future__ import annotations

import importlib
import pkgutil

import typer


def register_all(app: typer.Typer) -> None:
    """Hang every command on the app, in the order of the help page."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    for module in sorted(modules, key=lambda module: (module.ORDER, module.__name__)):
        module.register(app)
