# SPDX-License-Identifier: MIT
"""Checks that each function of an object consists of the instructions that its source promises in
`expect` lines."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from machine_code import disassemble

EXPECT = re.compile(r"expect (\w+): ([^*]+?) *\*/")


def mnemonics(objdump: str, path: str) -> dict[str, list[str]]:
    """Function name -> mnemonics in order; functions split off as `name.part` count for `name`."""
    functions: dict[str, list[str]] = {}
    for name, body in disassemble(path, objdump).items():
        functions.setdefault(name.split(".")[0], []).extend(i.mnemonic for i in body if i.mnemonic)
    return functions


def matches(wanted: str, found: str) -> bool:
    """Whether a mnemonic is one of `a|b`; an operand-size letter of AT&T syntax may be left out on
    either side."""
    return any(
        found == name or found == name.rstrip("l") or found == "v" + name
        for name in wanted.split("|")
    )


def fault(wanted: list[str], found: list[str]) -> str | None:
    """What of `wanted` (in this order; `!x`: nowhere) does not hold, or None."""
    rest = iter(found)
    for item in wanted:
        if item.startswith("!"):
            if any(matches(item[1:], name) for name in found):
                return f"has {item[1:]}"
        elif not any(matches(item, name) for name in rest):
            return f"lacks {item} (in this order: {' '.join(w for w in wanted if w[0] != '!')})"
    return None


def main(objdump: str, path: str, source: str, arch: str) -> int:
    """Prints one line per fault; returns 1 if there was any, or if nothing was checked."""
    functions = mnemonics(objdump, path)
    text = open(source, encoding="utf-8").read()
    parts = re.split(r"#(?:el)?if defined\(__(\w+)__\)", text)
    mine = "".join(
        body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name == arch
    )
    checked = 0
    faults = 0
    for name, spec in EXPECT.findall(mine):
        checked += 1
        reason = fault(spec.split(), functions[name]) if name in functions else "is not there"
        if reason:
            faults += 1
            print(f"{name} {reason}: {' '.join(functions.get(name, []))}")
    print(f"{checked} functions checked, {faults} faults")
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
