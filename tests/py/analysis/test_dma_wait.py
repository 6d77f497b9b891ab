# SPDX-License-Identifier: MIT
"""One wait a list or one an entry: said where the times show it, and where they would show the
opposite the opposite is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from linewright.analysis.cache_fit import mapping_wait
from linewright.say.document import render
from linewright.say.family_sentences import dma_sentences as sentences
from linewright.schema import Cell, Interval


def interval(median: float, half: float = 10.0) -> Interval:
    return Interval(median_ns=median, low_ns=median - half, high_ns=median + half)


def mapping(
    ns: float,
    operation: str = "dma_map",
    direction: str = "to_device",
    entries: int = 64,
    half: float = 10.0,
):
    params = {
        "entry_bytes": 4096,
        "entries": entries,
        "state": "dirty_beyond",
        "direction": direction,
    }
    cell = Cell(operation=operation, form="dma_sg", width_bits=8, lines=1, params=params)
    return SimpleNamespace(
        cell=cell, id=cell.id, exposed=interval(ns, half), issue=interval(ns + 500, half)
    )


def passes(
    once: float, each: float, operation: str = "clean", form: str = "dc_cvac", entries: int = 64
):
    made = []
    for wait, ns in (("once", once), ("each", each)):
        params = {
            "entry_bytes": 4096,
            "entries": entries,
            "state": "dirty_beyond",
            "align_bytes": 0,
            "wait": wait,
        }
        cell = Cell(operation=operation, form=form, width_bits=8, lines=1, params=params)
        made.append(SimpleNamespace(cell=cell, id=cell.id, exposed=None, issue=interval(ns)))
    return made


@pytest.mark.parametrize(
    "ns, once, each, half, found",
    [
        (1020, 1000, 3000, 10, "once"),
        (2900, 1000, 3000, 10, "each"),
        (2000, 1000, 3000, 10, ""),  # in the middle
        (1020, 1000, 3000, 2500, ""),  # too uncertain
        (1000, 1000, 1015, 1, ""),  # the passes do not separate
    ],
)
def test_a_time_is_judged_by_the_passes_over_the_same_list(ns, once, each, half, found):
    one = mapping(ns, half=half)
    assert mapping_wait([one, *passes(once, each)], one) == found


def test_a_pass_over_another_list_or_by_another_instruction_says_nothing():
    one = mapping(1020)
    assert mapping_wait([one, *passes(1000, 3000, entries=16)], one) == ""
    assert mapping_wait([one, *passes(1000, 3000, "clean_invalidate", "dc_civac")], one) == ""


def test_every_operation_is_spoken_of_once():
    batched = mapping(1020)
    serial = mapping(2950, "dma_unmap", "from_device")
    members = [
        batched,
        serial,
        *passes(1000, 3000),
        *passes(1000, 3000, "clean_invalidate", "dc_civac"),
    ]
    said = [render(sentence) for sentence in sentences(members)]
    assert said[0] == "This kernel waits once per list in dma_map."
    assert said[1] == "This kernel waits behind each entry in dma_unmap."


def test_lists_that_contradict_each_other_leave_it_undecided():
    members = [
        mapping(1020),
        *passes(1000, 3000),
        mapping(2950, entries=16),
        *passes(1000, 3000, entries=16),
    ]
    assert "undecided" in render(sentences(members)[0])


def test_a_coherent_architecture_is_called_so():
    said = sentences([mapping(5.0), *passes(1000, 3000, form="clwb")])
    assert [render(sentence) for sentence in said] == [
        "This kernel maintains no caches for DMA: devices of this architecture see them."
    ]
    assert sentences([]) == []
