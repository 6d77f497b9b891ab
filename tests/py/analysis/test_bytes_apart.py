# SPDX-License-Identifier: MIT
"""How far apart two threads' words have to lie: on made-up machines what is found, and what is left
undecided."""

from __future__ import annotations

import pytest

from linewright.analysis import summarise
from linewright.analysis.bytes_apart import ApartAnswers
from linewright.analysis.machine_answers import machines_with_answers
from support.spacing_samples import line_of, machine


def answers(near=line_of, **more) -> ApartAnswers:
    contexts, records = machine(near, **more)
    (found,) = machines_with_answers(summarise(contexts, records), contexts)
    return found.bytes_apart


def enough(found: ApartAnswers) -> set[tuple[str, str, int | None]]:
    return {(kind.operation, kind.half, kind.enough) for kind in found.kinds}


def test_a_line_of_64_bytes_is_enough():
    found = answers()
    assert (found.needed, found.too_near, found.open) == (64, 32, [])
    assert found.neighbour == "none" and 0 <= found.within < 0.10
    assert {e for _, _, e in enough(found)} == {64}


def test_lines_of_128_bytes_are_seen_and_so_is_their_other_half():
    found = answers(
        lambda form, half, d: d < 128 - (64 if half == "upper" else 0),
    )
    assert (found.needed, found.neighbour) == (128, "matters")
    assert {e for _, half, e in enough(found) if half == "upper"} == {64}


def test_a_pair_of_lines_that_moves_together_asks_for_128():
    found = answers(lambda form, half, d: d < 64 or (1.6 if (d, half) == (64, "lower") else 1.0))
    assert (found.needed, found.too_near, found.neighbour) == (128, 64, "matters")
    assert {e for _, half, e in enough(found) if half == "lower"} == {128}
    assert {e for _, half, e in enough(found) if half == "upper"} == {64}


def test_256_bytes():
    found = answers(lambda form, half, d: d < 64 or (1.0 if d >= 256 else 1.5))
    assert (found.needed, found.too_near, found.neighbour) == (256, 128, "none")


def test_where_256_still_cost_more_nothing_is_enough():
    found = answers(lambda form, half, d: d < 64 or (1.0 if d == 512 else 1.5))
    assert (found.needed, found.enough, found.too_near, found.open) == (None, None, 256, [])


def test_readers_may_need_more_than_writers():
    found = answers(lambda form, half, d: d < (128 if form == "apart_read" else 64))
    assert found.needed == 128
    needed = {operation: e for operation, _, e in enough(found)}
    assert needed == {
        "apart_writers": 64, "apart_reader": 128, "apart_writer": 64, "apart_shared": 64,
    }  # fmt: skip


def test_noise_decides_nothing():
    found = answers(own=0.4, within=0.3)
    assert found.needed is None and 64 in found.open
    assert found.neighbour == "undecided"


def test_a_second_state_of_one_distance_is_no_answer():
    """Launches of each cell are 1.5 times slower half of the time: 64 bytes are neither the same as
    512 nor different."""
    found = answers(states=1.5)
    assert found.needed is None and found.neighbour == "undecided"


@pytest.mark.parametrize("launches", [1, 4])
def test_few_launches_are_no_answer(launches):
    found = answers(count=launches)
    assert found.needed is None and found.enough is None and found.too_near == 0
    whys = {d.why for kind in found.kinds for d in kind.nearer}
    assert whys == {"one_launch" if launches == 1 else "few_launches"}


def test_one_half_says_nothing_of_the_pair():
    found = answers(halves=["lower"])
    assert found.needed == 64 and found.neighbour == ""


def test_threads_that_share_a_core_are_seen_by_the_placebo():
    found = answers(placebo=0.6)
    assert found.needed == 64
    assert all(k.placebo.slower for k in found.kinds if k.operation != "apart_shared")
    assert all(k.placebo is None for k in found.kinds if k.operation == "apart_shared")
    assert not any(k.placebo and k.placebo.slower for k in answers().kinds)


@pytest.mark.slow
def test_no_distance_is_called_too_near_or_enough_by_chance():
    """Of 20 runs of a machine with a line of 64 bytes none says that 64 are too near, and of 20 in
    which 64 cost 1.3 times as much none says that they are enough."""
    pair = lambda form, half, d: d < 64 or (1.3 if d == 64 else 1.0)
    for seed in range(2, 22):
        assert answers(seed=seed, own=0.03).too_near == 32
        assert (answers(pair, seed=seed, own=0.03).enough or 128) == 128
