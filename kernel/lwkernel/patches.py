"""Reads the patches of ../patches: each a Python file whose page head says what, why, switch, kernels and upstream
state.

A patch file defines

    ARCHES   the architectures it is for: arm64, x86_64, i386, riscv; or series -> architectures
    SERIES   the kernels it is for: "6.1", "6.12", "7.3"; left out where ARCHES says it
    CONFIG   lines that switch it on in a configuration
    FILES    our new files: place in the source tree -> file beside the patch, or series -> file
    EDITS    the edits of existing files
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
    config: tuple[str, ...]
    files: dict[str, str | dict[str, str]]
    edits: tuple[edits.Edit, ...]

    def files_of(self, series: str) -> dict[str, str]:
        """Our new files in a series: place in the source tree to our text."""
        named = {
            place: source if isinstance(source, str) else source.get(series) for place, source in self.files.items()
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
    return Patch(
        name=name,
        head=held["__doc__"],
        kernels=arches if isinstance(arches, dict) else dict.fromkeys(held["SERIES"], arches),
        config=held["CONFIG"],
        files=held.get("FILES", {}),
        edits=held.get("EDITS", ()),
    )


def chosen(wanted: list[str], series: str, arch: str) -> list[Patch]:
    """The patches of a request, in the order of their names; ``all`` is every one that this kernel can have."""
    if "all" in wanted:
        every = [load(name) for name in names()]
        return [patch for patch in every if arch in patch.kernels.get(series, ())]
    found = [load(name) for name in sorted(set(wanted))]
    for patch in found:
        if series not in patch.kernels:
            raise Refused(f"patch {patch.name} is for {', '.join(patch.kernels)}, not for {series}")
        if arch not in patch.kernels[series]:
            raise Refused(f"patch {patch.name} is for {', '.join(patch.kernels[series])}, not for {arch}, in {series}")
    return found


def apply(tree: Path, patches: list[Patch], series: str) -> str:
    """Patch a tree. Returns the change as a unified diff, with three lines of context, for a reader or for
    checkpatch."""
    before: dict[Path, list[str]] = {}

    def note(path: Path) -> None:
        before.setdefault(path, path.read_text().splitlines() if path.exists() else [])

    for patch in patches:
        for place, text in patch.files_of(series).items():
            target = tree / place
            if target.exists() and target not in before:
                raise Refused(f"patch {patch.name}: {place} exists in {series} already")
            note(target)
            edits.written(target, text)
        edits.apply(tree, patch.edits, series, note)
    lines: list[str] = []
    for path, old in before.items():
        place = path.relative_to(tree)
        lines += difflib.unified_diff(
            old, path.read_text().splitlines(), f"a/{place}" if old else "/dev/null", f"b/{place}", lineterm=""
        )
    return "".join(line + "\n" for line in lines)
