# SPDX-License-Identifier: MIT
"""Counts lines of source and prose per room in two commits: `lines.py BASE [HEAD]`. Blank lines
count; binary files do not."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

_PARTED = ("linewright", "tests")
"""Folders whose folders are rooms of their own."""


def room(path: str) -> str:
    """The room that a file belongs to: pages anywhere are `docs`, files at the top `.`."""
    *folders, name = path.split("/")
    if name.endswith(".md"):
        return "docs"
    return "/".join(folders[: 2 if folders[:1] and folders[0] in _PARTED else 1]) or "."


def lines(commit: str) -> Counter[str]:
    """Lines of each room at a commit."""
    listed = subprocess.run(
        ["git", "grep", "-cI", "", commit, "--", "."], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    counted: Counter[str] = Counter()
    for line in listed:
        path, _, number = line.removeprefix(commit + ":").rpartition(":")
        counted[room(path)] += int(number)
    return counted


def main() -> int:
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    before, after = lines(sys.argv[1]), lines(sys.argv[2] if len(sys.argv) == 3 else "HEAD")
    for where in sorted({*before, *after}):
        change = (after[where] / before[where] - 1) if before[where] else 0
        print(f"{where:22}{before[where]:8}{after[where]:8}  {change:+.1%}")
    for title, kept in (
        ("outside tests", lambda w: w != "docs" and not w.startswith("tests")),
        ("all", lambda w: True),
    ):
        b, a = (sum(n for w, n in side.items() if kept(w)) for side in (before, after))
        print(f"{title:22}{b:8}{a:8}  {a / b - 1:+.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
