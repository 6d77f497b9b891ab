# SPDX-License-Identifier: MIT
"""Each timed loop of the built probe holds exactly the memory instructions of its form: no other,
none missing.

A compiler that spills to the stack inside a loop, picks another instruction for a builtin, or drops
an operation whose value is not used would make a table that names one thing and times another."""

from __future__ import annotations

import itertools
import re
import shutil
from bisect import bisect_left, bisect_right
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest

from linewright.forms import IDENTICAL
from linewright.plans.grid import OPERATIONS
from machine_code import OBJDUMP, disassemble
from support.forms import forms_of
from support.instructions import expected
from support.places import ROOT


def rows(arch: str) -> list[tuple[str, int]]:
    """(form, bits) of every single-line form that belongs to this architecture."""
    return [
        (form.name, form.width_bits)
        for form in forms_of(arch)
        if form.operation in ("none", *OPERATIONS)
    ]


def build(arch: str) -> Path:
    return ROOT / "build" / {"x86_64": "native"}.get(arch, arch) / "probe" / "linewright-probe"


@cache
def at_every_place(arch: str) -> dict[str, list[tuple[int, str, str]]]:
    """Every timed function at each of its places, as (address, mnemonic with prefix, operands)."""
    objdump = OBJDUMP.get(arch, "objdump")
    if not build(arch).exists() or not shutil.which(objdump):
        pytest.skip(f"no {arch} probe built here")
    timed = (
        r"lw_(loop|completed|reader)\d?_|(void )?lw::probe::(.*::)?(run_|ask<|answer<|no_handoff)"
    )
    return {
        name: [(i.address, i.text.removesuffix(i.operands).strip(), i.operands) for i in code]
        for name, code in disassemble(build(arch), objdump, ("-d", "-C"), timed).items()
    }


@cache
def functions(arch: str) -> dict[str, list[tuple[int, str, str]]]:
    """The same, of functions in a namespace of their place only those at the first one."""
    return {
        name: code
        for name, code in at_every_place(arch).items()
        if not re.search("::place[123]::", name)
    }


CLOSING = re.compile(r"^(j(?!mp)\w+|b\.\w+|cbn?z|tbn?z)$")


def closings(code: list[tuple[int, str, str]]) -> list[tuple[int, int]]:
    """Where conditional branches go, and where they stand: those that go back close loops; an
    unconditional one only shares the function's exit."""
    return [
        (int(to[1], 16), address)
        for address, mnemonic, operands in code
        if CLOSING.match(mnemonic) and (to := re.search(r"\b([0-9a-f]+) <", operands))
    ]


def between(code: list[tuple[int, str, str]], start: int, end: int) -> list[tuple[int, str, str]]:
    """Instructions from one address to another, both included."""
    address = itemgetter(0)
    return code[bisect_left(code, start, key=address) : bisect_right(code, end, key=address)]


def loop_instructions(code: list[tuple[int, str, str]]) -> list[tuple[str, str]]:
    """Instructions inside a function's loops as (mnemonic with prefix, operands), in address
    order."""
    inside: set[int] = set()
    for start, end in closings(code):
        body = between(code, start, end)
        if not any(m == "ret" for _, m, _ in body):  # a branch back over a return leaves the loop
            inside.update(a for a, _, _ in body)
    return [(mnemonic, operands) for address, mnemonic, operands in code if address in inside]


def counts_in_memory(arch: str, name: str) -> set[str]:
    """Words on the stack that work in memory counts down: in a loop of two loads, a store and a
    branch that touches nothing else."""
    code = functions(arch)[name]
    counts = set()
    for address, mnemonic, _ in code:
        if not re.match(r"^(j(?!mp)\w+|cbn?z|b\.\w+)$", mnemonic):
            continue
        body = around(code, address)
        words = [
            word[0] for _, o in body if (word := re.search(r"(0x\w+)?\(%[er]sp\)|\[sp.*\]", o))
        ]
        if len(body) <= 8 and len(words) == 3 and len(set(words)) == 1:
            counts.add(words[0])
    return counts


def memory_instructions(arch: str, name: str) -> list[str]:
    """Instructions that touch memory (or wait for it) inside the function's loops, in address
    order."""
    found = []
    counted = counts_in_memory(arch, name)
    for mnemonic, operands in loop_instructions(functions(arch)[name]):
        if "nop" in mnemonic or mnemonic in ("lea", "data16", "cs"):
            continue
        if arch == "i386" and "(%esp)" in operands and chains(arch, name):
            continue  # seven registers: counts and the chain's entry may be on the stack
        if any(word in operands for word in counted):
            continue
        if (
            "(" in operands.split("<")[0]
            or "[" in operands.split("<")[0]
            or mnemonic in ("mfence", "dsb", "dmb", "call", "bl")
        ):
            plain = re.sub(r"^(lock )?(add|mov|xadd|xchg|cmpxchg)[lq]$", r"\1\2", mnemonic)
            found.append(f"prfm {operands.split(',')[0]}" if plain == "prfm" else plain)
    return found


CASES = [(arch, form, bits) for arch in ("x86_64", "i386", "arm64") for form, bits in rows(arch)]


LINKS = 512
"""Links of the chain of work: LW_CHAIN_LINKS of the architecture's measure.h."""


def chains(arch: str, name: str) -> list[list[tuple[int, str, str]]]:
    """What follows each indirect jump of a function: a line of links and the first instruction
    behind it."""
    code = functions(arch)[name]
    jumps = [
        i
        for i, (_, mnemonic, o) in enumerate(code)
        if mnemonic == "br" or (mnemonic == "jmp" and o[0] == "*")
    ]
    return [code[at + 1 : at + 2 + LINKS] for at in jumps]


def around(code: list[tuple[int, str, str]], inside: int) -> list[tuple[str, str]]:
    """Instructions of the narrowest loop around an address."""
    start, end = min(
        ((s, e) for s, e in closings(code) if s <= inside <= e),
        key=lambda loop: loop[1] - loop[0],
        default=(inside, inside),
    )
    return [(mnemonic, operands) for _, mnemonic, operands in between(code, start, end)]


@pytest.mark.parametrize(("arch", "form", "bits"), CASES, ids=lambda value: str(value))
def test_work_is_a_straight_line_of_dependent_additions(arch: str, form: str, bits: int) -> None:
    """One line entered by a jump for the remainder and one for whole lines; each a register added
    to itself 512 times."""
    name = f"lw_loop_{form}_u{bits}"
    found = chains(arch, name)
    assert len(found) in (2, 3), "a compiler may rotate the loop over whole lines"
    for line in found:
        (_, mnemonic, operands), behind = line[0], line[-1]
        assert mnemonic == "add" and len(set(re.findall(r"[\w%]+", operands))) == 1, operands
        assert {(m, o) for _, m, o in line[:-1]} == {(mnemonic, operands)}
        assert behind[1:] != (mnemonic, operands), "the line ends there"
        (step,) = {after[0] - before[0] for before, after in itertools.pairwise(line)}
        assert step == {"x86_64": 3, "i386": 2, "arm64": 4}[arch], "what the entry is computed with"
        register = re.findall(r"[\w%]+", operands)[0]
        if arch != "x86_64":
            continue  # elsewhere loops are in pieces, or the register has another use outside
        others = [i for i in around(functions(arch)[name], line[0][0]) if i != (mnemonic, operands)]
        assert others and not any(register in operand for _, operand in others), (
            "nothing else waits for the chain"
        )


PADDING = re.compile(r"nop|data16|cs |xchg +%ax,%ax$|lea +0x0\(%esi|jmp +[0-9a-f]|b +[0-9a-f]")
"""What assembler and compiler put between loops: NOPs, and jumps over many of them or to a shared
exit."""


def numbered(line: str, numbers: dict[str, str]) -> str:
    """A line with registers by number; the two of a sum in the order in which they were named
    before."""
    if both := re.search(r"\((%\w+),(%\w+),1\)", line):
        first, second = sorted(both.groups(), key=lambda register: numbers.get(register, "unnamed"))
        line = line.replace(both[0], f"({first} + {second})")
    return re.sub(r"%\w+|\b[xw]\d+\b", lambda r: numbers.setdefault(r[0], f"r{len(numbers)}"), line)


@cache
def loops(arch: str, name: str) -> list[tuple[int, list[str]]]:
    """A function's loops: where each begins, and what it holds, without padding and addresses.

    Registers are numbered in the order in which a loop names them: which they are changes nothing.
    """

    def plain(code: list[tuple[int, str, str]]) -> list[str]:
        numbers: dict[str, str] = {}
        said: dict[str, str] = {}  # most lines of a loop are links of the same chain
        lines = filter(None, (without_addresses(*words) for _, *words in code))
        return [
            said[line] if line in said else said.setdefault(line, numbered(line, numbers))
            for line in lines
        ]

    code = at_every_place(arch)[name]
    back = [(start, end) for start, end in closings(code) if start <= end]
    # A way back from a rare part, which the compiler put behind all loops, closes none.
    spans = [b for b in back if not any(s < b[0] <= e < b[1] for s, e in back)]
    bodies = [(start, between(code, start, end)) for start, end in spans]
    return [
        (start, plain(body)) for start, body in bodies if not any(m == "ret" for _, m, _ in body)
    ]


@cache
def without_addresses(mnemonic: str, operands: str) -> str:
    """An instruction without what differs between places; empty for padding."""
    line = f"{mnemonic} {operands}".strip()
    if PADDING.match(line):
        return ""
    line = re.sub(r"\b[0-9a-f]+ <.*>|0x[0-9a-f]{6,}|0x[0-9a-f]+\(%rip\)", "", line)
    return re.sub(r"#.*", "", line)


@pytest.mark.parametrize(("arch", "form", "bits"), CASES, ids=lambda value: str(value))
def test_places_hold_the_same_loops_sixteen_bytes_apart(arch: str, form: str, bits: int) -> None:
    first = loops(arch, f"lw_loop_{form}_u{bits}")
    assert len(first) >= 4
    for place in (1, 2, 3):
        other = loops(arch, f"lw_loop{place}_{form}_u{bits}")
        assert [body for _, body in other] == [body for _, body in first]
        assert [start % 64 for start, _ in other] == [
            (start + 16 * place) % 64 for start, _ in first
        ]


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_every_other_family_has_places_too(arch: str) -> None:
    """Per-CPU sequences, wide operands, library operations, handoffs and readers: launches differ
    in where their loops stand.

    Loops of updaters, which wait for readers, are not placed.
    """
    first = [
        name for name in functions(arch) if name.startswith("lw_reader_") or "::place0::" in name
    ]
    first = [
        name for name in first if "::run_empty(" not in name
    ]  # two files have one of this name
    families = ("lw_reader_", "run_rseq_add", "run_wide_read", "run_cmpxchg<", "ask<")
    assert all(any(family in name for name in first) for family in families)
    moved = 0
    for name in first:
        here = loops(arch, name)
        for place in (1, 2, 3):
            there = loops(
                arch,
                name.replace("lw_reader_", f"lw_reader{place}_").replace("place0", f"place{place}"),
            )
            assert [body for _, body in there] == [body for _, body in here], name
            moved += any(
                (b - a) % 64 == 16 * place for (a, _), (b, _) in zip(here, there, strict=True)
            )
    assert moved >= 0.85 * 3 * sum(bool(loops(arch, name)) for name in first)


def assert_copies(found: list[str], want: list[str], least: int = 4) -> None:
    """The loops without work and with each of its three kinds are copies; a compiler may rotate or
    unroll one."""
    copies = len(found) // len(want) if want else 0
    assert found == want * copies
    assert not want or least <= copies <= 3 * least


@pytest.mark.parametrize(("arch", "form", "bits"), CASES, ids=lambda value: str(value))
def test_loop_holds_its_form(arch: str, form: str, bits: int) -> None:
    name = f"lw_loop_{form}_u{bits}"
    assert_copies(memory_instructions(arch, name), expected(arch, form))
    assert len(counts_in_memory(arch, name)) == 1, "one of the copies counts in memory"


@pytest.mark.parametrize(("arch", "form", "bits"), CASES, ids=lambda value: str(value))
def test_completion_loop_waits(arch: str, form: str, bits: int) -> None:
    wait = ["dsb"] if arch == "arm64" else ["mfence"]
    if arch == "i386":
        wait = (
            ["lock or"]
            if "lock orl" in str(functions(arch)[f"lw_completed_{form}_u{bits}"])
            else ["mfence"]
        )
    found = [
        i.replace("lock orl", "lock or")
        for i in memory_instructions(arch, f"lw_completed_{form}_u{bits}")
    ]
    assert_copies(found, expected(arch, form) + wait, least=1)


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_forms_called_identical_are_and_no_others(arch: str) -> None:
    """Of all forms at one width: the same instructions in the same order; which registers they name
    changes nothing."""
    for bits in {bits for _, bits in rows(arch)}:
        forms = [form for form, width in rows(arch) if width == bits]
        same: dict[str, set[str]] = {}
        for form in forms:
            code = [body for _, body in loops(arch, f"lw_loop_{form}_u{bits}")]
            same.setdefault(str(code), set()).add(form)
        called = [set(group) & set(forms) for group in IDENTICAL[arch]]
        by_first = sorted([sorted(group) for group in same.values() if len(group) > 1])
        assert by_first == sorted([sorted(group) for group in called if len(group) > 1])


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_every_loop_is_looked_at(arch: str) -> None:
    """A form added to the table without an expectation here must not go unseen."""
    names = {name for name in functions(arch) if name.startswith("lw_loop_")}
    assert names == {f"lw_loop_{form}_u{bits}" for form, bits in rows(arch)}


# ---- per-CPU counters (probe/percpu.cpp): templates, named by what they are instantiated with ----

PERCPU_CASES = [
    (arch, form.name.removeprefix("percpu_"), form.width_bits)
    for arch in ("x86_64", "i386", "arm64")
    for form in forms_of(arch)
    if form.operation.startswith("percpu_")
    and form.width_bits == (32 if arch == "i386" else 64)  # the plan's widths
]
PERCPU_PLAIN = dict.fromkeys(
    ("thread_local_add", "racy_add", "false_sharing_add", "padded_add"), "plain_add"
)
SEQUENCE = {
    "x86": {
        "publish": r"^mov\w* %\w+,%[fg]s:0x8\(%\w+\)$",
        "cpu": r"^mov\w* %[fg]s:0x2\(%\w+\),%\w+$",
        "lock word": r"^cmpl \$0x0,\(%\w+\)$",
        "commit": r"^add[lq] \$0x1,\(%[re]ax\)$",
    },
    "arm64": {
        "publish": r"^str x9, \[x\d+, #8\]$",
        "cpu": r"^ldr w9, \[x\d+, #4\]$",
        "lock word": r"^ldr w10, \[x10\]$",
        "commit": r"^str x10, \[x9\]$",
    },
}


def percpu_function(arch: str, form: str, bits: int) -> str:
    """The one function that times the form."""
    word = {32: "unsigned int", 64: "unsigned long"}[bits]
    where, _, operation = form.partition("_")
    if where in ("own", "getcpu", "shared"):
        symbol = "c11_add<" if operation == "c11_add" else f"lw_{operation}_u{bits}("
        pattern = (
            rf"::run_form<{word}, "
            rf".*\b{re.escape(symbol)}.*Where\){('own', 'getcpu', 'shared').index(where)}>"
        )
    else:
        pattern = rf"::run_{form.removesuffix('_add') if form != 'rseq_add' else form}<{word}>"
    (name,) = [
        name for name in functions(arch) if re.search(pattern + r"\(lw::probe::Loop_args&\)$", name)
    ]
    return name


@pytest.mark.parametrize(
    ("arch", "form", "bits"),
    [c for c in PERCPU_CASES if "rseq" not in c[1]],
    ids=lambda value: str(value),
)
def test_percpu_loop_holds_its_form(arch: str, form: str, bits: int) -> None:
    found = memory_instructions(arch, percpu_function(arch, form, bits))
    operation = re.sub("^(own|getcpu|shared)_", "", form).replace("c11_add", "builtin_add")
    want = expected(arch, PERCPU_PLAIN.get(operation, operation))
    if form.startswith(("getcpu", "racy")):
        want = ["bl" if arch == "arm64" else "call", *want]
    assert_copies([i for i in found if i not in spills(arch, want)], want)


def spills(arch: str, want: list[str]) -> set[str]:
    """Around a call, i386 keeps the loop's own values in memory; anywhere else a load or a store
    would be the form's."""
    return {"mov", "push", "sub"} if arch == "i386" and "call" in want else set()


@pytest.mark.parametrize(
    ("arch", "form", "bits"),
    [c for c in PERCPU_CASES if "rseq" in c[1]],
    ids=lambda value: str(value),
)
def test_percpu_sequence_is_inline_and_whole(arch: str, form: str, bits: int) -> None:
    """Announcement, then the CPU, then (for values) the lock word, then the commit: in this order,
    with no call between."""
    steps = SEQUENCE["arm64" if arch == "arm64" else "x86"]
    code = [
        f"{mnemonic} {operands}"
        for mnemonic, operands in loop_instructions(
            functions(arch)[percpu_function(arch, form, bits)]
        )
    ]
    found = [
        step for line in code for step, pattern in steps.items() if re.match(pattern, line.strip())
    ]
    want = ["publish", "cpu", "commit"] if form == "rseq_add" else ["publish", "cpu", "lock word"]
    if form == "rseq_cmpxchg":
        found = [step for step in found if step != "commit"]
    assert found and found == want * (len(found) // len(want)), code
    assert len(found) // len(want) >= (2 if form == "rseq_add" else 4), (
        "one word and many; a read and an exchange of each"
    )


# ---- core-to-core handoffs (probe/handoff.cpp): the side that asks, and the side that answers ----

HANDOFF = {
    "Blind": {"x86": ["lock cmpxchg"], "arm64": ["cas"]},
    "Load_first": {"x86": ["mov", "lock cmpxchg"], "arm64": ["ldr", "cas"]},
    "Store_load": {"x86": ["mov", "mov"], "arm64": ["ldr", "str"]},
}


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
@pytest.mark.parametrize("definition", HANDOFF)
@pytest.mark.parametrize("side", ["ask", "answer"])
def test_handoff_loop_holds_its_definition(arch: str, definition: str, side: str) -> None:
    (name,) = [name for name in functions(arch) if f"::{side}<" in name and definition in name]
    family = "arm64" if arch == "arm64" else "x86"
    last_answer = [{"x86": "mov", "arm64": "ldr"}[family]] if side == "ask" else []
    found = memory_instructions(arch, name)
    if side == "answer":
        assert found == HANDOFF[definition][family]
        return
    # Without work, with a NOP loop and with the chain; the last wait reads as the definition's
    # loads do.
    assert set(found) == set(HANDOFF[definition][family] + last_answer)
    assert found.count(HANDOFF[definition][family][-1]) >= 3


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_handoff_baseline_touches_no_memory(arch: str) -> None:
    (name,) = [name for name in functions(arch) if "::no_handoff" in name]
    assert loop_instructions(functions(arch)[name]) and memory_instructions(arch, name) == []


# ---- words apart (probe/spacing.cpp): what either thread does to its word ----

APART = {
    "plain": ["plain_add"],
    "c11": ["builtin_add"],
    "read": ["builtin_read"],
    "beside_shared": ["builtin_add", "plain_add"],
}


@pytest.mark.parametrize(
    ("arch", "bits"), [("x86_64", 32), ("x86_64", 64), ("i386", 32), ("arm64", 64)]
)
@pytest.mark.parametrize("loop", APART)
def test_loop_over_words_apart_holds_its_accesses(arch: str, bits: int, loop: str) -> None:
    word = {32: "unsigned int", 64: "unsigned long"}[bits]
    (name,) = [name for name in functions(arch) if f"::run_apart_{loop}<{word}>" in name]
    want = [instruction for form in APART[loop] for instruction in expected(arch, form)]
    assert_copies(memory_instructions(arch, name), want, least=3)


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_baseline_of_words_apart_touches_no_memory(arch: str) -> None:
    (name,) = [name for name in functions(arch) if "::run_apart_empty(" in name]
    assert loop_instructions(functions(arch)[name]) and memory_instructions(arch, name) == []


# ---- the library's operations (probe/operations.cpp): templates, named by what they call ----

ORDERS = ("", "_relaxed", "_acquire", "_release", "_acq_rel")
LIBRARY = [
    ("add", ""),
    ("add", "_release"),
    *((op, order) for op in ("fetch_add", "xchg", "try_cmpxchg") for order in ORDERS),
]
OPERATION_CASES = [
    (arch, bits, op, order)
    for arch in ("x86_64", "i386", "arm64")
    for bits in (8, 16, 32, 64)
    for op, order in LIBRARY
    if (arch, bits) != ("i386", 64)  # calls into the library: tests/cpp/wide reads those
]
OPERATION_X86 = {
    "add": ["lock add"],
    "fetch_add": ["lock xadd"],
    "xchg": ["xchg"],
    "try_cmpxchg": ["mov", "lock cmpxchg"],
}
OPERATION_LSE = {"add": "stadd", "fetch_add": "ldadd", "xchg": "swp", "try_cmpxchg": "cas"}
SUFFIX = {"": "al", "_relaxed": "", "_acquire": "a", "_release": "l", "_acq_rel": "al"}


def operation_function(arch: str, bits: int, op: str, order: str) -> str:
    """The one function that times the operation."""
    (name,) = [
        name
        for name in functions(arch)
        if f"lw_{op}_u{bits}{order}(" in name and "::run_" in name and "cold" not in name
    ]
    return name


@pytest.mark.parametrize(
    ("arch", "bits", "op", "order"), OPERATION_CASES, ids=lambda value: str(value)
)
def test_operation_loop_is_the_operation(arch: str, bits: int, op: str, order: str) -> None:
    """Nothing but the operation touches memory; on arm64 the policy word too, and every form of the
    operation is there."""
    name = operation_function(arch, bits, op, order)
    found = [re.sub("^movz[bw]l$", "mov", i) for i in memory_instructions(arch, name)]
    if arch != "arm64":
        want = OPERATION_X86[op]
        assert set(found) == set(want)
        assert found.count(want[-1]) in (2, 3, 4)
        return
    width = {8: "b", 16: "h"}.get(bits, "")
    suffix = "" if (op, order) == ("add", "") else SUFFIX[order]
    reads = {"ldr", f"ldr{width}"} if op == "try_cmpxchg" else {"ldr"}
    lse = {OPERATION_LSE[op] + suffix + width} | (
        {"ldadd" + suffix + width} if op == "add" else set()
    )
    # Seldom taken branches may lie behind the loop.
    assert lse <= {mnemonic for _, mnemonic, _ in functions(arch)[name]}
    assert all(
        re.fullmatch(rf"ldr{width}?|ldax?r{width}|ldxr{width}|stl?xr{width}|prfm pstl1\w+|dmb", i)
        for i in set(found) - lse
    )
    assert reads >= {i for i in found if i.startswith("ldr")}
    touched = {
        address[1]
        for _, o in loop_instructions(functions(arch)[name])
        if (address := re.search(r"\[(\w+)[^]]*\]", o)) and address[1] != "sp"
    }
    assert len(touched) == 2, f"the line and the policy word, not {touched}"
