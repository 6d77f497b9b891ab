# SPDX-License-Identifier: MIT
"""Which lines are watched: those that two threads can meet on, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest
from find.test_stream import START, encoded

from linewright.find import sources
from linewright.find.evidence import sharing_kind
from linewright.find.space import PAGE
from linewright.find.stream import Code, Map, Sample, Watch

BASE, DATA = 0x40_0000, 0x80_0000


STORE = "488907"  # mov %rax,(%rdi)
ADD = "f0480107"  # lock add %rax,(%rdi)
RDI = 5


def registers(of_thread: int) -> list[int]:
    """Each thread stores to a word of its own."""
    values = [0] * 18
    values[RDI] = DATA + 8 * (of_thread - 1)
    return values


def gathered(
    threads: list[tuple[int, int]],
    shared: bool,
    answer: Callable[[list[str]], Iterable[Watch]] = lambda sent: (),
    code: str = STORE,
) -> tuple[sources.SamplerOutput, list[str]]:
    """Where these (process and thread) store by turns: the run, which has these outcomes of the
    watchpoints that were asked for, and the requests for them."""
    text = bytes.fromhex(code).ljust(PAGE, b"\x90")
    sent: list[str] = []

    def stream() -> Iterator[bytes]:
        yield from encoded(START)
        for pid in {pid for pid, _ in threads}:
            where = dict(offset=0, device=1, inode=7 if shared else 0, path="", executable=False)
            where |= dict(writable=True, shared=shared)
            yield from encoded(
                Map(time_ns=0, pid=pid, start=DATA, length=PAGE, **where),
                Code(pid=pid, address=BASE, bytes=text.hex()),
            )
        for n in range(200):
            pid, tid = threads[n % len(threads)]
            where = dict(pid=pid, tid=tid, cpu=0, ip=BASE + (4 if code == ADD else 3), bits=64)
            yield from encoded(Sample(time_ns=n, registers=registers(tid), **where))
        for one in answer(sent):  # what follows from an answer is answered, too
            yield from encoded(one)

    return sources.gather(stream(), sent.append), sent


def outcome(request: str, **hit) -> Watch:
    _, number, tid, address, length, mode, _ = request.split()
    return Watch(
        id=int(number),
        tid=int(tid),
        address=int(address),
        length=int(length),
        reads=mode == "rw",
        outcome="hit" if hit else "silent",
        after_ns=1,
        **hit,
    )


@pytest.mark.parametrize(
    ("threads", "shared", "expected"),
    [
        ([(1, 1), (1, 2)], False, {1, 2}),
        ([(1, 1), (2, 2)], True, {1, 2}),
        ([(1, 1)], False, set()),
        ([(1, 1)], True, set()),
        ([(1, 1), (2, 2)], False, set()),
    ],
)
def test_memory_that_one_thread_alone_can_reach_is_not_watched(threads, shared, expected) -> None:
    """Forked processes have their own copy at the same address."""
    _, sent = gathered(threads, shared)
    assert {int(request.split()[2]) for request in sent} == expected


@pytest.mark.parametrize(("missing", "expected"), [(16, 1), (1, 1), (0, 0)])
def test_lines_that_were_not_watched_to_the_end_are_counted(missing: int, expected: int) -> None:
    """Eight words in two threads are sixteen watchpoints."""
    run, sent = gathered(
        [(1, 1), (1, 2)], False, lambda sent: map(outcome, sent[: len(sent) - missing])
    )
    assert len(sent) == 16
    notes = sources.findings_of(run, "program").notes
    assert [n.values for n in notes if n.kind == "unwatched"] == [[1]] * expected


@pytest.mark.parametrize(
    ("code", "registers_there", "expected"),
    [
        (STORE, registers(1), "false"),
        (STORE, registers(2), "true"),
        (STORE, [], "true"),
        (STORE + "f3aa", registers(1), "true"),  # rep stosb, which is not done
    ],
)
def test_a_hit_counts_where_its_instruction_was(code, registers_there, expected) -> None:
    """Two threads store to a word each, and the first one's store is said to have met the second
    one's watchpoint as well. Only where its instruction stores to its own word is that not so: the
    kernel's accesses have no registers, and a string instruction stops at each of its own."""

    def answer(sent: list[str]) -> Iterator[Watch]:
        for request in sent:
            tid, address = map(int, request.split()[2:4])
            if address == DATA + 8 * (tid - 1):
                yield outcome(request, ip=BASE + 3, registers=registers(tid))
            elif (tid, address) == (1, DATA + 8):
                yield outcome(
                    request, ip=BASE + 3 * bool(registers_there), registers=registers_there
                )
            else:
                yield outcome(request)

    run, _ = gathered([(1, 1), (1, 2)], False, answer, code)
    (line,) = [e for e in run.lines.known.values() if e.watched]
    assert sharing_kind(line.threads.values()) == expected


def test_what_the_kernel_reads_is_no_threads_access() -> None:
    """Two threads store to a word each, whose address the register for frame pointers holds: at
    each sample the kernel reads that word and the next one, where it looks for a caller."""

    def answer(sent: list[str]) -> Iterator[Watch]:
        for request in sent:
            tid, address = map(int, request.split()[2:4])
            own = DATA + 8 * (tid - 1)
            if address == own and " w " in request:
                yield outcome(request, ip=BASE + 3, registers=registers(tid))
            elif address == own + 8 and " rw " in request:
                yield outcome(request, ip=0, registers=[])
            else:
                yield outcome(request)

    run, sent = gathered([(1, 1), (1, 2)], False, answer)
    assert any(" rw " in request for request in sent)
    (line,) = [e for e in run.lines.known.values() if e.watched]
    assert sharing_kind(line.threads.values()) == "false"


@pytest.mark.parametrize("hits", [True, False])
def test_a_watchpoint_that_was_met_had_a_register(hits: bool) -> None:
    """Though all others were refused."""

    def answer(sent: list[str]) -> Iterator[Watch]:
        for request in sent:
            tid, address = map(int, request.split()[2:4])
            met = outcome(request, ip=BASE + 3, registers=registers(tid))
            mine = hits and address == DATA + 8 * (tid - 1)
            yield met if mine else msgspec.structs.replace(met, outcome="refused")

    run, _ = gathered([(1, 1), (1, 2)], False, answer)
    kinds = {n.kind for n in sources.findings_of(run, "program").notes}
    assert "refused" in kinds and ("refused_all" in kinds) != hits


@pytest.mark.parametrize(("answered", "open_lines"), [(0, 1), (16, 0)])
@pytest.mark.parametrize(("code", "plain"), [(STORE, True), (ADD, False)])
def test_what_watchpoints_never_came_to_may_be_shared(answered, open_lines, code, plain):
    """For the guard: a line of plain stores that one run has no time to watch is not new in the
    next. Of atomics samples tell."""

    def silent(sent: list[str]) -> list[Watch]:
        return [outcome(request) for request in sent[:answered]]

    output, _ = gathered([(1, 1), (1, 2)], False, silent, code)
    assert len(output.watcher.perhaps_shared()) == (open_lines if plain else 0)
    found = sources.findings_of(output, "program")
    assert len(found.unsure) == (open_lines if plain else 0)
    for line in found.unsure:
        assert line.samples > 30 and not line.atomics, "those near the store"
        assert set(line.identity) <= set(found.seldom)
    assert found.met or not plain, "watched to the end or not"


@pytest.mark.parametrize("hits", [True, False])
def test_a_line_may_be_shared_some_of_whose_watchpoints_were_refused(hits: bool) -> None:
    """It counted as one that no two threads share, and a guard was green: another tracer had some.
    Where the others show that it is shared, that is known."""

    def answer(sent: list[str]) -> Iterator[Watch]:
        for request in sent:
            tid, address = map(int, request.split()[2:4])
            met = outcome(request, ip=BASE + 3, registers=registers(tid))
            own = address == DATA + 8 * (tid - 1)
            silent = met if own and hits else outcome(request)
            busy = msgspec.structs.replace(met, outcome="busy")
            yield busy if (own and not hits) or address == DATA + 56 else silent

    output, _ = gathered([(1, 1), (1, 2)], False, answer)
    assert len(output.watcher.perhaps_shared()) == (not hits)


@pytest.mark.parametrize(("threads", "turns", "alone"), [(1, 0, [200]), (2, 199, [])])
def test_the_guard_is_told_of_turns_and_of_lines_that_one_thread_used(threads, turns, alone):
    """However many samples a line has: the other thread may have had no CPU."""
    output, _ = gathered([(1, tid) for tid in range(1, threads + 1)], False, code=ADD)
    found = sources.findings_of(output, "program")
    assert found.turns == turns
    assert [line.samples for line in found.unsure if line.atomics] == alone
    assert not found.seldom, "200 samples tell whether one thread alone uses the line"
