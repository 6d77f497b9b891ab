# SPDX-License-Identifier: MIT
"""Streams that break off, or that are none of ours; no byte sequence makes more than one line of
complaint."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linewright.errors import LinewrightError, RunError, UserError
from linewright.find import sources, stream
from linewright.find.stream import AnyLine, End, Failure, Sample, Start, Task

START = Start(
    linewright_find=1,
    source="timer",
    arch="x86_64",
    scope="program",
    pid=1,
    period_ns=1000,
    kernel=True,
    cpus=2,
    left_out=0,
    command=["x"],
    time_ns=0,
)
SAMPLE = Sample(time_ns=1, pid=1, tid=1, ip=4096, bits=64, registers=[0] * 18, chain=[4096], top=[])


def encoded(*lines: AnyLine) -> list[bytes]:
    return [msgspec.json.encode(line) + b"\n" for line in lines]


def test_a_whole_stream() -> None:
    found = sources.gather(encoded(START, SAMPLE, End(samples=1)))
    assert found.end is not None and len(found.samples) == 1 and not found.damaged


@pytest.mark.parametrize(("began_ns", "left"), [(5, 0), (10, 2)])
def test_who_goes_on_is_told_by_time(began_ns: int, left: int) -> None:
    """CPUs' buffers are read one after another: a process's end may be read before its beginning.
    A later process may have the number of one that ended."""
    ended = Task(time_ns=9, event="exit", pid=2, tid=2)
    began = Task(time_ns=began_ns, event="start", pid=2, tid=2, parent=1)
    for lines in ((ended, began), (began, ended)):
        assert sources.gather(encoded(START, *lines, End(samples=0))).left() == left


def test_a_cut_last_line_is_left_out() -> None:
    lines = encoded(START, SAMPLE, SAMPLE)
    found = sources.gather([*lines[:2], lines[2][:20]])
    assert len(found.samples) == 1 and found.end is None


def test_damage_keeps_what_came_before() -> None:
    found = sources.gather([*encoded(START, SAMPLE), b"garbage\n", *encoded(SAMPLE)])
    assert len(found.samples) == 1 and "line 3" in found.damaged


def test_no_start_no_result() -> None:
    with pytest.raises(RunError, match="no start"):
        sources.gather(encoded(SAMPLE))
    with pytest.raises(RunError, match="nothing"):
        sources.gather([])


@pytest.mark.parametrize(
    ("code", "error"), [(2, UserError), (3, RunError), (4, stream.SamplingRefusal)]
)
def test_a_failure_is_raised_as_what_it_is(code: int, error: type) -> None:
    with pytest.raises(error, match="because"):
        sources.gather(encoded(Failure(why="because", code=code)))


@given(
    st.lists(
        st.one_of(st.binary(max_size=80), st.sampled_from(encoded(START, SAMPLE, End(samples=1)))),
        max_size=8,
    )
)
def test_any_bytes_are_a_result_or_one_complaint(lines: list[bytes]) -> None:
    try:
        sources.gather([line if line.endswith(b"\n") else line + b"\n" for line in lines])
    except LinewrightError as error:
        assert "\n" not in str(error)


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(stream.StreamError):
        list(stream.read([b"x" * (stream.LONGEST + 1) + b"\n"]))
