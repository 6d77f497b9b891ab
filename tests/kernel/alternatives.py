# SPDX-License-Identifier: MIT
"""What an arm64 kernel's alternatives make of its code: reads vmlinux, applies the entries of
chosen CPU features.

An entry names a site, a replacement of the same length, and a feature; entries are applied in order
where the feature is there (struct alt_instr of the kernel: two self-relative offsets, feature, two
lengths)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOP = 0xD503201F
_ENTRY = struct.Struct("<iiHBB")


@dataclass(frozen=True)
class Section:
    """Contents of a section at its address in memory."""

    name: str
    address: int
    data: bytes
    code: bool


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    site: int
    replacement: bytes
    replacement_at: int
    feature: int


class Kernel:
    """A linked arm64 kernel (64-bit, little-endian ELF) and the numbers of its CPU features."""

    def __init__(self, vmlinux: Path, features: Path) -> None:
        image = vmlinux.read_bytes()
        self.sections = list(_sections(image))
        text = features.read_text()
        self.features = {
            name: int(number)
            for name, number in re.findall(r"^#define ARM64_(\w+)\s+(\d+)$", text, re.M)
        }
        self.entries = list(self._table())

    def bytes_at(self, address: int, count: int) -> bytes:
        for section in self.sections:
            if section.address <= address and address + count <= section.address + len(
                section.data
            ):
                return section.data[address - section.address :][:count]
        raise LookupError(f"{address:x} is in no section")

    def _table(self) -> Iterator[Entry]:
        table = next(section for section in self.sections if section.name == ".altinstructions")
        for offset in range(0, len(table.data), _ENTRY.size):
            site, replacement, feature, old, new = _ENTRY.unpack_from(table.data, offset)
            at = table.address + offset
            if new == 0:  # a function writes this one
                continue
            assert old == new
            where = at + 4 + replacement
            yield Entry(at + site, self.bytes_at(where, new), where, feature)

    def applied(self, present: set[str], among: set[str]) -> dict[int, bytes]:
        """Code at every site that has an entry of a feature in `among`, when the features `present`
        are there."""
        have = {self.features[name] for name in present}
        asked = {self.features[name] for name in among}
        sites = {entry.site for entry in self.entries if entry.feature in asked}
        code = {}
        for entry in self.entries:
            if entry.site in sites:
                code.setdefault(entry.site, self.bytes_at(entry.site, len(entry.replacement)))
                if entry.feature in have:
                    code[entry.site] = entry.replacement
        return code

    def entries_of(self, feature: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.feature == self.features[feature]]

    def instructions(self) -> Iterator[tuple[int, int]]:
        """Address and word of all code that is no replacement and no address."""
        replaced = {
            address
            for entry in self.entries
            for address in range(
                entry.replacement_at, entry.replacement_at + len(entry.replacement), 4
            )
        }
        for section in self.sections:
            if not section.code:
                continue
            words = [
                word for (word,) in struct.iter_unpack("<I", section.data[: len(section.data) & ~3])
            ]
            for number, (word, after) in enumerate(zip(words, [*words[1:], 0], strict=True)):
                address = section.address + 4 * number
                # The upper half of a kernel address is no instruction: the pair is an entry of the
                # global offset table.
                if address not in replaced and after >> 16 != 0xFFFF:
                    yield address, word


def _sections(image: bytes) -> Iterator[Section]:
    start, _, _, _, _, size, count, names_at = struct.unpack_from("<QIHHHHHH", image, 40)
    heads = [struct.unpack_from("<IIQQQQ", image, start + number * size) for number in range(count)]
    names = heads[names_at][4]
    for name, kind, flags, address, offset, length in heads:
        if kind == 1 and flags & 2:  # SHT_PROGBITS that takes memory
            end = image.index(b"\0", names + name)
            yield Section(
                image[names + name : end].decode(),
                address,
                image[offset : offset + length],
                bool(flags & 4),
            )


def base_register(word: int) -> int:
    """Rn of a load, a store, a prefetch or an atomic."""
    return word >> 5 & 31


def is_branch(word: int) -> bool:
    """B to a place nearby."""
    return word >> 26 == 0b000101


def is_prefetch_for_write(word: int) -> bool:
    """PRFM PSTL1STRM, [Xn]."""
    return word & 0xFFFFFC1F == 0xF9800011


def is_lse(word: int) -> bool:
    """An LSE atomic: LDADD and its kind with SWP, CAS, or CASP."""
    fetching = word & 0x3F200C00 == 0x38200000 and word >> 12 & 15 in (0, 1, 2, 3, 8)
    compare = word & 0x3FA07C00 == 0x08A07C00
    pair = word & 0xBFA07C00 == 0x08207C00
    return fetching or compare or pair


def is_store_form(word: int) -> bool:
    """STADD and its kind: LDADD and its kind with XZR for a destination."""
    return is_lse(word) and word & 0x3F208C00 == 0x38200000 and word & 31 == 31
