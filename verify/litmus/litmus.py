# SPDX-License-Identifier: MIT
"""Read the litmus tests of this folder strictly enough that a slip is found before a model checker
is at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent / "tests"

REGISTER = r"(?:[XW](?:[0-9]|[12][0-9]|30)|[XW]ZR)"
MEMORY = r"\[X[0-9]+(?:,X[0-9]+)?\]"
ORDER = r"(?:AL|A|L|)"
INSTRUCTIONS = [
    re.compile(pattern + r"$")
    for pattern in (
        rf"MOV {REGISTER},#\d+",
        rf"ADD {REGISTER},{REGISTER},(?:#\d+|{REGISTER})",
        rf"CMP {REGISTER},#\d+",
        rf"EOR {REGISTER},({REGISTER}),\1",  # 0 that depends on a register
        rf"(?:LDR|LDAR|LDXR|LDAXR|STR|STLR) {REGISTER},{MEMORY}",
        rf"(?:STXR|STLXR) W\d+,{REGISTER},{MEMORY}",
        rf"(?:LDADD|SWP|CAS){ORDER} {REGISTER},{REGISTER},{MEMORY}",
        rf"STADDL? {REGISTER},{MEMORY}",
        r"DMB (?:ISH|ISHLD|ISHST)",
        rf"CBN?Z {REGISTER},[A-Z]\w*",
        r"B\.(?:NE|EQ) [A-Z]\w*",
        r"[A-Z]\w*:",
        r"NOP",
    )
]


X86_INSTRUCTIONS = [
    re.compile(pattern + r"$")
    for pattern in (
        r"(?:lock )?addq \$\d+,\[[a-z]\]",
        r"movq \$\d+,\[[a-z]\]",
        r"movq \[[a-z]\],%r[a-d]x",
        r"mfence",
    )
]


class Malformed(ValueError):
    """A test that no checker would accept, or that does not say what is expected of it."""


@dataclass(frozen=True)
class Litmus:
    name: str
    architecture: str  # "AArch64" or "X86_64"
    doc: str
    expected: str  # "allowed" or "forbidden": whether the final state may be seen
    variables: tuple[str, ...]
    pointers: dict[tuple[int, str], str]  # (thread, register) -> variable
    threads: tuple[tuple[str, ...], ...]
    condition: tuple[tuple[str, int], ...]  # conjunction of "x" or "0:X2" = value


def parse(text: str, name: str) -> Litmus:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    architecture = lines[0].split(" ")[0]
    if lines[0] not in (f"AArch64 {name}", f"X86_64 {name}"):
        raise Malformed(f"{name}: the first line must be 'AArch64 {name}' or 'X86_64 {name}'")
    doc = re.fullmatch(r'"([^"]{10,})"', lines[1])
    expected = re.fullmatch(r"\(\* Expected: (allowed|forbidden) \*\)", lines[2])
    if not doc or not expected:
        raise Malformed(f"{name}: lines 2 and 3 must be a description and what is expected")
    begin, end = lines.index("{"), lines.index("}")
    variables, pointers = _initial(name, " ".join(lines[begin + 1 : end]))
    threads = _threads(
        name, lines[end + 1 : -1], INSTRUCTIONS if architecture == "AArch64" else X86_INSTRUCTIONS
    )
    condition = _condition(name, lines[-1])
    test = Litmus(name, architecture, doc[1], expected[1], variables, pointers, threads, condition)
    _check_names(test)
    return test


def _initial(name: str, text: str) -> tuple[tuple[str, ...], dict[tuple[int, str], str]]:
    variables, pointers = [], {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        if declared := re.fullmatch(r"uint64_t ([a-z])=0", part):
            variables.append(declared[1])
        elif pointer := re.fullmatch(r"(\d):(X\d+)=([a-z])", part):
            pointers[int(pointer[1]), pointer[2]] = pointer[3]
        else:
            raise Malformed(f"{name}: initial state '{part}'")
    if not set(pointers.values()) <= set(variables):
        raise Malformed(f"{name}: a register points at an undeclared variable")
    return tuple(variables), pointers


def _threads(
    name: str, rows: list[str], known: list[re.Pattern[str]]
) -> tuple[tuple[str, ...], ...]:
    cells = []
    for row in rows:
        if not row.endswith(";"):
            raise Malformed(f"{name}: a row without ';': {row}")
        cells.append([c.strip() for c in row[:-1].split("|")])
    if {len(row) for row in cells} != {len(cells[0])} or cells[0] != [
        f"P{i}" for i in range(len(cells[0]))
    ]:
        raise Malformed(f"{name}: uneven columns")
    threads = tuple(
        tuple(cell for cell in column if cell) for column in zip(*cells[1:], strict=True)
    )
    for instruction in (i for thread in threads for i in thread):
        if not any(pattern.match(instruction) for pattern in known):
            raise Malformed(f"{name}: unknown instruction '{instruction}'")
    return threads


def _condition(name: str, line: str) -> tuple[tuple[str, int], ...]:
    whole = re.fullmatch(r"exists \((.+)\)", line)
    if not whole:
        raise Malformed(f"{name}: the last line must be an 'exists' of a conjunction")
    atoms = []
    for atom in whole[1].split(" /\\ "):
        match = re.fullmatch(r"((?:\d:(?:X\d+|r[a-d]x))|[a-z])=(\d+)", atom)
        if not match:
            raise Malformed(f"{name}: condition '{atom}'")
        atoms.append((match[1], int(match[2])))
    return tuple(atoms)


def _check_names(test: Litmus) -> None:
    """Every address register is initialised, every label exists once, every register of the
    condition is written."""
    everywhere = [i for thread in test.threads for i in thread if i.endswith(":")]
    if len(set(everywhere)) != len(everywhere):
        raise Malformed(
            f"{test.name}: a label stands twice, in two threads perhaps; herd7 refuses that"
        )
    for number, thread in enumerate(test.threads):
        labels = {i[:-1] for i in thread if i.endswith(":")}
        for instruction in thread:
            for address in re.findall(r"\[(X\d+)[],]", instruction):
                if (number, address) not in test.pointers:
                    raise Malformed(f"{test.name}: P{number} uses {address}, which points nowhere")
            branch = re.match(r"(?:CBN?Z \w+,|B\.\w+ )(\w+)", instruction)
            if branch and branch[1] not in labels:
                raise Malformed(
                    f"{test.name}: P{number} branches to {branch[1]}, which is not there"
                )
    for left, _ in test.condition:
        if ":" in left:
            number, register = left.split(":")
            written = re.compile(
                rf"\b[XW]{register[1:]}\b" if register[0] == "X" else rf"%{register}\b"
            )
            if not any(written.search(i) for i in test.threads[int(number)]):
                raise Malformed(f"{test.name}: the condition asks for {left}, which nothing writes")
        elif left not in test.variables:
            raise Malformed(f"{test.name}: the condition asks for {left}, which is not declared")


def all_tests() -> list[Litmus]:
    return [parse(path.read_text(), path.stem) for path in sorted(TESTS.glob("*.litmus"))]
