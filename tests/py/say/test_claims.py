# SPDX-License-Identifier: MIT
"""The benchmark of claims itself: it sees a false claim where there is one, and few runs already
keep their promise."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from support.places import ROOT


@pytest.fixture(scope="module")
def claims():
    sys.path.insert(0, str(ROOT / "bench" / "claims"))
    try:
        import claims

        yield claims
    finally:
        sys.path.remove(str(ROOT / "bench" / "claims"))


@pytest.mark.slow
def test_few_runs_keep_the_promise_and_find_what_is_planted(claims, capsys):
    assert claims.main(["--runs", "6", "--only", "verdict, drift"]) == 0
    assert claims.main(["--runs", "6", "--only", "compare, in turns, drift"]) == 0
    assert claims.main(["--runs", "6", "--only", "compare in turns finds 2.0"]) == 0
    out = capsys.readouterr().out
    assert "of 6 (" in out and "MISSED" not in out


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in turns", "one run after the other"])
def test_equal_files_pass_the_documented_check(claims, capsys, way: str):
    """`compare A B --fail-above 5%` of one program against itself left with 1 in 35 to 60 of 60."""
    assert claims.main(["--runs", "6", "--only", f"check, {way}, 1.5 %"]) == 0
    assert "MISSED" not in capsys.readouterr().out


def test_a_broken_rule_is_missed(claims, capsys, monkeypatch):
    """Called different without a launch's luck: every run holds a false claim, and the benchmark
    says so."""
    monkeypatch.setattr(claims, "verdict_is_false", lambda noise, rng: True)
    assert claims.main(["--runs", "6", "--only", "verdict, drift"]) == 1
    assert "MISSED: verdict, drift" in capsys.readouterr().out


def test_the_simulated_machine_has_the_costs_and_the_noise_that_it_is_given(claims):
    plan = [c for c in claims.cells("x86_64") if c.form == "lock_add"]
    costs = claims.equal_costs(plan)
    noise = claims.noise_of(0.10)
    contexts, records = claims.run(
        plan, costs, noise, np.random.default_rng(1), "x86_64", range(400)
    )
    summary = next(
        s
        for s in claims.summarise(contexts, records)
        if s.cell.contender == "none" and not s.cell.work_iters
    )
    assert summary.issue.median_ns == pytest.approx(5.0, rel=0.02)
    logs = np.log(list(summary.of_launches("issue_ns").values()))
    assert logs.std() == pytest.approx(0.10, rel=0.15)
