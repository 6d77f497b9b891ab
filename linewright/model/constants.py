# SPDX-License-Identifier: MIT
"""Every constant that a machine file states: its unit, the range that is allowed, and what it
means."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Unit = Literal["ns", "count", "thousandths"]


class ConstantKind(Struct, frozen=True):
    """One constant's name, unit, allowed range and meaning."""

    name: str
    unit: Unit
    low: float
    high: float
    meaning: str


LONGEST_NS = 1e6
"""A millisecond: no constant of a machine is longer."""


def _ns(name: str, meaning: str, low: float = 0.001) -> ConstantKind:
    return ConstantKind(name, "ns", low, LONGEST_NS, meaning)


KINDS: dict[str, ConstantKind] = {
    kind.name: kind
    for kind in (
        _ns("unit", "one unit of chained work: one dependent one-cycle instruction"),
        _ns("nop_iter", "one iteration of the loop around one NOP"),
        _ns("nop_exit", "mispredicted end of a NOP loop of `nop_exit_from` iterations or more", 0),
        ConstantKind(
            "nop_exit_from",
            "count",
            1,
            1e6,
            "iterations from which the end of a NOP loop is mispredicted",
        ),
        _ns("loop", "one iteration of the loop around the operation"),
        ConstantKind(
            "window",
            "count",
            1,
            10_000,
            "instructions that a core runs ahead of an incomplete operation",
        ),
        ConstantKind("store_buffer", "count", 1, 1000, "posted operations that a core holds"),
        _ns("near_load", "load-form atomic on a line that the core holds unique"),
        _ns("near_store", "store-form atomic on a line that the core holds unique"),
        _ns("near_swap", "swap on a line that the core holds unique"),
        _ns("near_compare", "compare-and-swap on a line that the core holds unique"),
        _ns("exclusive_load", "LDXR on a line that the core holds"),
        _ns("exclusive_store", "STXR on a line that the core holds unique"),
        _ns("plain_load", "plain load on a line that the core holds"),
        _ns("plain_store", "plain store on a line that the core holds unique"),
        _ns("prefetch", "issue of a prefetch for write", 0),
        _ns("fence", "a wait for earlier operations, once they are complete", 0),
        _ns("retry", "a mispredicted retry of a compare-and-swap or exclusive loop", 0),
        _ns("poll", "time between two looks at a line that has not changed"),
        _ns("request", "a request's way to the home, distance left out"),
        _ns("home", "look-up at the home", 0),
        _ns("snoop", "a snoop's way to the holder and the look-up there, distance left out"),
        _ns("data", "data's way to the requester, distance left out"),
        _ns("memory", "more time where no cache holds the line", 0),
        _ns("acknowledge", "the acknowledgement's way back to the home, distance left out", 0),
        _ns("far", "execution of a far atomic at the home until the core knows"),
        _ns("far_busy", "execution of a far atomic at the home until the next transaction"),
        ConstantKind("far_outstanding", "count", 1, 1000, "far atomics of one core under way"),
        _ns(
            "prefetch_dropped",
            "more time at the home for a far atomic whose prefetch was dropped",
            0,
        ),
        ConstantKind(
            "jitter", "thousandths", 0, 500, "each message's time varies by this share up and down"
        ),
        _ns("maintain_issue", "issue of the maintenance of one line"),
        _ns("maintain_busy", "maintenance of one line, from issue to completion"),
        _ns("maintain_drain", "the wait behind the last line, once it is complete", 0),
        ConstantKind("maintain_outstanding", "count", 1, 1000, "lines under maintenance at a time"),
    )
}

DISTANCES: dict[str, ConstantKind] = {
    kind.name: kind
    for kind in (
        _ns("distance_same_l3", "one way between places that share a last-level cache", 0),
        _ns(
            "distance_other_l3",
            "one way between places under different last-level caches of a socket",
            0,
        ),
        _ns("distance_other_socket", "one way between sockets", 0),
    )
}
"""One-way distances: the model is given matrices that are made of them."""
