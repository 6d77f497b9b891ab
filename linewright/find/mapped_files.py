# SPDX-License-Identifier: MIT
"""The files that a sampled program was mapped from: this machine's own, or fetched from the machine
that it ran on."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import msgspec
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from linewright.elf.symbols import without_sections
from linewright.errors import LinewrightError
from linewright.find.stream import Map
from linewright.run.place import packed, unpacked

MOST_FILE = 512 * 2**20
"""Bytes of a file that is fetched; a longer one leaves its names out, and the page says so."""
MOST_OPEN = 256
"""Files that are held open, so that what becomes of their names does not matter."""
MOST_KEPT = 2 * 2**30
"""Bytes of all files that are kept for later runs; the ones unused for longest go."""
HEAD = 8192
"""Bytes of a file's beginning in which its build ID is looked for: linkers put it behind the
program headers."""


JCMD_S = 20
"""Longest wait for a Java machine to list its methods."""
_DELETED = " (deleted)"
"""What the kernel puts behind the path of a file that has lost its name."""


def is_file(mapping: Map) -> bool:
    """Whether a file with symbols may lie there; a program may be executed from memory."""
    none = ("/dev/", "/SYSV", *["/memfd:"] * mapping.shared)
    return mapping.inode > 0 and mapping.path.startswith("/") and not mapping.path.startswith(none)


class _FileSource(NamedTuple):
    """Where the file of a mapping is read."""

    file: str = ""
    """Its name, where that leads to it."""
    inode: int = 0
    fd: int = -1
    """What holds it open, or -1."""

    @property
    def held(self) -> str:
        """A path to it that stays as long as this process runs, or empty."""
        return f"/proc/{os.getpid()}/fd/{self.fd}" if self.fd >= 0 else ""


class Files:
    """Files of this machine, as the sampled processes see them."""

    def __init__(self) -> None:
        self._places: dict[str, _FileSource] = {}
        self._inodes: dict[str, int] = {}
        self._here: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        """Files from which nothing is named, with the reason as `note` has it."""

    def mapped(self, line: Map) -> Map:
        """The mapping, by a path that stands for its file alone."""
        if not is_file(line):
            return line
        if line.path.endswith(_DELETED) and self._stat(line.path) != line.inode:
            line = msgspec.structs.replace(line, path=line.path.removesuffix(_DELETED))
        path = line.path
        if self._inodes.setdefault(path, line.inode) != line.inode:
            path += f" (inode {line.inode})"  # another process mapped another file of this name
        held = line.executable or (line.writable and not line.shared)
        place = self._places.get(path, _FileSource())
        if held and not (place.file or place.held):
            self._places[path] = self._place(line)
        return line if path == line.path else msgspec.structs.replace(line, path=path)

    def _place(self, line: Map) -> _FileSource:
        """The mapped file, held open. Its path may lead to another file by now (it was replaced),
        or here (the process is in a container). Empty where only another file can be reached."""
        path, proc = line.path, f"/proc/{line.pid}"
        with contextlib.suppress(OSError):
            own = "/proc/self"
            if any(os.readlink(proc + at) != os.readlink(own + at) for at in ("/ns/mnt", "/root")):
                path = f"{proc}/root{path}"
        begin = 0
        for file in (path, f"{proc}/exe", f"{proc}/map_files/"):
            with contextlib.suppress(OSError):
                if file.endswith("/"):
                    begin, span = _span(line)
                    file += span
                if os.stat(file).st_ino == line.inode:
                    return self._opened(file, line.path, line.inode)
        # Some file systems number a file otherwise in a mapping.
        with contextlib.suppress(OSError):
            build = build_id(_head(f"{proc}/mem", begin)) if begin else ""
            if build and build == build_id(_head(path, 0)):
                return self._opened(path, line.path, os.stat(path).st_ino)
        return _FileSource()

    def _opened(self, file: str, plain: str, inode: int) -> _FileSource:
        """By its plain path, beside which its debug information lies, where that leads to it; a
        program may be deleted before it is named, as by `go run`."""
        fd = -1
        with contextlib.suppress(OSError):
            if file != plain or len(self._places) < MOST_OPEN:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        return _FileSource(file if file == plain else "", inode, fd)

    def look_anew(self) -> None:
        """Before names are asked for: where each file is read now."""
        self._here.clear()

    def lies_at(self, path: str, file: str) -> None:
        """Where a file is read whose path cannot be written as text."""
        self._here[path] = file

    def here(self, path: str) -> str:
        """A file here that holds what `path` does there; empty where there is none."""
        if path not in self._here:
            self._here[path] = self._still(path)
        return self._here[path]

    def _still(self, path: str) -> str:
        """The same, where its name may have gone or lead to another one since it was mapped."""
        if path not in self._places:
            return path
        place = self._places[path]
        if place.file and self._stat(place.file) == place.inode:
            return place.file
        if not place.held:
            self.left_out[path] = "replaced"
        return place.held

    def ask_java(self, pid: int) -> bool:
        """Have a Java machine that still runs list its methods in /tmp (JDK 17 or later)."""
        jcmd = shutil.which("jcmd")
        if jcmd is None or not os.path.exists(f"/proc/{pid}"):
            return False
        words = [jcmd, str(pid), "Compiler.perfmap"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return not subprocess.run(words, capture_output=True, timeout=JCMD_S).returncode
        return False

    def inode(self, path: str) -> int:
        """The file's number there; 0 where there is none."""
        return self._stat(self.here(path))

    def _stat(self, path: str) -> int:
        """The number of a file here; 0 where there is none."""
        try:
            return os.stat(path).st_ino
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
        self._find = cache(self._fetched)

    def _place(self, line: Map) -> _FileSource:
        """It is fetched by its path; processes of another machine are not asked."""
        return _FileSource(line.path, line.inode)

    def ask_java(self, pid: int) -> bool:
        return False

    def here(self, path: str) -> str:
        return self._find(path)[0]

    def inode(self, path: str) -> int:
        return self._find(path)[1]

    def _fetched(self, path: str) -> tuple[str, int]:
        with contextlib.suppress(LinewrightError, OSError, ValueError, EOFError):
            return self._fetch(path)
        return "", 0

    def _fetch(self, path: str) -> tuple[str, int]:
        name = shlex.quote(path)
        script = f"ls -diL {name} && wc -c <{name} && head -c {HEAD} {name}"
        said = self._look(f"[ ! -e {name} ] || {{ {script}; }}")
        if not said:
            self.left_out |= {path: "replaced"} if path in self._places else {}
            return "", 0
        first, second, head = said.split(b"\n", 2)
        inode, size = int(first.split()[0]), int(second)
        if self._inodes.get(path, inode) != inode or size > MOST_FILE:
            self.left_out[path] = "too_large" if size > MOST_FILE else "replaced"
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


def _span(line: Map) -> tuple[int, str]:
    """Where its process has the beginning of a mapping's file, or 0, and the mapping's own span as
    map_files calls it."""
    with open(f"/proc/{line.pid}/maps") as maps:
        known = [(*(int(at, 16) for at in f[0].split("-")), f) for f in map(str.split, maps)]
    for start, end, own in known:
        if start <= line.start < end:
            same = [(at, f[2]) for at, _, f in known if f[3:5] == own[3:5]]
            return next((at for at, offset in same if not int(offset, 16)), 0), f"{start:x}-{end:x}"
    return 0, ""


def _head(path: str, begin: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        file.seek(begin)
        return file.read(HEAD)


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
    for total, (_, _, file) in zip(accumulate(size for _, size, _ in found), found, strict=True):
        if total > MOST_KEPT:
            file.unlink(missing_ok=True)
