"""What an address is: a static variable, a heap block, a stack, thread-local storage, or a
mapping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple, Protocol

from linewright.elf import types
from linewright.find.names import Names, Object
from linewright.find.space import Spaces, is_named
from linewright.find.thread_storage import ThreadStorage

SMALL_STACK = 64 << 10
"""Bytes above a stack pointer that are its stack's for certain where one mapping holds stacks of
several threads: Go's lie among the objects of its heap."""


class Block(NamedTuple):
    """A heap block as the interposed malloc saw it."""

    start: int
    size: int
    callers: tuple[int, ...]
    """Return address of the allocating call, then words of the stack above it, its callers' return
    addresses among them."""

    def reuses(self, other: Block) -> bool:
        """Whether it has bytes of another one, at another time."""
        overlaps = self.start < other.start + other.size and other.start < self.start + self.size
        return overlaps and self != other


class Heap(Protocol):
    """Where blocks are looked up."""

    def find(self, pid: int, address: int, when_ns: int) -> Block | None: ...

    def owners(self, pid: int, line: int, when_ns: int) -> frozenset[Block]: ...


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
        """The thread whose stack holds the address; with several in one mapping, the one nearest
        below."""
        mapping = self._spaces.find(pid, address)
        threads = self._lowest.get((pid, mapping.start)) if mapping is not None else None
        if not threads:
            return None
        below = [tid for tid, pointer in threads.items() if pointer <= address + 4096]
        owner = max(below, key=lambda tid: threads[tid], default=None)
        among_heap = len(threads) > 1 and owner is not None
        return None if among_heap and address > threads[owner] + SMALL_STACK else owner


class Objects:
    """Names of data of one run."""

    def __init__(self, spaces: Spaces, names: Names, stacks: Stacks, heap: Heap | None) -> None:
        self._spaces, self._names, self._stacks, self._heap = spaces, names, stacks, heap
        self._storage = ThreadStorage(spaces)

    def name(self, pid: int, address: int, when_ns: int) -> Object:
        """What lay at an address of a process at a time."""
        # Before the heap, which the blocks of libraries are taken from.
        mine = self._storage.find(pid, address)
        if mine is not None:
            return mine
        block = self._heap.find(pid, address, when_ns) if self._heap else None
        if block is not None:
            return self._block(pid, block, address)
        mapping = self._spaces.find(pid, address)
        if mapping is None:
            return Object("unknown", address)
        inside = address - mapping.start
        if mapping.shared and is_named(mapping):
            nameless = mapping.path.startswith(("/dev/zero", "//anon"))
            label = "" if nameless else PurePath(mapping.path).name
            return Object("shared_mapping", inside + mapping.offset, file=label)
        variable = self._names.variable(pid, address)
        if variable is not None:
            symbol, offset, file = variable
            start = address - offset if symbol else address
            return Object("static", offset, symbol, file, start=start)
        owner = self._stacks.owner(pid, address)
        if owner is not None or mapping.path == "[stack]":
            return Object("stack", thread=pid if owner is None else owner)
        if mapping.path == "[heap]":
            return Object("heap")
        return Object("mapping", inside, size=mapping.length)

    def one_block(self, pid: int, addresses: Sequence[int], when_ns: int) -> bool:
        """Whether these addresses are known to lie in one heap block."""
        heap = self._heap
        blocks = {heap.find(pid, at, when_ns) for at in addresses} if heap else {None}
        return len(blocks) == 1 and None not in blocks

    def allocation(self, pid: int, address: int, when_ns: int) -> list[tuple[int, int]]:
        """The code that a heap block's name is made of: the allocating call and its caller."""
        block = self._heap.find(pid, address, when_ns) if self._heap else None
        return [(pid, at - 1) for at in self._callers(pid, block) if at] if block else []

    def _callers(self, pid: int, block: Block) -> tuple[int, int]:
        """Return addresses of the allocating call outside of system libraries, and of the call of
        its function, or 0."""
        names = self._names
        inner, *above = [c for c in block.callers if not names.is_system(pid, c)] or block.callers
        # A word of the stack is a caller's if the call before it leads to the function below it.
        mine = names.extent(pid, inner)
        caller = next((c for c in above if names.extent(pid, names.called(pid, c)) == mine), 0)
        return inner, caller

    def _block(self, pid: int, block: Block, address: int) -> Object:
        names, (inner, caller) = self._names, self._callers(pid, block)
        names.prepare([(pid, at - 1) for at in (inner, caller) if at])
        named = names.name(pid, inner - 1)
        where = names.where(pid, inner)
        site = named.function if names.is_program(where.path) else ""
        return Object(
            "heap",
            address - block.start,
            size=block.size,
            start=block.start,
            allocator=named,
            caller=names.name(pid, caller - 1) if caller else None,
            site=(site or f"{named.module}+{where.address:#x}") if named.module else "",
            allocated=(inner, caller),
        )

    def layout(self, pid: int, what: Object, code: Iterable[int]) -> types.Layout | None:
        """Its type, by the code that allocates it or accesses it."""
        names = self._names
        block = what.kind == "heap"
        if what.kind not in ("heap", "static", "thread_local") or (block and not what.size):
            return None
        own = names.where(pid, what.start).address if what.kind == "static" else 0
        places = [names.where(pid, at - 1 if block else at) for at in what.allocated or code if at]
        found = (
            types.allocated(names.file(p.path), p.address, what.size)
            if block
            else types.variable(names.file(p.path), p.address, what.symbol, own)
            for p in places
            if p.path
        )
        return next((layout for layout in found if layout), None)
