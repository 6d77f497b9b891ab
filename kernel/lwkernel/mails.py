# SPDX-License-Identifier: GPL-2.0-only
"""A patch of ours as a series of mails that `git am` takes: a cover letter, and a mail for each
step.

Each mail's change is made by the same edits as the patched tree, one step behind the other, so that
what is sent is what was built. From is the user that git is configured for. Only that user can sign
(--signoff): it certifies the Developer's Certificate of Origin."""

from __future__ import annotations

import re
import subprocess
import textwrap
from email.utils import formatdate
from pathlib import Path

from . import patches
from .errors import Refused
from .sources import tool

WIDTH = 72
"""Characters of a line of a message, as checkpatch allows them at most 75."""


def author() -> str:
    """Name and address of the configured user."""
    words = []
    for key in ("user.name", "user.email"):
        asked = [tool("git", "git"), "config", "--get", key]
        found = subprocess.run(asked, text=True, capture_output=True, check=False).stdout.strip()
        if not found:
            raise Refused(
                f"git knows no {key}, from whom the mails are: git config --global {key} …"
            )
        words.append(found)
    return f"{words[0]} <{words[1]}>"


def filled(text: str) -> str:
    """Paragraphs at the width of a message. What is indented, such as a table, stays as it is, and
    so does a link."""
    parts = re.split(r"\n\s*\n", textwrap.dedent(text).strip())
    return "\n\n".join(
        part
        if re.search(r"^(\s|Link: )", part, re.MULTILINE)
        else textwrap.fill(part, WIDTH, break_on_hyphens=False, break_long_words=False)
        for part in parts
    )


def statistics(diff: str) -> str:
    """The lines between message and change: files with their lines added and taken away."""
    rows, place = {}, ""
    for line in diff.splitlines():
        if line.startswith(("--- ", "+++ ")):
            place = line[6:] if line.startswith("+++ ") else place
        elif line[:1] in "+-":
            rows.setdefault(place, [0, 0])[line[0] == "-"] += 1
    width = max(map(len, rows))
    lines = [
        f" {name:{width}} | {added + gone:4} {'+' * bool(added)}{'-' * bool(gone)}"
        for name, (added, gone) in rows.items()
    ]
    added, gone = (sum(row[which] for row in rows.values()) for which in (0, 1))
    return "\n".join(
        [*lines, f" {len(rows)} files changed, {added} insertions(+), {gone} deletions(-)"]
    )


def mail(number: int, of: int, subject: str, body: str, sender: str) -> str:
    """One mail as `git format-patch` would write it."""
    head = [
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001",
        f"From: {sender}",
        f"Date: {formatdate(localtime=True)}",
        f"Subject: [PATCH {number}/{of}] {subject}",
    ]
    return "\n".join([*head, "", body.strip("\n"), "-- ", "kernel/build --series", "", ""])


def slug(number: int, subject: str) -> str:
    """A mail's file, named as `git format-patch` names it."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", subject).strip("-.")
    return f"{number:04}-{words[:52].rstrip('-.')}.patch"


def series(
    patch: patches.Patch, tree: Path, release: str, version: str, *, signoff: bool
) -> dict[str, str]:
    """The mails of a patch by the names of their files. `tree` holds the files that it changes, and
    is changed."""
    if patch.cover is None:
        raise Refused(f"patch {patch.name} is no series; those with one: {', '.join(written())}")
    sender, steps = author(), patch.steps_of(release)
    mails = {}
    for number, step in enumerate(steps, 1):
        change = patches.Change(tree)
        change.make(step, release, patch.name)
        diff = change.diff()
        tags = step.tags.strip().splitlines() + [f"Signed-off-by: {sender}"] * signoff
        message = "\n\n".join([filled(step.message), *["\n".join(tags)] * bool(tags)])
        body = f"{message}\n---\n{statistics(diff)}\n\n{diff}"
        mails[slug(number, step.subject)] = mail(number, len(steps), step.subject, body, sender)
    subject, text = patch.cover
    titles = "\n".join(f"  {step.subject}" for step in steps)
    body = f"{filled(text)}\n\nMade for Linux {version}.\n\n{sender} ({len(steps)}):\n{titles}\n"
    return {"0000-cover-letter.patch": mail(0, len(steps), subject, body, sender), **mails}


def written() -> list[str]:
    """The patches that are series."""
    return [name for name in patches.names() if patches.load(name).cover]
