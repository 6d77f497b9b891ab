#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a header with its block comments as Doxygen reads them: the first one behind the licence
tag describes the file, the others what follows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"^([ \t]*)/\*(?!\*)(.*?)\*/[ \t]*$", re.MULTILINE | re.DOTALL)


def escaped(text: str) -> str:
    """Comments are plain text with aligned tables: nothing in them is a command, a tag or a
    list."""
    for sign in '\\@<>&#%$"':
        text = text.replace(sign, "\\" + sign) if sign != "\\" else text.replace(sign, "\\\\")
    return text


def as_documentation(match: re.Match[str], first: bool, name: str) -> str:
    """The same number of lines, since Doxygen names them in its warnings."""
    indent, text = match[1], match[2]
    verbatim = re.search(r"\n[ \t]*\*?[ \t]{3,}\S|\S {3,}\S", text)
    opening = f"/** \\file {name} \\brief " if first else "/** "
    if not verbatim:
        return f"{indent}{opening}{escaped(text.strip().removeprefix('*').strip())} */"
    head, _, rest = text.strip().removeprefix("*").strip().partition("\n")
    body = "\n".join(re.sub(r"^[ \t]*\*", "", line) for line in rest.split("\n"))
    return f"{indent}{opening}{escaped(head)} \\verbatim\n{body}\\endverbatim */"


def main(path: str) -> int:
    text, seen = Path(path).read_text(), 0

    def replace(match: re.Match[str]) -> str:
        nonlocal seen
        if "SPDX-" in match[2]:
            return match[0]
        seen += 1
        return as_documentation(match, seen == 1, Path(path).name)

    sys.stdout.write(COMMENT.sub(replace, text))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
