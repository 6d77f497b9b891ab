# SPDX-License-Identifier: MIT
"""Executes the machine code of wait.h's loops that rest by WFE and WFET in every possible way,
beside a thread that stores and without an event stream: none may rest for ever.

usage: events.py OBJDUMP COMPILER [OPTION…]

No emulator at hand lets WFE rest (QEMU 7.2 takes it for no instruction, or for a yield), so what
would hang on hardware runs there. Here the instructions are executed one by one by the rules of the
Arm ARM (DDI 0487, "Wait for Event" and "Synchronization and semaphores"):

- LDXR arms the monitor on the word, CLREX disarms it.
- A store of another CPU to a word with an armed monitor disarms it, and is an event.
- The return from an exception disarms the monitor and is an event, too: an interrupt, or another
  thread that had the CPU meanwhile, and may have stored. It may come anywhere, and need not come.
- WFE goes on where there was an event since the last one, which it takes, and rests until there is.

WFET is given no end. An execution *hangs* where the thread rests, all stores are done and nothing
but an exception, which need not come, would wake it. The loops must have none; each of the
mistakes below, made in a copy of the header, must have one, or this would prove nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
from machine_code import Instruction, disassemble

HERE = Path(__file__).parent
HEADER = Path("linewright/arch/arm64/wait.h")
INCLUDE = HERE.parents[2] / "include"
MISTAKES = {
    "the monitor is not armed": ("ldxr %", "ldr %"),
    "it is disarmed before the rest": ('1f\\n\\t" wait', '1f\\n\\tclrex\\n\\t" wait'),
    "the word is not compared once it is armed": ("cbnz %", "tbnz xzr, 0, 1f // %"),
    "another word is armed": ('[word] "Q"(*word)', '[word] "Q"(word[1])'),
}
"""What is written instead of what."""
UNKNOWN = None
"""The value of a register that no comparison may see: a time."""
WORD = "word"
"""The word's address, where a register has it."""


class State(NamedTuple):
    at: int
    """Index of the next instruction."""
    registers: tuple[tuple[str, object], ...]
    equal: object
    """Outcome of the last comparison."""
    event: bool
    armed: bool
    word: int
    stores: tuple[int, ...]
    """Values that are still to be stored, in order."""
    rests: bool


def rest_of(state: State) -> State | None:
    """A WFE: on to the next instruction with the event, or resting; None where it rests on."""
    if state.event:
        return state._replace(at=state.at + 1, event=False, rests=False)
    return None if state.rests else state._replace(rests=True)


class Loop:
    """A function's instructions, and what one of them makes of a state."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self._code = instructions
        self._index = {one.address: i for i, one in enumerate(instructions)}

    def ends(self, state: State) -> bool:
        return self._code[state.at].mnemonic == "ret"

    def step(self, state: State) -> State | None:
        """The waiting thread's next state; None where it rests on."""
        one = self._code[state.at]
        words = [word for word in re.split(r"[\s,\[\]]+", one.operands.partition("//")[0]) if word]
        registers, after = dict(state.registers), state._replace(at=state.at + 1)

        def value(word: str) -> object:
            if word.startswith("#"):
                return int(word[1:], 0)
            return 0 if word in ("wzr", "xzr") else registers.get(word[1:], UNKNOWN)

        def known(word: str) -> object:
            found = value(word)
            assert found is not UNKNOWN, f"{one.text}: {word} is not known"
            return found

        def to(word: str) -> State:
            return state._replace(at=self._index[int(word, 16)])

        def holding(name: str, what: object) -> State:
            registers[name[1:]] = what
            return after._replace(registers=tuple(sorted(registers.items())))

        match one.mnemonic:
            case "wfe" | "wfet":
                return rest_of(state)
            case "ldar" | "ldapr" | "ldr" | "ldxr":
                where = known(words[1])
                assert where in (WORD, UNWATCHED), one.text
                loaded = holding(words[0], state.word if where == WORD and len(words) == 2 else 0)
                if one.mnemonic == "ldxr":
                    return loaded._replace(armed=where == WORD and len(words) == 2)
                return loaded
            case "clrex":
                return after._replace(armed=False)
            case "cmp":
                return after._replace(equal=known(words[0]) == known(words[1]))
            case "eor":
                return holding(words[0], int(known(words[1]) != known(words[2])))
            case "b":
                return to(words[0])
            case "b.eq" | "b.ne":
                return to(words[0]) if state.equal == (one.mnemonic == "b.eq") else after
            case "cbz" | "cbnz":
                zero = known(words[0]) == 0
                return to(words[1]) if zero == (one.mnemonic == "cbz") else after
            case "tbnz":
                return after
            case "mov":
                return holding(words[0], value(words[1]))
            case "nop" | "bti":
                return after
            case "add" if len(words) == 3 and value(words[1]) == WORD:
                return holding(words[0], UNWATCHED)
            case "mrs" | "movk" | "movz" | "umulh" | "add" | "udiv" | "lsr" | "mul" | "ubfx":
                return holding(words[0], UNKNOWN)
        raise AssertionError(f"{one.text}: what it does is not described here")


UNWATCHED = "another word"


def others(state: State) -> list[State]:
    """What others do next: store from another CPU; and, which need not come, an exception, with or
    without the store of a thread that has the CPU meanwhile."""
    after = []
    back = state._replace(armed=False, event=True)
    if state.stores:
        stored = {"word": state.stores[0], "stores": state.stores[1:]}
        after = [
            state._replace(**stored, armed=False, event=state.event or state.armed),
            back._replace(**stored),
        ]
    return [*after, back]


def explore(loop: Loop, argument: int, stores: tuple[int, ...]) -> tuple[int, list[State]]:
    """How many states rest, and those that hang."""
    registers = (("0", WORD), ("1", argument))
    states = [State(0, registers, UNKNOWN, event, False, 0, stores, False) for event in (0, 1)]
    seen, resting, hanging, ended = set(states), 0, [], False
    while states:
        state = states.pop()
        if loop.ends(state):
            ended = True
            continue
        following, own = others(state), loop.step(state)
        if own is None:
            resting += 1
            hanging += [] if state.stores else [state]
        following += [own] if own else []
        states += [one for one in following if one not in seen]
        seen.update(following)
    assert ended, "no execution comes to its end"
    return resting, hanging


def compiled(include: Path, objdump: str, compiler: list[str], to: Path) -> dict[str, Loop]:
    subprocess.run(
        [*compiler, "-O2", f"-I{include}", "-c", HERE / "watches.c", "-o", to], check=True
    )
    found = disassemble(to, objdump, wanted="(until|while)_")
    return {name: Loop(code) for name, code in found.items()}


def outcome(loops: dict[str, Loop]) -> dict[str, tuple[int, list[State]]]:
    """Of each loop, beside a thread that stores another value and then the one that ends it."""
    return {
        name: explore(loop, 2, (1, 2)) if name.startswith("until") else explore(loop, 0, (1,))
        for name, loop in loops.items()
    }


def main(objdump: str, compiler: list[str]) -> int:
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = outcome(compiled(INCLUDE, objdump, compiler, folder / "shipped.o"))
        assert len(found) == 8, sorted(found)
        for name, (resting, hanging) in found.items():
            print(f"{name}: {resting} states at rest, {len(hanging)} of them for ever")
            wrong += [f"{name} never rests"] * (not resting)
            wrong += [f"{name} hangs: {hanging[0]}"] if hanging else []
        text = (INCLUDE / HEADER).read_text()
        for number, (mistake, (right, written)) in enumerate(MISTAKES.items()):
            copy = folder / str(number) / HEADER
            copy.parent.mkdir(parents=True)
            assert right in text, right
            copy.write_text(text.replace(right, written))
            loops = compiled(folder / str(number), objdump, compiler, folder / f"{number}.o")
            survived = [name for name, (_, hanging) in outcome(loops).items() if not hanging]
            print(f"{mistake}: {8 - len(survived)} of 8 loops hang")
            wrong += [f"{mistake}: {name} does not hang" for name in survived]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
