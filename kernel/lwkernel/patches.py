# SPDX-License-Identifier: GPL-2.0-only
"""Reads the patches of ../patches: each a Python file whose page head says what, why, switch,
kernels and upstream state.

A patch file defines

    ARCHES   the architectures it is for: arm64, x86_64, i386, riscv; or series -> architectures
    SERIES   the kernels it is for: "6.1", "6.12", "7.3"; left out where ARCHES says it
    CONFIG   lines that switch it on in a configuration; or series -> lines
    FILES    our new files: place in the source tree -> file beside the patch, or series -> file
    EDITS    the edits of existing files

or, in place of FILES and EDITS, for a patch that `--series` writes as mails:

    TESTS    lines that switch its KUnit tests on
    COVER    subject and text of the cover letter
    STEPS    the mails, each with its files and edits; a kernel in which a step has none goes
             without it
"""

from __future__ import annotations

import difflib
import runpy
from dataclasses import dataclass
from pathlib import Path

from . import edits
from .errors import Refused

FOLDER = Path(__file__).resolve().parents[1] / "patches"


@dataclass(frozen=True)
class Patch:
    """One of our patches."""

    name: str
    head: str
    """The page head, as text."""
    kernels: dict[str, tuple[str, ...]]
    """The architectures it is for, by series."""
    configs: tuple[str, ...] | dict[str, tuple[str, ...]]
    steps: tuple[edits.Step, ...]
    cover: tuple[str, str] | None
    tests: tuple[str, ...] = ()
    """Lines that switch its KUnit tests on, where the fragment kunit is asked for."""

    def config(self, series: str) -> list[str]:
        """Lines that switch it on."""
        return list(self.configs[series] if isinstance(self.configs, dict) else self.configs)

    @property
    def edits(self) -> tuple[edits.Edit, ...]:
        return tuple(edit for step in self.steps for edit in step.edits)

    def files_of(self, series: str) -> dict[str, str]:
        """Our new files in a series: place in the source tree to our text."""
        return {
            place: text for step in self.steps for place, text in files_of(step, series).items()
        }

    def steps_of(self, series: str) -> list[edits.Step]:
        """The mails of a series."""
        return [
            step
            for step in self.steps
            if files_of(step, series)
            or any(not edit.series or series in edit.series for edit in step.edits)
        ]


def files_of(step: edits.Step, series: str) -> dict[str, str]:
    """The new files of a step in a series: place in the source tree to our text."""
    named = {
        place: source if isinstance(source, str) else source.get(series)
        for place, source in step.files.items()
    }
    return {place: (FOLDER / source).read_text() for place, source in named.items() if source}


def names() -> list[str]:
    """Every patch there is."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def load(name: str) -> Patch:
    """A patch by its name."""
    path = FOLDER / f"{name}.py"
    if not path.is_file():
        raise Refused(f"no patch {name}; there are {', '.join(names())}")
    held = runpy.run_path(str(path))
    arches = held["ARCHES"]
    whole = edits.Step(
        subject=name, message="", edits=held.get("EDITS", ()), files=held.get("FILES", {})
    )
    return Patch(
        name=name,
        head=held["__doc__"],
        kernels=arches if isinstance(arches, dict) else dict.fromkeys(held["SERIES"], arches),
        configs=held["CONFIG"],
        steps=held.get("STEPS") or (whole,),
        cover=held.get("COVER"),
        tests=held.get("TESTS", ()),
    )


def chosen(wanted: list[str], series: str, arch: str) -> list[Patch]:
    """The patches of a request, in the order of their names; ``all`` is every one that this kernel
    can have."""
    if "all" in wanted:
        every = [load(name) for name in names()]
        return [patch for patch in every if arch in patch.kernels.get(series, ())]
    found = [load(name) for name in sorted(set(wanted))]
    for patch in found:
        if series not in patch.kernels:
            raise Refused(f"patch {patch.name} is for {', '.join(patch.kernels)}, not for {series}")
        if arch not in patch.kernels[series]:
            raise Refused(
                f"patch {patch.name} is for {', '.join(patch.kernels[series])}, "
                f"not for {arch}, in {series}"
            )
    return found


def places(patches: list[Patch]) -> list[str]:
    """The files that patches change or make."""
    return sorted(
        {edit.path for patch in patches for edit in patch.edits}
        | {place for patch in patches for step in patch.steps for place in step.files}
    )


def apply(tree: Path, patches: list[Patch], series: str) -> str:
    """Patch a tree. Returns the change as a unified diff, with three lines of context, for a reader
    or for checkpatch."""
    change = Change(tree)
    for patch in patches:
        for step in patch.steps:
            change.make(step, series, patch.name)
    return change.diff()


class Change:
    """What steps do to a tree, from the first on."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.before: dict[Path, list[str]] = {}

    def make(self, step: edits.Step, series: str, name: str) -> None:
        """Take a step."""
        for place, text in files_of(step, series).items():
            target = self.tree / place
            if target.exists() and target not in self.before:
                raise Refused(f"patch {name}: {place} exists in {series} already")
            self._note(target)
            edits.written(target, text)
        edits.apply(self.tree, step.edits, series, self._note)

    def _note(self, path: Path) -> None:
        self.before.setdefault(path, path.read_text().splitlines() if path.exists() else [])

    def diff(self) -> str:
        """All of it as a unified diff, without the lines of git by which checkpatch asks for an
        entry in MAINTAINERS: the folders of our files have theirs."""
        lines: list[str] = []
        for path, old in sorted(self.before.items()):
            place = path.relative_to(self.tree)
            lines += difflib.unified_diff(
                old,
                path.read_text().splitlines(),
                f"a/{place}" if old else "/dev/null",
                f"b/{place}",
                lineterm="",
            )
        return "".join(line + "\n" for line in lines)
