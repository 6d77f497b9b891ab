"""Counts lines of source and prose per room in two commits: `lines.py BASE [HEAD]`. Blank lines
count; generated files do not exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

ENDING = re.compile(r"\.(py|c|h|cpp|hpp|inc|def|S|sh|html|css|js|litmus|cmake|txt)$")


def room(path: str) -> str:
    """The room that a file belongs to, or nothing if it holds no source."""
    first, *inside = path.split("/")
    if path.endswith(".md"):
        return "docs"
    source = bool(inside) and (ENDING.search(path) or "." not in inside[-1])
    if source and first == "tests":
        return f"tests/{inside[0]}" if ENDING.search(path) and "examples" not in inside else ""
    return first if source else ""


def lines(commit: str) -> Counter[str]:
    """Lines of each room at a commit."""
    listed = subprocess.run(
        ["git", "grep", "-cI", "", commit, "--", "."], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    counted: Counter[str] = Counter()
    for line in listed:
        path, _, number = line.removeprefix(commit + ":").rpartition(":")
        if where := room(path):
            counted[where] += int(number)
    return counted


def main() -> int:
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    before, after = lines(sys.argv[1]), lines(sys.argv[2] if len(sys.argv) == 3 else "HEAD")
    for where in sorted({*before, *after}):
        change = (after[where] / before[where] - 1) if before[where] else 0
        print(f"{where:14}{before[where]:8}{after[where]:8}  {change:+.1%}")
    for title, kept in (
        ("outside tests", lambda w: w != "docs" and "tests/" not in w),
        ("all", lambda w: True),
    ):
        b, a = (sum(n for w, n in side.items() if kept(w)) for side in (before, after))
        print(f"{title:14}{b:8}{a:8}  {a / b - 1:+.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
