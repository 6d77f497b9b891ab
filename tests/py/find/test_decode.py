# SPDX-License-Identifier: MIT
"""The access before a sample: which instruction, which address, and when neither can be said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linewright.elf.symbols import content, module
from linewright.find.decode import NEAR, POINTER, Decoder
from linewright.forms import HINTS

ROOT = Path(__file__).resolve().parents[3]
HINT_ROW = r"(?:delays|watches)\((\w+), (?!needs\))"
BASE = 0x40_0000
REGISTERS = [0x1000 * (n + 1) for n in range(33)]


class Bytes:
    """Code at BASE."""

    def __init__(self, code: bytes) -> None:
        self.code = code

    def read_code(self, pid: int, start: int, end: int) -> tuple[int, bytes]:
        begin = max(start, BASE)
        return (begin, self.code[begin - BASE : max(0, end - BASE)]) if begin < end else (end, b"")


def sure(arch: str, code: str, after: int):
    """The atomic operation that a sample `after` bytes into the code stands for."""
    return Decoder(arch, Bytes(bytes.fromhex(code))).sure(1, BASE + after)


def test_locked_add_by_register() -> None:
    found = sure("x86_64", "90 90 90 f0 48 83 07 01 90 c3", 8)  # lock addq $1,(%rdi)
    assert (found.mnemonic, found.access, found.size) == ("lock add", "atomic", 8)
    assert found.address(REGISTERS) == REGISTERS[5]


def test_base_index_scale_and_displacement() -> None:
    found = sure("x86_64", "90 f0 0f b1 4c 9a 10 90", 7)  # lock cmpxchg %ecx,0x10(%rdx,%rbx,4)
    assert found.size == 4
    assert found.address(REGISTERS) == REGISTERS[3] + 4 * REGISTERS[1] + 0x10


def test_relative_to_the_instruction_pointer() -> None:
    found = sure("x86_64", "f0 ff 05 00 01 00 00 90", 7)  # lock incl 0x100(%rip)
    assert found.address(REGISTERS) == BASE + 7 + 0x100


def test_high_registers_are_theirs() -> None:
    found = sure("x86_64", "90 f0 49 ff 41 08 90", 6)  # lock incq 8(%r9)
    assert found.address(REGISTERS) == REGISTERS[11] + 8


def test_exchange_needs_no_prefix() -> None:
    assert sure("x86_64", "90 87 06 90", 3).mnemonic == "xchg"


def test_an_exchange_of_registers_is_no_access() -> None:
    assert sure("x86_64", "90 87 d8 90", 3) is None  # xchg %ebx,%eax


def test_an_address_register_that_the_operation_overwrites_is_lost() -> None:
    assert sure("x86_64", "90 48 87 00 90", 4) is None  # xchg %rax,(%rax)


def test_two_instructions_behind_is_not_sure() -> None:
    assert (
        sure("x86_64", "f0 48 83 07 01 48 ff c0 90", 8) is None
    )  # lock addq; inc %rax; sample here


def test_a_plain_add_is_a_candidate_only() -> None:
    decoder = Decoder("x86_64", Bytes(bytes.fromhex("90 48 83 07 01 90 90")))
    assert decoder.sure(1, BASE + 5) is None
    found = decoder.operands(1, BASE + 5)
    assert [(o.access, o.distance) for o in found] == [("write", 0)]


def test_a_store_behind_the_sample_counts_until_its_register_changes() -> None:
    # nop; [sample] mov %rax,(%rsi); mov (%rdi),%rsi; mov %rax,8(%rsi)
    decoder = Decoder("x86_64", Bytes(bytes.fromhex("90 48 89 06 48 8b 37 48 89 46 08 90")))
    found = decoder.operands(1, BASE + 1)
    assert [(o.access, o.base) for o in found] == [("write", 4), ("read", 5)]


def test_nothing_is_taken_from_before_a_return() -> None:
    assert (
        sure("x86_64", "f0 48 ff 07 c3 90", 5) is None
    )  # lock incq (%rdi); ret; another function begins


def test_accesses_through_the_thread_register_need_the_threads_pointer() -> None:
    found = sure("x86_64", "90 f0 64 48 ff 00 90", 6)  # lock incq %fs:(%rax)
    registers = [0x20, *[0] * (POINTER - 1)]
    assert found.address(registers) is None
    assert found.address([*registers, 0x7000]) == 0x7020


def test_processes_that_run_the_same_code_are_decoded_once(monkeypatch) -> None:
    decoder = Decoder("x86_64", Bytes(bytes.fromhex("f0 48 ff 07 90")))
    one = decoder.operands(1, BASE + 4)
    monkeypatch.setattr(decoder._own, "backwards", None)  # would be called again
    assert decoder.operands(2, BASE + 4) == one


def test_accesses_through_gs_are_left_out() -> None:
    assert sure("x86_64", "90 f0 65 48 ff 00 90", 6) is None  # lock incq %gs:(%rax)


def test_a_loop_in_anonymous_memory_that_begins_the_page() -> None:
    found = sure("x86_64", "f0 48 ff 07 48 ff ce 75 f7 c3", 4)
    assert found.mnemonic == "lock inc"


def test_code_behind_bytes_that_are_none_is_decoded() -> None:
    """A JIT compiler's own data before its method; 06 is no instruction in 64-bit mode."""
    found = sure("x86_64", "06" * 150 + "41ba01000000 f04d0fc15510 90", 162)
    assert found is not None and (found.mnemonic, found.displacement) == ("lock xadd", 16)


def test_code_that_is_not_known_gives_nothing() -> None:
    assert Decoder("x86_64", Bytes(b"")).operands(1, BASE + 8) == ()


def test_i386_code_in_its_own_mode() -> None:
    decoder = Decoder(
        "x86_64", Bytes(bytes.fromhex("40 f0 0f c7 0f 90"))
    )  # inc %eax; lock cmpxchg8b (%edi)
    assert decoder.sure(1, BASE + 5, 32).address(REGISTERS) == REGISTERS[5]


def test_an_i386_machine_decodes_its_own_mode_without_being_asked() -> None:
    decoder = Decoder(
        "i386", Bytes(bytes.fromhex("40 f0 ff 83 00 ff ff ff 90"))
    )  # inc %eax; lock incl -0x100(%ebx)
    found = decoder.sure(1, BASE + 8)
    assert found.access == "atomic" and decoder.mnemonic(1, BASE) == "inc"
    assert found.address([0, 0x10] + [0] * 8) == 0xFFFFFF10, "addresses have 32 bits"


@pytest.mark.parametrize(
    ("code", "mnemonic", "base", "size"),
    [
        ("1f2003d5 410020b8 1f2003d5", "ldadd", 2, 4),  # ldadd w0,w1,[x2]
        ("1f2003d5 4100e0f8 1f2003d5", "ldaddal", 2, 8),  # ldaddal x0,x1,[x2]
        ("1f2003d5 5f0020f8 1f2003d5", "stadd", 2, 8),  # stadd x0,[x2]
        ("1f2003d5 617ca0c8 1f2003d5", "cas", 3, 8),  # cas x0,x1,[x3]
        ("1f2003d5 4180e0f8 1f2003d5", "swpal", 2, 8),  # swpal x0,x1,[x2]
    ],
)
def test_atomics_of_arm64(code: str, mnemonic: str, base: int, size: int) -> None:
    found = sure("arm64", code, 8)
    assert (found.mnemonic, found.base, found.size) == (mnemonic, base, size)


def test_an_llsc_loop_of_arm64() -> None:
    # ldaxr x2,[x0]; add x2,x2,#1; stlxr w3,x2,[x0]; [sample] cbnz w3,.-12
    found = sure("arm64", "02fc5fc8 42040091 02fc03c8 a3ffff35", 12)
    assert (found.mnemonic, found.base, found.access) == ("stlxr", 0, "atomic")


def test_a_stack_access_of_arm64_is_left_out() -> None:
    decoder = Decoder("arm64", Bytes(bytes.fromhex("e00300f9 1f2003d5")))  # str x0,[sp]
    assert decoder.operands(1, BASE + 4) == ()


# Of `for turn.Load()%2 != int64(i) && !stop.Load() {}` by Go 1.26: what is left of the division is
# compared, and both ways out meet at one jump.
GO_TURN = (
    "488b0d39fd1000 4889ca 48c1e93f 4801d1 4883e1fe 4829ca 4839d0 740d 8b0d39fa1000 85c9 0f94c1 "
    "eb06 31c9 0f1f4000 84c9 75cc c3"
)
# Of a sequence lock's reader by rustc 1.95: it asks whether the first value is even before it loads
# the second one.
RUST_RETRY = (
    "0fb605415f0400 84c0 752f 488b150e5f0400 488b050f5f0400 488b0d105f0400 f6c201 75db "
    "488b35f45e0400 4839d6 75cf 4801d8 4801c8 4889c3 0fb605075f0400 84c0 74c6 c3"
)


@pytest.mark.parametrize(
    ("code", "at", "role"),
    [
        ("488b07 4885c0 74f8 c3", 0, "waits"),  # 1: mov (%rdi),%rax; test %rax,%rax; je 1b
        ("f390 48833f00 74f8 c3", 2, "waits"),  # 1: pause; cmpq $0,(%rdi); je 1b
        ("488b07 4801c1 48ffce 75f5 c3", 0, ""),  # a loop that sums up and counts
        ("488b07 488903 4885c0 74f5 c3", 0, ""),  # a loop that copies
        ("f0480fc107 4889c6 c3", 0, "old value"),  # lock xadd %rax,(%rdi); mov %rax,%rsi
        ("f0480fc107 c3", 0, "old value"),  # returned
        ("f0480fc107 b801000000 c3", 0, ""),  # overwritten
        ("f0480fc10f c3", 0, ""),  # lock xadd %rcx,(%rdi): lost at the return
        # A sequence lock's reader: both loads of the sequence, and no data in between.
        ("8b07 488b7708 488b4f10 8b17 39d0 75f0 a801 75ec c3", 0, "retries"),
        ("8b07 488b7708 488b4f10 8b17 39d0 75f0 a801 75ec c3", 10, "retries"),
        ("8b07 488b7708 488b4f10 8b17 39d0 75f0 a801 75ec c3", 2, ""),
        # A queue's cell, whose place is computed from another word, which is no wait either.
        ("488b17 4889d0 83e007 48c1e004 488b0c06 4829d1 75ea c3", 13, "retries"),
        ("488b17 4889d0 83e007 48c1e004 488b0c06 4829d1 75ea c3", 0, ""),
        ("488b00 4885c0 75f8 c3", 0, ""),  # a list is followed to its end
        ("4883c008 483b10 75f7 c3", 4, ""),  # an array is searched
        ("480304ce 48ffc1 833f00 74f4 c3", 7, ""),  # a table is summed up until a flag is set
        ("488b07 833800 74f8 c3", 3, "waits"),  # what a pointer leads to
        ("488b07 833800 74f8 c3", 0, ""),  # the pointer itself
        ("833f00 7506 837f0400 74f5 c3", 5, "waits"),  # one of two flags
        (GO_TURN, 0, "waits"),
        (RUST_RETRY, 11, "retries"),
        (RUST_RETRY, 37, "retries"),
        (RUST_RETRY, 18, ""),  # the data
        (RUST_RETRY, 0, ""),  # the flag that ends it
        ("8b07 85c0 7506 ffc1 39d1 7cf4 c3", 0, "waits"),  # a bounded spin
        ("8b07 85c0 750a 486bdb03 ffc1 39d1 7cf0 c3", 0, ""),  # it computes until a flag is set
        ("8b07 85c0 7506 03048e ffc1 39d1 7cf1 c3", 0, ""),  # or sums a table up
        ("488b0f 83e101 4839c8 7409 4883c708 4839f7 75ec c3", 0, ""),  # a table's even numbers
        ("8b17 8b4708 f6c201 75f6 8b37 85f6 75f0 c3", 0, ""),  # what is read again is not compared
        ("8b17 8b4708 f6c201 75f6 8b37 85f6 75f0 c3", 10, ""),
        ("8b17 8b4708 f6c201 75f6 8907 8b37 39d6 75ee c3", 0, ""),  # it stores in between
        ("8b17 8b4708 f6c201 75f6 8b37 39d6 75f0 c3", 0, "retries"),  # the same without
        ("f048832f01 7501 90 c3", 0, "zero"),  # lock subq $1,(%rdi); jne
        ("f00fc107 83f801 7401 90 c3", 0, "zero"),  # lock xadd %eax,(%rdi); cmp $1,%eax; je
        ("f04c0fc107 6690 49ffc8 7501 90 c3", 0, "zero"),  # the same with dec, as Go has it
        ("f00fc107 83f809 7401 90 c3", 0, "old value"),  # compared with nine
        ("f00fc107 85c0 7401 90 c3", 0, "old value"),  # the first of several
        ("f048832f01 b801000000 c3", 0, ""),  # what is left does not matter
        ("8707 31c0 c3", 0, ""),  # xchg %eax,(%rdi); xor %eax,%eax: a store that is a fence, too
        ("8707 85c0 c3", 0, "takes"),  # xchg %eax,(%rdi); test %eax,%eax
        ("8707 b801000000 c3", 0, ""),  # a store that is a fence
        ("8707 85c0 75fa c3", 0, "waits"),  # 1: xchg %eax,(%rdi); test %eax,%eax; jne 1b
        ("31c0 8707 85c0 74f8 c3", 2, "takes"),  # until a box is filled: no lock
    ],
)
def test_what_an_access_is_for(code: str, at: int, role: str) -> None:
    assert Decoder("x86_64", Bytes(bytes.fromhex(code))).role(1, BASE + at) == role


@pytest.mark.parametrize(
    ("code", "at", "loop"),
    [
        ("f390 48833f00 74f8 c3", 2, (0, 6, False)),  # 1: pause; cmpq $0,(%rdi); je 1b
        # 1: xchg %eax,(%rdi); test %eax,%eax; je 3f; 2: mov (%rdi),%eax; test %eax,%eax; je 1b;
        # pause; jmp 2b; 3: ret
        ("8707 85c0 740a 8b07 85c0 74f4 f390 ebf6 c3", 6, (0, 14, False)),
        ("8707 85c0 7408 8b07 85c0 74f4 f390 c3", 6, (0, 10, False)),
        ("ffca 488b07 4885c0 75f6 c3", 2, (0, 8, True)),  # 1: dec %edx; mov (%rdi),%rax …
        ("48890e 48833f00 74f8 c3", 3, None),  # 1: mov %rcx,(%rsi); cmpq $0,(%rdi); je 1b+1
        ("488b07 4885c0 c3", 0, None),
        ("f0ff07 74fb c3", 0, None),  # 1: lock incl (%rdi); je 1b
        # A jump to a byte from which on the code reads otherwise: mov $…,%ecx is the whole load.
        ("b948833f00 75f9 c3", 1, None),
        ("b92e2e8707 75f9 c3", 3, None),
        (GO_TURN, 0, (0, 50, False)),
        (RUST_RETRY, 11, None),
        ("8707 85c0 75fa c3", 0, (0, 4, False)),  # 1: xchg %eax,(%rdi); test %eax,%eax; jne 1b
        ("31c0 f00fb10f 75f8 c3", 2, (0, 6, False)),  # 1: xor %eax,%eax; lock cmpxchg …; jne 1b
        ("89d0 f00fb10f f390 75f6 c3", 2, (0, 8, False)),  # the same by mov, and a pause
        ("8707 85c0 7404 f390 ebf6 c3", 0, (0, 8, False)),  # the same with a pause and a jump out
        ("31c0 8707 85c0 74f8 c3", 2, None),  # until a box is filled, or that is emptied:
        ("31c0 8707 85c0 7504 f390 ebf4 c3", 2, None),
        ("f00fba2f00 72f9 c3", 0, (0, 5, False)),  # 1: lock btsl $0,(%rdi); jb 1b
        # Tries that succeed once no other thread disturbs them: what was found is wanted next.
        ("f00fb10f 75fa c3", 0, None),  # 1: lock cmpxchg %ecx,(%rdi); jne 1b
        ("8d4801 f00fb10f 75f7 c3", 3, None),  # 1: lea 1(%rax),%ecx; lock cmpxchg …; jne 1b
        ("8b07 8d4801 f00fb10f 75f5 c3", 5, None),  # the same, and the word is loaded anew
        ("83f001 f00fb10f 75f7 c3", 3, None),  # 1: xor $1,%eax; lock cmpxchg …; jne 1b
        ("8b16 89d0 f00fb10f 75f6 c3", 4, None),  # what is wanted comes from another word
        # What was taken is worked on, and more is taken: no wait.
        ("31c0 488707 4885c0 7407 e800000000 ebef c3", 2, None),
        ("31c0 488707 4885c0 7406 488b4808 ebf0 c3", 2, None),
        ("4883c708 488707 4885c0 75f4 c3", 4, None),  # a table is emptied
        ("890e 8707 85c0 75f8 c3", 2, None),  # it stores
        # s_lock() of PostgreSQL waits at the load, and takes by the exchange.
        ("0fb603 84c0 75f9 4489e0 f08603 84c0 75ef c3", 0, (0, 15, False)),
        ("0fb603 84c0 75f9 4489e0 f08603 84c0 75ef c3", 10, None),
    ],
)
def test_a_loop_that_waits_reaches_to_its_last_jump(code: str, at: int, loop) -> None:
    found = Decoder("x86_64", Bytes(bytes.fromhex(code))).wait_loop(1, BASE + at)
    wanted = loop and (BASE + loop[0], BASE + loop[1], loop[2])
    assert (found and found[:3]) == wanted


@pytest.mark.parametrize(
    ("code", "at", "turn"),
    [
        # 1: mov (%rdi),%eax; cmp %ebx,%eax; je 2f; pause; jmp 1b
        ("8b07 39d8 7404 f390 ebf6 c3", 0, 1),
        ("f390 391f 75fa c3", 2, 1),  # 1: pause; cmp %ebx,(%rdi); jne 1b
        ("f390 833f03 75f9 c3", 2, -1),  # a constant
        ("f390 8b0e 3b0f 75f8 c3", 4, -1),  # 1: pause; mov (%rsi),%ecx; cmp (%rdi),%ecx; jne 1b
        ("8b07 85c0 75fa c3", 0, -1),  # 1: mov (%rdi),%eax; test %eax,%eax; jne 1b
    ],
)
def test_what_a_loop_compares_its_word_with(code: str, at: int, turn: int) -> None:
    found = Decoder("x86_64", Bytes(bytes.fromhex(code))).wait_loop(1, BASE + at)
    assert found and found.turn == turn


HINT_CODE = {
    "pause": "f390", "tpause": "660faef1", "umwait": "f20faef1", "mwaitx": "0f01fb",
    "yield": "3f2003d5", "isb": "df3f03d5", "sb": "ff3003d5", "wfe": "5f2003d5", "wfet": "101003d5",
}  # fmt: skip
"""One of each, as assemblers write it."""


def test_every_hint_that_the_library_waits_by_is_known() -> None:
    headers = (ROOT / "include/linewright/arch").glob("*/wait.h")
    named = {hint for text in headers for hint in re.findall(HINT_ROW, text.read_text())}
    assert named - {"none"} == set(HINTS) == set(HINT_CODE)


@pytest.mark.parametrize("hint", HINTS)
def test_a_function_that_begins_with_a_hint_is_known(hint: str) -> None:
    arch = "arm64" if len(HINT_CODE[hint]) == 8 and HINT_CODE[hint].endswith("d5") else "x86_64"
    code = bytes.fromhex(HINT_CODE[hint])
    plain = {"arm64": "1f2003d5", "x86_64": "90909090"}[arch]  # nop
    assert Decoder(arch, Bytes(code)).hints(1, BASE)
    assert not Decoder(arch, Bytes(bytes.fromhex(plain))).hints(1, BASE)


@pytest.mark.parametrize(
    "code",
    [
        # 1: umonitor %rdi; mov (%rdi),%eax; cmp %esi,%eax; jne 2f; rdtsc …; umwait %ecx; jmp 1b
        "f30faef7 8b07 39f0 750d 0f31 05a0860100 f20faef1 ebe9 c3",
        # 1: mov %rdi,%rax; monitorx; cmp %esi,(%rdi); jne 2f; mov $0xf0,%eax; mwaitx; jmp 1b
        "4889f8 0f01fa 3937 750a b8f0000000 0f01fb ebec c3",
    ],
)
def test_a_loop_that_watches_a_word_waits_for_it(code: str) -> None:
    text = bytes.fromhex(code)
    load = text.index(bytes.fromhex("8b07" if "8b07" in code else "3937"))
    found = Decoder("x86_64", Bytes(text)).wait_loop(1, BASE + load)
    assert found and found.first == BASE and not found.counts


def test_what_an_access_is_for_on_arm64() -> None:
    # 1: ldr x1,[x0]; cbz x1,1b; ret, and ldadd x1,x2,[x0]; mov x3,x2; ret
    assert Decoder("arm64", Bytes(bytes.fromhex("010040f9 e1ffffb4 c0035fd6"))).role(1, BASE)
    # ldadd x1,x2,[x0]; cmp x2,#1; b.eq .+8; nop; ret
    last = "020021f8 5f0400f1 40000054 1f2003d5 c0035fd6"
    assert Decoder("arm64", Bytes(bytes.fromhex(last))).role(1, BASE) == "zero"
    used, lost = "020021f8 e30302aa c0035fd6", "020021f8 c0035fd6"
    assert Decoder("arm64", Bytes(bytes.fromhex(used))).role(1, BASE) == "old value"
    assert Decoder("arm64", Bytes(bytes.fromhex(lost))).role(1, BASE) == ""


def test_code_that_changed_is_decoded_anew() -> None:
    """A page of a JIT compiler, read before it was filled."""
    source = Bytes(bytes(16))
    decoder = Decoder("x86_64", source)
    assert decoder.sure(1, BASE + 4) is None and decoder.operands(1, BASE + 4)
    source.code = bytes.fromhex("f048ff07 c3").ljust(16, b"\0")  # lock incq (%rdi)
    assert decoder.sure(1, BASE + 4) is None
    decoder.forget(1, BASE // 4096)
    assert decoder.sure(1, BASE + 4).mnemonic == "lock inc"


def test_what_an_access_is_for_is_asked_of_its_code_once() -> None:
    """The member that threads contend for and the site's own words ask for it."""
    source = Bytes(bytes.fromhex("f0480fc107 c3"))
    decoder = Decoder("x86_64", source)
    assert decoder.role(1, BASE) == "old value"
    source.code = bytes.fromhex("f0480fc10f c3")
    assert decoder.role(1, BASE) == "old value", "the code was read again"
    decoder.forget(1, BASE // 4096)
    assert decoder.role(1, BASE) == "", "it has changed"


def test_a_close_look_sees_what_the_wide_one_sees() -> None:
    """At every instruction of a large function of what runs this test."""
    maps = Path("/proc/self/maps").read_text().split()
    loaded = {
        word for word in maps if Path(word).name.startswith(("python3", "libpython", "libc."))
    }
    some = [(f, path) for path in loaded for f in module(path).functions]
    function, path = max(some, key=lambda pair: pair[0].size)
    source = Bytes(content(path, function.address, min(function.size, 4000)))
    starts = [i.address for i in Decoder("x86_64", source)._own.forwards(source.code, BASE, 0)]
    wide, close = Decoder("x86_64", source), Decoder("x86_64", source)
    differ = 0
    for ip in starts[20:-20]:
        seen = [
            [o for o in some if -1 <= o.distance <= NEAR]
            for some in (wide.operands(1, ip), close.close(1, ip))
        ]
        differ += [o._replace(joined=False) for o in seen[0]] != [
            o._replace(joined=False) for o in seen[1]
        ]
    assert len(starts) > 500 and differ <= len(starts) // 100


@pytest.mark.parametrize(
    ("arch", "code"),
    [("x86_64", "90 8703 90"), ("x86_64", "90 8603 90"), ("x86_64", "90 f00fb10b 90"),
     ("arm64", "1f2003d5 e00320f8"), ("arm64", "1f2003d5 207c5fc8 1f2003d5")],
)  # fmt: skip
def test_no_atomic_operation_is_passed_over_by_its_bytes(arch: str, code: str) -> None:
    """xchg (%rbx) of 4 bytes and 1, lock cmpxchg; stadd-like ldadd, ldxr before a nop: what is
    decoded at once and what is looked at first agree."""
    source = Bytes(bytes.fromhex(code))
    for after in range(1, len(source.code) + 1):
        whole = [o for o in Decoder(arch, source).operands(1, BASE + after) if o.sure]
        assert Decoder(arch, source).sure(1, BASE + after) == (whole[0] if whole else None)
