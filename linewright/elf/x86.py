"""Locked operations of x86, found by disassembling."""

from __future__ import annotations

import re
from collections.abc import Iterator

import capstone

_MODES = {"x86_64": capstone.CS_MODE_64, "i386": capstone.CS_MODE_32}
# An instruction has at most 15 bytes, so 15 prefixes in a row are data. The disassembler reads all
# of such a row again for each of its bytes: without this, 64 KB of them take most of a minute.
_ROWS = {
    "x86_64": re.compile(rb"[\x26\x2e\x36\x3e\x40-\x4f\x64-\x67\xf0\xf2\xf3]{15,}"),
    "i386": re.compile(rb"[\x26\x2e\x36\x3e\x64-\x67\xf0\xf2\xf3]{15,}"),
}


def locked(code: bytes, address: int, machine: str) -> Iterator[tuple[int, str]]:
    """Address and name of every locked operation: `lock …`, and `xchg` with memory, which needs no
    prefix."""
    # Text without either byte cannot hold one; most functions are passed over here.
    if b"\xf0" not in code and b"\x86" not in code and b"\x87" not in code:
        return
    disassembler = capstone.Cs(capstone.CS_ARCH_X86, _MODES[machine])
    disassembler.skipdata = True
    begin = 0
    for end, following in [
        (row.start(), row.end() - 14) for row in _ROWS[machine].finditer(code)
    ] + [(len(code), 0)]:
        for at, _, mnemonic, operands in disassembler.disasm_lite(code[begin:end], address + begin):
            if mnemonic.startswith("lock "):
                yield at, mnemonic.replace(" ", "_")
            elif mnemonic == "xchg" and "[" in operands:
                yield at, "xchg"
        begin = following
