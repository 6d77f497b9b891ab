# SPDX-License-Identifier: MIT
"""The outlined helpers of arm64 by their exact machine code: those that the auditing library
changes, and Linewright's own.

The same sequences as src/outline/audit/signature.c describes for the library that edits them; a
test holds both against the compiler's own helpers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it takes as long to load as a sampler to start, and names are asked for before
    import numpy as np

PREFIX = "__aarch64_"
"""What the names of all of them begin with."""
OPERATIONS = ("cas", "swp", "ldadd", "ldclr", "ldset", "ldeor")
ORDERS = ("relax", "acq", "rel", "acq_rel", "sync")

LDRB_W16 = (0xFFC003FF, 0x39400210)
BTI_C = 0xD503245F
_CBZ_W16_12, _RET, _DMB_ISH, _BNE_12 = 0x34000070, 0xD65F03C0, 0xD5033BBF, 0x54000061
_TBNZ_W16_1, _TBZ_W16_0, _TB_MASK = 0x37080010, 0x36000010, 0xFFF8001F
_LSE = {
    "cas": 0x08A07C41,
    "swp": 0x38208020,
    "ldadd": 0x38200020,
    "ldclr": 0x38201020,
    "ldset": 0x38203020,
    "ldeor": 0x38202020,
}
_COMPUTE = {"ldadd": 0x0B100011, "ldclr": 0x0A300011, "ldset": 0x2A100011, "ldeor": 0x4A100011}


@dataclass(frozen=True)
class HelperBody:
    """A helper in a file: where it begins (its landing pad, if it has one), how far it goes, who
    governs it."""

    name: str
    address: int
    end: int
    kind: str
    """known: the compiler's, which an auditing library can edit. own: linked from
    liblinewright_outline, so the setting governs it without one. fixed: LL/SC without a test of the
    CPU, as Rust's compiler_builtins has it; nothing governs it."""


def is_helper(function: str) -> bool:
    """Whether a symbol is one of them, also where the program brings its own."""
    return function.startswith(PREFIX)


def _body(op: str, size: int, order: str, writes_back: bool = False) -> tuple[int, ...]:
    """The words from the branch on. `writes_back`: of 16 bytes, and a failing loop stores what it
    read, as gcc 14 has it."""
    bits = {1: 0, 2: 1, 4: 2, 8: 3, 16: 3}[size] << 30
    wide = 0x80000000 if size >= 8 else 0
    acquire = order in ("acq", "acq_rel", "sync")
    release = order in ("rel", "acq_rel") or (order == "sync" and op != "swp")
    a, r = (0x400000, 0x8000) if op == "cas" else (0x800000, 0x400000)
    lse = (0x48207C82 if size == 16 else _LSE[op] | bits) | a * acquire | r * release
    load, store = 0x8000 if acquire and order != "sync" else 0, 0x8000 if release else 0
    if size == 16:
        save = [0xAA0003F0, 0xAA0103F1]
        loop = [0xC87F0480 | load, 0xEB10001F, 0xFA510020]
        if writes_back:
            loop += [0x9A80004F, 0x9A81006E, 0xC82D388F | store, 0x35FFFF4D]
        else:
            loop += [_BNE_12, 0xC82F0C82 | store, 0x35FFFF6F]
    elif op == "cas":
        save = [{1: 0x53001C10, 2: 0x53003C10}.get(size, 0x2A0003F0 | wide)]
        loop = [0x085F7C40 | bits | load, 0x6B10001F | wide, _BNE_12]
        loop += [0x08117C41 | bits | store, 0x35FFFF91]
    elif op == "swp":
        save = [0x2A0003F0 | wide]
        loop = [0x085F7C20 | bits | load, 0x08117C30 | bits | store, 0x35FFFFD1]
    else:
        save = [0x2A0003F0 | wide]
        loop = [0x085F7C20 | bits | load, _COMPUTE[op] | wide]
        loop += [0x080F7C31 | bits | store, 0x35FFFFAF]
    return (_CBZ_W16_12, lse, _RET, *save, *loop, *([_DMB_ISH] if order == "sync" else []), _RET)


@cache
def _by_lse_word() -> dict[int, list[tuple[str, tuple[int, ...]]]]:
    """Candidates, name and words from the branch on, by their LSE instruction."""
    found: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    for op in OPERATIONS:
        for size in (1, 2, 4, 8, 16) if op == "cas" else (1, 2, 4, 8):
            for order, writes_back in itertools.product(ORDERS, (False, True)[: 1 + (size == 16)]):
                words = _body(op, size, order, writes_back)
                found.setdefault(words[1], []).append((f"{PREFIX}{op}{size}_{order}", words))
    return found


def find(
    words: np.ndarray, address: int, writable: tuple[tuple[int, int], ...]
) -> list[HelperBody]:
    """All helpers in `words` (uint32) that run at `address`; each tests a byte in one of the
    `writable` ranges."""
    from linewright.elf.arm64 import ADRP_X16, page, runs_of

    found = []
    for i in runs_of(words, ADRP_X16, LDRB_W16):
        here = address + 4 * i
        byte = page(int(words[i]), here) + (int(words[i + 1]) >> 10 & 0xFFF)
        if not any(low <= byte < high for low, high in writable):
            continue
        pad = 4 if i and words[i - 1] == BTI_C else 0
        if (body := _compilers(words, i)) or (body := _own(words, i)):
            name, length, kind = body
            found.append(HelperBody(name, here - pad, here + 4 * length, kind))
    return found


@cache
def _by_first_words() -> dict[tuple[int, int], list[tuple[str, tuple[int, ...]]]]:
    """LL/SC paths, name and words from the move that begins each to its return, by their first two
    words."""
    found: dict[tuple[int, int], list[tuple[str, tuple[int, ...]]]] = {}
    for candidates in _by_lse_word().values():
        for name, (_branch, _lse, _return, *path) in candidates:
            found.setdefault((path[0], path[1]), []).append((name, tuple(path)))
    return found


def find_fixed(words: np.ndarray, starts: np.ndarray, address: int) -> list[HelperBody]:
    """Helpers that are the LL/SC path alone, among the functions of `words` that begin at the
    addresses `starts`."""
    inside = starts[
        (starts >= address) & (starts + 8 <= address + 4 * len(words)) & (starts % 4 == address % 4)
    ]
    found = []
    for start in map(int, inside):
        i = (start - address) // 4
        pad = 1 if words[i] == BTI_C else 0
        i += pad
        if i + 1 >= len(words):
            continue
        for name, path in _by_first_words().get((int(words[i]), int(words[i + 1])), ()):
            if tuple(map(int, words[i : i + len(path)])) == path:
                found.append(HelperBody(name, start, start + 4 * (pad + len(path)), "fixed"))
                break
    return found


def _compilers(words: np.ndarray, i: int) -> tuple[str, int, str] | None:
    if i + 4 >= len(words):
        return None
    for name, body in _by_lse_word().get(int(words[i + 3]), ()):
        if tuple(map(int, words[i + 2 : i + 2 + len(body)])) == body:
            return name, 2 + len(body), "known"
    return None


def _own(words: np.ndarray, i: int) -> tuple[str, int, str] | None:
    """Linewright's: bit 1 of the byte to the prefetch behind the body, bit 0 clear to the LL/SC
    path behind the return."""
    if (
        i + 6 >= len(words)
        or words[i + 2] & _TB_MASK != _TBNZ_W16_1
        or words[i + 3] & _TB_MASK != _TBZ_W16_0
        or words[i + 5] != _RET
    ):
        return None
    names = [name for name, _ in _by_lse_word().get(int(words[i + 4]), ())]
    prefetch = i + 2 + (int(words[i + 2]) >> 5 & 0x3FFF)
    if not names or prefetch + 1 >= len(words) or prefetch > i + 40:
        return None
    if int(words[prefetch]) & 0xFFFFFC1F != 0xF9800011:
        return None
    fenced = _DMB_ISH in map(int, words[i:prefetch])
    name = next((n for n in names if n.endswith("_sync") == fenced), names[0])
    return name, prefetch + 2 - i, "own"
