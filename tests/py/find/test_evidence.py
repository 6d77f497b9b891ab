# SPDX-License-Identifier: MIT
"""What may be called sharing: for each statement, evidence in which it would be false."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from find.test_movement import contended, samples

from linewright.elf import types
from linewright.find.addresses import Addresses, Stacks
from linewright.find.decode import Decoder
from linewright.find.evidence import (
    Evidence,
    LineEvidence,
    LinePlace,
    SiteKey,
    Thread,
    byte_mask,
    collect,
    paired,
    runs,
    sharing_kind,
)
from linewright.find.line_words import line_text, object_text
from linewright.find.result_document import document
from linewright.find.results import CodeName, Hot, Object
from linewright.find.shared_lines import SharedLines
from linewright.find.space import PAGE, Spaces
from linewright.find.stream import Code, Map, Sample
from linewright.say.document import render_all
from support.find_results import line, result


def thread(
    written: tuple[int, int] | None = None,
    read: tuple[int, int] | None = None,
    when: tuple[int, int] = (0, 10),
) -> Thread:
    """A thread that used these bytes (offset, size) in that stretch of time."""
    return Thread(
        read=byte_mask(*read) if read else 0,
        written=byte_mask(*written) if written else 0,
        first_ns=when[0],
        last_ns=when[1],
    )


def test_two_writers_of_one_word_share_truly() -> None:
    assert sharing_kind([thread((0, 8)), thread((0, 8))]) == "true"


def test_one_overlapping_byte_is_enough() -> None:
    assert sharing_kind([thread((0, 8)), thread((7, 4))]) == "true"


def test_two_writers_of_neighbours_share_falsely() -> None:
    assert sharing_kind([thread((0, 8)), thread((8, 8))]) == "false"


def test_a_reader_of_what_another_writes_shares_truly() -> None:
    assert sharing_kind([thread((0, 8)), thread(read=(0, 4))]) == "true"


def test_a_reader_beside_a_writer_shares_falsely() -> None:
    assert sharing_kind([thread((0, 8)), thread(read=(32, 8))]) == "false"


def test_readers_share_nothing_that_travels() -> None:
    assert sharing_kind([thread(read=(0, 8)), thread(read=(0, 8))]) == "read"


def test_one_thread_is_alone() -> None:
    assert sharing_kind([thread((0, 64))]) == "alone"


def test_threads_one_after_the_other_share_nothing() -> None:
    """A stack that the next thread gets at the same address, a block that is freed and allocated
    again."""
    assert (
        sharing_kind(
            [
                thread((0, 8), when=(0, 10)),
                thread((0, 8), when=(11, 20)),
                thread((0, 8), when=(21, 30)),
            ]
        )
        == "alone"
    )


def test_true_wins_over_false_on_one_line() -> None:
    assert sharing_kind([thread((0, 8)), thread((8, 8)), thread((8, 8))]) == "true"


def test_neighbouring_lines_share_on_128_bytes_only() -> None:
    low, high = (Evidence(LinePlace((1,), n), 1, 64 * n) for n in (0, 1))
    low.threads[1], high.threads[2] = thread((0, 8)), thread((0, 8))
    assert sharing_kind(low.threads.values()) == sharing_kind(high.threads.values()) == "alone"
    assert sharing_kind(paired((low, high))) == "false"


def test_one_thread_on_both_lines_of_a_pair_is_alone() -> None:
    low, high = (Evidence(LinePlace((1,), n), 1, 64 * n) for n in (0, 1))
    low.threads[1] = high.threads[1] = thread((0, 8))
    assert sharing_kind(paired((low, high))) == "alone"


def test_an_access_beyond_the_lines_end_is_cut_there() -> None:
    assert runs(byte_mask(60, 8)) == [(60, 4)]


def test_runs_of_bytes() -> None:
    assert runs(byte_mask(0, 4) | byte_mask(8, 8) | byte_mask(63, 1)) == [(0, 4), (8, 8), (63, 1)]
    assert runs(0) == []


def on_line(*objects: Object, **more: object) -> str:
    """What a line with these objects is called."""
    return line_text(line(objects=list(objects), **more))


def test_a_line_of_several_variables_names_them_all() -> None:
    flag, counters, second, data, *rest = (
        Object("static", symbol="flag"),
        Object("static", symbol="counters"),
        Object("static", 8, symbol="counters"),
        Object("static", 0x18, file="p"),
        *(Object("static", symbol=name) for name in "bcde"),
    )
    assert on_line(counters, second) == "counters"
    assert on_line(flag, counters, second) == "flag, counters"
    assert (
        on_line(flag, counters, second, data, *rest)
        == "flag, counters, static data of p at 0x18, b and 3 more"
    )


def test_an_object_has_its_words_with_and_without_the_place_in_it() -> None:
    call, above = CodeName("p", "make", "/src/p.c:3"), CodeName("p", "main", "")
    block = Object("heap", 8, size=24, allocator=call, caller=above)
    said = "heap block of 24 bytes allocated in make (p.c:3), called from main"
    assert object_text(block) == f"{said}, + 8"
    assert on_line(block, lines=20) == f"{said}, on 20 lines"
    assert object_text(Object("thread_local", 8, "own", thread=7)) == (
        "thread-local own + 8 of thread 7"
    )
    assert object_text(Object("shared_mapping", 64)) == "shared mapping (anonymous) + 0x40"
    mapped = Object("mapping", 64, size=4 << 20)
    assert object_text(mapped) == "anonymous memory, 4 MiB mapped, + 0x40"
    assert on_line(mapped, lines=16) == "anonymous memory, 4 MiB mapped, on 16 lines"
    assert on_line(mapped, lines=16, type="Task", used_fields=["state", "next"]) == (
        "objects of type Task (state, next), on 16 lines"
    )


def table(
    thread_of, lines: int = 200, rounds: int = 12, line_of=None, variable: str = ""
) -> list[Hot]:
    """What is said of a table whose lines one instruction adds to, by the thread and CPU that
    `thread_of` gives of a line and a sequence of random numbers; `line_of` gives the line."""
    spaces, random = Spaces(), Random(1)
    found = LineEvidence(spaces)
    seen: list[Sample] = []
    for n in range(rounds * lines):
        line = (line_of or (lambda random: random.randrange(lines)))(random)
        time = n * 500_000 + random.randrange(10**6)
        tid = thread_of(line, random)
        sample = Sample(time_ns=time, pid=1, tid=tid, cpu=tid, ip=16, bits=64)
        e = found.at(1, 4096 + 64 * line)
        e.touch(tid, 0, 8, True, sample.time_ns)
        e.count(SiteKey(1, 16, "atomic", "lock add"), sample)
        seen.append(sample)
    addresses = Addresses(spaces, Stacks(spaces))
    if variable:
        addresses.code.variable = lambda pid, at: Object(
            "static", at - 4096, variable, "p", start=4096
        )
    return SharedLines(addresses, found, Decoder("x86_64", spaces), seen).shared()


def test_neighbours_that_each_thread_uses_are_all_named() -> None:
    """A pointer that is only read, beside what is written: the line was the pointer's alone."""
    spaces = Spaces()
    where = dict(offset=0, device=0, inode=0, path="", executable=False, shared=False)
    spaces.mapping(Map(time_ns=0, pid=1, start=4096, length=4096, writable=True, **where))
    found = LineEvidence(spaces)
    evidence = found.at(1, 4096)
    for n in range(100):
        sample = Sample(time_ns=n, pid=1, tid=1 + n % 2, cpu=n % 2, ip=16, bits=64)
        evidence.touch(sample.tid, 0, 16, False, n)
        evidence.touch(sample.tid, 16, 8, True, n)
        evidence.count(SiteKey(1, 16, "write", "mov"), sample)
    addresses = Addresses(spaces, Stacks(spaces))

    def variable(pid: int, at: int) -> Object:
        name, start = ("config", 4096) if at < 4112 else ("sink", 4112)
        return Object("static", at - start, name, "p", start=start)

    addresses.code.variable = variable
    seen = evidence.samples_at()
    judge = SharedLines(addresses, found, Decoder("x86_64", spaces), seen)
    (hot,) = judge.shared()
    assert [(what.symbol, what.offset) for what in hot.objects] == [("config", 0), ("sink", 0)]
    assert judge.identity(evidence) == ["static config", "static sink"]


@pytest.mark.parametrize("lines", [200, 25])
def test_a_table_that_is_hot_as_a_whole_is_one_line_of_the_page(lines: int) -> None:
    """Each of its lines has 1.6 % of the time or less, or about 4 %; all of them have all of it."""
    (hot,) = table(lambda line, random: random.choice((1, 2)), lines)
    assert (hot.kind, hot.lines, hot.threads) == ("true", lines, 2)
    assert hot.share.value == 1 and hot.movement.answer != "by_turns"


def test_an_array_that_is_hot_in_the_middle_is_one_line_and_its_one_hot_line_is_another() -> None:
    def both(line: int, random: Random) -> int:
        return random.choice((1, 2))

    def middle(random: Random) -> int:
        return min(24, max(0, round(random.gauss(12, 3))))

    (hot,) = table(both, 25, 100, middle, "words")
    assert hot.lines >= 20 and hot.share.value == 1, "the middle line has 13 % of the time"
    assert len(table(both, 25, 100, middle)) > 1, "lines of the heap may be of unlike objects"

    def one(random: Random) -> int:
        return 12 if random.random() < 0.3 else random.randrange(25)

    alone, rest = sorted(table(both, 25, 100, one, "words"), key=lambda hot: hot.lines)
    assert (alone.lines, alone.address, rest.lines) == (1, 4096 + 64 * 12, 24)


def test_each_instruction_has_its_own_cpus() -> None:
    """One thread stores on one CPU and another loads elsewhere: together they move the line."""
    uses, ticks = samples(np.random.default_rng(2), contended)
    spaces = Spaces()
    found = LineEvidence(spaces)
    evidence = found.at(1, 4096)
    for time, cpu in uses:
        sample = Sample(time_ns=time, pid=1, tid=1 + cpu, cpu=cpu, ip=16 + 16 * cpu, bits=64)
        evidence.touch(1 + cpu, 0, 8, cpu == 0, time)
        evidence.count(SiteKey(1, 16 + 16 * cpu, "write" if cpu == 0 else "read", "mov"), sample)
    seen = 2 * evidence.samples_at()
    judge = SharedLines(Addresses(spaces, Stacks(spaces)), found, Decoder("x86_64", spaces), seen)
    judge._ticks = judge._sites._ticks = ticks
    (hot,) = judge.shared()
    assert hot.movement.answer == "moves"
    assert [site.movement.answer for site in hot.sites] == ["one_cpu", "one_cpu"]
    said = render_all(document(result(hot)).evidence[0].lines)
    assert sum("on one CPU alone" in text for text in said) == 2


def test_a_sequence_lock_of_a_few_fields_is_known_by_its_reader() -> None:
    """The reader's four loads are not lost behind the writer's six stores, which have more samples:
    the advice was to store the sequence elsewhere, which breaks it."""
    spaces = Spaces()
    reader = bytes.fromhex("8b07 488b7708 488b4f10 8b17 39d0 75f0 a801 75ec c3")
    spaces.take(Code(pid=1, address=PAGE, bytes=reader.ljust(PAGE, b"\x90").hex()))
    found = LineEvidence(spaces)
    evidence = found.at(1, 16 * PAGE)
    sites = [(n, True, 11) for n in range(100, 106)] + [(n, False, 9) for n in (2, 6, 0, 10)]
    for at, writes, number in sites:
        for n in range(number):
            evidence.touch(1 + writes, 0, 24, writes, n)
            key = SiteKey(1, PAGE + at, "write" if writes else "read", "mov")
            where = dict(pid=1, tid=1 + writes, ip=PAGE + at, bits=64, registers=[0] * 18)
            evidence.count(key, Sample(time_ns=n, **where))
    seen = evidence.samples_at()
    addresses = Addresses(spaces, Stacks(spaces))
    (hot,) = SharedLines(addresses, found, Decoder("x86_64", spaces), seen).shared()
    assert hot.verdict.advice == ("retries",)


def test_objects_of_one_type_are_summed_up_whatever_uses_them(monkeypatch) -> None:
    """Two instructions in two mappings; either has too few lines to be a table by itself."""
    layout = types.Layout("node", 64, 64, None)
    spaces = Spaces()
    seen = [Sample(time_ns=n, pid=1, tid=1 + n % 2, cpu=0, ip=0, bits=64) for n in range(600)]
    for start in (4096, 1 << 20):
        where = dict(offset=0, device=0, inode=0, path="", executable=False, shared=False)
        spaces.mapping(Map(time_ns=0, pid=1, start=start, length=4096, writable=True, **where))
    found = LineEvidence(spaces)
    for n in range(10):
        for ip, start in ((16, 4096), (32, 1 << 20)):
            e = found.at(1, start + 64 * n)
            for tid in (1, 2):
                sample = Sample(time_ns=n, pid=1, tid=tid, cpu=tid, ip=ip, bits=64)
                e.touch(tid, 0, 8, True, n)
                e.count(SiteKey(1, ip, "atomic", "lock add"), sample)
    addresses = Addresses(spaces, Stacks(spaces))

    def summed(typed) -> list[Hot]:
        judge = SharedLines(addresses, found, Decoder("x86_64", spaces), seen)
        monkeypatch.setattr(judge._fields, "behind", lambda e, key: typed)
        monkeypatch.setattr(judge._fields, "_pointed", lambda e: [])
        return [hot for hot in judge.shared() if hot.lines > 1]

    monkeypatch.setattr(types.Layout, "fields", lambda *_: [types.Field(8, 8, ".hits", "long")])
    (hot,) = summed(types.Accessed(layout, 8))
    assert (line_text(hot), hot.lines, hot.kind) == (
        "objects of type node (.hits), on 20 lines",
        20,
        "true",
    )
    assert {site.offset for site in hot.sites} == {16, 32}
    assert summed(None) == []


def test_a_table_of_which_each_thread_has_its_part_is_not_shared() -> None:
    assert table(lambda line, random: 1 + line // 100) == []


def counted(code: str, *shared: int) -> dict[int, tuple[int, int]]:
    """Samples by line, and how many of them are near, of ten that fall behind code which stores to
    0x10000 by %rdi; %rsp is 0x20000 and %rsi 0x30000. Watchpoints showed these lines to be
    shared."""

    class Code(Spaces):
        def read_code(self, pid, start, end):
            page = bytes.fromhex(code).rjust(8192, b"\x90").ljust(12288, b"\x90")
            return start, page[start - 4096 : end - 4096]

    spaces = Code()
    registers = [0] * 18
    registers[5], registers[7], registers[4] = 0x10000, 0x20000, 0x30000
    at = dict(pid=1, tid=1, cpu=0, ip=4096 + 8192, bits=64, registers=registers)
    found = LineEvidence(spaces)
    for address in shared:
        found.at(1, address).watched = True
    collect([Sample(time_ns=n, **at) for n in range(10)], Decoder("x86_64", spaces), found)
    return {
        e.address: (e.samples, e.near_by_thread.total()) for e in found.known.values() if e.samples
    }


STORE, FENCE, ADDITION = "488907", "f048830c2400", "f048830601"
"""mov %rax,(%rdi); lock orq $0,(%rsp); lock addq $1,(%rsi)."""


def test_a_sample_at_a_fence_counts_once() -> None:
    """It was counted on the stack, which the fence is written as an access to, and on the line that
    the fence waits for: in Java two lines took 63 % and 58 % of the time."""
    assert counted(STORE + FENCE, 0x10000) == {0x10000: (10, 10)}
    assert counted(STORE + FENCE, 0x10000, 0x20000) == {0x10000: (10, 10)}
    assert counted(STORE + FENCE) == {0x20000: (10, 0)}, "no shared line that it waits for is known"


def test_a_sample_at_an_atomic_operation_behind_a_store_counts_once() -> None:
    for shared in ((), (0x10000,), (0x10000, 0x30000)):
        assert counted(STORE + ADDITION, *shared) == {0x30000: (10, 0)}
    assert counted(STORE, 0x10000) == {0x10000: (10, 10)}


class _TwoBranches:
    """0: lock addq $1,(%rax); 5: dec %rcx; 8: jne 0; 10: lock addq $1,(%rdx); 15: jmp 5."""

    code = bytes.fromhex("f048830001 48ffc9 75f6 f048830201 ebf4 c3")

    def read_code(self, pid: int, start: int, end: int) -> tuple[int, bytes]:
        at, until = max(start, 0x1000), min(end, 0x1000 + len(self.code))
        return (at, self.code[at - 0x1000 : until - 0x1000]) if at < until else (end, b"")


def _branches(strays: int) -> list:
    """What two threads touch, of which one adds at each place; the second one's samples fall behind
    its jump in `strays` of 100."""
    registers = [0x8000, 0, 0, 0x8020, *[0] * 14]
    places = [(1, 5)] * 100 + [(2, 5)] * strays + [(2, 15)] * (100 - strays)
    samples = [
        Sample(time_ns=n, pid=1, tid=tid, ip=0x1000 + at, bits=64, registers=registers)
        for n, (tid, at) in enumerate(places)
    ]
    lines = LineEvidence(Spaces())
    collect(samples, Decoder("x86_64", _TwoBranches()), lines)
    (evidence,) = lines.known.values()
    return [runs(evidence.threads[tid].touched) for tid in (1, 2)]


def test_a_thread_that_came_by_a_jump_is_no_user_of_what_stands_before_it() -> None:
    assert _branches(strays=0) == _branches(strays=2) == [[(0, 8)], [(32, 8)]]
    assert _branches(strays=20) == [[(0, 8)], [(0, 8), (32, 8)]], "really there"
