# SPDX-License-Identifier: MIT
"""Plan `cache` and what is read out of its records: terms that were put in come out, and nothing is
said beyond the intervals."""

from __future__ import annotations

import numpy as np
import pytest

from linewright import plans
from linewright.analysis import cache_fit, summarise
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import ask
from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans import definition
from linewright.plans.definition import Inputs
from linewright.say.document import render_all
from linewright.say.family_sentences import cache_sentences
from linewright.say.machine_document import documents
from linewright.schema import Cell, Cpu
from linewright.target import Topology
from support.analysis_samples import contexts_of, record
from support.said import verdict

SIZES = (64, 512, 4096, 32768, 262144, 2097152)


def form(name: str, operation: str, arch: str = "x86_64", available: bool = True) -> Form:
    return Form(
        name=name,
        operation=operation,
        order="relaxed",
        arch=arch,
        width_bits=8,
        available=available,
    )


X86 = [
    form("clwb", "clean"),
    form("clflushopt", "clean_invalidate"),
    form("clflush", "clean_invalidate"),
]


def build(*settings: str, forms: list[Form] = X86, arch: str = "x86_64"):
    topology = Topology(arch=arch, cpus=[Cpu(cpu=0)])
    plan = plans.find("cache")
    return plan.build(
        Inputs(forms, topology, definition.settings(plan, settings), plan.budget_s, keep=list)
    )


def cell(
    form_name: str, size: int, entries: int, wait: str, state: str = "dirty_beyond", align: int = 0
) -> Cell:
    operation = "clean" if form_name == "clwb" else "clean_invalidate"
    params = {
        "wait": wait,
        "entry_bytes": size,
        "entries": entries,
        "state": state,
        "align_bytes": align,
    }
    return Cell(operation=operation, form=form_name, width_bits=8, lines=1, params=params)


def measured(
    line: float,
    entry: float,
    wait: float,
    rng: np.random.Generator,
    noise: float = 0.01,
    name: str = "clwb",
):
    """Records of a machine whose terms are known, at every size, two counts and both waits."""
    records = []
    for size in SIZES:
        most = min((10 << 20) // size, 8192)
        for entries in {most, max(1, most // 4)}:
            for kind in ("each", "once"):
                a_cell = cell(name, size, entries, kind)
                lines, n, waits = cache_fit.terms_of(a_cell, 64)
                true = lines * line + n * entry + waits * wait
                for launch in range(5):
                    windows = true * np.exp(rng.normal(0, noise, 6))
                    records.append(record(a_cell, windows, f"{launch:016x}", launch))
    return records


def summaries_of(records, arch="x86_64"):
    return summarise(contexts_of(records, arch=arch), records)


def sentences_of(records, arch="x86_64"):
    contexts = contexts_of(records, arch=arch)
    return cache_sentences(MachineAnswers(contexts, summarise(contexts, records)))


KERNEL = [form("dma_map", "dma_map"), *X86]


@pytest.mark.parametrize("forms", [X86, KERNEL], ids=["instructions", "mappings"])
def test_entries_that_no_list_holds_are_left_out_and_alone_are_refused(forms) -> None:
    with pytest.raises(UserError, match="no entry of these sizes"):
        build("sizes=67108864", forms=forms)
    sizes = {c.params["entry_bytes"] for c in build("sizes=4096,67108864", forms=forms).cells}
    assert sizes == {4096}


def test_known_terms_come_out_with_intervals_that_hold_them():
    held = np.zeros(3)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        [fit] = cache_fit.fits(summaries_of(measured(2.3, 4.0, 150.0, rng)), 64)
        terms = (fit.per_line, fit.per_entry, fit.per_wait)
        held += [t.low <= true <= t.high for t, true in zip(terms, (2.3, 4.0, 150.0), strict=True)]
        assert fit.per_line.value == pytest.approx(2.3, rel=0.02)
        assert fit.per_wait.value == pytest.approx(150, rel=0.03)
        assert fit.worst_percent < 5
    assert (held >= 9).all()  # at 95 % fewer than 9 of 12 has a chance of 1 in 4000


def test_a_machine_that_the_terms_do_not_describe_shows_it():
    rng = np.random.default_rng(1)
    records = [
        record(
            r.cell,
            np.array(r.window_ns) * (2.0 if int(r.cell.params["entry_bytes"]) == 4096 else 1.0),
            r.context_id,
            r.launch,
        )
        for r in measured(2.3, 4.0, 150.0, rng)
    ]
    [fit] = cache_fit.fits(summaries_of(records), 64)
    assert fit.worst_percent > 20
    [honest] = cache_fit.fits(summaries_of(measured(2.3, 4.0, 150.0, rng)), 64)
    assert fit.per_line.high - fit.per_line.low > 5 * (honest.per_line.high - honest.per_line.low)


def test_saving_shrinks_with_the_entry_and_vanishes():
    savings = ask(
        "waits", summaries_of(measured(2.3, 4.0, 150.0, np.random.default_rng(2), noise=0.003))
    )
    by_size = {
        size: s
        for s in savings
        for _, size, entries in [cache_fit.list_of(s.second)]
        if entries == min((10 << 20) // size, 8192)
    }
    saved = {size: cache_fit.saved(s) for size, s in by_size.items()}
    assert saved[64].value > 90
    assert saved[4096].low <= 100 * 150 / (64 * 2.3 + 4 + 150) <= saved[4096].high
    assert not cache_fit.matters(by_size[2097152]) and by_size[2097152].answer == "same"
    assert cache_fit.vanishes_at(savings) == 262144  # 150 ns of 4096 lines at 2.3 ns: 1.6 %


def test_sentences_say_what_the_intervals_support():
    rng = np.random.default_rng(3)
    records = measured(2.3, 4.0, 150.0, rng) + measured(3.5, 4.0, 300.0, rng, name="clflushopt")
    said = " ".join(verdict(summaries_of(records), contexts_of(records, arch="x86_64")))
    assert "clwb writes dirty lines back" in said and "less than clflushopt" in said
    assert "a wait behind clflushopt costs" in said
    assert "clwb: one wait for the list saves" in said
    same = measured(2.3, 4.0, 150.0, rng) + measured(2.3, 4.0, 150.0, rng, name="clflushopt")
    assert "; clflushopt the same within " in " ".join(
        verdict(summaries_of(same), contexts_of(same, arch="x86_64"))
    )


def test_the_cheapest_instruction_is_decided_by_launches_and_not_by_fits():
    """Fits of few launches, or of launches that differ, have narrow intervals that do not meet."""
    rng = np.random.default_rng(9)
    records = measured(2.3, 4.0, 150.0, rng) + measured(2.6, 4.0, 150.0, rng, name="clflushopt")
    few = [r for r in records if r.launch < 2]
    scattered = [
        record(r.cell, np.array(r.window_ns) * rng.choice([0.7, 1.4]), r.context_id, r.launch)
        for r in records
    ]
    for known in (few, scattered):
        other, one = cache_fit.on_dirty_lines(cache_fit.fits(summaries_of(known), 64))
        assert known is scattered or one.per_line.high < other.per_line.low
        said = " ".join(render_all(sentences_of(known)))
        assert "undecided against" in said and "less than clflushopt" not in said
    assert "less than clflushopt" in " ".join(render_all(sentences_of(records)))


def test_nothing_is_said_of_too_little():
    records = measured(2.3, 4.0, 150.0, np.random.default_rng(4))[:10]
    assert cache_fit.fits(summaries_of(records), 64) == []
    disturbed = [
        record(r.cell, r.window_ns, r.context_id, r.launch, status="unreliable", reason="disturbed")
        for r in records
    ]
    assert render_all(sentences_of(disturbed)) == [
        "Cache maintenance: lists of several lengths show what a line costs, and what a wait: "
        "linewright measure"
        " --plan cache."
    ]
    bounds = [
        record(r.cell, [], r.context_id, r.launch, status="unavailable", reason="bounds only")
        for r in records
    ]
    assert sentences_of(bounds) == [], "the same command would give the same"


def test_trapped_instructions_are_named_where_kernels_trap_them():
    """Only arm64 kernels trap cache maintenance; on x86 a long time has other causes."""
    rng = np.random.default_rng(5)
    records = [
        record(
            cell(
                "clwb",
                r.cell.params["entry_bytes"],
                r.cell.params["entries"],
                r.cell.params["wait"],
                "clean",
            ),
            r.window_ns,
            r.context_id,
            r.launch,
        )
        for r in measured(400.0, 4.0, 150.0, rng)
    ]
    arm, x86 = (" ".join(render_all(sentences_of(records, arch))) for arch in ("arm64", "x86_64"))
    assert "the kernel may trap it" in arm and "clwb takes 4" in x86 and "trap" not in x86


def test_a_wait_cheaper_than_a_line_is_no_zero_lines():
    text = " ".join(render_all(sentences_of(measured(300.0, 4.0, 60.0, np.random.default_rng(6)))))
    assert "less than one line" in text and "0 lines" not in text


def test_one_launch_shows_no_saving_and_nothing_that_vanishes():
    records = [r for r in measured(2.3, 4.0, 150.0, np.random.default_rng(7)) if r.launch == 0]
    savings = ask("waits", summaries_of(records))
    assert not any(map(cache_fit.saved, savings)) and cache_fit.vanishes_at(savings) is None


def test_lines_of_an_entry_that_begins_inside_a_line():
    assert cache_fit.terms_of(cell("clwb", 64, 10, "once", align=8), 64) == (20, 10, 1)
    assert cache_fit.terms_of(cell("clwb", 56, 10, "each", align=8), 64) == (10, 10, 10)
    assert cache_fit.terms_of(cell("clwb", 4096, 3, "each"), 128) == (96, 3, 3)


def test_the_published_experiment_is_of_both_waits_and_directions():
    plan = build("experiment=published", "iterations=200")
    assert [(c.form, c.params["wait"], c.params["state"]) for c in plan.cells] == [
        ("clwb", "each", "dirty_beyond"), ("clwb", "once", "dirty_beyond"),
        ("clflushopt", "each", "clean"), ("clflushopt", "once", "clean"),
    ]  # fmt: skip
    assert all((c.params["entry_bytes"], c.params["entries"]) == (4096, 2560) for c in plan.cells)
    records = [
        record(c, [750e3 if c.params["wait"] == "each" else 300e3] * 8, f"{i:016x}", i)
        for c in plan.cells
        for i in range(5)
    ]
    found = ask("waits", summaries_of(records))
    assert {(c.first.form, c.first.ns.median_ns, c.second.ns.median_ns) for c in found} == {
        ("clwb", 300e3, 750e3), ("clflushopt", 300e3, 750e3)
    }  # fmt: skip


def test_the_grid_has_both_waits_of_every_list_and_fits_each_state():
    plan = build()
    lists: dict[tuple, set[str]] = {}
    for c in plan.cells:
        key = (
            c.form,
            c.params["state"],
            c.params["align_bytes"],
            c.params["entry_bytes"],
            c.params["entries"],
        )
        lists.setdefault(key, set()).add(c.params["wait"])
    assert all(waits == {"each", "once"} for waits in lists.values())
    assert len({c.id for c in plan.cells}) == len(plan.cells)
    assert {c.form for c in plan.cells} == {"clwb", "clflushopt"}
    assert {c.params["state"] for c in plan.cells} == {
        "absent",
        "clean",
        "dirty_l1",
        "dirty_l2",
        "dirty_beyond",
    }
    assert all(
        c.params["entry_bytes"] * c.params["entries"] <= 256 << 10
        for c in plan.cells
        if c.params["state"] == "dirty_l2"
    )


def test_forms_and_machines():
    assert {c.form for c in build("forms=clflush").cells} == {"clflush"}
    arm = [
        form("dc_cvac", "clean", "arm64"),
        form("dc_civac", "clean_invalidate", "arm64"),
        form("dc_cvap", "clean", "arm64", False),
    ]
    assert {c.form for c in build(forms=arm, arch="arm64").cells} == {"dc_cvac", "dc_civac"}
    with pytest.raises(UserError, match="no cache-maintenance instruction"):
        build(forms=[], arch="generic")


def test_advice_has_the_terms_and_says_where_one_wait_stops_to_matter():
    rng = np.random.default_rng(8)
    records = measured(2.3, 4.0, 150.0, rng) + measured(9.0, 4.0, 150.0, rng, name="clflush")
    contexts = contexts_of(records, arch="x86_64")
    [advice] = documents(summarise(contexts, records), contexts, "evidence")
    [section] = [s for s in advice.evidence if s.name == "cache"]
    assert any(
        line.startswith("clwb writes dirty lines back in 2.3") and "less than clflush" in line
        for line in render_all(section.lines)
    )
    assert any(
        "one wait for the list saves" in line and "from entries of" in line
        for line in render_all(section.lines)
    )
    assert {fit.group.form for fit in section.data["terms"]} == {
        "clwb",
        "clflush",
    } and section.data["savings"]
    # An emulator's times mean nothing.
    emulated = contexts_of(records, arch="x86_64", emulated=True)
    (silent,) = documents(summarise(emulated, records), emulated, "evidence")
    assert not any(s.name == "cache" for s in silent.evidence)
