# SPDX-License-Identifier: MIT
"""Checks that every source file names its licence in its first lines and opens with a comment or
docstring that says what it is for; exit code 1 if one does not.

What opens a file is its first text after an interpreter line, include guard or licence tag: a
module docstring in Python, a comment in C, C++, assembly, CMake, shell and TOML. Whether the
sentence is a good one is for a reader to judge."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

_C = (".c", ".h", ".cpp", ".hpp", ".inc", ".def", ".S")
_HASH = (".sh", ".cmake", ".toml")
_SKIPPED = re.compile(r"^(?:#!|#pragma once|#ifndef \w+_H|#define \w+_H|(?://|/\*|#) ?SPDX-|\s*$)")
_WORDS = re.compile(r"[A-Za-z`_][\w`./*-]*")


def opening(path: Path) -> str:
    """The text that opens a file, empty if it is code."""
    text = path.read_text(errors="replace")
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    lines = text.split("\n")
    while lines and _SKIPPED.match(lines[0]):
        lines.pop(0)
    signs = ("/*", "//", " *") if path.suffix in _C else ("#",)
    return " ".join(itertools.takewhile(lambda line: line.startswith(signs), lines))


def licensed(path: Path) -> bool:
    """Whether it has SPDX's tag, behind an interpreter line at most."""
    return any("SPDX-License-Identifier: " in line for line in path.read_text().split("\n")[:3])


def source(path: Path) -> bool:
    return path.suffix in (".py", *_C, *_HASH) or path.name in ("CMakeLists.txt", "Makefile")


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    sources = [
        path
        for path in map(Path, listed)
        if path.is_file() and source(path) and path.stat().st_size
    ]
    found = [
        f"{path}: no SPDX licence tag in its first lines" for path in sources if not licensed(path)
    ]
    found += [
        f"{path}: does not open with a sentence that says what it is for"
        for path in sources
        if path.name != "__init__.py" and len(_WORDS.findall(opening(path))) < 3
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
