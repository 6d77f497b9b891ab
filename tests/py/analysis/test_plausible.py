# SPDX-License-Identifier: MIT
"""Every implausible result is flagged with its cause, and plausible ones are left alone."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.say.words import MEANING, explain
from linewright.schema import Cpu, Quantiles
from support.analysis_samples import cell, context, launches, published, record, together

RNG = np.random.default_rng


def flags(*records, **changes):
    contexts = [context(i, **changes) for i in dict.fromkeys(r.context_id for r in records)]
    return [set(s.flags) - {"one_launch"} for s in summarise(contexts, records)]


def noisy(a_cell, median, seed=1, relative=0.003, **changes):
    return record(a_cell, median * np.exp(RNG(seed).normal(0, relative, 64)), **changes)


def test_names_and_sentences():
    for name, sentence in MEANING.items():
        assert re.fullmatch(r"[a-z0-9_]{1,64}", name) and sentence.endswith(".")
    assert explain("doubled").startswith("Exactly 2.00")
    assert "docs/reference/records.md" in explain("a_probe_flag")


def test_plausible_results_carry_no_flags():
    assert (
        flags(
            noisy(cell("plain_add"), 0.5),
            noisy(cell("lock_add"), 5.0, 2),
            noisy(cell("lock_xadd"), 5.1, 3),
            noisy(cell("lock_add", contender="placebo", threads=2), 5.0, 4),
        )
        == [set()] * 4
    )


def test_faster_than_a_plain_add_or_than_one_cycle():
    floor, quick = flags(noisy(cell("plain_add"), 2.0), noisy(cell("lock_add"), 1.5))
    assert "faster_than_floor" in quick and "faster_than_floor" not in floor
    (alone,) = flags(noisy(cell("lock_add"), 0.2))
    assert "faster_than_floor" in alone


def test_exactly_doubled_under_a_contender_on_one_cpu():
    """A contender pinned to a CPU that does not exist shares the timed thread's: a row of exactly
    2.00 times."""
    alone, doubled = flags(
        noisy(cell("lock_add"), 5.0),
        noisy(cell("lock_add", contender="same_line", threads=2), 10.0, 2),
    )
    assert "doubled" in doubled and "doubled" not in alone
    alone, placebo = flags(
        noisy(cell("lock_add"), 5.0),
        noisy(cell("lock_add", contender="placebo", threads=2), 10.0, 2),
    )
    assert "doubled" in placebo
    assert (
        "doubled"
        not in flags(
            noisy(cell("lock_add"), 5.0), noisy(cell("lock_add", contender="same_line"), 11.0)
        )[1]
    )


def test_a_doubling_between_separate_cores_is_a_result():
    cpus = [
        Cpu(cpu=0, core=0, socket=0),
        Cpu(cpu=1, core=0, socket=0),
        Cpu(cpu=2, core=1, socket=0),
    ]
    same = cell("lock_add", contender="same_line", threads=2, lines=8)
    for where, accused in (([0, 2], False), ([0, 1], True), ([0, 0], True)):
        found = flags(noisy(cell("lock_add"), 5.0), noisy(same, 10.0, 2, cpus=where), cpus=cpus)
        assert ("doubled" in found[1]) == accused, where


def test_negative_beyond_noise():
    a_cell = cell("lock_add", work_iters=10)
    (found,) = flags(*launches(a_cell, 5.0, RNG(3), between=0.003, baseline_ns=6.0))
    assert "negative_cost" in found
    (alone,) = flags(
        noisy(a_cell, 5.0, baseline_ns=list(6.0 * np.exp(RNG(3).normal(0, 0.003, 64))))
    )
    assert "negative_cost" not in alone, (
        "a launch may have placed its two loops differently by luck"
    )
    (single,) = flags(record(a_cell, [5.0], baseline_ns=[6.0]))
    assert "negative_cost" not in single, "one window knows no noise"


def test_threads_that_share_a_cpu_are_told_so():
    same = cell("lock_add", contender="same_line", threads=2)
    assert (
        "same_cpu" in flags(noisy(same, 10.0, cpus=[3, 3]))[0]
        and "same_cpu" not in flags(noisy(same, 10.0, cpus=[3, 4]))[0]
    )


def test_a_loop_that_was_optimised_away_is_not_printed_as_a_cost():
    """0.00047 ns per read was once printed as a result."""
    (found,) = flags(noisy(cell("mov_read", operation="read"), 0.00047))
    assert "zero_cost" in found


def test_a_placebo_that_is_not_neutral():
    rng = RNG(4)
    records = launches(cell("lock_add"), 5.0, rng, between=0.004)
    records += launches(cell("lock_add", contender="placebo", threads=2), 6.5, rng, between=0.004)
    assert ["placebo_differs" in f for f in flags(*records)] == [False, True]


@pytest.mark.parametrize("runs", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_a_whole_run_is_seldom_accused(runs):
    """Thirty placebos and thirty operations that work hides: the chance of one false flag is the
    run's, not each cell's."""
    rng, accused = RNG(6), 0
    for _ in range(runs):
        costs = [(cell("lock_add", work_iters=work), 0.0 if work else 5.0) for work in range(31)]
        costs += [(cell("lock_add", order=f"o{i}"), 5.0) for i in range(30)]
        costs += [
            (cell("lock_add", order=f"o{i}", contender="placebo", threads=2), 5.0)
            for i in range(30)
        ]
        records = together(costs, rng, own=0.03, windows=6)
        noise = [
            msgspec.structs.replace(
                r, window_ns=(np.asarray(r.window_ns) + rng.normal(0, 0.2)).tolist()
            )
            for r in records
        ]
        accused += any(f & {"negative_cost", "placebo_differs"} for f in flags(*noise))
    assert accused <= runs // 15, f"{accused} of {runs} runs"


def test_a_neutral_placebo_is_seldom_accused():
    rng = RNG(5)
    accused = 0
    for _ in range(100):
        records = launches(cell("lock_add"), 5.0, rng) + launches(
            cell("lock_add", contender="placebo", threads=2), 5.0, rng
        )
        accused += "placebo_differs" in flags(*records)[1]
    assert accused <= 3


def test_emulated_and_coarse():
    batch = Quantiles(
        of="batch_mean",
        ops_per_sample=10,
        samples=3,
        p50_ns=5,
        p95_ns=5,
        p99_ns=5,
        max_ns=5,
        histogram=[(300, 3)],
    )
    assert "emulated" in flags(noisy(cell("lock_add"), 5.0), emulated=True)[0]
    assert "coarse_clock" in flags(noisy(cell("lock_add"), 5.0, batch=batch), tick_ns=40.0)[0]
    assert "coarse_clock" not in flags(noisy(cell("lock_add"), 5.0, batch=batch), tick_ns=0.01)[0]


def test_without_its_context():
    (found,) = summarise([], [noisy(cell("lock_add"), 5.0)])
    assert found.flags == ["no_context", "one_launch"]


def test_the_probes_own_flags_are_kept():
    assert flags(noisy(cell("lock_add"), 5.0, flags=["slow_clock"])) == [{"slow_clock"}]


@pytest.mark.parametrize("name", ["zero_cost", "faster_than_floor", "doubled", "coarse_clock"])
def test_the_published_table_is_not_accused_of_what_it_cannot_show(name):
    assert not [s.id for s in summarise(*published()) if name in s.flags]
