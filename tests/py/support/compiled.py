# SPDX-License-Identifier: MIT
"""What a build compiles that build/native has compiled in another way: the compiler cache, which
goes by command and text, has nothing of it."""

from __future__ import annotations

import json
from pathlib import Path

from support.places import ROOT

Compiled = dict[str, set[tuple[str, str]]]


def compiled(build: str) -> Compiled:
    """Commands and text of each file, the build's own folder aside."""
    found: Compiled = {}
    for one in json.loads((ROOT / "build" / build / "compile_commands.json").read_text()):
        file, command = (
            one[key].replace(f"build/{build}/", "build/") for key in ("file", "command")
        )
        path = Path(one["file"])  # a generated one may not have been asked for yet
        found.setdefault(file, set()).add((command, path.read_text() if path.exists() else ""))
    return found


def compiled_again(build: str) -> list[str]:
    native, other = compiled("native"), compiled(build)
    common = native.keys() & other.keys()
    assert len(common) > 50
    return [file for file in sorted(common) if not native[file] & other[file]]
