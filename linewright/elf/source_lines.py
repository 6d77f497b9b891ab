# SPDX-License-Identifier: MIT
"""Functions and source lines of a file's code, by LLVM's symboliser or addr2line, also where
functions were inlined: the line that a reader wants is of no library's header."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import PurePath
from typing import NamedTuple

from linewright.elf.symbols import without_hash

_LIBRARY = re.compile(r"^(/usr/|/rustc/|/nix/store/)|/(c\+\+|\.cargo/registry|rustlib)/")
_TOOLS = (
    *("llvm-symbolizer", *(f"llvm-symbolizer-{n}" for n in range(22, 10, -1))),
    *("eu-addr2line", "addr2line"),
)
_TIMEOUT_S = 120


class SourceLine(NamedTuple):
    """What the debug information says of an address."""

    function: str = ""
    """The one that was not inlined."""
    source: str = ""
    """``file:line``."""
    inlined: tuple[str, ...] = ()
    """The functions that were inlined there, innermost first."""


def is_library(source: str) -> bool:
    """Whether a source is a header's or a library's: the reader wants the line that it was inlined
    into."""
    return bool(_LIBRARY.search(source))


def source_lines(path: str, addresses: list[int]) -> dict[int, SourceLine]:
    """What the first tool that is installed says of each address in a file; none where it cannot
    be asked."""
    tool = next(filter(None, map(shutil.which, _TOOLS)), None)
    if tool is None:
        return {}
    llvm = "symbolizer" in PurePath(tool).name
    how = [f"--obj={path}", "--output-style=GNU"] if llvm else ["-f", "-C", "-e", path]
    try:
        done = subprocess.run(
            [tool, "-a", "-i", *how],
            input="".join(f"{address:#x}\n" for address in addresses),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            env=os.environ | {"DEBUGINFOD_URLS": ""},
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse(done.stdout.splitlines(), addresses)


def parse(lines: list[str], addresses: list[int]) -> dict[int, SourceLine]:
    """What a tool says of each address: the address, and a function and its line for each of those
    that were inlined there, innermost first."""
    chains: list[list[str]] = []
    for line in lines:
        if line.startswith("0x"):
            chains.append([])
        elif chains:
            chains[-1].append(line)
    return {
        address: _user_line(
            [
                (
                    "" if function == "??" else function.removesuffix(" (inlined)"),
                    "" if source.startswith("??") else source.split(" (discriminator")[0],
                )
                for function, source in zip(chain[::2], chain[1::2], strict=False)
            ]
        )
        for address, chain in zip(addresses, chains, strict=False)
    }


def _user_line(frames: list[tuple[str, str]]) -> SourceLine:
    """Of a chain of inlined functions with their lines, innermost first: the function that was not
    inlined, and the innermost line that is of no system header; without one its own."""
    lines = [source for _, source in frames if source and not source.endswith((":0", ":?"))]
    own = [source for source in lines if not is_library(source)]
    inlined, (function, _) = frames[:-1], frames[-1] if frames else ("", "")
    if "__rust_begin_short_backtrace" in function:  # what std::thread runs a closure in
        mine = [f for f, at in inlined if not is_library(at)]
        function = mine[-1] if mine else function
    source = next(iter([*own, *lines[-1:]]), "")
    return SourceLine(without_hash(function), source, tuple(without_hash(f) for f, _ in inlined))
