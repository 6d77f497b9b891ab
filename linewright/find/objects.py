"""What an address is: a static variable, a heap block, a stack, thread-local storage, or a mapping."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple, Protocol

from linewright.find.space import Spaces
from linewright.find.symbols import Names
from linewright.find.thread_storage import ThreadStorage

MOST_NAMES = 3
"""Further variables of a line that are named."""


class Object(NamedTuple):
    """Its name, and what kind of thing it is."""

    name: str
    kind: str
    site: str = ""
    """Of a heap block: the allocating function, as `linewright trial --pad` takes it."""


class Block(NamedTuple):
    """A heap block as the interposed malloc saw it."""

    start: int
    size: int
    callers: tuple[int, ...]
    """Return addresses of the allocating call, innermost first."""


class Heap(Protocol):
    """Where blocks are looked up."""

    def find(self, pid: int, address: int) -> Block | None: ...


class Stacks:
    """Mappings that stack pointers of threads were seen in."""

    def __init__(self, spaces: Spaces, register: int) -> None:
        self._spaces, self._register = spaces, register
        self._lowest: dict[tuple[int, int], dict[int, int]] = {}

    def sample(self, pid: int, tid: int, registers: list[int]) -> None:
        pointer = registers[self._register]
        mapping = self._spaces.find(pid, pointer)
        if mapping is not None:
            threads = self._lowest.setdefault((pid, mapping.start), {})
            threads[tid] = min(pointer, threads.get(tid, pointer))

    def owner(self, pid: int, address: int) -> int | None:
        """The thread whose stack holds the address; with several in one mapping, the one nearest below."""
        mapping = self._spaces.find(pid, address)
        threads = self._lowest.get((pid, mapping.start)) if mapping is not None else None
        if not threads:
            return None
        below = [tid for tid, pointer in threads.items() if pointer <= address + 4096]
        return max(below, key=lambda tid: threads[tid], default=None)


class Objects:
    """Names of data of one run."""

    def __init__(self, spaces: Spaces, names: Names, stacks: Stacks, heap: Heap | None) -> None:
        self._spaces, self._names, self._stacks, self._heap = spaces, names, stacks, heap
        self._storage = ThreadStorage(spaces)

    def name(self, pid: int, address: int) -> Object:
        """What lies at an address of a process."""
        mine = self._storage.find(pid, address)  # before the heap, which the blocks of libraries are taken from
        if mine is not None:
            return Object(f"thread-local {mine.variable} of thread {mine.tid}", "thread_local")
        block = self._heap.find(pid, address) if self._heap else None
        if block is not None:
            return self._block(pid, block, address)
        mapping = self._spaces.find(pid, address)
        if mapping is None:
            return Object(f"unknown memory at {address:#x}", "unknown")
        if mapping.shared and mapping.inode:
            label = PurePath(mapping.path).name or "anonymous"
            if mapping.path.startswith(("/dev/zero", "//anon")) or not mapping.path:
                label = "anonymous"
            return Object(f"shared mapping ({label}) + {address - mapping.start + mapping.offset:#x}", "shared_mapping")
        variable = self._names.variable(pid, address)
        if variable is not None:
            return Object(variable, "static")
        owner = self._stacks.owner(pid, address)
        if owner is not None or mapping.path == "[stack]":
            return Object(f"stack or thread-local storage of thread {owner if owner is not None else pid}", "stack")
        if mapping.path == "[heap]":
            return Object("heap block, allocating call unknown", "heap")
        return Object(f"anonymous memory, {_size(mapping.length)} mapped, + {address - mapping.start:#x}", "mapping")

    def all_names(self, pid: int, addresses: Sequence[int]) -> str:
        """What lies at several addresses of one line: the first in full, then what else is there."""
        first = self.name(pid, addresses[0]).name
        stems = {_stem(first)}
        others = []
        for address in addresses[1:]:
            name = self.name(pid, address).name
            if _stem(name) not in stems:
                stems.add(_stem(name))
                others.append(name)
        more = f" and {len(others) - MOST_NAMES} more" if len(others) > MOST_NAMES else ""
        return first + "".join(f", {name}" for name in others[:MOST_NAMES]) + more

    def one_block(self, pid: int, addresses: Sequence[int]) -> bool:
        """Whether these addresses are known to lie in one heap block."""
        blocks = {self._heap.find(pid, address) for address in addresses} if self._heap else {None}
        return len(blocks) == 1 and None not in blocks

    def _block(self, pid: int, block: Block, address: int) -> Object:
        inner = next((c for c in block.callers if not self._names.is_system(pid, c)), block.callers[0])
        self._names.prepare([(pid, inner - 1)])
        named = self._names.name(pid, inner - 1)
        place = f"{named.function} ({_short(named.source)})" if named.source else named.function
        where = self._names.where(pid, inner)
        known = self._names.is_program(where.path)
        site = named.function if known else f"{named.module}+{where.address:#x}"
        said = f"heap block of {block.size} bytes allocated in {place}, + {address - block.start}"
        return Object(said, "heap", site if named.module else "")


def _stem(name: str) -> str:
    """A name without its offset: the same variable, block or mapping."""
    return name.rsplit(" + ", 1)[0].rsplit(" at 0x", 1)[0]


def _short(source: str) -> str:
    """File name and line, without folders."""
    return PurePath(source).name


def _size(length: int) -> str:
    return f"{length / 2**20:.0f} MiB" if length >= 2**20 else f"{length // 1024} KiB"
