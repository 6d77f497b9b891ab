"""Which machines: targets on the command line or in a file, and the name of each one's record file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from linewright.errors import UserError

MOST_HOSTS = 10_000
SCHEMES = ("local", "ssh", "exec", "model")


class Host(Struct, frozen=True):
    """One machine: the target that ``--on`` takes, and a name that files can bear."""

    target: str
    name: str


def read_hosts(path: str) -> list[Host]:
    """One target a line; ``HOST``, ``USER@HOST`` and ``HOST:PORT`` mean ssh. ``#`` begins a comment."""
    lines = _lines(path)
    return named([line if line.partition(":")[0] in SCHEMES else f"ssh://{line}" for line in lines], path)


def read_workers(path: str) -> list[Host]:
    """The same for a cluster's workers: a name, a host or an address a line."""
    lines = _lines(path)
    for line in lines:
        if line.partition(":")[0] in SCHEMES:
            raise UserError(f"{line} is no worker", path, "with --scheduler: a worker's name, host or address a line")
    return named(lines, path)


def _lines(path: str) -> list[str]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(reason or str(error), path, "expected a file with one host a line") from None
    lines = [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()) if line]
    if not lines:
        raise UserError("no host in it", path, "one host a line, such as user@host or ssh://host:22")
    return lines


def named(targets: Iterable[str], where: str) -> list[Host]:
    """The targets with names of their own; one that is named twice is refused: two runs on one machine disturb each
    other."""
    hosts: dict[str, Host] = {}
    names: set[str] = set()
    for target in targets:
        if target in hosts:
            raise UserError(f"{target} named twice", where, "each machine once")
        plain = re.sub(r"[^A-Za-z0-9._@]+", "-", target.removeprefix("ssh:")).strip("-.")[:80] or "machine"
        name = next(name for name in _candidates(plain) if name not in names)
        names.add(name)
        hosts[target] = Host(target, name)
    if len(hosts) > MOST_HOSTS:
        raise UserError(f"{len(hosts)} machines", where, f"at most {MOST_HOSTS}")
    return list(hosts.values())


def _candidates(plain: str) -> Iterable[str]:
    yield plain
    number = 2
    while True:
        yield f"{plain}-{number}"
        number += 1
