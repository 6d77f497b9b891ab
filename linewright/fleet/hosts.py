# SPDX-License-Identifier: MIT
"""Which machines: targets on the command line or in a file, and the name of each one's record
file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from linewright import wings
from linewright.errors import UserError
from linewright.run.place import transports

MOST_HOSTS = 10_000
FILE = "@"
"""Begins an ``--on`` that names a file of machines."""


class Host(Struct, frozen=True):
    """One machine: the target that ``--on`` takes, and a name that files can bear."""

    target: str
    name: str


def asked(on: Iterable[str]) -> list[Host]:
    """The machines that ``--on`` names, those of files among them."""
    lines = (read_hosts(text[len(FILE) :]) if text.startswith(FILE) else [text] for text in on)
    return named(itertools.chain.from_iterable(lines), "--on")


def read_hosts(path: str) -> list[str]:
    """One target a line; ``HOST``, ``USER@HOST`` and ``HOST:PORT`` mean ssh. ``#`` begins a
    comment."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(reason, path, "expected a file with one host a line") from None
    bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    lines = list(filter(None, bare))
    if not lines:
        allowed = "one host a line, such as user@host or ssh://host:22"
        raise UserError("no host in it", path, allowed)
    schemes = {"local", *transports(), *wings.targets()}
    return [line if line.partition(":")[0] in schemes else f"ssh://{line}" for line in lines]


def distinct(machine_ids: Mapping[Host, str], note: Callable[[str], None]) -> list[Host]:
    """Each machine once: of hosts that led to one, the first; the others are named by a note."""
    first: dict[str, Host] = {}
    for host, machine_id in machine_ids.items():
        known = first.setdefault(machine_id, host)
        if known is not host:
            note(f"{host.target} is the machine of {known.target}, which counts once")
    return list(first.values())


def named(targets: Iterable[str], where: str) -> list[Host]:
    """The targets with names of their own; one that is named twice is refused: two runs on one
    machine disturb each other."""
    hosts: dict[str, Host] = {}
    names: set[str] = set()
    for target in targets:
        if target in hosts:
            raise UserError(f"{target} named twice", where, "each machine once")
        plain = re.sub(r"[^A-Za-z0-9._@]+", "-", re.sub("^(ssh|dask):", "", target))
        plain = plain.strip("-.")[:80] or "machine"
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        name = next(name for name in itertools.chain([plain], numbered) if name not in names)
        names.add(name)
        hosts[target] = Host(target, name)
    if len(hosts) > MOST_HOSTS:
        raise UserError(f"{len(hosts)} machines", where, f"at most {MOST_HOSTS}")
    return list(hosts.values())
