# SPDX-License-Identifier: MIT
"""Address spaces: what replaces what, what a fork inherits, and what shared memory is called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linewright.find.addresses import Stacks
from linewright.find.space import Key, Spaces
from linewright.find.stream import Code, Map, Task


def mapping(
    start: int, length: int, *, pid: int = 1, path: str = "", offset: int = 0, **more
) -> Map:
    about = {"device": 0, "inode": 0, "executable": False, "writable": True, "shared": False} | more
    return Map(time_ns=0, pid=pid, start=start, length=length, offset=offset, path=path, **about)


def test_a_new_mapping_splits_what_lay_there() -> None:
    spaces = Spaces()
    spaces.mapping(mapping(0x1000, 0x5000, path="/a"))
    spaces.mapping(mapping(0x2000, 0x1000, path="/b"))
    assert [spaces.find(1, at).path for at in (0x1FFF, 0x2000, 0x2FFF, 0x3000)] == [
        "/a",
        "/b",
        "/b",
        "/a",
    ]
    assert spaces.find(1, 0x3000).offset == 0x2000
    assert spaces.find(1, 0x6000) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=20))
def test_mappings_are_what_was_mapped_last(steps: list[tuple[int, int]]) -> None:
    spaces, pages = Spaces(), {}
    for number, (page, count) in enumerate(steps):
        spaces.mapping(mapping(page * 4096, count * 4096, path=str(number)))
        pages |= dict.fromkeys(range(page, page + count), str(number))
    for page in range(45):
        found = spaces.find(1, page * 4096)
        assert (found.path if found else None) == pages.get(page)


def test_a_forked_process_has_its_parents_mappings_and_code_until_it_executes() -> None:
    spaces = Spaces()
    spaces.mapping(mapping(0x1000, 0x1000, path="/a"))
    spaces.take(Code(pid=1, address=0x1000, bytes="90" * 4096))
    spaces.task(Task(time_ns=1, event="start", pid=2, tid=2, parent=1))
    assert spaces.find(2, 0x1000).path == "/a"
    assert spaces.read_code(2, 0x1000, 0x1002) == (0x1000, b"\x90\x90")
    spaces.task(Task(time_ns=2, event="exec", pid=2, tid=2, name="b"))
    assert spaces.find(2, 0x1000) is None
    assert spaces.find(1, 0x1000).path == "/a"


def test_a_new_thread_keeps_the_mappings_of_its_process() -> None:
    spaces = Spaces()
    spaces.mapping(mapping(0x1000, 0x1000, path="/a"))
    spaces.task(Task(time_ns=1, event="start", pid=1, tid=9, parent=1))
    assert spaces.find(1, 0x1000).path == "/a" and spaces.process_of[9] == 1


def test_shared_memory_is_one_place_wherever_it_is_mapped() -> None:
    spaces = Spaces()
    spaces.mapping(mapping(0x10000, 0x2000, pid=1, inode=5, device=3, shared=True))
    spaces.mapping(mapping(0x70000, 0x1000, pid=2, inode=5, device=3, shared=True, offset=0x1000))
    assert spaces.key(1, 0x11040) == spaces.key(2, 0x70040) == Key((3, 5), 0x1040)


def test_the_first_sysv_segment_of_a_machine_has_number_0() -> None:
    spaces = Spaces()
    for pid, start in ((1, 0x10000), (2, 0x70000)):
        spaces.mapping(mapping(start, 0x1000, pid=pid, path="/SYSV00000000", shared=True))
    assert spaces.key(1, 0x10040) == spaces.key(2, 0x70040)


def test_a_heap_that_several_stacks_lie_in_is_no_stack() -> None:
    """Go's goroutines have their stacks among the objects of its heap."""
    spaces = Spaces()
    spaces.mapping(mapping(0x1000000, 64 << 20))
    stacks = Stacks(spaces)
    stacks.sample(1, 11, 0x1100000)
    stacks.sample(1, 12, 0x1200000)
    assert stacks.owner(1, 0x1100100) == 11 and stacks.owner(1, 0x1200100) == 12
    assert stacks.owner(1, 0x3000000) is None
    alone = Stacks(spaces)
    alone.sample(1, 11, 0x1100000)
    assert alone.owner(1, 0x1100000 + (4 << 20)) == 11


def test_private_memory_at_one_address_is_two_places() -> None:
    spaces = Spaces()
    for pid in (1, 2):
        spaces.mapping(mapping(0x10000, 0x1000, pid=pid))
    assert spaces.key(1, 0x10000) != spaces.key(2, 0x10000)


def test_code_ends_where_the_next_page_is_unknown() -> None:
    spaces = Spaces()
    spaces.take(Code(pid=1, address=0x2000, bytes="cc" * 4096))
    assert spaces.read_code(1, 0x1FF0, 0x2004) == (0x2000, b"\xcc" * 4)
    assert spaces.read_code(1, 0x3000, 0x3004) == (0x3004, b"")
