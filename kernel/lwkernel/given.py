# SPDX-License-Identifier: GPL-2.0-only
"""Kernel sources that the user names in place of Debian's: a git repository at its HEAD, a folder,
or a tarball.

Nothing is written there. What `--diff` and `--series` change are copies of the files that a patch
names. What is built or worked in is unpacked whole into the cache, and so is a tarball in any case:
reading single files out of it would decompress all of it each time."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import edits, patches, sources
from .errors import Failed, Refused


def _output(words: list[str]) -> str:
    done = subprocess.run(words, text=True, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else ""


@dataclass(frozen=True)
class Given:
    """Sources at a path."""

    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise Refused(f"--source {self.path}: there is no such folder or file")

    @cached_property
    def kind(self) -> str:
        """git, folder or tarball. A folder inside another repository is a folder."""
        if not self.path.is_dir():
            return "tarball"
        git = ["git", "-C", str(self.path), "rev-parse"]
        top = _output([*git, "--show-toplevel"]).strip()
        bare = _output([*git, "--is-bare-repository"]).strip() == "true"
        return "git" if bare or (top and Path(top) == self.path.resolve()) else "folder"

    @cached_property
    def identity(self) -> str:
        """What changes when the sources do, as far as that can be known without reading all of
        them."""
        if self.kind == "git":
            return _output(["git", "-C", str(self.path), "rev-parse", "HEAD"]).strip()
        facts = self.path.stat()
        size = facts.st_size if self.kind == "tarball" else 0
        return f"{self.path.resolve()} {size} {facts.st_mtime_ns}"

    def take(self, target: Path, places: list[str]) -> None:
        """Copy those of some files that exist."""
        if self.kind != "git":
            for place in places:
                if (self.whole() / place).is_file():
                    edits.written(target / place, (self.whole() / place).read_text())
            return
        tree = ["git", "-C", str(self.path), "ls-tree", "-r", "--name-only", "HEAD", "--"]
        self._unpack(target, _output([*tree, *places]).splitlines())

    def _unpack(self, target: Path, places: list[str]) -> None:
        """Files of a repository at HEAD; all of them if no place is named."""
        archive = ["git", "-C", str(self.path), "archive", "HEAD", *places]
        with subprocess.Popen(archive, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as git:
            done = subprocess.run(
                ["tar", "-x", "-C", str(target)], stdin=git.stdout, capture_output=True, check=False
            )
        if git.returncode or done.returncode:
            raise Failed(f"--source {self.path}: git archive failed")

    def _unpack_tarball(self, target: Path) -> None:
        try:
            sources.call(["tar", "--strip-components=1", "-xf", str(self.path)], target)
        except Failed as failed:
            raise Refused(f"--source {self.path}: no Linux sources: {failed}") from failed

    def whole(self) -> Path:
        """All of the sources, to be read only. Refused where a file is no tarball."""
        if self.kind == "folder":
            return self.path.resolve()
        folder = (
            sources.home() / f"source-{hashlib.sha256(self.identity.encode()).hexdigest()[:12]}"
        )
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "tree").exists():
            with tempfile.TemporaryDirectory(dir=folder) as name:
                scratch = Path(name) / "tree"
                scratch.mkdir()
                if self.kind == "git":
                    self._unpack(scratch, [])
                else:
                    self._unpack_tarball(scratch)
                scratch.replace(folder / "tree")
        return folder / "tree"

    @cached_property
    def version(self) -> str:
        """As in 6.12.117, from the top Makefile."""
        with tempfile.TemporaryDirectory() as scratch:
            self.take(Path(scratch), ["Makefile"])
            makefile = Path(scratch) / "Makefile"
            text = makefile.read_text(errors="replace") if makefile.exists() else ""
        found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL)\s*=\s*(\d+)$", text, re.MULTILINE))
        if len(found) != 3:
            raise Refused(
                f"--source {self.path}: no Linux sources: a Makefile with VERSION is not at the top"
            )
        return ".".join(found[name] for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))

    def rules(self, wanted: list[str], arch: str) -> str:
        """The series whose edits find their places here: the kernel's own, or else the nearest that
        do."""
        own = self.version.rsplit(".", 1)[0]
        known = sorted(sources.PACKAGES, key=lambda series: _distance(series, own))
        if own in known:
            return own
        reasons = []
        for series in known:
            try:
                chosen = patches.chosen(wanted, series, arch)
                with tempfile.TemporaryDirectory() as scratch:
                    self.take(Path(scratch), patches.places(chosen))
                    patches.apply(Path(scratch), chosen, series)
                return series
            except Refused as refused:
                reasons.append(f"as {series}: {refused}")
        raise Refused(
            f"--source {self.path} is Linux {self.version}, which no patch was made for; "
            + "; ".join(reasons)
        )


def _distance(one: str, other: str) -> int:
    """How far two series lie apart, a major number being more than any minor."""
    first, second = (
        1000 * int(series.split(".")[0]) + int(series.split(".")[1]) for series in (one, other)
    )
    return abs(first - second)
