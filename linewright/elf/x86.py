"""Locked operations of x86, found by disassembling."""

from __future__ import annotations

from collections.abc import Iterator

import capstone

_MODES = {"x86_64": capstone.CS_MODE_64, "i386": capstone.CS_MODE_32}


def locked(code: bytes, address: int, machine: str) -> Iterator[tuple[int, str]]:
    """Address and name of every locked operation: `lock …`, and `xchg` with memory, which needs no prefix."""
    # Text without either byte cannot hold one; most functions are passed over here.
    if b"\xf0" not in code and b"\x86" not in code and b"\x87" not in code:
        return
    disassembler = capstone.Cs(capstone.CS_ARCH_X86, _MODES[machine])
    disassembler.skipdata = True
    for at, _, mnemonic, operands in disassembler.disasm_lite(code, address):
        if mnemonic.startswith("lock "):
            yield at, mnemonic.replace(" ", "_")
        elif mnemonic == "xchg" and "[" in operands:
            yield at, "xchg"
