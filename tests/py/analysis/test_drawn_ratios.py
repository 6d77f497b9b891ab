# SPDX-License-Identifier: MIT
"""Two simulated cells against each other: within each draw of the constants, with the model's own
error, and never over launches, which differ by random numbers alone."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.analysis.contrast import cost_ratio, over_draws, paired_t, simulated_contrast
from linewright.analysis.findings import findings
from linewright.analysis.machine_figures import Price
from linewright.analysis.summary import Summary
from linewright.say.document import render_all
from linewright.say.machine_document import documents
from linewright.say.machine_tables import ratio_text
from linewright.schema import Cell, DrawnCosts
from linewright.show.terminal import legend_of, narrowed
from support.analysis_samples import SIMULATED, cell, contexts_of, points, priced, simulation

LOAD, STORE = cell("ldadd", order="relaxed"), cell("stadd", order="relaxed")
DRAWS = 40


def spread(by: float, seed: int) -> np.ndarray:
    """Factors of a constant that is known up to this standard deviation of its logarithm."""
    return np.exp(np.random.default_rng(seed).normal(0, by, DRAWS))


def drawn(ns: float, factors: np.ndarray, misses: tuple[float, ...] = ()) -> DrawnCosts:
    return DrawnCosts(ns=(ns * factors).tolist(), misses=list(misses))


def two(first: DrawnCosts | None, second: DrawnCosts | None, one=STORE, other=LOAD, **ns: float):
    """Two simulated cells, 10 ns and 11 ns unless `first` or `second` says another figure."""
    costs = [(one, ns.get("ns", 10.0), first), (other, ns.get("than", 11.0), second)]
    records = simulation(costs)
    by_id = {s.id: s for s in summarise(contexts_of(records, **SIMULATED), records)}
    return by_id[one.id], by_id[other.id]


def answers(first: Summary, second: Summary) -> list[tuple[str, str]]:
    (found,) = findings([first, second])
    return [(row.answer, row.why) for row in found.rows]


def test_launches_of_a_simulation_say_nothing_of_what_the_constants_leave_open() -> None:
    """The store form costs 2 % more in truth; by the constants' values it is 9 % cheaper, in every
    launch."""
    first, second = two(drawn(10, spread(0.1, 1)), drawn(11, spread(0.1, 2)))
    truth = 1.02
    launches = paired_t(first.of_launches("issue_ns"), second.of_launches("issue_ns"))
    assert launches.high < 0.95 and not launches.low <= truth <= launches.high
    found = cost_ratio(first, second)
    assert found.low <= found.value <= found.high and found.low <= truth <= found.high
    assert found.confidence == 0.9
    assert answers(first, second) == [("undecided", "model")]


def test_what_both_cells_have_in_common_cancels() -> None:
    """Both take between half and twice as long, which the figures' own bands must say; that one is
    cheaper holds in every draw, and must be claimed."""
    common = spread(0.4, 1)
    first, second = two(drawn(10, common), drawn(11, common))
    assert first.issue.high_ns > second.issue.low_ns, "the figures' bands overlap"
    found = simulated_contrast(first, second, "issue")
    assert (found.low, found.high) == pytest.approx((10 / 11, 10 / 11), rel=0.002)
    assert answers(first, second) == [("cheaper", "")]


def test_one_launch_is_enough_for_a_simulation() -> None:
    common = spread(0.4, 1)
    records = simulation([(STORE, 10, drawn(10, common)), (LOAD, 11, drawn(11, common))], count=1)
    assert answers(*summarise(contexts_of(records, **SIMULATED), records)) == [("cheaper", "")]


def test_a_model_that_missed_such_cells_is_not_sure_of_their_ratio() -> None:
    common = spread(0.4, 1)
    first, second = two(drawn(10, common, (-0.3, -0.1)), drawn(11, common))
    found = cost_ratio(first, second)
    assert found.low < 10 / 11 * 1.01 and found.high > 10 / 11 * math.exp(0.25)
    assert answers(first, second) == [("undecided", "model")]


def test_the_same_is_claimed_where_the_whole_band_is_near() -> None:
    common = spread(0.4, 1)
    first, second = two(drawn(10, common), drawn(10.1, common), than=10.1)
    assert answers(first, second) == [("same", "")]


def test_without_draws_a_ratio_is_exact_and_nothing_is_claimed() -> None:
    for one, other in ((None, None), (drawn(10, spread(0.1, 1)), None)):
        first, second = two(one, other)
        found = cost_ratio(first, second)
        assert found.low == found.value == found.high == pytest.approx(10 / 11, rel=0.002)
        assert found.confidence == 0
        assert answers(first, second) == [("undecided", "no_draws")]


def test_a_price_without_draws_has_no_interval() -> None:
    price = Price(
        group="count", alone=None, contended=None, versus=priced(0.25, 0.25, 0.25, over="nothing")
    )
    assert (price.ratio, ratio_text(price)) == (None, "no interval")
    band = msgspec.structs.replace(price, versus=priced(0.25, 0.2, 0.3, over="draws"))
    assert band.versus.cheaper and ratio_text(band) == "3.3–5.0× less"


def test_exposed_costs_are_compared_without_the_work_that_both_have() -> None:
    """A unit of work of 0.25 ns is as uncertain as what is compared, and in both."""
    common = spread(0.2, 1)
    one, other = (Cell(**{**vars_of(c), "work_iters": 40}) for c in (STORE, LOAD))
    first, second = two(drawn(20, common), drawn(21, common), one, other)
    found = simulated_contrast(first, second, "exposed")
    assert found.scale == "ns" and found.low <= -1 <= found.high
    assert found.low > -2 and found.high < -0.5


def vars_of(a_cell: Cell) -> dict:
    return {name: getattr(a_cell, name) for name in a_cell.__struct_fields__}


def test_one_cell_on_a_machine_and_on_its_copy_is_missed_alike() -> None:
    common, misses = spread(0.4, 1), (-0.4, 0.1)
    first, second = (
        two(drawn(ns, common, misses), drawn(11, common))[0] for ns in (10 * 0.97, 10.0)
    )
    found = over_draws(first, second, "ratio", 0.97)
    assert (found.low, found.high) == pytest.approx((0.97, 0.97))
    other = two(drawn(10, common, (0.2,)), drawn(11, common))[0]
    apart = over_draws(first, other, "ratio", 0.97)
    assert apart.low < 0.9 and apart.high > 1.1, "calibrated otherwise, and missed otherwise"


@pytest.mark.slow
def test_a_band_holds_the_ratio_of_as_many_machines_as_it_says() -> None:
    """Machines drawn from what is believed of the constants: a common one, and one of each form."""
    held = {"draws": 0, "launches": 0}
    machines = 200
    for seed in range(machines):
        common, *own = (spread(by, 10 * seed + n) for n, by in enumerate((0.3, 0.1, 0.1)))
        # The truth is one more draw of the same.
        truth = 10 / 11 * own[0][0] / own[1][0]
        factors = [(common * each)[1:] for each in own]
        first, second = two(drawn(10, factors[0]), drawn(11, factors[1]))
        found = {
            "draws": cost_ratio(first, second),
            "launches": paired_t(first.of_launches("issue_ns"), second.of_launches("issue_ns")),
        }
        for name, c in found.items():
            held[name] += c.low <= truth <= c.high
    assert 0.83 * machines <= held["draws"] <= 0.96 * machines
    assert held["launches"] < 0.05 * machines


def told(draws: bool, sure: bool) -> dict[str, str]:
    """What a machine's page says of simulated forms, of which the store form is 30 % cheaper."""
    common = spread(0.2, 1)
    alone, beside = {"ldadd": 10.0, "stadd": 7.0}, {"ldadd": 40.0, "stadd": 28.0}
    costs = [
        (c, ns, drawn(ns, common * (1 if sure else spread(0.4, at)), ()) if draws else None)
        for at, (c, ns) in enumerate(points(alone, contended=beside))
    ]
    records = simulation(costs)
    known = contexts_of(records, **SIMULATED)
    (found,) = documents(summarise(known, records), known, "evidence")
    parts = ("uses", "settings", "undecided", "limits")
    said = {part: " ".join(render_all(found.of(part))) for part in parts}
    said["legend"] = legend_of(*narrowed(found.table("matrix")))
    return said | {topic.name: " ".join(render_all(topic.lines)) for topic in found.evidence}


def test_a_page_recommends_what_holds_in_the_draws() -> None:
    said = told(draws=True, sure=True)
    assert "stadd" in said["uses"] and "LINEWRIGHT_ATOMICS=void=store" in said["settings"]
    assert "launches" not in said["undecided"] + said["limits"]


@pytest.mark.parametrize(("draws", "why"), [(True, "its own error"), (False, "without draws")])
def test_a_page_claims_nothing_else_and_asks_for_no_launches(draws: bool, why: str) -> None:
    said = told(draws=draws, sure=False)
    assert said["uses"] == "" and "void=store" not in said["settings"]
    assert "corrected" not in said["legend"] or not draws, "bands are not corrected"
    assert why in said["undecided"]
    if draws:
        assert why in said["settings"] and "measure more" not in said["settings"]
        assert "launches would decide" not in " ".join(said.values())
