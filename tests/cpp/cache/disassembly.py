# SPDX-License-Identifier: MIT
"""Checks in the compiled library that no path leads from a maintenance instruction to a return
without its barrier.

usage: disassembly.py OBJDUMP x86_64|i386|arm64 ARCHIVE

A function *leaks* if, on some path, it issues maintenance (or calls a function that leaks) and then
returns without one of the barriers that complete it.  The functions that promise to wait must not
leak; the `_nowait` ones must, or the check would prove nothing."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from machine_code import Instruction, disassemble

X86 = {
    "maintenance": r"^(clwb|clflushopt|clflush)\b",
    "stores": r"^(sfence|mfence)\b",
    "loads": r"^mfence\b",
    "order": r"^mfence\b",
    "return": r"^(ret|retq|repz ret)\b",
    "jump": r"^(jmp|jmpq)\b",
    "branch": r"^j[a-z]+\b",
    "call": r"^(call|callq)\b",
}
ARM64 = {
    "maintenance": r"^dc\s+(cvac|civac|cvap|cvadp)\b",
    "stores": r"^dsb\s+sy\b",
    "loads": r"^dsb\s+sy\b",
    "order": r"^(dmb|dsb)\s+sy\b",
    "return": r"^ret\b",
    "jump": r"^b\b(?!\.)",
    "branch": r"^(b\.|cbz|cbnz|tbz|tbnz)",
    "call": r"^bl\b",
}
RULES = {"x86_64": X86, "i386": X86, "arm64": ARM64}

WAITS_FOR_STORES = [
    "lw_cache_clean",
    "lw_cache_persist",
    "lw_cache_persist_deep",
    "lw_cache_list",
    "lw_sync_for_device",
    "lw_cache_batch_flush",
    "lw_cache_invalidate",
    "lw_cache_clean_invalidate",
    "lw_sync_for_cpu",
]
LEAKS = [
    "lw_cache_clean_nowait",
    "lw_cache_invalidate_nowait",
    "lw_cache_clean_invalidate_nowait",
    "lw_cache_persist_nowait",
    "lw_cache_batch_add",
]


class Check:
    def __init__(self, functions: dict[str, list[Instruction]], rules: dict[str, str]) -> None:
        self.functions, self.rules = functions, rules

    def is_a(self, kind: str, instruction: Instruction) -> bool:
        return (
            re.match(self.rules[kind], re.sub("^(notrack|bnd) ", "", instruction.text)) is not None
        )

    def callee(self, name_of_caller: str, instruction: Instruction) -> str:
        """The other function a call or jump goes to, or empty for a jump within this one."""
        name = instruction.target.split("+")[0].split("-")[0]
        return "" if name == name_of_caller and "+" in instruction.target else name

    def successors(self, name: str, index: int) -> tuple[list[int], list[str], bool]:
        """Where control may go: indices, functions left to, and whether it returns."""
        code = self.functions[name]
        instruction = code[index]
        after = [index + 1] if index + 1 < len(code) else []
        if self.is_a("return", instruction):
            return [], [], True
        jump = self.is_a("jump", instruction)
        if not jump and not self.is_a("branch", instruction):
            return after, [], False
        where = re.search(r"\b([0-9a-f]+) <", instruction.text)
        local = [i for i, other in enumerate(code) if where and other.address == int(where[1], 16)]
        callee = self.callee(name, instruction)
        if callee and callee != name and callee in self.functions:
            return ([] if jump else after), [callee], False
        if not local and jump and "*" in instruction.text:
            # a jump table: it may go anywhere in the function
            return list(range(len(code))), [], False
        return local + ([] if jump else after), [], False

    def leaks(
        self, name: str, barrier: str, tainted: bool = False, seen: frozenset = frozenset()
    ) -> bool:
        """Can `name` return with maintenance issued and no barrier after it? `tainted`: some was
        issued before entry."""
        code = self.functions.get(name)
        if code is None or (name, tainted) in seen:
            return False
        seen = seen | {(name, tainted)}
        work, done = [(0, tainted)], set()
        while work:
            index, dirty = work.pop()
            if (index, dirty) in done:
                continue
            done.add((index, dirty))
            instruction = code[index]
            if self.is_a(barrier, instruction):
                dirty = False
            elif self.is_a("maintenance", instruction):
                dirty = True
            elif self.is_a("call", instruction):
                called = self.callee(name, instruction)
                if called in self.functions:
                    dirty = self.leaks(called, barrier, dirty, seen)
            following, left_to, returns = self.successors(name, index)
            if returns and dirty:
                return True
            if any(self.leaks(other, barrier, dirty, seen) for other in left_to):
                return True
            work += [(i, dirty) for i in following]
        return False

    def has(self, name: str, kind: str) -> bool:
        return any(self.is_a(kind, instruction) for instruction in self.functions[name])


def main(objdump: str, arch: str, archive: str) -> int:
    functions = disassemble(archive, objdump, ("-dr",))
    check = Check(functions, RULES[arch])
    wrong = []
    for name in WAITS_FOR_STORES:
        if check.leaks(name, "stores"):
            wrong.append(f"{name} can return before its maintenance is waited for")
    for name in LEAKS:
        if not check.leaks(name, "stores"):
            wrong.append(f"{name} is seen to wait: the check does not understand this code")
    for name, kind in (
        ("lw_cache_wait", "loads"),
        ("lw_cache_persist_wait", "stores"),
        ("lw_cache_order", "order"),
    ):
        if not check.has(name, kind):
            wrong.append(f"{name} holds no {kind} barrier")
    if arch == "arm64" and any(
        re.match("dsb (?!sy)", i.text) for code in functions.values() for i in code
    ):
        wrong.append("a DSB of a smaller domain than the system")
    print("\n".join(wrong) or f"{arch}: every path waits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
