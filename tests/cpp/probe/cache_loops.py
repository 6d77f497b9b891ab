# SPDX-License-Identifier: MIT
"""Checks in the compiled probe that each loop over a maintenance instruction holds it, its own
wait, and no other's.

usage: cache_loops.py OBJDUMP x86_64|i386|arm64 ARCHIVE
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from machine_code import disassemble

INSTRUCTIONS = r"\b(clwb|clflushopt|clflush|cvac|civac|cvap|cvadp)\b"
WAITS = r"^(sfence|mfence|dsb\s+sy)\b"
LOOPS = r".*(maintain<|walk_only)"
DROPS = {"clflushopt", "clflush", "civac"}


def main(objdump: str, arch: str, archive: str) -> int:
    wrong, loops = [], 0
    for name, instructions in disassemble(archive, objdump, ("-dC",), LOOPS).items():
        code = [i.text for i in instructions]
        match = re.search(
            r"maintain<&?\(?(?:lw_)(?:dc_)?(\w+)\b.*?, (true|false), (true|false)>", name
        )
        if not match:
            if "walk_only" in name and any(re.search(INSTRUCTIONS, text) for text in code):
                wrong.append("the baseline loop holds a maintenance instruction")
            continue
        loops += 1
        insn, full = match[1], match[3] == "true"
        seen = {found[1] for text in code if (found := re.search(INSTRUCTIONS, text))}
        if seen != {insn}:
            wrong.append(f"{name} holds {sorted(seen)}")
        waits = {text for text in code if re.match(WAITS, text)}
        needed = "dsb sy" if arch == "arm64" else "mfence" if full else "sfence"
        if needed not in waits:
            wrong.append(f"{name} holds {sorted(waits)}, not {needed}")
        if full != (insn in DROPS):
            wrong.append(f"{name} waits as if it {'dropped' if full else 'kept'} lines")
    if loops != (8 if arch == "arm64" else 6):
        wrong.append(f"{loops} loops were found")
    print("\n".join(wrong) or f"{arch}: {loops} loops hold what they claim")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
