"""The targets that ``--on`` can name: this machine, its kernel, others over ssh or behind a command, and simulated
ones."""

from __future__ import annotations

from collections.abc import Callable

from linewright.errors import UserError
from linewright.target.local import LocalTarget, Target


def open_target(name: str) -> Target:
    """The target that ``--on`` names."""
    scheme, _, rest = name.partition(":")
    if scheme not in TARGETS:
        raise UserError(
            f"no target {name!r}", "--on", "allowed: local, kernel, ssh://USER@HOST:PORT, 'exec:COMMAND', model:NAME"
        )
    return TARGETS[scheme](rest)


def _only_here(rest: str) -> Target:
    if rest:
        raise UserError(f"no target 'local:{rest}'", "--on", "local takes nothing behind a colon")
    return LocalTarget()


def _simulated(rest: str) -> Target:
    from linewright.target.model import open_model  # NumPy comes with it: a tenth of a second of every other command

    return open_model(rest)


def _over_ssh(rest: str) -> Target:
    from linewright.target.remote.target import open_ssh  # pyelftools comes with it

    return open_ssh(rest)


def _behind_command(rest: str) -> Target:
    from linewright.target.remote.target import open_exec  # pyelftools comes with it

    return open_exec(rest)


def _in_the_kernel(rest: str) -> Target:
    from linewright.target.kernel import open_kernel  # rarely asked for

    return open_kernel(rest)


TARGETS: dict[str, Callable[[str], Target]] = {
    "local": _only_here,
    "kernel": _in_the_kernel,
    "ssh": _over_ssh,
    "exec": _behind_command,
    "model": _simulated,
}
"""Schemes of ``--on``: the part before the first colon, and what makes a target of the part behind it."""
