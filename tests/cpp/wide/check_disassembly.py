"""Checks that each function of an object consists of the instructions that its source promises in `expect` lines."""

import re
import subprocess
import sys

EXPECT = re.compile(r"expect (\w+): ([^*]+?) *\*/")
HEADER = re.compile(r"^[0-9a-f]+ <(\w+)>:$")
PREFIXES = {"lock", "notrack", "bnd", "rep", "data16"}


def mnemonics(objdump: str, path: str) -> dict[str, list[str]]:
    """Function name -> mnemonics in order, prefixes dropped; functions split off as `name.part` count for `name`."""
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True
    ).stdout
    functions: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if head := HEADER.match(line.strip()):
            current = functions.setdefault(head[1], [])
        elif "\t" in line:
            words = [word for word in line.split("\t", 1)[1].split() if word not in PREFIXES]
            if words:
                current.append(words[0])
    return functions


def matches(wanted: str, found: str) -> bool:
    """Whether a mnemonic is one of `a|b`; an operand-size letter of AT&T syntax may be left out on either side."""
    return any(found == name or found == name.rstrip("l") or found == "v" + name for name in wanted.split("|"))


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
    mine = "".join(body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name == arch)
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
