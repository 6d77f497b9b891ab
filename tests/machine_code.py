# SPDX-License-Identifier: MIT
"""The machine code of a program as functions of instructions, read from the disassembler: for every
test that looks at code."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OBJDUMP = {"arm64": "aarch64-linux-gnu-objdump"}
"""The disassembler of an architecture, where it is not the system's ``objdump``."""

PREFIXES = {"lock", "notrack", "bnd", "rep", "repz", "data16", "cs"}

_HEADING = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
_RELOCATION = re.compile(r"^R_\S+ ([A-Za-z_.][\w.]*)")
_TARGET = re.compile(r"<(.+)>$")


@dataclass
class Instruction:
    """One instruction. ``text`` is as the disassembler prints it, with single blanks between
    words."""

    address: int
    text: str
    target: str = ""
    """Symbol that a jump or call goes to, by relocation or listing; ``name+0x12`` inside a
    function."""

    @property
    def mnemonic(self) -> str:
        """Without prefixes."""
        return _parts(self.text)[0]

    @property
    def operands(self) -> str:
        return _parts(self.text)[1]


@cache
def _parts(text: str) -> tuple[str, str]:
    """Mnemonic and operands of an instruction: most stand in a program many times."""
    mnemonic = next((word for word in text.split() if word not in PREFIXES), "")
    return mnemonic, text.partition(mnemonic)[2].strip()


def disassemble(
    program: str | Path,
    objdump: str = "objdump",
    options: Sequence[str] = ("-d",),
    wanted: str = "",
) -> dict[str, list[Instruction]]:
    """Function -> its instructions in address order. Functions of one name (static ones, archive
    members) are joined.

    `wanted` is an expression that the names of functions begin with; most of a static program is
    left out so."""
    begins = re.compile(wanted)
    command = [objdump, *options, "--no-show-raw-insn", str(program)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    for line in listing.splitlines():
        if heading := _HEADING.match(line):
            current = functions.setdefault(heading[1], []) if begins.match(heading[1]) else None
        elif current is not None and (match := _LINE.match(line)):
            text = " ".join(match[2].split())
            if relocation := _RELOCATION.match(text):
                if current:
                    current[-1].target = relocation[1]
                continue
            target = _TARGET.search(text)
            current.append(Instruction(int(match[1], 16), text, target[1] if target else ""))
    return functions
