"""Which lines are watched: those that two threads can meet on, and no others."""

from __future__ import annotations

import pytest
from find.test_stream import START, encoded

from linewright.find import live, sources
from linewright.find.sharing_schema import Code, Map, Sample, Watch
from linewright.find.space import PAGE

BASE, DATA = 0x40_0000, 0x80_0000


def gathered(
    threads: list[tuple[int, int]], shared: bool, answers: int = 0
) -> tuple[live.SamplerOutput, list[str]]:
    """Where these (process and thread) store to one address in turns: the run, which answers the
    first watchpoints, and the requests for them."""
    code = bytes.fromhex("488907").ljust(PAGE, b"\x90")  # mov %rax,(%rdi)
    lines, registers = [START], [0] * 18
    registers[5] = DATA
    for pid in {pid for pid, _ in threads}:
        where = dict(offset=0, device=1, inode=7 if shared else 0, path="", executable=False)
        lines += [
            Map(time_ns=0, pid=pid, start=DATA, length=PAGE, writable=True, shared=shared, **where),
            Code(pid=pid, address=BASE, bytes=code.hex()),
        ]
    for n in range(200):
        pid, tid = threads[n % len(threads)]
        lines.append(
            Sample(time_ns=n, pid=pid, tid=tid, cpu=0, ip=BASE + 3, bits=64, registers=registers)
        )
    lines += [
        Watch(id=n + 1, tid=1, address=DATA, length=8, reads=False, outcome="silent", after_ns=1)
        for n in range(answers)
    ]
    sent: list[str] = []
    return live.gather(encoded(*lines), sent.append), sent


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
    run, sent = gathered([(1, 1), (1, 2)], False, 16 - missing)
    assert len(sent) == 16
    notes = sources.result_of(run, "program").notes
    assert sum("not to the end: 1." in text for text in notes) == expected
