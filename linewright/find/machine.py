"""The machine that `linewright find` samples a program on: this one, or another over ssh or behind a command."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from linewright.errors import LinewrightError, UserError
from linewright.find import heap, live, prices
from linewright.find.files import Fetched, packed, unpacked
from linewright.find.live import Gathered
from linewright.find.prices import Prices
from linewright.find.space import Spaces
from linewright.target import probe
from linewright.target.programs import find_preload, find_preload_for, find_sampler, find_sampler_for


class Machine(Protocol):
    """Where the program is, the sampler, and what the sampler loads into it; ends with `close`."""

    cpus: int
    cpu_model: str
    """By the name that records have."""
    preloaded: str
    """What programs there preload anyway."""

    def run(self, arguments: Sequence[str], program: Sequence[str], watch: bool) -> Gathered: ...

    def library(self, part: str) -> str:
        """The path there of a library that is loaded into programs."""
        ...

    def rings(self) -> str:
        """An empty folder there for the rings of the fall-back."""
        ...

    def table(self) -> str:
        """An empty table there for heap blocks."""
        ...

    def blocks(self, table: str, spaces: Spaces) -> heap.Table:
        """What stands in the table at the end."""
        ...

    def name_of(self, pid: int) -> str: ...

    def measured(self, forms: Sequence[str]) -> tuple[Prices | None, str]:
        """Prices of these forms there, measured now."""
        ...

    def notes(self) -> list[str]: ...

    def close(self) -> None: ...


class Here:
    """This machine."""

    def __init__(self) -> None:
        from linewright.target.here import here

        self.cpus, self.cpu_model = os.cpu_count() or 1, here()["cpu_model"]
        self.preloaded = os.environ.get("LD_PRELOAD", "")
        self._sampler, self._stack = find_sampler(), ExitStack()

    def run(self, arguments: Sequence[str], program: Sequence[str], watch: bool) -> Gathered:
        return live.run(self._sampler, arguments, program, watch)

    def library(self, part: str) -> str:
        return str(find_preload(part))

    def rings(self) -> str:
        return self._stack.enter_context(tempfile.TemporaryDirectory(prefix="linewright-find-"))

    def table(self) -> str:
        return self._stack.enter_context(heap.empty_table())

    def blocks(self, table: str, spaces: Spaces) -> heap.Table:
        found = heap.Table(table, spaces)
        found.read()
        return found

    def name_of(self, pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def measured(self, forms: Sequence[str]) -> tuple[Prices | None, str]:
        return prices.measured(forms, self.cpu_model)

    def notes(self) -> list[str]:
        return []

    def close(self) -> None:
        self._stack.close()


class There:
    """Another machine: the sampler is copied there, runs the program, and is removed by `close` or with the
    connection."""

    preloaded = ""

    def __init__(self, on: str) -> None:
        from linewright.target.remote.target import open_machine

        self._on, self._stack = on, ExitStack()
        self._place = open_machine(on)
        self._stack.callback(self._place.close)
        try:
            self._place.send(find_sampler_for(self._place.arch), "sampler")
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="linewright-find-"))
            self._local = Path(folder)
            self._files = Fetched(self._place.look, folder)
            self.cpu_model = probe.read_context(self._place.answers.context).cpu_model
            self.cpus = len(probe.read_topology(self._place.answers.topology).cpus)
        except BaseException:
            self.close()
            raise

    def run(self, arguments: Sequence[str], program: Sequence[str], watch: bool) -> Gathered:
        return live.run_there(self._place, arguments, program, watch, self._files)

    def library(self, part: str) -> str:
        path = find_preload_for(part, self._place.arch)
        self._place.send(path, path.name)
        if set(self._place.folder) & set(" :"):
            raise UserError(f"LD_PRELOAD cannot name a path with ' ' or ':': {self._place.folder}", "TMPDIR there")
        return f"{self._place.folder}/{path.name}"

    def rings(self) -> str:
        return self._folder("rings", "mkdir -p rings")

    def table(self) -> str:
        return self._folder("heap", f"dd if=/dev/null of=heap bs=1 count=0 seek={heap.BYTES} 2>/dev/null")

    def _folder(self, name: str, script: str) -> str:
        self._place.look(f"cd {shlex.quote(self._place.folder)} && {script}")
        return f"{self._place.folder}/{name}"

    def blocks(self, table: str, spaces: Spaces) -> heap.Table:
        copy = self._local / "heap"
        try:
            copy.write_bytes(unpacked(self._place.look(packed(shlex.quote(table)))))
        except LinewrightError:
            copy.write_bytes(bytes(heap.BYTES))  # the connection was lost: no block has a name
        found = heap.Table(str(copy), spaces, mapped=table)
        found.read()
        return found

    def name_of(self, pid: int) -> str:
        try:
            return self._place.look(f"cat /proc/{pid}/comm").decode("utf-8", "replace").strip()
        except LinewrightError:
            return ""

    def measured(self, forms: Sequence[str]) -> tuple[Prices | None, str]:
        return prices.measured(forms, self.cpu_model, self._on)

    def notes(self) -> list[str]:
        return [
            f"{path} has more than 512 MiB and was not fetched: its names are missing." for path in self._files.left_out
        ]

    def close(self) -> None:
        self._stack.close()
