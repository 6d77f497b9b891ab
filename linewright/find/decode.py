# SPDX-License-Identifier: MIT
"""What the instructions around a sample access, and at which address, from code bytes and sampled
registers.

A sample of a locked operation points at the instruction behind it: that one is decoded with
certainty.  Plain loads and stores nearby are candidates only, for watchpoints to confirm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import capstone
from capstone import arm64_const, x86_const

from linewright.find.results import FENCES, Role
from linewright.forms import HINTS

if TYPE_CHECKING:
    from linewright.find.space import Spaces

MASK = (1 << 64) - 1
WINDOW = 24
"""Instructions before and behind a sample in which candidates are looked for."""
NEAR = 3
"""Instructions within which a plain load's samples fall (docs/guide/find.md)."""
CLOSE = NEAR + 1
"""Instructions before a sample that are looked at where it is near plain accesses."""
SPIN = 8
"""Instructions behind a load within which a loop that waits jumps back."""
_EQUAL = ("je", "jne", "sete", "setne", "b.eq", "b.ne", "cbz", "cbnz")
"""What acts on a comparison with one value."""
_ZERO, _UNEQUAL = ("je", "cbz"), ("jne", "cbnz")
_COMPARES = ("cmp", "test", "tst", "cmn", "add", "sub", "and", "inc", "dec", "or", "xor")
"""What decides a jump behind it."""
_LONGEST = 15
"""Bytes of an x86 instruction."""
_MAY_FENCE = frozenset(b"\xf0\x86\x87")
_PREFIXES = 3
"""Bytes that stand before these in an instruction, at most."""
_BACK = 7 * WINDOW
"""Bytes of code before a sample that are decoded; x86 instructions are 4 to 5 bytes long on
average."""
_BACK_CLOSE = 63
"""The same for few instructions: enough for decoding to fall into step."""
_STARTS = 8
"""Neighbouring bytes that decoding begins at: of 4,000 places of glibc's code it falls into step
within _BACK_CLOSE bytes in 3,998, with sixteen starts in 3,996."""
_STEP = 4
"""Instructions that are decoded at once until decoding is in step."""
_NOWHERE = 1 << 31
"""Where an instruction is decoded whose address does not matter."""
_MOST_REGISTERS = max(x86_const.X86_REG_ENDING, arm64_const.ARM64_REG_ENDING)


STACK_POINTER = {"x86_64": 7, "i386": 7, "arm64": 31}
"""Where the stack pointer stands among a sample's registers."""
DWARF_REGISTERS = {
    "x86_64": (0, 3, 2, 1, 4, 5, 6, 7, *range(10, 18)),
    "i386": (0, 2, 3, 1, 7, 6, 4, 5),
    "arm64": tuple(range(32)),
}
"""The registers of DWARF's numbers, as indices into a sample's list."""
POINTER = 18
"""Where the thread pointer stands among an x86-64 sample's registers, when it is known: behind the
general ones."""


class Operand(NamedTuple):
    """One memory access of an instruction; registers are indices into a sample's list, -1 for
    none."""

    ip: int
    mnemonic: str
    access: Literal["read", "write", "atomic"]
    size: int
    base: int
    index: int
    scale: int
    displacement: int
    distance: int = 0
    """Instructions between it and the sample: 0 directly before it, negative behind it."""
    sure: bool = False
    """An atomic operation directly before the sample: it took the time."""
    joined: bool = False
    """A jump leads to the sample as well: the thread may have come from elsewhere."""
    fenced: bool = False
    """A plain store that the instruction before the sample waited for: a full fence."""
    changes_nothing: bool = False
    """A full fence as compilers write it for x86: 0 is added to a word of the thread's stack."""
    thread: bool = False
    """Relative to the thread pointer."""
    mask: int = MASK
    """Of the bits that an address has."""

    def address(self, registers: list[int]) -> int | None:
        """None where it is relative to a thread pointer that is not known."""
        value = self.displacement
        if self.thread:
            if len(registers) <= POINTER:
                return None
            value += registers[POINTER]
        if self.base >= 0:
            value += registers[self.base]
        if self.index >= 0:
            value += registers[self.index] * self.scale
        return value & self.mask


class WaitLoop(NamedTuple):
    """Code in which a thread waits for a store, from its first instruction to the jump back."""

    first: int
    last: int
    counts: bool
    """It counts its rounds, and so perhaps gives up."""
    turn: int = -1
    """The register that the word is compared with, an index of a sample; -1 where that is a
    constant, or changes in the loop."""
    others: frozenset[int] = frozenset()
    """Loads of other words that may end it, by their addresses."""


class _Instruction(NamedTuple):
    address: int
    operands: tuple[Operand, ...]
    atomic: bool
    written: frozenset[int]
    ends: bool
    """Control does not go on behind it."""
    fences: bool = False
    """It waits for the stores before it."""
    read: frozenset[int] = frozenset()
    target: int = 0
    """Where a jump or call leads, as far as the instruction says."""
    name: str = ""
    relative: bool = False
    """Its operand's address is relative to its own."""
    value: int | None = None
    """Its last operand, where that is a number."""

    def without(self, written: frozenset[int]) -> list[Operand]:
        """Its operands whose addresses are made of no register among these."""
        return [o for o in self.operands if o.base not in written and o.index not in written]

    def moved(self, by: int) -> _Instruction:
        """The same instruction at another address."""
        operands = [
            o._replace(ip=o.ip + by, displacement=o.displacement + by * self.relative)
            for o in self.operands
        ]
        target = self.target and self.target + by
        return self._replace(address=self.address + by, operands=tuple(operands), target=target)


class Decoder:
    """Decodes around samples of one architecture; each instruction once."""

    def __init__(self, arch: str, code: Spaces) -> None:
        self.arch, self._code = arch, code
        narrow, wide = [_Arm64()] * 2 if arch == "arm64" else map(_X86, (32, 64))
        self._own = narrow if arch == "i386" else wide
        self._arch = {32: narrow, 64: wide, 0: self._own}
        """By the bits of a program; 0 where they are the machine's."""
        self._known: dict[tuple[int, int, int, int], tuple[Operand, ...]] = {}
        self._decoded: dict[tuple[object, ...], tuple[Operand, ...]] = {}
        """By place and bytes: processes of one program run the same code at the same addresses."""
        self.role = cache(self._role)
        """What an access is for, from the code around it."""

    def operands(self, pid: int, ip: int, bits: int = 0) -> tuple[Operand, ...]:
        """Accesses whose address a sample at `ip` allows to compute, the nearest first. `bits` of
        the program, where they are not the machine's."""
        return self._within(pid, ip, bits, WINDOW)

    def close(self, pid: int, ip: int, bits: int = 0) -> tuple[Operand, ...]:
        """The same, with what is known already or else a few instructions before and one behind:
        enough for what takes time near a sample that no fence stands before (`sure` has looked for
        one)."""
        key = (pid, ip, bits)
        return self._within(*key, WINDOW if (*key, WINDOW) in self._known else CLOSE)

    def _within(self, *key: int) -> tuple[Operand, ...]:
        if key not in self._known:
            self._known[key] = self._around(*key)
        return self._known[key]

    def sure(self, pid: int, ip: int, bits: int = 0) -> Operand | None:
        """The atomic operation that a sample at `ip` stands for, if there is one.  Most code has
        none, and a look at its bytes is a hundred times quicker than to decode it."""
        if (pid, ip, bits, WINDOW) not in self._known:
            _, data = self._code.read_code(pid, max(0, ip - _LONGEST), ip)
            if not self._arch[bits].may_fence(data):
                return None
        return next((o for o in self.operands(pid, ip, bits) if o.sure), None)

    def mnemonic(self, pid: int, ip: int) -> str:
        """The instruction at an address, by name; empty where its bytes are not known."""
        return self._own.name(self._code_from(pid, ip, _LONGEST))

    def forget(self, pid: int, page: int) -> None:
        """The code of a page has changed."""
        self.role.cache_clear()
        near = range(page * 4096, page * 4096 + 4096 + _BACK)
        self._known = {k: v for k, v in self._known.items() if k[0] != pid or k[1] not in near}

    def _role(self, pid: int, ip: int) -> Role:
        first, *behind = self._ahead(pid, ip) or [None]
        if first is None:
            return ""
        if not first.atomic:
            return "" if first.name in _LEAVES else self._repeats(pid, first, behind)
        if _acts_at_zero(first, behind):
            return "zero"
        if self.wait_loop(pid, ip):
            return "waits"
        mine = _old_value(first)
        used = "takes" if first.name.startswith(_EXCHANGES) else "old value"
        for i in behind if first.name.startswith((*_OLD_VALUE, *_EXCHANGES)) else ():
            if mine & i.read and not _clears(i):
                return used
            mine -= i.written
            if i.ends or not mine:
                return used if mine & self._own.returned and i.name.endswith("ret") else ""
        return ""

    def wait_loop(self, pid: int, ip: int) -> WaitLoop | None:
        """The loop that repeats a load, or an exchange, until another thread stores; None where
        that is no such access."""
        first, *behind = self._ahead(pid, ip) or [None]
        back, _ = (first and _repeated(first, behind)) or (None, False)
        if not back:
            return None
        if first.atomic:
            ahead = self._ahead(pid, back.target)
            waits = _tries([i for i in ahead if i.address <= back.address], first)
        else:
            waits = self._repeats(pid, first, behind) == "waits"
        if not waits:
            return None
        last = _last_jump(back, first, behind[:SPIN])
        body = [i for i in self._ahead(pid, back.target) if i.address <= last]
        counts = any(_counts(i, body) for i in body)
        others = frozenset(
            i.address
            for i in body
            if i.operands and not _same_place(i, first) and _purpose(i, body) == "decides"
        )
        return WaitLoop(back.target, last, counts, _compared_with(first, body), others)

    def hints(self, pid: int, function: int) -> bool:
        """Whether a function begins with what a thread executes to wait."""
        return any(i.name in HINTS for i in self._ahead(pid, function))

    def behind_call(self, pid: int, after: int) -> Iterator[Operand]:
        """Accesses behind a call, by registers that functions leave as they are."""
        for o in self.operands(pid, after):
            if o.distance < 0 and not {o.base, o.index} & self._own.by_call:
                yield o

    def _repeats(self, pid: int, load: _Instruction, behind: list[_Instruction]) -> Role:
        """Of a load that a short loop repeats: whether that waits for one word, or reads until it
        got a value that no writer changed meanwhile."""
        back, decided = _repeated(load, behind) or (None, False)
        ahead = self._ahead(pid, back.target) if back else []
        body = [i for i in ahead if i.address <= back.address]
        if load not in body:  # or a jump into the middle of an instruction, as past a `lock`
            return ""
        stable, computed = _address_in(load, body)
        if not stable:
            return "retries" if computed else ""
        if all(_purpose(i, body) for i in body if i.operands):
            near = decided and (back is load or back in behind[:SPIN])
            waits = near or all(_purpose(i, body) for i in body if i.written)
            return "waits" if waits and _purpose(load, body) == "decides" else ""
        body = [i for i in ahead if i.address <= _last_jump(back, load, behind)]
        again = [i for i in body if _same_place(i, load)]
        both = (
            sum(o is i or bool(o.written & i.read) for o in again) for i in body if i.name == "cmp"
        )
        return "retries" if max(both, default=0) > 1 and _address_in(load, body)[0] else ""

    def _ahead(self, pid: int, ip: int, window: int = WINDOW, bits: int = 0) -> list[_Instruction]:
        """The code from an instruction on."""
        return self._arch[bits].forwards(self._code_from(pid, ip), ip, window)

    def _code_from(self, pid: int, ip: int, length: int = _LONGEST * WINDOW // 2) -> bytes:
        start, data = self._code.read_code(pid, ip, ip + length)
        if start != ip:  # the next page is not known: what is left of this one
            start, data = self._code.read_code(pid, ip, min(ip + length, (ip | 4095) + 1))
        return data if start == ip else b""

    def _around(self, pid: int, ip: int, bits: int, window: int) -> tuple[Operand, ...]:
        close = window == CLOSE
        back = _BACK_CLOSE if close else _BACK
        begin, data = self._code.read_code(pid, max(0, ip - back), ip)
        key = (begin, data, ip, self._code_from(pid, ip), bits, window)
        if key not in self._decoded:
            behind = self._ahead(pid, ip, 1 if close else window, bits)
            before = self._arch[bits].backwards(data, begin, ip, window)
            self._decoded[key] = tuple(_resolvable(before, behind, self._arch[bits], ip))
        return self._decoded[key]


def _resolvable(
    before: list[_Instruction], behind: list[_Instruction], arch: _X86 | _Arm64, ip: int
) -> list[Operand]:
    """Operands whose address registers still hold, or do already hold, at the sample."""
    found: list[Operand] = []
    fence = bool(before) and before[-1].fences
    joined = any(i.target == ip for i in (*before, *behind))
    written: frozenset[int] = frozenset()
    for distance, instruction in enumerate(reversed(before)):
        if instruction.ends:
            break
        written |= instruction.written
        sure = arch.stalls(instruction, distance)
        found += [
            o._replace(
                distance=distance,
                sure=sure and o.access == "atomic",
                joined=joined,
                fenced=fence and distance > 0 and o.access == "write",
            )
            for o in instruction.without(written)
        ]
    written = frozenset()
    for distance, instruction in enumerate(behind, 1):
        found += [o._replace(distance=-distance) for o in instruction.without(written)]
        written |= instruction.written
        if instruction.ends:
            break
    return sorted(found, key=lambda o: (not o.sure, abs(o.distance)))


def _old_value(addition: _Instruction) -> frozenset[int]:
    """The registers that an atomic addition's old value is in."""
    return addition.written - {o.base for o in addition.operands}


def _acts_at_zero(first: _Instruction, behind: list[_Instruction]) -> bool:
    """Whether an atomic subtraction's code asks if it came to zero, as where a reference is given
    up: by its flags, or by its old value, which was one."""
    after = [i for i in behind if (i.name != "nop" and i.written | i.read) or i.target]
    if first.name in ("lock sub", "lock dec"):
        return bool(after) and after[0].name in _EQUAL
    mine, lowered = set(_old_value(first)), False
    for i in after if first.name.startswith(_OLD_VALUE) else ():
        if i.name in _EQUAL:
            return lowered and (i.name not in ("cbz", "cbnz") or bool(mine & i.read))
        if i.target or i.ends:
            return False
        if not mine & i.read:
            mine -= i.written
            if i.name.startswith(_COMPARES):
                return False
            continue
        lowered |= i.name == "dec" or (i.name, i.value) in _LESS_ONE
        if not i.name.startswith("mov") and not (lowered and i.name.startswith(_COMPARES)):
            return False
        mine |= i.written
    return False


def _tries(loop: list[_Instruction], exchange: _Instruction) -> bool:
    """Whether all rounds of a loop try the same exchange, which another thread's store lets
    succeed: what it wants to find, and puts there, comes from no load.  A loop that loads the word,
    too, waits at that load."""
    if exchange not in loop:
        return False
    others = [i for i in loop if i != exchange]
    taken = exchange.written | ({0} if exchange.name == "lock cmpxchg" else set())
    changed = taken.union(*(i.written for i in others))
    if _registers(exchange) & changed or not exchange.name.startswith(_TRIES):
        return False
    for i in others:
        if i.name in ("call", "bl", "blr") or _registers(i) & taken:
            return False  # what was taken is worked on
        if any(o.access != "read" for o in i.operands) or (i.operands and _same_place(i, exchange)):
            return False
    if exchange.name.startswith(_EXCHANGES):  # until it finds 0: a box is waited for to be filled
        jump = next(i for i in loop[loop.index(exchange) :] if i.target)
        back = loop[0].address <= jump.target <= loop[-1].address
        return jump.name in (_UNEQUAL if back else _ZERO)
    if exchange.name == "lock bts":
        return True
    renewed = {r for i in others for r in i.written}
    used = exchange.read | taken
    constant = all(
        not i.operands and (not i.read & changed or _clears(i)) for i in others if i.written & used
    )
    return constant and taken <= renewed


def _counts(i: _Instruction, loop: list[_Instruction]) -> bool:
    """Whether an instruction steps a number that goes from round to round; the deadline of a hint
    that has one is computed anew in each."""
    anew = any(i.written & other.written for other in loop if other is not i)
    return i.name in _STEPS and not i.operands and not anew


def _compared_with(load: _Instruction, loop: list[_Instruction]) -> int:
    """The register that a loop compares with what it loads, and leaves as it is; or -1."""
    changed = frozenset[int]().union(*(i.written for i in loop))
    for i in loop[loop.index(load) :] if load in loop else ():
        if i.name == "cmp" and (i == load or i.read & load.written):
            left = i.read - changed - _registers(i)
            return min(left) if len(left) == 1 else -1
    return -1


def _clears(i: _Instruction) -> bool:
    """`xor %eax,%eax`, which reads nothing but by its name."""
    return i.name == "xor" and i.value is None and i.read == i.written


_OLD_VALUE, _EXCHANGES = ("lock xadd", "ldadd"), ("xchg", "lock xchg", "swp")
_TRIES = (*_EXCHANGES, "lock cmpxchg", "cas", "lock bts")
_LEAVES = ("call", "jmp", "ret")
_STEPS = ("inc", "dec", "add", "sub", "adds", "subs", "lea")
"""What counts."""
_LESS_ONE = {("cmp", 1), ("sub", 1), ("subs", 1), ("add", -1)}


def _repeated(load: _Instruction, behind: list[_Instruction]) -> tuple[_Instruction, bool] | None:
    """The jump behind a load that leads back to it, or to before it, for what it read, where no
    code in between writes to memory; and whether it is for that itself, or always jumps, and not
    only one that leaves the loop on the way."""
    loaded, decides = load.written, load.name.startswith((*_COMPARES, "lock cmpxchg", "lock bts"))
    leaves, then = False, 0
    for i in (load, *behind):
        if i.address < then:
            continue
        if any(o.access != "read" for o in i.operands) and not (i is load and i.atomic):
            return None
        if i.target and 0 <= load.address - i.target <= 4 * WINDOW:
            decided = decides or (i.ends and leaves) or bool(loaded & i.read)
            return (i, decided) if decided or leaves else None
        leaves |= decides and i.target > i.address and not i.ends
        if i.ends and i.target <= i.address:
            return None
        then = i.target if i.ends else 0
        if i is not load and i.name.startswith(_COMPARES):
            decides = bool(loaded & i.read)
        elif i is not load:
            loaded = loaded | i.written if loaded & i.read else loaded - i.written
    return None


def _last_jump(back: _Instruction, load: _Instruction, behind: list[_Instruction]) -> int:
    """Where the code behind a load leads back to where a first jump does, or to between, the last
    time before it writes to memory: that one may lead to another try of an exchange, with a hint
    behind it, or be for a value that was not whole, before the load is repeated."""
    last = back.address
    for i in behind:
        if back.target <= i.target <= load.address:
            last = max(last, i.address)
        if i.ends or any(o.access == "write" for o in i.operands):
            break
    return last


def _address_in(load: _Instruction, loop: list[_Instruction]) -> tuple[bool, bool]:
    """Whether a load is of one address in all rounds of a loop, or of what a pointer at one address
    leads to; and, where it is not, whether its address is computed from what the loop reads."""
    moved = _registers(load)
    changed = frozenset[int]().union(*(i.written for i in loop))
    if not moved & changed:
        return True, False
    reloads = [i for i in loop if i.operands and not _registers(i) & changed]
    read = set[int]().union(*(i.written for i in reloads))
    pointers = [i for i in loop if i.written & moved]
    if pointers and all(i in reloads for i in pointers):
        return True, False
    for i in loop:
        if i.read & read:
            read |= i.written
    return False, bool(moved & read)


def _registers(i: _Instruction) -> set[int]:
    """Those that its addresses are made of."""
    return {register for o in i.operands for register in (o.base, o.index)}


def _same_place(one: _Instruction, other: _Instruction) -> bool:
    where = [[(o.base, o.index, o.displacement) for o in i.operands] for i in (one, other)]
    return where[0] == where[1]


def _purpose(load: _Instruction, loop: list[_Instruction]) -> Literal["", "decides", "address"]:
    """Whether a jump of the loop is for what a load read, or another load's address is made of
    it."""
    loaded, behind = load.written, loop[loop.index(load) :]
    for i, following in zip_longest(behind, behind[1:]):
        if i is not behind[0] and _registers(i) & loaded:
            return "address"
        compares = i.name.startswith((*_COMPARES[:4], "cb", "tb")) or (
            i.name.startswith(_COMPARES) and following is not None and following.target
        )
        uses = i is behind[0] or loaded & i.read
        if uses and compares:
            return "decides"
        loaded = loaded | i.written if uses else loaded - i.written
    return ""


class _InstructionSet:
    """What instructions of an architecture access, by its disassembler's answers."""

    returned = frozenset((0,))
    """Where functions return a value."""

    def __init__(self, kind: int, mode: int, registers: dict[str, int]) -> None:
        """`registers`: indices in a sample by the names of registers."""
        self._lite, self._whole = capstone.Cs(kind, mode), capstone.Cs(kind, mode)
        self._whole.detail = True
        names = ((n, self._lite.reg_name(n)) for n in range(1, _MOST_REGISTERS))
        self._registers = {n: registers[name] for n, name in names if name in registers}

    def name(self, data: bytes) -> str:
        return next((mnemonic for _, _, mnemonic, _ in self._lite.disasm_lite(data, 0, 1)), "")

    def _accessed(self, i: capstone.CsInsn) -> Iterator[frozenset[int]]:
        """Registers that an instruction reads and writes, as indices of a sample."""
        try:
            known = i.regs_access()
        except capstone.CsError:
            known = ((), ())
        return (frozenset(self._registers[r] for r in some if r in self._registers)
                for some in known)  # fmt: skip

    def _built(self, i: capstone.CsInsn, atomic: bool, **more: Any) -> _Instruction:
        last = i.operands[-1] if i.operands else None
        value = last.imm if last is not None and last.type == capstone.CS_OP_IMM else None
        jumps = i.group(capstone.CS_GRP_JUMP) or i.group(capstone.CS_GRP_CALL)
        return _Instruction(
            address=i.address,
            operands=tuple(self._operands(i, atomic, value)),
            atomic=atomic,
            target=value or 0 if jumps else 0,
            name=i.mnemonic,
            value=value,
            **more,
        )

    def _operands(self, i: capstone.CsInsn, atomic: bool, value: int | None) -> Iterator[Operand]:
        raise NotImplementedError


class _X86(_InstructionSet):
    """x86-64, and i386 programs in their own mode."""

    def __init__(self, bits: int) -> None:
        mode = capstone.CS_MODE_64 if bits == 64 else capstone.CS_MODE_32
        super().__init__(capstone.CS_ARCH_X86, mode, _x86_names())
        self._mask = (1 << bits) - 1
        self._known: dict[bytes, _Instruction] = {}
        self._sp = 7
        self.by_call = frozenset((0, 2, 3, 4, 5, 10, 11, 12, 13))

    def stalls(self, instruction: _Instruction, distance: int) -> bool:
        return instruction.atomic and distance == 0

    def backwards(self, data: bytes, begin: int, ip: int, most: int) -> list[_Instruction]:
        """Instructions that end at `ip`.  From the middle of one, decoding falls into step within a
        few: of eight starts the chain that most lead into is taken."""
        ends = self._ends(data, begin)
        # A chain that begins where the code does (a page of a JIT compiler) needs no falling into
        # step.
        weight = Counter(range(begin, begin + _STARTS))
        weight[begin] += 8 * (begin % 4096 == 0)
        before: dict[int, int] = {}
        for at in sorted(ends):
            end = ends[at]
            if end not in before or weight[at] > weight[before[end]]:
                before[end] = at
            weight[end] += weight[at]
        if ip not in before:  # what is no code stands there, as before a method of a JIT compiler
            half = len(data) // 2
            return self.backwards(data[half:], begin + half, ip, most) if half else []
        found: list[_Instruction] = []
        at = ip
        while at in before and len(found) < most:
            end, at = at, before[at]
            found.append(self._at(data[at - begin : end - begin], at))
        return found[::-1]

    def _ends(self, data: bytes, begin: int) -> dict[int, int]:
        """Where instructions end, by where they begin, from eight starts on; each is decoded
        once, since chains meet."""
        ends: dict[int, int] = {}
        for at in range(begin, begin + min(_STARTS, len(data))):
            while at not in ends:
                count = _STEP if ends else 0
                lite = self._lite.disasm_lite(data[at - begin :], at, count)
                some = {start: start + size for start, size, _, _ in lite}
                if not some:
                    break
                at = max(some.values())
                ends |= some
        return ends

    def forwards(self, data: bytes, begin: int, most: int) -> list[_Instruction]:
        """All instructions, or the first ones."""
        lite = self._lite.disasm_lite(data, begin, most)
        return [self._at(data[at - begin :][:size], at) for at, size, _, _ in lite]

    def _at(self, text: bytes, address: int) -> _Instruction:
        """The instruction of these bytes; each text is decoded once, since programs repeat few."""
        if text not in self._known:
            (found,) = self._whole.disasm(text, _NOWHERE, 1)
            self._known[text] = self._instruction(found)
        return self._known[text].moved(address - _NOWHERE)

    def may_fence(self, data: bytes) -> bool:
        """Whether an atomic instruction or a fence may end these bytes: LOCK, MFENCE, or XCHG."""
        if _MAY_FENCE.isdisjoint(data):
            return False
        marks = (at for at, byte in enumerate(data) if byte in _MAY_FENCE)
        starts = {at - n for at in marks for n in range(_PREFIXES + 1) if at >= n}
        return any(
            size == len(data) - at and ("lock" in name or name in ("xchg", "mfence"))
            for at in starts
            for _, size, name, _ in self._lite.disasm_lite(data[at:], 0, 1)
        )

    def _instruction(self, i: capstone.CsInsn) -> _Instruction:
        memory = [o.mem for o in i.operands if o.type == x86_const.X86_OP_MEM]
        exchanges = i.id == x86_const.X86_INS_XCHG and bool(memory)
        atomic = i.prefix[0] == x86_const.X86_PREFIX_LOCK or exchanges
        read, written = self._accessed(i)
        if i.group(x86_const.X86_GRP_CALL) or i.group(x86_const.X86_GRP_INT):
            written |= self.by_call
        return self._built(
            i,
            atomic,
            read=read,
            written=written,
            ends=i.group(x86_const.X86_GRP_RET) or i.id == x86_const.X86_INS_JMP,
            fences=atomic or i.id == x86_const.X86_INS_MFENCE,
            relative=any(m.base == x86_const.X86_REG_RIP for m in memory),
        )

    def _operands(self, i: capstone.CsInsn, atomic: bool, value: int | None) -> Iterator[Operand]:
        if i.id in (x86_const.X86_INS_LEA, x86_const.X86_INS_NOP) or i.mnemonic.startswith(
            ("prefetch", "clflush", "clwb")
        ):
            return
        for o in i.operands:
            m = o.mem
            if o.type != x86_const.X86_OP_MEM or m.segment == x86_const.X86_REG_GS:
                continue
            thread = m.segment == x86_const.X86_REG_FS
            displacement, base = m.disp, -1
            if m.base == x86_const.X86_REG_RIP:
                displacement += i.address + i.size
            elif m.base:
                base = self._registers.get(m.base, -2)
            index = self._registers.get(m.index, -2) if m.index else -1
            if base == -2 or index == -2 or o.size > 64 or (base == self._sp and not atomic):
                # A vector of addresses, or what the compiler keeps in the thread's own frame.
                continue
            access = "atomic" if atomic else "write" if o.access & capstone.CS_AC_WRITE else "read"
            where = (base, index, m.scale, displacement)
            nothing = base == self._sp and i.mnemonic in FENCES and value == 0
            yield Operand(i.address, i.mnemonic, access, o.size, *where,
                          thread=thread, changes_nothing=nothing, mask=self._mask)  # fmt: skip


def _x86_names() -> dict[str, int]:
    """Every name of a general register, of whatever width, to its index in a sample."""
    answer: dict[str, int] = {}
    for at, letters in enumerate(("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")):
        short = (letters[0] + "l", letters[0] + "h") if at < 4 else (letters + "l",)
        answer |= dict.fromkeys(("r" + letters, "e" + letters, letters, *short), at)
    for number in range(8, 16):
        answer |= dict.fromkeys(
            (f"r{number}", f"r{number}d", f"r{number}w", f"r{number}b"), number + 2
        )
    return answer


class _Arm64(_InstructionSet):
    """arm64: instructions of four bytes; where samples fall there is unverified, so neighbours
    count as near."""

    def __init__(self) -> None:
        wanted = {f"{letter}{n}": n for n in range(29) for letter in "xw"}
        wanted |= {"x29": 29, "fp": 29, "w29": 29, "x30": 30, "lr": 30, "w30": 30, "sp": 31}
        super().__init__(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN, wanted)
        self._lite.skipdata = self._whole.skipdata = True
        self.by_call = frozenset(range(19)) | {30}

    def stalls(self, instruction: _Instruction, distance: int) -> bool:
        """The atomic instruction itself, or within an LL/SC loop whichever of its two halves is
        near."""
        return instruction.atomic and distance < NEAR

    def backwards(self, data: bytes, begin: int, ip: int, most: int) -> list[_Instruction]:
        skip = max(len(data) % 4, len(data) - 4 * most)
        return self.forwards(data[skip:], begin + skip, 0)

    def forwards(self, data: bytes, begin: int, most: int) -> list[_Instruction]:
        return [self._instruction(i) for i in self._whole.disasm(data, begin, most)]

    def may_fence(self, data: bytes) -> bool:
        lite = self._lite.disasm_lite(data[len(data) % 4 :], 0)
        return any(
            name.startswith(_ARM64_ATOMIC) or name in ("dmb", "dsb") for _, _, name, _ in lite
        )

    def _instruction(self, i: capstone.CsInsn) -> _Instruction:
        if i.id == 0:  # data, or an instruction that Capstone does not know
            return _Instruction(i.address, (), False, frozenset(), False)
        read, written = self._accessed(i)
        if i.mnemonic in _COMPARES[:4]:  # Capstone lists the first as written
            read, written = read | written, frozenset()
        elif i.mnemonic in ("bl", "blr", "svc"):
            written |= self.by_call
        elif i.mnemonic.startswith(("swp", *_ARM64_ATOMIC[:8])):  # Capstone leaves it out
            written |= {self._registers.get(i.operands[1].reg, -2)}
        return self._built(
            i,
            i.mnemonic.startswith(_ARM64_ATOMIC),
            read=read,
            written=written,
            ends=i.mnemonic in ("ret", "br", "b", "retaa", "retab"),
            fences=i.mnemonic in ("dmb", "dsb") and i.op_str in ("ish", "sy"),
        )

    def _operands(self, i: capstone.CsInsn, atomic: bool, value: int | None) -> Iterator[Operand]:
        if i.mnemonic.startswith(("prfm", "dc", "ic")):
            return
        for o in i.operands:
            if o.type != arm64_const.ARM64_OP_MEM:
                continue
            base = self._registers.get(o.mem.base, -2)
            index = self._registers.get(o.mem.index, -2) if o.mem.index else -1
            if base in (-2, 31) or index == -2 or (index >= 0 and o.ext):
                continue
            scale = 1 << o.shift.value if o.shift.type == arm64_const.ARM64_SFT_LSL else 1
            # A post-indexed access is at the base as it was: `regs_access` lists it as written, so
            # it is left out.
            store = i.mnemonic.startswith("st")
            access = "atomic" if atomic else "write" if store else "read"
            where = (base, index, scale, o.mem.disp)
            yield Operand(i.address, i.mnemonic, access, _arm64_size(i), *where)


_ARM64_ATOMIC = (
    *(f"{way}{what}" for way in ("ld", "st")
      for what in ("add", "clr", "set", "eor", "smax", "smin", "umax", "umin")),
    *("swp", "cas", "ldxr", "ldaxr", "stxr", "stlxr", "ldxp", "ldaxp", "stxp", "stlxp"),
)  # fmt: skip
"""Operations of LSE, and the halves of LL/SC loops."""


def _arm64_size(i: capstone.CsInsn) -> int:
    """Bytes of the access, by the mnemonic's suffix and the register's name."""
    if i.mnemonic.endswith(("b", "h")):
        return 1 + i.mnemonic.endswith("h")
    data = [i.reg_name(o.reg) for o in i.operands if o.type == arm64_const.ARM64_OP_REG]
    widest, name = {"w": 4, "x": 8, "q": 16, "d": 8, "s": 4}, data[-1] if data else "x0"
    pairs = ("ldp", "stp", "ldxp", "ldaxp", "stxp", "stlxp", "casp")
    return widest.get(name[0], 8) << i.mnemonic.startswith(pairs)
