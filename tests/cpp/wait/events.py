# SPDX-License-Identifier: MIT
"""Executes the machine code of wait.h's loops that watch a word in every possible way, beside a
thread that stores: none may rest where no store comes any more.

usage: events.py ARCH OBJDUMP COMPILER [OPTION…]

No emulator at hand lets WFE rest (QEMU 7.2 takes it for no instruction, or for a yield), and on x86
a rest has a limit, so that a lost wake-up is only a late one: no run shows either. Here the
instructions are executed one by one, by the rules of the Arm ARM (DDI 0487, "Wait for Event" and
"Synchronization and semaphores"), Intel's SDM (UMONITOR, UMWAIT) and AMD's APM (MONITORX, MWAITX):

- LDXR, UMONITOR and MONITORX arm the monitor on the word, CLREX disarms it.
- A store of another CPU to a word with an armed monitor disarms it, and is an event.
- The return from an exception disarms the monitor and is an event, too: an interrupt, or another
  thread that had the CPU meanwhile, and may have stored. It may come anywhere, and need not come.
- WFE goes on where there was an event since the last one, which it takes, and rests until there is.
- UMWAIT and MWAITX rest as long as a monitor is armed, and no longer.

WFET and the rests of x86 are given no end. An execution *hangs* where the thread rests, all stores
are done and nothing but an exception, which need not come, would wake it. The loops must have none;
each of the mistakes below, made in a copy of the text, must have one, or this would prove
nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from machine_code import Instruction, disassemble  # noqa: E402

LOOPS, DISPATCH = "include/linewright/wait.h", "src/wait/hints.c"
ARM64, X86 = (f"include/linewright/arch/{arch}/wait.h" for arch in ("arm64", "x86"))
MISTAKES = {
    "the monitor is not armed": (ARM64, "ldxr %", "ldr %"),
    "it is disarmed before the rest": (ARM64, '1f\\n\\t" wait', '1f\\n\\tclrex\\n\\t" wait'),
    "the word is not compared once it is armed": (ARM64, "cbnz %", "tbnz xzr, 0, 1f // %"),
    "another word is armed": (ARM64, '[word] "Q"(*word)', '[word] "Q"(word[1])'),
    "it is not compared once it is armed": (
        X86,
        "if (__atomic_load_n(word, __ATOMIC_RELAXED) == seen)",
        "(void)seen;",
    ),
    "another line is armed": (X86, "(word);", "(word + 16);"),
    "the loop hands on what it waits for": (
        LOOPS,
        "lw_relax_on_u##bits(word, seen);",
        "lw_relax_on_u##bits(word, expected);",
    ),
    "the word is compared with itself": (
        DISPATCH,
        "(word, seen); ",
        "(word, __atomic_load_n(word, __ATOMIC_RELAXED)); ",
    ),
}
"""The file, and what is written there instead of what."""
UNKNOWN = None
"""The value of a register that no comparison may see: a time."""
WORD, UNWATCHED = "word", "another word"
"""An address, where a register has it."""


class State(NamedTuple):
    at: int
    """Index of the next instruction."""
    registers: tuple[tuple[str, object], ...]
    equal: object
    """Outcome of the last comparison."""
    event: bool
    armed: str
    """On which word; empty: on none."""
    word: int
    stores: tuple[int, ...]
    """Values that are still to be stored, in order."""
    rests: bool


class Step(NamedTuple):
    """An instruction in a state, and what it may make of it."""

    one: Instruction
    state: State
    index: dict[int, int]
    """Of each address."""

    @property
    def words(self) -> list[str]:
        text = re.sub(r"\b[A-Z]+ PTR ", "", self.one.operands.partition("//")[0])
        return [word for word in re.split(r"[\s,\[\]]+", text) if word]

    @property
    def after(self) -> State:
        return self.state._replace(at=self.state.at + 1)

    def value(self, word: str) -> object:
        if re.match(r"#|0x|\d", word):
            return int(word.lstrip("#"), 0)
        return 0 if word in ("wzr", "xzr") else dict(self.state.registers).get(name(word), UNKNOWN)

    def known(self, word: str) -> object:
        found = self.value(word)
        assert found is not UNKNOWN, f"{self.one.text}: {word} is not known"
        return found

    def to(self, word: str) -> State:
        return self.state._replace(at=self.index[int(word, 16)])

    def holding(self, what: object, *of: str) -> State:
        registers = dict(self.state.registers) | dict.fromkeys(map(name, of), what)
        return self.after._replace(registers=tuple(sorted(registers.items())))

    def arming(self, *where: str) -> State:
        known = self.known(where[0])
        assert known in (WORD, UNWATCHED), self.one.text
        return self.after._replace(armed=WORD if known == WORD and len(where) == 1 else UNWATCHED)

    def loading(self, register: str, *where: str) -> State:
        return self.holding(self.state.word if self.arming(*where).armed == WORD else 0, register)

    def comparing(self, one: str, other: str) -> State:
        return self.after._replace(equal=self.known(one) == self.known(other))

    def resting(self, goes_on: bool) -> State | None:
        """On to the next instruction with the event, or resting; None where it rests on."""
        if goes_on:
            return self.after._replace(event=False, rests=False)
        return None if self.state.rests else self.state._replace(rests=True)


def name(register: str) -> str:
    """One for a register of either width."""
    return re.sub(r"^[erwx](?=[a-z]|\d+$)|(?<=\d)d$", "", register)


def arm64(step: Step) -> State | None:
    """The waiting thread's next state; None where it rests on."""
    words, state = step.words, step.state
    match step.one.mnemonic:
        case "wfe" | "wfet":
            return step.resting(state.event)
        case "ldar" | "ldapr" | "ldr":
            return step.loading(*words)
        case "ldxr":
            return step.loading(*words)._replace(armed=step.arming(*words[1:]).armed)
        case "clrex":
            return step.after._replace(armed="")
        case "cmp":
            return step.comparing(*words)
        case "eor":
            return step.holding(int(step.known(words[1]) != step.known(words[2])), words[0])
        case "b":
            return step.to(words[0])
        case "b.eq" | "b.ne":
            taken = state.equal == (step.one.mnemonic == "b.eq")
            return step.to(words[0]) if taken else step.after
        case "cbz" | "cbnz":
            zero = step.known(words[0]) == 0
            return step.to(words[1]) if zero == (step.one.mnemonic == "cbz") else step.after
        case "mov":
            return step.holding(step.value(words[1]), words[0])
        case "nop" | "bti" | "tbnz":
            return step.after
        case "add" if len(words) == 3 and step.value(words[1]) == WORD:
            return step.holding(UNWATCHED, words[0])
        case "mrs" | "movk" | "movz" | "umulh" | "add" | "udiv" | "lsr" | "mul" | "ubfx":
            return step.holding(UNKNOWN, words[0])
    raise AssertionError(f"{step.one.text}: what it does is not described here")


def x86(step: Step) -> State | None:
    """As arm64()."""
    words, state = step.words, step.state
    match step.one.mnemonic:
        case "umwait" | "mwaitx":
            return step.resting(not state.armed)
        case "umonitor" | "monitorx":
            return step.arming(words[0] if words else "rax")
        case "mov" if "[" in step.one.operands:
            return step.loading(*words)
        case "mov":
            return step.holding(step.value(words[1]), words[0])
        case "lea" if step.value(words[1].partition("+")[0]) == WORD:
            return step.holding(UNWATCHED, words[0])
        case "cmp" if "[" in step.one.operands:
            return step.after._replace(equal=step.known(words[0]) == state.word)
        case "cmp":
            return step.comparing(*words)
        case "jmp":
            return step.to(words[0])
        case "je" | "jne":
            taken = state.equal == (step.one.mnemonic == "je")
            return step.to(words[0]) if taken else step.after
        case "rdtsc":
            return step.holding(UNKNOWN, "rax", "rdx")
        case "shl" | "shr" | "or" | "add" | "xor" | "lea":
            return step.holding(UNKNOWN, words[0])
        case "nop" | "push" | "pop" | "endbr64":
            return step.after
        case "xchg" if words[0] == words[1]:  # a longer NOP
            return step.after
    raise AssertionError(f"{step.one.text}: what it does is not described here")


class Machine(NamedTuple):
    """An architecture."""

    step: object
    arguments: tuple[str, str]
    text: str
    """Where its hints are."""
    options: tuple[str, ...]
    """Of the disassembler."""


MACHINES = {
    "arm64": Machine(arm64, ("0", "1"), ARM64, ("-d",)),
    "x86_64": Machine(x86, ("di", "si"), X86, ("-d", "-M", "intel")),
}


def others(state: State) -> list[State]:
    """What others do next: store from another CPU; and, which need not come, an exception, with or
    without the store of a thread that has the CPU meanwhile."""
    after = []
    back = state._replace(armed="", event=True)
    if state.stores:
        stored = {"word": state.stores[0], "stores": state.stores[1:]}
        seen = {"armed": "", "event": True} if state.armed == WORD else {}
        after = [state._replace(**stored, **seen), back._replace(**stored)]
    return [*after, back]


def explore(
    machine: Machine, code: list[Instruction], argument: int, stores: tuple[int, ...]
) -> tuple[int, list[State]]:
    """How many states rest, and those that hang."""
    registers = ((machine.arguments[0], WORD), (machine.arguments[1], argument))
    index = {one.address: i for i, one in enumerate(code)}
    states = [State(0, registers, UNKNOWN, event, "", 0, stores, False) for event in (False, True)]
    seen, resting, hanging, ended = set(states), 0, [], False
    while states:
        state = states.pop()
        if code[state.at].mnemonic == "ret":
            ended = True
            continue
        following, own = others(state), machine.step(Step(code[state.at], state, index))
        if own is None:
            resting += 1
            hanging += [] if state.stores else [state]
        following += [own] if own else []
        states += [one for one in following if one not in seen]
        seen.update(following)
    assert ended, "no execution comes to its end"
    return resting, hanging


def outcome(
    machine: Machine, objdump: str, compiler: list[str], text: Path, to: Path
) -> dict[str, tuple[int, list[State]]]:
    """Of each loop of that text, beside a thread that stores another value and then the one that
    ends it."""
    words = ("-O2", f"-I{text}/include", f"-I{text}", "-c", str(HERE / "watches.c"))
    subprocess.run([*compiler, *words, "-o", str(to)], check=True)
    found = disassemble(to, objdump, machine.options, wanted="(until|while)_")
    return {
        name: explore(machine, code, 2, (1, 2))
        if name.startswith("until")
        else explore(machine, code, 0, (1,))
        for name, code in found.items()
    }


def main(arch: str, objdump: str, compiler: list[str]) -> int:
    wrong, machine = [], MACHINES[arch]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = outcome(machine, objdump, compiler, ROOT, folder / "shipped.o")
        assert len(found) == 8, sorted(found)
        for name, (resting, hanging) in found.items():
            print(f"{name}: {resting} states at rest, {len(hanging)} of them for ever")
            wrong += [f"{name} never rests"] * (not resting)
            wrong += [f"{name} hangs: {hanging[0]}"] if hanging else []
        for number, (mistake, (file, right, written)) in enumerate(MISTAKES.items()):
            if file not in (LOOPS, DISPATCH, machine.text):
                continue
            copy = folder / str(number)
            for room in ("include", "src/wait", "src/common"):
                shutil.copytree(ROOT / room, copy / room)
            text = (copy / file).read_text()
            assert right in text, right
            (copy / file).write_text(text.replace(right, written))
            made = outcome(machine, objdump, compiler, copy, folder / f"{number}.o")
            hanging = [name for name, (_, states) in made.items() if states]
            # A loop that ends by any other value waits for none.
            due = [name for name in made if file != LOOPS or name.startswith("until")]
            print(f"{mistake}: {len(hanging)} of {len(due)} loops hang")
            wrong += [f"{mistake}: {name} does not hang" for name in due if name not in hanging]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
