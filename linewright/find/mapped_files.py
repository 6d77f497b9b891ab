"""The files that a sampled program was mapped from: this machine's own, or fetched from the machine
that it ran on."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from linewright.elf.loadable import without_sections
from linewright.errors import LinewrightError
from linewright.run.place import packed, unpacked

MOST_FILE = 512 * 2**20
"""Bytes of a file that is fetched; a longer one leaves its names out, and the page says so."""
MOST_KEPT = 2 * 2**30
"""Bytes of all files that are kept for later runs; the ones unused for longest go."""
HEAD = 8192
"""Bytes of a file's beginning in which its build ID is looked for: linkers put it behind the
program headers."""


class Files:
    """Files of this machine, as the sampled processes see them."""

    def __init__(self) -> None:
        self._elsewhere: dict[str, str] = {}

    def mapped(self, pid: int, path: str) -> None:
        """A process has mapped a file: in another mount namespace (a container's) its path may name
        another file here, so its own is held open."""
        if path in self._elsewhere or not path.startswith("/"):
            return
        try:
            if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
                return
            held = os.open(f"/proc/{pid}/root{path}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # it has ended, or is another user's
        self._elsewhere[path] = f"/proc/{os.getpid()}/fd/{held}"

    left_out: Sequence[str] = ()
    """Files that are too long to be fetched, for the page."""

    def here(self, path: str) -> str:
        """A file here that holds what `path` does there; empty where there is none."""
        return self._elsewhere.get(path, path)

    def inode(self, path: str) -> int:
        """The file's number there; 0 where there is none."""
        try:
            return os.stat(self.here(path)).st_ino
        except OSError:
            return 0


class RemoteFiles(Files):
    """Files of another machine, fetched when they are first asked for, and kept by build ID for
    later runs.

    `look` runs a shell script there and gives what it prints; `folder` holds what cannot be kept.
    """

    def __init__(self, look: Callable[[str], bytes], folder: str, kept: Path | None = None) -> None:
        super().__init__()
        self._look, self._folder = look, Path(folder)
        self._kept = kept or Path(
            os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "linewright", "files"
        )
        self._known: dict[str, tuple[str, int]] = {}
        self.left_out: list[str] = []

    def mapped(self, pid: int, path: str) -> None:
        """Processes of another machine are not asked."""

    def here(self, path: str) -> str:
        return self._find(path)[0]

    def inode(self, path: str) -> int:
        return self._find(path)[1]

    def _find(self, path: str) -> tuple[str, int]:
        if path not in self._known:
            self._known[path] = ("", 0)
            with contextlib.suppress(LinewrightError, OSError, ValueError, EOFError):
                self._known[path] = self._fetch(path)
        return self._known[path]

    def _fetch(self, path: str) -> tuple[str, int]:
        name = shlex.quote(path)
        said = self._look(f"ls -diL {name} && wc -c <{name} && head -c {HEAD} {name}")
        first, second, head = said.split(b"\n", 2)
        inode, size = int(first.split()[0]), int(second)
        if size > MOST_FILE:
            self.left_out.append(path)
            return "", inode
        build = build_id(head)
        place = self._kept / f"{build}-{size}" if build else None
        if place is None or not place.is_file():
            data = unpacked(self._look(packed(name)))
            place = self._store(data, place if len(data) == size else None)
        else:
            os.utime(place)
        return str(place), inode

    def _store(self, data: bytes, place: Path | None) -> Path:
        """Keep it for later runs where it has a build ID, else for this one."""
        folder = self._folder
        if place is not None:
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                folder = place.parent
        handle, name = tempfile.mkstemp(prefix="part-", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if place is None or folder == self._folder:
            return Path(name)
        os.replace(name, place)  # whole or not at all: another command may fetch it, too
        _prune(folder)
        return place


def build_id(head: bytes) -> str:
    """The build ID of an ELF file in hexadecimal, from its beginning; empty where it has none
    there."""
    try:
        for segment in ELFFile(BytesIO(without_sections(head))).iter_segments("PT_NOTE"):
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    except (ELFError, IndexError, ValueError, KeyError, AttributeError, TypeError, AssertionError):
        pass  # no ELF file, or its notes lie further behind
    return ""


def _prune(folder: Path) -> None:
    found = sorted(
        ((f.stat().st_atime, f.stat().st_size, f) for f in folder.iterdir() if f.is_file()),
        reverse=True,
    )
    total = 0
    for _, size, file in found:
        total += size
        if total > MOST_KEPT:
            file.unlink(missing_ok=True)
