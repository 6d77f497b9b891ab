# SPDX-License-Identifier: GPL-2.0-only
"""Changes files of a kernel's source tree by edits that hold our own lines and find their place by
an anchor.

A patch of ours holds no line of the kernel: an edit names the file, a pattern that matches one line
(or a stated number of lines), and what to insert before or after it, or to put in its place. A
kernel in which the pattern matches another number of lines is refused, so that an edit never lands
elsewhere without notice. Files may be hard links to a tree that other builds share: every change
writes a new file and renames it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import Refused

CONTINUED = 72
"""Column of the backslash that continues a macro in the kernel's headers."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One place, or several of the same kind, in one file. Exactly one of after, before and replace
    is a pattern."""

    path: str
    """From the top of the source tree."""
    text: str
    """Our lines; with `replace`, what takes the place of the part of the line that matched (``\\1``
    is its first group)."""
    after: str = ""
    """Pattern, searched in each line: our lines follow one that matches. Inside a macro they get
    its backslash."""
    before: str = ""
    replace: str = ""
    times: int | Mapping[str, int] = 1
    """How many lines match, in every series or by series."""
    inside: str = ""
    """Pattern of the line from which on the edit looks, up to the next one that matches `until`."""
    until: str = r"^\}"
    series: tuple[str, ...] = ()
    """The series in which the edit is made; all those of the patch if empty."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One mail of a series: what belongs together, with the message that says why."""

    subject: str
    message: str
    tags: str = ""
    """Lines of credit behind the message, such as Link: and Suggested-by:."""
    edits: tuple[Edit, ...] = ()
    files: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    """Our new files: place in the source tree to file beside the patch, or to such a file by
    series."""


def written(path: Path, text: str) -> None:
    """Give a file new contents without changing what other links to it hold."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    scratch = path.with_name(path.name + ".lw-new")
    scratch.write_text(text)
    scratch.chmod(mode)
    os.replace(scratch, path)


def continued(text: str) -> list[str]:
    """Lines of a macro: a backslash at the usual column, reached by tabs, or behind one blank where
    the line is longer."""
    lines = []
    for line in text.removesuffix("\n").split("\n"):
        width = len(line.expandtabs(8))
        tabs = max(0, (CONTINUED - width + 7) // 8)
        lines.append(line + ("\t" * tabs or " ") + "\\")
    return lines


def _aligned(old: str, new: str) -> str:
    """A changed line of a macro with its backslash where it was, if there is room."""
    if not old.endswith("\t\\"):
        return new
    body = new.removesuffix("\\").rstrip("\t")
    column = len(old.removesuffix("\\").expandtabs(8))
    tabs = (column - len(body.expandtabs(8)) + 7) // 8
    return body + "\t" * max(tabs, 1) + "\\"


def region(lines: list[str], edit: Edit) -> range:
    """Where the edit looks."""
    if not edit.inside:
        return range(len(lines))
    starts = [number for number, line in enumerate(lines) if re.search(edit.inside, line)]
    if len(starts) != 1:
        raise Refused(f"{edit.path}: {len(starts)} lines match {edit.inside!r}, 1 was expected")
    end = next(
        (n for n in range(starts[0] + 1, len(lines)) if re.search(edit.until, lines[n])),
        len(lines) - 1,
    )
    return range(starts[0], end + 1)


def edited(lines: list[str], edit: Edit, series: str) -> list[str]:
    """The file's lines after one edit."""
    pattern = edit.after or edit.before or edit.replace
    looked = region(lines, edit)
    places = [number for number in looked if re.search(pattern, lines[number])]
    wanted = edit.times if isinstance(edit.times, int) else edit.times[series]
    if len(places) != wanted:
        raise Refused(
            f"{edit.path}: {len(places)} lines match {pattern!r}, {wanted} expected in {series}"
        )
    result = list(lines)
    for number in reversed(places):
        anchor = lines[number]
        if edit.replace:
            result[number] = _aligned(anchor, re.sub(pattern, edit.text, anchor, count=1))
            continue
        ours = (
            continued(edit.text)
            if anchor.endswith("\\")
            else edit.text.removesuffix("\n").split("\n")
        )
        at = number + 1 if edit.after else number
        result[at:at] = ours
    return result


def apply(
    tree: Path,
    edits: tuple[Edit, ...],
    series: str,
    note: Callable[[Path], None] = lambda path: None,
) -> None:
    """Make the edits of a patch in a tree; `note` hears of each file before it changes."""
    for edit in edits:
        if sum(map(bool, (edit.after, edit.before, edit.replace))) != 1:
            raise ValueError(f"{edit.path}: an edit has exactly one of after, before and replace")
        if edit.series and series not in edit.series:
            continue
        path = tree / edit.path
        if not path.is_file():
            raise Refused(f"{edit.path}: there is no such file in {series}")
        note(path)
        lines = path.read_text().split("\n")
        written(path, "\n".join(edited(lines, edit, series)))
