"""The sub-commands: each module here whose name has no leading underscore is one, and adding it adds the command.

A module NAME has a function NAME, which is the command, and `ORDER`, its place in the help.  `CONTEXT`, if it is there,
has settings of Click's context.  A group of commands has `register(app)` instead, which hangs it on the Typer app.
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
        if hasattr(module, "register"):
            module.register(app)
        else:
            name = module.__name__.rpartition(".")[2]
            app.command(name, context_settings=getattr(module, "CONTEXT", None))(getattr(module, name))
