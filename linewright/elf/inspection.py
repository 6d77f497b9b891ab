# SPDX-License-Identifier: MIT
"""What a program or library holds of atomics, function by function, and how much of it can be
switched."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import capstone
import numpy as np

from linewright.elf import arm64, image, outline_helpers

_LIBATOMIC = re.compile(r"__atomic_(?!signal_fence|thread_fence)\w+$")
_HELPER = re.compile(
    r"__aarch64_(cas(1|2|4|8|16)|(swp|ldadd|ldclr|ldset|ldeor)[1248])_(relax|acq|rel|acq_rel|sync)$"
)


_MODES = {"x86_64": capstone.CS_MODE_64, "i386": capstone.CS_MODE_32}
# An instruction has at most 15 bytes, so 15 prefixes in a row are data. The disassembler reads all
# of such a row again for each of its bytes: without this, 64 KB of them take most of a minute.
_ROWS = {
    "x86_64": re.compile(rb"[\x26\x2e\x36\x3e\x40-\x4f\x64-\x67\xf0\xf2\xf3]{15,}"),
    "i386": re.compile(rb"[\x26\x2e\x36\x3e\x64-\x67\xf0\xf2\xf3]{15,}"),
}
# A LOCK before F2 or F3 holds as any other, and the disassembler drops it.
_LATE = re.compile(rb"[\x26\x2e\x36\x3e\x64-\x67]*\xf0[\x26\x2e\x36\x3e\x64-\x67]*[\xf2\xf3]")
_LOCKABLE = re.compile(r"(ad[dc]|and|bt[crs]|cmpxchg\w*|dec|inc|neg|not|x?or|s[bu]b|xadd)$")


def locked(code: bytes, address: int, machine: str) -> Iterator[tuple[int, str]]:
    """Address and name of every locked operation: `lock …`, and `xchg` with memory, which needs no
    prefix."""
    # Text without either byte cannot hold one; most functions are passed over here.
    if b"\xf0" not in code and b"\x86" not in code and b"\x87" not in code:
        return
    disassembler = capstone.Cs(capstone.CS_ARCH_X86, _MODES[machine])
    disassembler.skipdata = True
    begin = 0
    cuts = [(row.start(), row.end() - 14) for row in _ROWS[machine].finditer(code)]
    for end, following in [*cuts, (len(code), 0)]:
        for at, _, mnemonic, operands in disassembler.disasm_lite(code[begin:end], address + begin):
            # An elided lock's operation is one with a further prefix, and without elision itself.
            name = mnemonic.removeprefix("xacquire ").removeprefix("xrelease ")
            if name.startswith("lock "):
                yield at, name.replace(" ", "_")
            elif operands.partition(",")[0].endswith("]") and _LOCKABLE.match(name):
                if _LATE.match(code, at - address):
                    yield at, f"lock_{name}"
            elif name == "xchg" and "[" in operands:
                yield at, "xchg"
        begin = following


@dataclass
class Function:
    """Atomics of one function; a function without any is not kept."""

    name: str
    address: int
    contains: Counter[str] = field(default_factory=Counter)
    """Outlined helpers whose body this is."""
    calls: Counter[str] = field(default_factory=Counter)
    """Outlined helpers called from here, by name."""
    lse: Counter[str] = field(default_factory=Counter)
    """Inlined LSE instructions by form: store, load, swap, cas."""
    llsc: int = 0
    """Inlined LL/SC loops."""
    libatomic: Counter[str] = field(default_factory=Counter)
    """Calls of libatomic's functions, by name (arm64)."""
    locked: Counter[str] = field(default_factory=Counter)
    """Locked operations of x86 by mnemonic."""


@dataclass(frozen=True)
class Inspection:
    """A file's functions that have atomics, and its helpers by how they can be switched."""

    image: image.Image
    functions: tuple[Function, ...]
    recognised: Counter[str]
    """Helpers that the auditing library knows, by name."""
    own: Counter[str]
    """Helpers linked from liblinewright_outline."""
    fixed: Counter[str]
    """Helpers that are LL/SC without a test of the CPU, by name."""
    unknown: Counter[str]
    """Functions named like helpers whose machine code is another: left alone."""
    libatomic: tuple[str, ...]
    """Functions of libatomic that the file calls; what they execute stands in that library."""
    data: int
    """Words or bytes outside of every function of known extent that would be atomic instructions:
    most likely data."""

    @property
    def sums(self) -> dict[str, int]:
        """Operations of the whole file, by kind."""
        return {
            "helper_calls": sum(f.calls.total() for f in self.functions),
            "inlined_lse": sum(f.lse.total() for f in self.functions),
            "inlined_llsc": sum(f.llsc for f in self.functions),
            "locked": sum(f.locked.total() for f in self.functions),
        }


def inspect(path: str) -> Inspection:
    """Read and look through a program or library. Raises UserError for a file that is none."""
    loaded = image.load(path)
    book = _FunctionsByAddress(loaded)
    kinds: dict[str, Counter[str]] = {"known": Counter(), "own": Counter(), "fixed": Counter()}
    if loaded.machine == "arm64":
        for body in _arm64(loaded, book):
            kinds[body.kind][body.name] += 1
    else:
        _x86(loaded, book)
    known = kinds["known"] + kinds["own"] + kinds["fixed"]
    named = Counter(
        f.name for f in loaded.functions if loaded.machine == "arm64" and _HELPER.match(f.name)
    )
    functions = tuple(book.by_start[start] for start in sorted(book.by_start))
    return Inspection(
        loaded,
        functions,
        kinds["known"],
        kinds["own"],
        kinds["fixed"],
        Counter({n: c - known[n] for n, c in named.items() if c > known[n]}),
        tuple(sorted(name for name in loaded.imports if _LIBATOMIC.match(name))),
        book.data,
    )


def helper_bodies(path: str) -> list[outline_helpers.HelperBody]:
    """The outline helpers in an arm64 file, by their code. Raises UserError for a file that is
    none."""
    loaded = image.load(path)
    return _arm64(loaded, _FunctionsByAddress(loaded)) if loaded.machine == "arm64" else []


class _FunctionsByAddress:
    """Functions by address, made as something is found in them."""

    def __init__(self, loaded: image.Image) -> None:
        self.starts = [f.address for f in loaded.functions]
        self.names = {f.address: f.name for f in loaded.functions}
        self.texts = loaded.texts
        self.bodies = loaded.bodies
        self.by_start: dict[int, Function] = {}
        self.data = 0

    def is_code(self, address: int) -> bool:
        """Whether a function is known to reach over the address; what is not is counted as data."""
        i = int(np.searchsorted(self.bodies[:, 0], address, side="right"))
        inside = not len(self.bodies) or (i > 0 and address < self.bodies[i - 1, 1])
        self.data += not inside
        return bool(inside)

    def at(self, address: int) -> Function:
        """The function that an address is in: the last to begin before it in the same piece of
        text."""
        text = next(t for t in self.texts if t.address <= address < t.end)
        i = bisect_right(self.starts, address)
        start = self.starts[i - 1] if i and self.starts[i - 1] >= text.address else text.address
        return self.named(start, self.names.get(start, f"text at {start:#x}"))

    def named(self, start: int, name: str) -> Function:
        return self.by_start.setdefault(start, Function(name, start))


def _words(text: image.Text) -> tuple[np.ndarray, int]:
    """A text's instructions and the address of the first."""
    skip = -text.address % 4
    count = max(0, len(text.code) - skip) // 4
    words = np.frombuffer(text.code, dtype="<u4", count=count, offset=skip if count else 0)
    return words, text.address + skip


def _arm64(loaded: image.Image, book: _FunctionsByAddress) -> list[outline_helpers.HelperBody]:
    pieces = [_words(text) for text in loaded.texts]
    starts = np.array(book.starts, dtype=np.int64)
    bodies = []
    for words, address in pieces:
        bodies += outline_helpers.find(words, address, loaded.writable)
        bodies += outline_helpers.find_fixed(words, starts, address)
    targets = {f.address: f.name for f in loaded.functions if _HELPER.match(f.name)}
    for body in bodies:
        targets[body.address] = body.name
        # Named by its code: a stripped file knows no better, and a neighbour's name would mislead.
        book.named(body.address, body.name).contains[body.name] += 1
    for words, address in pieces:
        for stub, slot in arm64.stub_slots(words, address).items():
            if _HELPER.match(name := loaded.stubs.get(slot, "")) or _LIBATOMIC.match(name):
                targets[stub] = name
    for words, address in pieces:
        for veneer, led_to in arm64.veneers(words, address).items():
            if led_to in targets:
                targets[veneer] = targets[led_to]
    spans = sorted((body.address, body.end) for body in bodies)
    for words, address in pieces:
        _arm64_piece(words, address, book, targets, spans)
    return bodies


def _arm64_piece(
    words: np.ndarray,
    address: int,
    book: _FunctionsByAddress,
    targets: dict[int, str],
    spans: list[tuple[int, int]],
) -> None:
    starts = [span[0] for span in spans]

    def outside(indices: np.ndarray) -> Iterator[int]:
        """Addresses of those that are in no helper's body."""
        for index in map(int, indices):
            at = address + 4 * index
            i = bisect_right(starts, at)
            if (not i or at >= spans[i - 1][1]) and book.is_code(at):
                yield at

    found = arm64.find(words)
    for form, indices in found.lse.items():
        for at in outside(indices):
            book.at(at).lse[form] += 1
    for at in outside(found.exclusive_loads):
        book.at(at).llsc += 1
    sources = address + 4 * found.calls
    led_to = arm64.targets(words[found.calls], sources)
    ours = np.isin(led_to, np.fromiter(targets, dtype=np.int64, count=len(targets)))
    for at, target in zip(map(int, sources[ours]), map(int, led_to[ours]), strict=True):
        of, name = book.at(at), targets[target]
        (of.calls if _HELPER.match(name) else of.libatomic)[name] += 1


def _x86(loaded: image.Image, book: _FunctionsByAddress) -> None:
    for text in loaded.texts:
        inside = (start for start in book.starts if text.address < start < text.end)
        for start, end in itertools.pairwise([text.address, *inside, text.end]):
            code = bytes(text.code[start - text.address : end - text.address])
            for at, name in locked(code, start, loaded.machine):
                if book.is_code(at):
                    book.at(at).locked[name] += 1
