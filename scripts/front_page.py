#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the repository's address into README.md, and PACKAGE.md, the page that a package index
shows: README.md without what works in the repository only.

The picture becomes its text, and a link to a file becomes the file's name or the link's words: an
index has neither file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "…"
"""Where the repository is published, once it is: the only place to change."""
CLONE = re.compile(r"(?<=git clone )\S+(?= linewright)")
PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)([^)#]+)[^)]*\)")
LAST = "## Where to go next"
"""The heading under which links name their files; elsewhere their words are part of a sentence."""


def made(readme: str, screen: str) -> str:
    """The page from README's text and the text of the screen that its picture shows."""
    text = PICTURE.sub(
        lambda found: "".join(f"    {line}\n" for line in screen.splitlines()).rstrip("\n"), readme
    )
    before, heading, after = text.partition(LAST)
    before = LINK.sub(r"\1", before)
    after = LINK.sub(
        r"\1: `\2`",
        re.sub(r"\]\(([^)]*)\)\s*·\s*\[", r"](\1)\n- [", after).replace("\n[", "\n- [", 1),
    )
    return before + heading + after


def page() -> str:
    """What PACKAGE.md should hold now."""
    screen = (ROOT / "docs" / "images" / "screen.txt").read_text(encoding="utf-8")
    return made(front(), screen)


def front() -> str:
    """What README.md should hold now."""
    return CLONE.sub(REPOSITORY, (ROOT / "README.md").read_text(encoding="utf-8"))


def main() -> int:
    (ROOT / "README.md").write_text(front(), encoding="utf-8")
    (ROOT / "PACKAGE.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
