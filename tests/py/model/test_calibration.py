# SPDX-License-Identifier: MIT
"""Calibration: a known truth is found again, what the data do not pin is not claimed, tables are
read strictly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

from linewright.cli import main
from linewright.errors import UserError
from linewright.model import calibration, calibration_report, machine_file, observations, posterior
from linewright.model.calibration import ConstantsFit, correlated
from linewright.model.machine_file import resolve
from linewright.model.observations import Observation
from linewright.model.simulated_target import ModelTarget
from linewright.model.simulator import Simulator, find_model
from linewright.records.files import decode_line
from linewright.schema import Cell, Record
from support.model import CALIBRATED, refusal
from support.published import TABLE, published

START = "arm64-server-generic"


def of_table(text: str, forms) -> list[Observation]:
    """The observations of a published table."""
    return observations.from_records(published.from_table(text, "table")[1], "table", forms=forms)


@pytest.fixture(scope="module")
def forms():
    return ModelTarget(machine_file.find(START)).forms()


def cell(form: str, work: int = 0, spacing: int | None = None) -> Cell:
    operation = {"ldadd": "fetch_add"}.get(form, "add")
    shared = (
        {}
        if spacing is None
        else {"contender": "same_line", "contender_iters": spacing, "threads": 2}
    )
    return Cell(operation=operation, form=form, work="nop_loop", work_iters=work, lines=1, **shared)


CELLS = [
    cell("stadd"),
    cell("stadd", spacing=10),
    cell("stadd", 300),
    cell("ldadd"),
    cell("ldadd", 300, 10),
    cell("ldadd", 200),
    cell("ldadd", 200, 10),
    cell("prfm_keep_stadd"),
]


@pytest.fixture(scope="module")
def recovered():
    """A fit to what the model itself says of a machine with other constants, and that machine's
    constants."""
    machine = machine_file.find(START)
    truth = {
        "far": 55.0,
        "far_busy": 60.0,
        "near_load": 3.5,
        "near_store": 5.5,
        "acknowledge": 20.0,
    }
    with Simulator(find_model(), windows=3, ops=300) as simulator:
        plan = calibration.plan_of([Observation(cell=c, ns=1.0, p95_ns=1.0) for c in CELLS])
        figures = simulator.ask(resolve(machine, truth), plan)
        seen = [
            Observation(cell=c, ns=f.p50, p95_ns=f.p50) for c, f in zip(CELLS, figures, strict=True)
        ]
        fit = calibration.fit(machine, seen, simulator, lambda text: None)
        after = simulator.ask(resolve(machine, dict(zip(fit.names, fit.values, strict=True))), plan)
    return truth, fit, seen, after


def test_a_known_truth_is_predicted_and_found(recovered) -> None:
    truth, fit, seen, after = recovered
    for observation, figure in zip(seen, after, strict=True):
        assert figure.p50 == pytest.approx(observation.ns, rel=0.05), observation.cell.id
    found = dict(zip(fit.names, fit.values, strict=True))
    assert {"near_load", "near_store"} <= set(fit.pinned())
    for name in ("near_load", "near_store"):
        assert found[name] == pytest.approx(truth[name], rel=0.06)


def test_what_the_data_do_not_pin_is_not_claimed(recovered) -> None:
    _, fit, seen, _ = recovered
    machine = machine_file.find(START)
    result = calibration.fitted(machine, fit, seen, "a test", "")
    for name, before in machine.constants.items():
        after = result.constants[name]
        if name in fit.pinned():
            assert after.provenance == "fitted"
            assert after.high / after.low < before.high / before.low
        else:
            assert (after.provenance, after.low, after.high) == (
                before.provenance,
                before.low,
                before.high,
            )
    # A request's four steps always come together: no cell tells one from another.
    assert not {"request", "home", "snoop"} <= set(fit.pinned())


def test_the_report_has_the_intervals_of_the_file() -> None:
    """A machine file's interval is kept, whatever a Gaussian believes beyond it."""
    machine = machine_file.find(START)
    before = machine.constants["near_load"]
    fit = bare(["near_load"], [0.99 * before.high], [[0.01]])
    result = calibration.fitted(machine, fit, [], "a test", "")
    after = result.constants["near_load"]
    assert after.high == before.high < 0.99 * before.high * np.exp(0.1)
    (line,) = calibration_report.identifiability(fit, result)[1:]
    assert line == f"  near_load = {after.value:.3g} ({after.low:.3g} to {after.high:.3g}, 90 %)"


def test_constants_that_are_known_together_only_are_named() -> None:
    # Two constants of 10 whose sum is known to 0.1, and one that is known by itself.
    covariance = [[0.09, -0.08995, 0.0], [-0.08995, 0.09, 0.0], [0.0, 0.0, 0.0001]]
    fit = bare(["request", "home", "far"], [10.0, 10.0, 50.0], covariance)
    ((one, other, correlation),) = correlated(fit)
    assert (one, other) == ("request", "home")
    assert correlation == pytest.approx(-1, abs=0.01)
    apart = bare(["request", "home"], [10.0, 10.0], [[0.09, 0.0], [0.0, 0.09]])
    assert correlated(apart) == []


def bare(names: list[str], values: list[float], covariance: list[list[float]]) -> ConstantsFit:
    sigma = np.sqrt(np.diag(covariance)).tolist()
    return ConstantsFit(
        names=names,
        values=values,
        sigma_before=[1.0] * len(names),
        sigma_after=sigma,
        covariance=covariance,
        evaluations=1,
    )


def test_a_posterior_that_is_no_gaussian_is_found_from_a_wrong_one() -> None:
    # Truth: a is 0 or more (a half normal), b follows a with a slope of 2; the Gaussian knows
    # neither and is too wide.
    def density(thetas: np.ndarray) -> np.ndarray:
        a, b = thetas.T
        return np.where(a < 0, -np.inf, -0.5 * (a / 0.1) ** 2 - 0.5 * ((b - 2 * a) / 0.02) ** 2)

    fit = bare(["a", "b"], [1.0, 1.0], [[0.09, 0.0], [0.0, 0.09]])
    bounds = (np.array([0.0, -2.0]), np.full(2, 2.0))
    chain, accepted = posterior.walk(
        density, np.array([0.05, 0.1]), np.array(fit.covariance), bounds, 1500, lambda text: None
    )
    found = posterior.with_chain(fit, chain, accepted)
    assert found.sampled.settled
    low, high = np.log(found.sampled.low), np.log(found.sampled.high)
    assert low[0] == pytest.approx(0.1 * 0.0627, abs=0.006) and high[0] == pytest.approx(
        0.1 * 1.96, rel=0.1
    )
    covariance = np.array(found.covariance)
    assert covariance[0, 1] / covariance[0, 0] == pytest.approx(2, rel=0.1)
    again, _ = posterior.walk(
        density, np.array([0.05, 0.1]), np.array(fit.covariance), bounds, 20, lambda text: None
    )
    twice, _ = posterior.walk(
        density, np.array([0.05, 0.1]), np.array(fit.covariance), bounds, 20, lambda text: None
    )
    assert (again == twice).all()


def test_a_short_chain_says_that_it_is_short(recovered) -> None:
    _, fit, seen, _ = recovered
    machine = machine_file.find(START)
    with ThreadPoolExecutor(2) as two:
        found = posterior.sample(fit, machine, seen, two, 2, lambda text: None, 6)
        assert (
            posterior.sample(fit, machine, seen, two, 3, lambda text: None, 6) == found
        )  # however it is divided
    assert not found.sampled.settled
    assert "not settled" in calibration_report.posterior_lines(found)[1]
    for name, low, value, high in zip(
        found.names,
        calibration.intervals(found)[0],
        found.values,
        calibration.intervals(found)[1],
        strict=True,
    ):
        assert low <= value <= high, name
    result = calibration.fitted(machine_file.find(START), found, seen, "a test", "")
    assert len(result.posterior) == calibration.POSTERIOR_DRAWS
    assert "not asked" in calibration_report.posterior_lines(fit)[0]


def handoff(launch: int, windows: list[float]) -> Record:
    cell = Cell(
        operation="handoff",
        form="cmpxchg_blind",
        contender="same_line",
        threads=2,
        placement="cpus:0,1",
    )
    return Record(
        linewright_record=2,
        context_id="c",
        id=cell.id,
        cell=cell,
        plan="handoff",
        launch=launch,
        status="ok",
        window_ns=windows,
    )


def test_handoffs_of_cpus_that_were_moved_are_two_placements() -> None:
    records = [handoff(0, [250, 252, 248, 251, 249]), handoff(1, [250, 60, 61, 62, 61, 60])]
    near, far = observations.from_records(records, "file", moved=True)
    assert (near.cell.placement, far.cell.placement) == ("same_l3", "other_l3")
    assert near.ns == pytest.approx(61) and far.ns == pytest.approx(250)
    (both,) = observations.from_records(records, "file")
    assert both.cell.placement == "cpus:0,1"
    store = [
        msgspec.structs.replace(r, cell=msgspec.structs.replace(r.cell, form="store_load"), id="s")
        for r in records
    ]
    with_store = observations.from_records(
        [*records, msgspec.structs.replace(store[0], window_ns=[375.0] * 6)], "file", moved=True
    )
    assert (
        with_store[2].cell.placement == "other_l3"
    )  # as the other form shows for the one launch that it ran in
    (steady,) = observations.from_records(
        [handoff(0, [250, 252, 248, 251, 249, 250, 251, 252])], "file", moved=True
    )
    assert steady.cell.placement == "cpus:0,1"
    few = [handoff(0, [250, 252, 248, 251, 249, 60, 61, 62])]  # three windows make no placement
    assert len(observations.from_records(few, "file", moved=True)) == 1


def test_a_cell_that_only_the_model_finds_unsteady_is_a_miss(forms) -> None:
    """Such cells take part in no fit; that the model was off there is not lost with them."""
    found = of_table(TABLE.read_text(), forms)
    steady = [o for o in found if o.cell.id.startswith("add/llsc_add/") and not o.unsteady]
    contended = [o for o in steady if o.cell.contender == "same_line"]
    with Simulator(find_model(), windows=6, ops=1000) as simulator:
        why = calibration.obstacles(machine_file.find(CALIBRATED), contended, simulator)
    assert len(why) == 3 and set(why) <= {"metastable", "starved"}
    misses = machine_file.find(CALIBRATED).misses["llsc_add/same_line"]
    assert len(misses) == len(contended) and np.exp(misses) == pytest.approx(0.75, abs=0.06)


def test_too_few_cells_are_refused() -> None:
    few = [Observation(cell=c, ns=1, p95_ns=1) for c in CELLS[:3]]
    assert "3 steady cells" in refusal(calibration.fit, machine_file.find(START), few, None, print)


def test_the_published_table_is_read_whole(forms) -> None:
    found = of_table(TABLE.read_text(), forms)
    assert len(found) == 32
    assert sum(o.unsteady for o in found) == 3
    assert found[3].cell.contender_iters == 10


@pytest.mark.parametrize(
    ("row", "words"),
    [("lock_add,none,,0,5,5,5", "no form 'lock_add'"), ("stadd,none,,0,0,5,5", "takes no time")],
)
def test_rows_that_nothing_can_be_fitted_to_are_refused(row: str, words: str, forms) -> None:
    with pytest.raises(UserError, match=words):
        of_table(f"{','.join(published.COLUMNS)}\n{row}\n", forms)


def test_simulated_records_calibrate_nothing(tmp_path: Path) -> None:
    target = ModelTarget(machine_file.find(CALIBRATED))
    plan = msgspec.structs.replace(
        calibration.plan_of([Observation(cell=CELLS[0], ns=1, p95_ns=1)]), launches=1
    )
    record = next(event for event in target.run(plan) if isinstance(event, Record))
    again = decode_line(msgspec.json.encode(record), "record")
    assert "the records are simulated" in refusal(observations.from_records, [again], "file")


def test_fits_and_sampling_run_on_a_dask_cluster(tmp_path: Path, capsys) -> None:
    distributed = pytest.importorskip("distributed")
    rows = TABLE.read_text().splitlines()
    few = [
        row
        for row in rows
        if row.startswith(("#", "form", "stadd", "ldadd,none", "prfm_keep_stadd,none"))
    ]
    table = tmp_path / "few.jsonl"
    contexts, rows = published.from_table("\n".join(few) + "\n", "few.csv")
    table.write_bytes(b"".join(msgspec.json.encode(v) + b"\n" for v in (*contexts, *rows)))
    out = tmp_path / "found.toml"
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        arguments = [
            "--from",
            START,
            "-o",
            str(out),
            "--set",
            "steps=2",
            "--set",
            f"scheduler={cluster.scheduler_address}",
        ]
        assert main(["model", "calibrate", str(table), *arguments]) == 0
    said = capsys.readouterr().out
    assert "Cross-validation" in said and "The posterior was sampled with the model itself" in said
    machine = machine_file.load(out)
    assert machine.calibrated
    assert machine.name == "found"
    assert machine.calibrated_on


def test_an_existing_machine_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "found.toml"
    out.write_text("")
    assert main(["model", "calibrate", str(TABLE), "--from", START, "-o", str(out)]) == 2
    assert (
        main(
            [
                "model",
                "calibrate",
                str(TABLE),
                "--from",
                "nowhere",
                "-o",
                str(tmp_path / "other.toml"),
            ]
        )
        == 2
    )
