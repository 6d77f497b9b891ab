# SPDX-License-Identifier: MIT
"""What a 32-bit x86 kernel's alternatives make of its code: reads vmlinux, and judges bytes of a
booted kernel.

An entry names a site, a replacement of at most the same length, and a feature (struct alt_instr of
the kernel: two self-relative offsets, feature and flags, two lengths). What is left of a site is
filled with NOPs of any length."""

from __future__ import annotations

import bisect
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ENTRY = {"6.1": struct.Struct("<iiHBB"), "6.12": struct.Struct("<iiIBB")}
NOPS = (
    "90",
    "6690",
    "89f6",
    "8d7600",
    "8d742600",
    "3e8d742600",
    "8db600000000",
    "8db42600000000",
    "3e8db42600000000",
    "0f1f00",
    "0f1f4000",
    "0f1f440000",
    "660f1f440000",
    "0f1f8000000000",
    "0f1f840000000000",
)
"""asm/nops.h of both series: what the assembler emits for 32 bits, and the instruction of that
name."""


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    site: int
    bytes: int
    replacement: bytes
    replacement_at: int
    feature: int


class Kernel:
    """A linked i386 kernel (32-bit ELF) of a series, and the numbers of the features that `header`
    defines."""

    def __init__(self, vmlinux: Path, series: str, header: Path) -> None:
        image = vmlinux.read_bytes()
        self.sections = {name: (address, data) for name, address, data in _sections(image)}
        found = re.findall(
            r"^#define X86_FEATURE_(\w+)\s+\(\s*(\d+)\*32\+\s*(\d+)\)", header.read_text(), re.M
        )
        self.features = {name: 32 * int(word) + int(bit) for name, word, bit in found}
        self.entries = list(self._table(_ENTRY[series]))
        listed = subprocess.run(
            ["nm", "-n", str(vmlinux)], text=True, capture_output=True, check=True
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
        self.symbols = [(int(row[0], 16), row[2]) for row in rows if row[1] in "tT"]

    def bytes_at(self, address: int, count: int) -> bytes:
        for start, data in self.sections.values():
            if start <= address and address + count <= start + len(data):
                return data[address - start :][:count]
        raise LookupError(f"{address:x} is in no section")

    def _table(self, form: struct.Struct) -> Iterator[Entry]:
        start, table = self.sections[".altinstructions"]
        for offset in range(0, len(table), form.size):
            site, replacement, feature, old, new = form.unpack_from(table, offset)
            where = start + offset + 4 + replacement
            yield Entry(
                start + offset + site, old, self.bytes_at(where, new), where, feature & 0x7FFF
            )

    def sites(self, *features: str) -> list[Entry]:
        """Entries of these features in code that outlives the boot."""
        asked = {self.features[name] for name in features}
        start, text = self.sections[".text"]
        return [
            e for e in self.entries if e.feature in asked and start <= e.site < start + len(text)
        ]

    def functions_of(self, entries: list[Entry]) -> dict[str, tuple[int, int]]:
        """Beginning and length of every function with one of these sites."""
        starts = [address for address, _ in self.symbols]
        found = {}
        for entry in entries:
            at = bisect.bisect(starts, entry.site)
            address, name = self.symbols[at - 1]
            found[f"{name} at {address:x}"] = (address, starts[at] - address)
        return found

    def site_is(self, entry: Entry, code: bytes, replaced: bool) -> bool:
        """Whether `code`, read from memory, is what belongs at a site: replacement or linked code,
        then NOPs."""
        want = (
            entry.replacement
            if replaced
            else self.bytes_at(entry.site, entry.bytes).rstrip(b"\x90")
        )
        if replaced and want[:1] == b"\xe9":
            target, length = _jump(code, entry.site)
            return target == _jump(want, entry.replacement_at)[0] and _is_filled(code[length:])
        return code.startswith(want) and _is_filled(code[len(want) :])

    def other_changes(self, address: int, code: bytes) -> list[str]:
        """Bytes of a function that differ from the linked ones outside of every site."""
        inside = {
            at for entry in self.entries for at in range(entry.site, entry.site + entry.bytes)
        }
        linked = self.bytes_at(address, len(code))
        return [
            f"{at:x}: {old:02x} {new:02x}"
            for at, (old, new) in enumerate(zip(linked, code, strict=True), address)
            if old != new and at not in inside
        ]


def _jump(code: bytes, at: int) -> tuple[int | None, int]:
    """Where a jump leads, and its length: a kernel takes the short one where it can."""
    if code[0] == 0xEB:
        return at + 2 + struct.unpack_from("<b", code, 1)[0], 2
    if code[0] == 0xE9:
        return at + 5 + struct.unpack_from("<i", code, 1)[0], 5
    return None, 0


def _is_filled(code: bytes) -> bool:
    """NOPs, or INT3 behind a jump that became short."""
    return re.fullmatch(f"(?:{'|'.join(NOPS)})*|(?:cc)*", code.hex()) is not None


def disassembled(code: bytes, address: int, scratch: Path) -> list[str]:
    """Instructions without their addresses; NOPs left out."""
    scratch.write_bytes(code)
    words = [
        "objdump",
        "-D",
        "-b",
        "binary",
        "-m",
        "i386",
        "--no-show-raw-insn",
        f"--adjust-vma={address:#x}",
    ]
    said = subprocess.run([*words, str(scratch)], text=True, capture_output=True, check=True).stdout
    rows = [
        re.sub(r"\s+", " ", row[1]).strip()
        for row in re.findall(r"^\s*([0-9a-f]+):\t(.*)$", said, re.M)
    ]
    return [
        row
        for row in rows
        if not re.match(r"nop|xchg %ax,%ax|lea 0x0\(%esi|mov %esi,%esi|lea %ds:0x0", row)
    ]


def _sections(image: bytes) -> Iterator[tuple[str, int, bytes]]:
    (start,) = struct.unpack_from("<I", image, 32)
    size, count, names_at = struct.unpack_from("<HHH", image, 46)
    heads = [struct.unpack_from("<IIIIII", image, start + number * size) for number in range(count)]
    names = heads[names_at][4]
    for name, kind, flags, address, offset, length in heads:
        if kind == 1 and flags & 2:  # SHT_PROGBITS that takes memory
            end = image.index(b"\0", names + name)
            yield image[names + name : end].decode(), address, image[offset : offset + length]
