# SPDX-License-Identifier: GPL-2.0-only
"""The configuration of a small kernel: everything off, then the lines of our fragments, each of
which has to be granted.

A fragment is a file of ../config with lines as a kernel's .config has them. A line may end in ``#
6.12`` (other series leave it out). What Kconfig does not grant, because a dependency is missing or
a name is wrong, stops the build with the line."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import Refused

FOLDER = Path(__file__).resolve().parents[1] / "config"
_LINE = re.compile(r"^(CONFIG_\w+=\S.*?|# CONFIG_\w+ is not set)(?:\s+# ([\d. ]+))?$")


def fragments() -> list[str]:
    """What can be asked for besides the base and the architecture's."""
    return sorted(path.stem for path in FOLDER.glob("*.config"))


def read(name: str, series: str) -> list[str]:
    """The lines of a fragment that are for a series."""
    path = FOLDER / f"{name}.config"
    if not path.is_file():
        raise Refused(f"no fragment {name}; there are {', '.join(fragments())}")
    lines = []
    for line in path.read_text().splitlines():
        found = _LINE.match(line)
        if found:
            if not found[2] or series in found[2].split():
                lines.append(found[1])
        elif line.strip() and not line.startswith("# ") and line != "#":
            raise Refused(f"{path.name}: neither a setting nor a comment: {line}")
    return lines


def merged(groups: list[list[str]]) -> list[str]:
    """One line a symbol: a later group has the last word."""
    by_symbol: dict[str, str] = {}
    for lines in groups:
        for line in lines:
            by_symbol[symbol(line)] = line
    return list(by_symbol.values())


def symbol(line: str) -> str:
    """The name in a line of a configuration."""
    return re.search(r"CONFIG_\w+", line)[0]


def refused(asked: list[str], granted: str) -> list[str]:
    """The lines that a finished .config does not have. A symbol that is absent there is one that is
    not set."""
    have = set(granted.splitlines())
    named = {symbol(line) for line in have if "CONFIG_" in line}
    return [
        line
        for line in asked
        if line not in have and not (line.startswith("# ") and symbol(line) not in named)
    ]
