"""Checks in the compiled probe that each loop over a maintenance instruction holds it, its own wait, and no other's.

usage: loops.py OBJDUMP x86_64|i386|arm64 ARCHIVE
"""

import re
import subprocess
import sys

INSTRUCTIONS = r"\b(clwb|clflushopt|clflush|cvac|civac|cvap|cvadp)\b"
WAITS = r"^(sfence|mfence|dsb\s+sy)\b"
DROPS = {"clflushopt", "clflush", "civac"}


def functions(listing: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in listing.splitlines():
        if match := re.match(r"^[0-9a-f]+ <(.+)>:$", line):
            name = match[1]
            found[name] = []
        elif name and (match := re.match(r"^\s*[0-9a-f]+:\s+(.*)$", line)):
            found[name].append(match[1].split("<")[0].strip())
    return found


def main(objdump: str, arch: str, archive: str) -> int:
    listing = subprocess.run(
        [objdump, "-dC", "--no-show-raw-insn", archive], capture_output=True, text=True, check=True
    ).stdout
    wrong, loops = [], 0
    for name, code in functions(listing).items():
        match = re.search(r"maintain<&?\(?(?:lw_)(?:dc_)?(\w+)\b.*?, (true|false), (true|false)>", name)
        if not match:
            if "walk_only" in name and any(re.search(INSTRUCTIONS, text) for text in code):
                wrong.append("the empty twin holds a maintenance instruction")
            continue
        loops += 1
        insn, full = match[1], match[3] == "true"
        seen = {found[1] for text in code if (found := re.search(INSTRUCTIONS, text))}
        if seen != {insn}:
            wrong.append(f"{name} holds {sorted(seen)}")
        waits = {" ".join(text.split()) for text in code if re.match(WAITS, text)}
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
