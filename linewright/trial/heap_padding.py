# SPDX-License-Identifier: MIT
"""`trial --pad`: blocks of a named call site on lines of their own, through the interposed malloc
of `linewright find`.

Both settings run with the interposed malloc, which looks for the same blocks in both, and with
environments of one length (an environment's length moves the stack), so that they differ in the
padding alone."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath

from linewright.elf.symbols import Symbol, demangle, module
from linewright.errors import UserError
from linewright.run import programs
from linewright.trial.trial_file import TrialSetting

UNPADDED = "unpadded"
_TO, _BLOCKS = "LINEWRIGHT_FIND_PAD_TO", "LINEWRIGHT_FIND_PAD"
_AS, SEEN = "LINEWRIGHT_FIND_PAD_AS", "LINEWRIGHT_FIND_PAD_SEEN"
"""Variables that the preloaded library reads (find/preload/heap.cpp)."""
ALLOWED = (
    "allowed: a function of the program that allocates, MODULE+0xADDRESS, or"
    " MODULE+0xBEGIN-0xEND, as linewright find prints"
)
_RANGE = re.compile(
    r"^(?P<module>[^,/]+)\+0x(?P<begin>[0-9a-f]{1,16})(?:-0x(?P<end>[0-9a-f]{1,16}))?$"
)


def settings(
    sites: list[str], program: str, library: str, before: Mapping[str, str]
) -> list[TrialSetting]:
    """The baseline and one setting for each site; `before` is the environment without them."""
    preload = programs.preloading([library], before)
    found = [ranges(site, program) for site in sites]
    longest = max(map(len, found))

    def named(number: int, name: str, to: str, blocks: str) -> TrialSetting:
        # Commas at the end are empty ranges: they make the values equally long.
        more = {_TO: to, _BLOCKS: blocks.ljust(longest, ","), _AS: f"{number:02d}"}
        return TrialSetting(name=name, environment=preload | more)

    padded = [
        named(i, f"pad {site}", "128", blocks)
        for i, (site, blocks) in enumerate(zip(sites, found, strict=True), 1)
    ]
    return [named(0, UNPADDED, "016", found[0]), *padded]


def unseen(some: Sequence[TrialSetting], marks: Collection[str]) -> list[str]:
    """Names of settings that the library left no mark of: it found no block."""
    return [s.name for s in some if _AS in s.environment and s.environment[_AS] not in marks]


def ranges(site: str, program: str) -> str:
    """The site as the library reads it: ranges of a module's own addresses that an allocating call
    returns into."""
    given = _RANGE.match(site)
    if given:
        begin, end = (int(given[name] or given["begin"], 16) for name in ("begin", "end"))
        begin -= not given["end"]  # one address alone is the call's return address
        return f"{given['module']}+{begin:#x}-{end:#x}"
    file = module(os.path.realpath(program))
    found = [s for s in file.functions if s.size and _named(s, site)]
    if found:
        name = PurePath(os.path.realpath(program)).name
        return ",".join(sorted({f"{name}+{s.address:#x}-{s.address + s.size:#x}" for s in found}))
    if any(_named(s, site) for s in file.variables):
        what = f"{site} is a static variable, which cannot be moved in a built program"
        allowed = "linewright find shows what it could bring at most; declare it alignas(128) and "
        raise UserError(what, "--pad", allowed + "compare the two programs")
    raise UserError(f"no function {site!r} in {program}", "--pad", ALLOWED)


def _named(symbol: Symbol, site: str) -> bool:
    """By the symbol, by the C++ name as written, or by that without its arguments."""
    if symbol.name == site:
        return True
    if not symbol.name.startswith("_Z") or site.split("(")[0].split("::")[-1] not in symbol.name:
        return False
    written = demangle(symbol.name)
    return site in (written, written.split("(")[0])
