# SPDX-License-Identifier: MIT
"""What the programs beside it share. Imported first, it starts them anew in the tree's environment,
with its packages and what its tests use on the path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = next(
    parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists()
)
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "py")]

from support.finding import SAMPLER  # noqa: E402

FIND = [sys.executable, "-m", "linewright", "find"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LINEWRIGHT_")} | {
    "LINEWRIGHT_FIND": str(SAMPLER),
    "PYTHONPATH": str(ROOT),
}
"""In which FIND runs the tree's own command and sampler."""


def children(pid: int) -> dict[int, str]:
    """Processes of a parent, and their names."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        if int(rest.split()[1]) == pid and rest.split()[0] != "Z":
            found[int(folder.name)] = name
    return found
