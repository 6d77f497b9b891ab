"""What may be called sharing: for each statement, evidence in which it would be false."""

from __future__ import annotations

from linewright.find.evidence import Evidence, Place, Thread, byte_mask, judge, paired, runs
from linewright.find.objects import Object, Objects


def thread(
    written: tuple[int, int] | None = None, read: tuple[int, int] | None = None, when: tuple[int, int] = (0, 10)
) -> Thread:
    """A thread that used these bytes (offset, size) in that stretch of time."""
    return Thread(
        read=byte_mask(*read) if read else 0,
        written=byte_mask(*written) if written else 0,
        first_ns=when[0],
        last_ns=when[1],
    )


def test_two_writers_of_one_word_share_truly() -> None:
    assert judge([thread((0, 8)), thread((0, 8))]) == "true"


def test_one_overlapping_byte_is_enough() -> None:
    assert judge([thread((0, 8)), thread((7, 4))]) == "true"


def test_two_writers_of_neighbours_share_falsely() -> None:
    assert judge([thread((0, 8)), thread((8, 8))]) == "false"


def test_a_reader_of_what_another_writes_shares_truly() -> None:
    assert judge([thread((0, 8)), thread(read=(0, 4))]) == "true"


def test_a_reader_beside_a_writer_shares_falsely() -> None:
    assert judge([thread((0, 8)), thread(read=(32, 8))]) == "false"


def test_readers_share_nothing_that_travels() -> None:
    assert judge([thread(read=(0, 8)), thread(read=(0, 8))]) == "read"


def test_one_thread_is_alone() -> None:
    assert judge([thread((0, 64))]) == "alone"


def test_threads_one_after_the_other_share_nothing() -> None:
    """A stack that the next thread gets at the same address, a block that is freed and allocated again."""
    assert (
        judge([thread((0, 8), when=(0, 10)), thread((0, 8), when=(11, 20)), thread((0, 8), when=(21, 30))]) == "alone"
    )


def test_true_wins_over_false_on_one_line() -> None:
    assert judge([thread((0, 8)), thread((8, 8)), thread((8, 8))]) == "true"


def test_neighbouring_lines_share_on_128_bytes_only() -> None:
    low, high = (Evidence(Place((1,), n), 1, 64 * n) for n in (0, 1))
    low.threads[1], high.threads[2] = thread((0, 8)), thread((0, 8))
    assert judge(low.threads.values()) == judge(high.threads.values()) == "alone"
    assert judge(paired(low, high)) == "false"


def test_one_thread_on_both_lines_of_a_pair_is_alone() -> None:
    low, high = (Evidence(Place((1,), n), 1, 64 * n) for n in (0, 1))
    low.threads[1] = high.threads[1] = thread((0, 8))
    assert judge(paired(low, high)) == "alone"


def test_an_access_beyond_the_lines_end_is_cut_there() -> None:
    assert runs(byte_mask(60, 8)) == [(60, 4)]


def test_runs_of_bytes() -> None:
    assert runs(byte_mask(0, 4) | byte_mask(8, 8) | byte_mask(63, 1)) == [(0, 4), (8, 8), (63, 1)]
    assert runs(0) == []


def test_a_line_of_several_variables_names_them_all(monkeypatch) -> None:
    known = {0: "flag", 8: "counters", 16: "counters + 8", 24: "data at 0x18", 32: "b", 40: "c", 48: "d", 56: "e"}
    objects = Objects(None, None, None, None)
    monkeypatch.setattr(objects, "name", lambda pid, address: Object(known[address], "static"))
    assert objects.all_names(1, [8, 16]) == "counters"
    assert objects.all_names(1, [0, 8, 16]) == "flag, counters"
    assert objects.all_names(1, list(known)) == "flag, counters, data at 0x18, b and 3 more"
