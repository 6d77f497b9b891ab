# SPDX-License-Identifier: MIT
"""Compile a caller of every operation and hold what the compiler emitted to what atomic.h says it
compiles to.

Usage: disassembly.py --launcher=[NAME] INCLUDE_DIR ARCH COMPILER [FLAG…]    one configuration; exit
0 right, 1 wrong, 77 no such compiler. The launcher, such as ccache, starts the compiler.

A caller is one function per operation, width and order. Its atomic instructions (anything locked,
exclusive, LSE, barrier, prefetch, acquire or release) are taken in address order and compared with
the expected ones. With --expect=lse or --expect=llsc among the flags the forms of that build are
expected, whatever is built (a control). With --barriers among the flags a caller stores to a plain
variable before and after instead. Around an ordered operation both stores must be there: the
compiler kept them apart. Around some relaxed ones only the second is, or nothing was shown."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from machine_code import OBJDUMP, Instruction, disassemble

VOID_ORDERS = ("", "release")
VALUE_ORDERS = ("", "relaxed", "acquire", "release", "acq_rel")
LSE_ORDER = {"": "al", "relaxed": "", "acquire": "a", "release": "l", "acq_rel": "al"}
EXCLUSIVE = {  # load, store, what follows
    "": ("ldxr", "stlxr", ("dmb ish",)),
    "relaxed": ("ldxr", "stxr", ()),
    "acquire": ("ldaxr", "stxr", ()),
    "release": ("ldxr", "stlxr", ()),
    "acq_rel": ("ldaxr", "stlxr", ()),
}

# operation -> (instruction of its LSE form, of its x86 form); a value-returning logic operation
# loops on x86
VOID = {
    "add": ("add", "lock add"),
    "sub": ("add", "lock add"),
    "inc": ("add", "lock add"),
    "dec": ("add", "lock add"),
    "and": ("clr", "lock and"),
    "andnot": ("clr", "lock and"),
    "or": ("set", "lock or"),
    "xor": ("eor", "lock xor"),
}
FETCH = {
    "fetch_add": ("add", "lock xadd"),
    "fetch_sub": ("add", "lock xadd"),
    "add_return": ("add", "lock xadd"),
    "sub_return": ("add", "lock xadd"),
    "inc_return": ("add", "lock xadd"),
    "dec_return": ("add", "lock xadd"),
    "fetch_and": ("clr", "lock cmpxchg"),
    "fetch_andnot": ("clr", "lock cmpxchg"),
    "fetch_or": ("set", "lock cmpxchg"),
    "fetch_xor": ("eor", "lock cmpxchg"),
    "sub_and_test": ("add", "lock sub"),
    "dec_and_test": ("add", "lock sub"),
}
CONDITIONAL = ("add_unless", "inc_not_zero", "dec_if_positive")
PARAMETERS = {
    "inc": "",
    "dec": "",
    "inc_return": "",
    "dec_return": "",
    "dec_and_test": "",
    "inc_not_zero": "",
    "dec_if_positive": "",
    "cmpxchg": "V, V",
    "try_cmpxchg": "V *, V",
    "add_unless": "V, V",
}
BOOL = {"try_cmpxchg", "sub_and_test", "dec_and_test", *CONDITIONAL}


def operations(arch: str, policy: str = "word"):
    """(operation, bits, order) of the whole table."""
    if arch != "i386":
        for name in ("xchg", "cmpxchg", "try_cmpxchg"):
            for order in VALUE_ORDERS:
                yield name, 128, order
        for order in ("", "relaxed", "acquire"):
            yield "read_rw", 128, order
            if policy == "word":  # else the compiler does not know that there is one
                yield "read", 128, order
        for order in ("", "release", "seq_cst"):
            yield "write", 128, order
    for bits in (8, 16, 32, 64):
        for name in VOID:
            for order in VOID_ORDERS:
                yield name, bits, order
        for name in (*FETCH, "xchg", "cmpxchg", "try_cmpxchg", *CONDITIONAL):
            for order in VALUE_ORDERS:
                yield name, bits, order
        for order in ("", "relaxed", "acquire"):
            yield "read", bits, order
        for order in ("", "release", "seq_cst"):
            yield "write", bits, order


def is_wide(arch: str, bits: int) -> bool:
    return bits == (64 if arch == "i386" else 128)


def function(name: str, bits: int, order: str) -> str:
    name, kind = ("read", "_rw") if name == "read_rw" else (name, "")
    return f"lw_{name}_u{bits}{kind}" + (f"_{order}" if order else "")


def caller(name: str, bits: int, order: str, barriers: bool = False) -> str:
    """C source of the function whose body is that one operation."""
    word = f"uint{bits}_t" if bits < 128 else "lw_u128"
    kinds = [
        k.strip()
        for k in PARAMETERS.get(name, "" if name.startswith("read") else "V").split(",")
        if k.strip()
    ]
    parameters = [f"{'const ' if name == 'read' else ''}{f'lw_u{bits}' if bits == 64 else word} *p"]
    parameters += [k.replace("V", word) + f" a{i}" for i, k in enumerate(kinds)]
    arguments = ", ".join(["p", *(f"a{i}" for i in range(len(kinds)))])
    returned = "void" if name in VOID or name == "write" else "bool" if name in BOOL else word
    called = function(name, bits, order)
    keep = '__attribute__((noinline, used, visibility("default")))'
    if barriers:
        return (
            f"{keep} void t_{called}({', '.join(parameters)})\n{{ plain = 1; "
            f"(void){called}({arguments}); plain ="
            " 2; }\n"
        )
    return (
        f"{keep} {returned} t_{called}({', '.join(parameters)})\n{{"
        f" {'' if returned == 'void' else 'return '}{called}({arguments}); }}\n"
    )


def size_suffix(bits: int) -> str:
    return {8: "b", 16: "h"}.get(bits, "")


def arm64_read_write(name: str, bits: int, order: str) -> list[str]:
    size = size_suffix(bits)
    if name == "read":
        return {"": [f"ldar{size}"], "relaxed": [], "acquire": [f"ldar{size}"]}[order]
    return {"": [], "release": [f"stlr{size}"], "seq_cst": [f"stlr{size}"]}[order]


def arm64_forms(name: str, bits: int, order: str) -> tuple[list[str], list[str], list[str]]:
    """The operation's store form (if any), its load form and its LL/SC form."""
    size = size_suffix(bits)
    load, store, after = EXCLUSIVE[order]
    suffix = LSE_ORDER[order] + size
    if name in VOID:
        load, store, after = ("ldxr", "stlxr" if order else "stxr", ())
        suffix = ("l" if order else "") + size
        op = VOID[name][0]
        return [f"st{op}{suffix}"], [f"ld{op}{suffix}"], [load + size, store + size]
    if name in FETCH:
        instruction = "ld" + FETCH[name][0]
    elif name == "xchg":
        instruction = "swp"
    else:
        instruction = "cas"
        if order == "":
            load = "ldaxr"  # a failed compare has no barrier, only its load
    return [], [instruction + suffix], [load + size, store + size, *after]


def arm64_wide(policy: str, name: str, order: str) -> list[str]:
    """Sixteen bytes: by LDP and STP, by CASP, by the exclusive pair; all of them where the choice
    is made at run time."""
    if name == "read":
        return {
            "": ["ldar", "ldp", "dmb ishld"],
            "relaxed": ["ldp"],
            "acquire": ["ldp", "dmb ishld"],
        }[order]
    vector: list[str] = []
    if name == "write":
        vector = {
            "": ["stp"],
            "release": ["dmb ish", "stp"],
            "seq_cst": ["dmb ish", "stp", "dmb ish"],
        }[order]
        order = {"": "relaxed", "release": "release", "seq_cst": ""}[order]
    load, store, after = EXCLUSIVE[order]
    pair = [
        *(["prfm pstl1strm"] if name != "read_rw" else []),
        load.replace("xr", "xp"),
        store.replace("xr", "xp"),
        *after,
    ]
    casp = ["casp" + LSE_ORDER[order]]
    return {"word": [*vector, *casp, *pair], "lse": casp, "llsc": pair}[policy]


def x86_wide(arch: str, name: str, order: str) -> list[str]:
    fence = ["lock or"] if order == "seq_cst" else []
    if name == "read" or (name == "write" and arch == "i386"):
        return fence
    return ["lock cmpxchg8b" if arch == "i386" else "lock cmpxchg16b", *fence]


def expected(arch: str, policy: str, name: str, bits: int, order: str) -> list[str]:
    """Every atomic instruction of the caller; where there is a choice at run time, in no particular
    order."""
    if is_wide(arch, bits):
        return arm64_wide(policy, name, order) if arch == "arm64" else x86_wide(arch, name, order)
    if arch != "arm64":
        if name in ("read", "write"):
            return ["xchg"] if order == "seq_cst" else []
        if name in VOID:
            return [VOID[name][1]]
        if name in FETCH:
            return [FETCH[name][1]]
        return ["xchg"] if name == "xchg" else ["lock cmpxchg"]
    if name in ("read", "write"):
        return arm64_read_write(name, bits, order)
    store, load, llsc = arm64_forms(name, bits, order)
    if policy == "lse":
        return load
    if policy == "llsc":
        return llsc
    return ["prfm pstl1strm", *store, *load, *llsc]


ARM64_ATOMIC = re.compile(
    r"^(?:(?:ld|st)(?:add|clr|set|eor)(?:al|a|l)?[bh]?|swp(?:al|a|l)?[bh]?|cas(?:al|a|l)?[bh]?|ldax?r[bh]?|stlx?r[bh]?"
    r"|ldxr[bh]?|stxr[bh]?|ldapr[bh]?|casp(?:al|a|l)?|lda?xp|stl?xp|ldp|stp|dmb|dsb|prfm|blr)$"
)
X86_LOCKED = re.compile(r"^(add|and|or|xor|sub|xadd|cmpxchg)[bwlq]?$")


def atomic_instruction(arch: str, instruction: Instruction) -> str | None:
    """How an instruction is named above, or None for one that is none of ours."""
    name, operands = instruction.mnemonic, instruction.operands
    if arch == "arm64":
        if not ARM64_ATOMIC.match(name) or (
            name in ("ldp", "stp") and re.search(r"\[(?:sp|x29)\b", operands)
        ):
            return None
        if name == "prfm":
            return "prfm " + operands.split(",")[0].strip()
        return f"{name} {operands}" if name in ("dmb", "dsb", "blr") else name
    if instruction.text.startswith("lock "):
        match = X86_LOCKED.match(name)
        return f"lock {match[1]}" if match else "lock " + name
    if name.startswith("xchg") and "(" in operands:
        return "xchg"
    return name if name in ("mfence", "prefetchw") else None


CALL = re.compile(r"^(?:call[lq]?|j[a-z]+|bl?|b\.[a-z]+|cbn?z|tbn?z)$")
"""A branch goes to another function, too, where clang leaves the rare path of a caller to it."""


def code_of(arch: str, program: Path) -> dict[str, list[Instruction]]:
    return disassemble(program, OBJDUMP.get(arch, "objdump"), ("-d", "-j", ".text"))


def disassembled(arch: str, program: Path) -> dict[str, list[str]]:
    """Function -> its atomic instructions, those of the functions it calls in their place (-O0
    inlines nothing)."""
    bodies: dict[str, list[tuple[str, str]]] = {}
    for function_name, code in code_of(arch, program).items():
        body = bodies.setdefault(function_name, [])
        for instruction in code:
            # a jump inside the function reads <name+0x…>, or <name> to its start: none of these
            if (
                CALL.match(instruction.mnemonic)
                and re.fullmatch(r"[\w.]+(@plt)?", instruction.target)
                and instruction.target != function_name
            ):
                body.append(("call", instruction.target.removesuffix("@plt")))
            elif found := atomic_instruction(arch, instruction):
                body.append(("", found))

    def expand(name: str) -> list[str]:
        out: list[str] = []
        for kind, what in bodies[name]:
            if not kind:
                out.append(what)
            elif what.startswith("__x86.get_pc_thunk"):
                continue
            elif what in bodies and not what.endswith("plt"):
                out += expand(what)
            elif what.startswith("lw_wide_"):  # out of line: asks the CPU, or refuses
                continue
            else:
                out.append(f"call of {what}")
        return out

    return {name.removeprefix("t_"): expand(name) for name in bodies if name.startswith("t_lw_")}


def wrongs(arch: str, policy: str, functions: dict[str, list[str]], optimised: bool) -> list[str]:
    bad = []
    for name, bits, order in operations(arch, policy):
        called = function(name, bits, order)
        found, wanted = functions.get(called), expected(arch, policy, name, bits, order)
        if found:  # a read's STP and a write's LDP, and both elsewhere, move what no one shares
            wide = bits == 128
            found = [
                f
                for f in found
                if f not in ("ldp", "stp")
                or (wide and (name, f) in (("read", "ldp"), ("write", "stp")))
            ]
        if found is None:
            bad.append(f"{called}: not in the object")
        elif (optimised or bits == 128) and is_copied(arch, name, bits, found, wanted):
            continue
        # With a choice the layout is the compiler's business; without, a barrier stands behind its
        # pair and nowhere else.
        elif sorted(found) != sorted(wanted) if policy == "word" else found != wanted:
            bad.append(
                f"{called}: {', '.join(found) or 'nothing'}; expected "
                f"{', '.join(wanted) or 'nothing'}"
            )
    return bad


def unseen_by_tsan(arch: str, functions: dict[str, list[str]]) -> list[str]:
    """Under ThreadSanitizer every operation must be calls of its run-time at the right width, and
    nothing else."""
    bad = []
    for name, bits, order in operations(arch):
        called = function(name, bits, order)
        found = [
            f
            for f in functions.get(called, [])
            if "__tsan_func" not in f and "__tsan_read" not in f and "__tsan_write" not in f
        ]
        if not found or any(not f.startswith(f"call of __tsan_atomic{bits}_") for f in found):
            bad.append(
                f"{called}: {', '.join(found) or 'nothing'}; expected calls of "
                f"__tsan_atomic{bits}_…"
            )
    return bad


def is_copied(arch: str, name: str, bits: int, found: list[str], wanted: list[str]) -> bool:
    """An optimiser may lay a loop or the tail of a branch down twice; nothing may be missing or be
    another."""
    may = name in CONDITIONAL or name in FETCH or name in VOID or is_wide(arch, bits)
    return may and set(found) == set(wanted) and len(wanted) <= len(found) <= 3 * len(wanted)


PLAIN_STORE = {"arm64": r"str s\d+, \[x", "x86": r"movl \$0x(?:3f800000|40000000),"}


def barred(arch: str, policy: str, program: Path) -> list[str]:
    """Ordered operations around which the two plain stores have become one."""
    bodies = code_of(arch, program)
    store = re.compile(PLAIN_STORE["arm64" if arch == "arm64" else "x86"])
    bad, joined = [], 0
    for name, bits, order in operations(arch, policy):
        if name in ("read", "write") and not is_wide(arch, bits):
            continue  # the compiler's own
        relaxed = (
            order == "relaxed"
            or (name in VOID and order == "")
            or (name == "write" and order == "")
        )
        found = sum(bool(store.match(i.text)) for i in bodies["t_" + function(name, bits, order)])
        joined += relaxed and found == 1
        if not relaxed and found < 2:
            bad.append(f"{function(name, bits, order)}: {found} of the two plain stores around it")
    return (
        bad
        if joined
        else [*bad, "the stores were kept apart by relaxed operations too: this shows nothing"]
    )


def main(arguments: list[str]) -> int:
    launcher, include, arch, compiler, *flags = arguments
    barriers = "--barriers" in flags
    held_to = next((f.removeprefix("--expect=") for f in flags if f.startswith("--expect=")), "")
    flags = [f for f in flags if f != "--barriers" and not f.startswith("--expect=")]
    objdump = OBJDUMP.get(arch, "objdump")
    if not shutil.which(compiler) or not shutil.which(objdump):
        print(f"no {compiler} or no {objdump} here: nothing was checked")
        return 77
    policy = "word"
    if "-DLW_NO_POLICY" in flags:
        policy = "lse" if any("lse" in f for f in flags) else "llsc"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "callers.c"), Path(folder, "callers.so")
        unit = source.with_suffix(".o")
        # The word is defined here, so that -flto has all there is to know and the object stands
        # alone.
        text = "#include <linewright/atomic.h>\nextern float plain;\n" + "".join(
            caller(*op, barriers) for op in operations(arch, policy)
        )
        if policy == "word":
            text += "uint32_t lw_wide_caps;\n" + (
                "uint32_t lw_policy_word;\n" if arch == "arm64" else ""
            )
        source.write_text(text)
        # -nostdlib and a shared object: no start-up code and no C library of another architecture
        # is needed.
        link = ["-shared", "-nostdlib", *(flag for flag in flags if flag.startswith("-fuse-ld"))]
        flags_here = [flag for flag in flags if flag not in link]
        if (
            arch == "arm64" and "gcc" in compiler
        ):  # the erratum's veneers at the end of .text would be taken for the last function's
            flags_here.append("-mno-fix-cortex-a53-843419")
        # Some distributions protect stacks by default: a check is no instruction of the operation,
        # and its function is in the C library.
        flags_here.append("-fno-stack-protector")
        strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-I", include]
        compile_it = [*launcher.partition("=")[2].split(), compiler, *strict, *flags_here, "-c"]
        subprocess.run([*compile_it, source.name, "-o", unit.name], cwd=folder, check=True)
        subprocess.run([compiler, *flags_here, *link, unit, "-o", program], check=True)
        bad = barred(arch, policy, program) if barriers else []
        functions = {} if barriers else disassembled(arch, program)
    if barriers:
        pass
    elif "-fsanitize=thread" in flags:
        bad = unseen_by_tsan(arch, functions)
    else:
        bad = wrongs(arch, held_to or policy, functions, optimised="-O0" not in flags)
    for line in bad:
        print(line)
    checked = sum(1 for _ in operations(arch, policy))
    print(
        f"{arch} {compiler} {' '.join(flags)}: {checked - len(bad)} of {checked} callers as "
        "documented"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
