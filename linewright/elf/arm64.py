# SPDX-License-Identifier: MIT
"""Atomic instructions of arm64, found by their encodings in whole arrays of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AtomicInstructions:
    """Indices into the words looked at."""

    lse: dict[str, np.ndarray]
    """By form: store (no destination), load, swap, cas."""
    exclusive_loads: np.ndarray
    """Each begins an LL/SC loop."""
    calls: np.ndarray
    """BL and B, which may be a call at a function's end."""


def find(words: np.ndarray) -> AtomicInstructions:
    """Atomics and direct calls among `words` (uint32)."""
    # LD<op>, ST<op>, SWP: size 111 0 00 A R 1 Rs o3 opc 00 Rn Rt. o3 set with opc 0 is SWP, with
    # another opc no atomic operation (LDAPR and the 64-byte loads and stores live there).
    memory = (words & 0x3F200C00) == 0x38200000
    swap = memory & ((words & 0xF000) == 0x8000)
    operation = memory & ((words & 0x8000) == 0)
    # Without a destination and without acquire it is the store form: ST<op> is another name for
    # exactly that.
    store = operation & ((words & 0x1F) == 31) & ((words & 0x800000) == 0)
    # CAS: size 001000 1 A 1 Rs R 11111 Rn Rt; CASP: 0 sz 001000 0 A 1 Rs R 11111 Rn Rt.
    cas = ((words & 0x3FA07C00) == 0x08A07C00) | ((words & 0xBFA07C00) == 0x08207C00)
    # L(A)XR and its pair form: size 001000 0 1 0 11111 o0 11111 …, 1 sz 001000 0 1 1 11111 o0 Rt2 …
    loads = ((words & 0x3FFF7C00) == 0x085F7C00) | ((words & 0xBFFF0000) == 0x887F0000)
    calls = (words & 0x7C000000) == 0x14000000
    lse = {"store": store, "load": operation & ~store, "swap": swap, "cas": cas}
    return AtomicInstructions(
        {form: np.flatnonzero(mask) for form, mask in lse.items()},
        np.flatnonzero(loads),
        np.flatnonzero(calls),
    )


def targets(calls: np.ndarray, addresses: np.ndarray) -> np.ndarray:
    """Where each B or BL among `calls` (uint32) leads, which stands at the address beside it."""
    offsets = (calls & 0x3FFFFFF).astype(np.int64)
    return addresses + 4 * (offsets - ((offsets & 1 << 25) << 1))


ADRP_X16, BR_X16, ANY = (0x9F00001F, 0x90000010), (0xFFFFFFFF, 0xD61F0200), (0, 0)
"""Mask and value of instructions."""


def runs_of(words: np.ndarray, *instructions: tuple[int, int]) -> list[int]:
    """Indices of the first of such instructions, one behind the other."""
    count = len(words) - len(instructions) + 1
    found = np.ones(max(0, count), dtype=bool)
    for i, (mask, value) in enumerate(instructions):
        found &= (words[i : i + max(0, count)] & mask) == value
    return np.flatnonzero(found).tolist()


def veneers(words: np.ndarray, address: int) -> dict[int, int]:
    """Long-branch veneers, which linkers put where a target is out of a branch's reach: the address
    of each and its target.

    `adrp x16, page; add x16, x16, #low; br x16`, or `ldr x16, 8 bytes on; br x16` and the target's
    address."""
    found = {}
    for i in runs_of(words, ADRP_X16, (0xFFC003FF, 0x91000210), BR_X16):
        here = address + 4 * i
        found[here] = page(int(words[i]), here) + (int(words[i + 1]) >> 10 & 0xFFF)
    for i in runs_of(words, (0xFFFFFFFF, 0x58000050), BR_X16, ANY, ANY):
        found[address + 4 * i] = int(words[i + 2]) | int(words[i + 3]) << 32
    return found


def page(adrp: int, here: int) -> int:
    """The page that an ADRP at `here` forms the address of."""
    pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
    pages -= (pages & 1 << 20) << 1
    return (here & ~0xFFF) + (pages << 12)


def stub_slots(words: np.ndarray, address: int) -> dict[int, int]:
    """Call stubs: the address of each, with or without landing pad, and of the word that it jumps
    through."""
    # adrp x16, page; ldr x17, [x16, #low]; add x16, x16, #low; br x17
    load, add = (0xFFC003FF, 0xF9400211), (0xFFC003FF, 0x91000210)
    slots = {}
    for i in runs_of(words, ADRP_X16, load, add, (0xFFFFFFFF, 0xD61F0220)):
        here = address + 4 * i
        slot = page(int(words[i]), here) + 8 * (int(words[i + 1]) >> 10 & 0xFFF)
        slots[here] = slot
        if i and words[i - 1] == 0xD503245F:
            slots[here - 4] = slot
    return slots
