"""`linewright advise` on tables whose answer is known: published, constructed, mixed chips, x86, noise, an emulator."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from linewright import policy
from linewright.advice.advice import advise
from linewright.schema import Cpu
from support.analysis_samples import cell, constructed, context, contexts_of, launches, published, record


def one(contexts, records):
    (answer,) = advise(contexts, records)
    policy.check(answer.setting.value, "test")
    return answer


def section(answer, name):
    return next((s for s in answer.sections if s.name == name), None)


def text(answer):
    return "\n".join([answer.setting.sentence] + [line for s in answer.sections for line in s.lines])


def noisy(form, ns, rng, noise=0.01, cpu=0, context_id="00000000000000aa", **fields):
    return record(cell(form, **fields), ns * np.exp(rng.normal(0, noise, 64)), context_id, cpus=[cpu])


def test_the_published_table():
    """Load form and prefetched store form are alike alone, the plain store form far; contended with much work it wins."""
    answer = one(*published())
    assert (answer.setting.value, answer.setting.supported, answer.setting.why) == ("default", False, "depends")
    (void,) = answer.choices
    alone = {r.form: r.finding for r in void.points if r.condition == "alone" and r.work_iters == 0}
    assert alone == {"stadd": "worse", "prfm_strm_stadd": "same", "llsc_add": "worse"}, (
        "ldadd 4.02-4.64, llsc_add 4.87-6.45 ns"
    )
    (kernel,) = section(answer, "kernel").data
    assert kernel["option"] == "prefetch" and kernel["evidence"].form == "prfm_strm_stadd"
    assert any("contended" in line and "stadd from 300" in line for line in section(answer, "crossovers").lines)
    assert "only percentiles are known" in text(answer) and "nan" not in text(answer).lower()
    assert section(answer, "near_far") is None, "percentiles cannot tell it"


@pytest.mark.parametrize(
    ("medians", "value", "why"),
    [
        ({"stadd": 29.0, "llsc_add": 6.6, "ldadd": 69.6}, "void=llsc", "better"),
        ({"stadd": 5.0, "llsc_add": 7.3}, "void=store", "default_unmeasured"),
        ({"stadd": 64.0, "llsc_add": 5.7, "ldadd": 4.3}, "default", "default_best"),
        ({"stadd": 64.0, "prfm_strm_stadd": 4.0, "ldadd": 9.0}, "void=store,void=prefetch", "better"),
        ({"ldadd": 60.0, "prfm_strm_ldadd": 6.0}, "void=prefetch,fetch=prefetch", "better"),
        ({"swp": 50.0, "llsc_swp": 6.0}, "xchg=llsc", "better"),
        ({"swp": 50.0, "prfm_strm_swp": 6.0, "llsc_swp": 9.0}, "xchg=prefetch", "better"),
        ({"ldadd": 60.0, "llsc_fetch_add": 7.0}, "fetch=llsc", "better"),
        ({"ldadd": 60.0, "llsc_fetch_add": 70.0}, "default", "default_best"),
        (
            {"cas_loop_read_first": 50.0, "llsc_cas_loop_read_first": 20.0, "prfm_strm_llsc_cas_loop_read_first": 8.0},
            "cas=llsc,cas=prefetch",
            "better",
        ),
        ({"cas_loop_read_first": 50.0, "prfm_strm_cas_loop_read_first": 20.0}, "cas=prefetch", "better"),
    ],
)
def test_machines_on_which_the_answer_differs(medians, value, why):
    rng = np.random.default_rng(3)
    records = []
    for form, ns in medians.items():
        operation = (
            "cmpxchg"
            if "cas" in form
            else "xchg"
            if "swp" in form
            else "fetch_add"
            if "ldadd" in form or "fetch" in form
            else "add"
        )
        records.append(noisy(form, ns, rng, operation=operation))
    answer = one([context()], records)
    assert (answer.setting.value, answer.setting.why) == (value, why)
    assert answer.setting.supported == (value != "default")
    if value.startswith("void=llsc"):
        assert "90.5 % less" in text(answer) and "-mno-outline-atomics" in text(answer)
    if "store" in value:
        assert "compilers do not emit STADD" in text(answer)
    reach = section(answer, "compile_time").data["run_atomics"]
    reaching = [item for item in value.split(",") if not item.startswith("void=")]
    assert reach == (",".join(reaching) or "default"), "helpers of built programs return values"


def under(policy, ns, rng, form="op_fetch_add", operation="library_fetch_add", **more):
    return noisy(form, ns, rng, operation=operation, order="full", params={"policy": policy}, **more)


def test_settings_of_library_operations_are_compared_and_advised():
    """Plan `operations`: one operation under several settings, which differ in a parameter and in nothing else."""
    rng = np.random.default_rng(6)
    records = [
        under(policy, ns + width / 8, rng, width_bits=width)
        for width in (8, 64) for policy, ns in (("default", 60.0), ("llsc", 7.0), ("prefetch", 61.0), ("llsc+prefetch", 7.02))
    ]  # fmt: skip
    answer = one([context()], records)
    assert (answer.setting.value, answer.setting.why) == ("fetch=llsc", "better")
    (fetch,) = answer.choices
    assert fetch.also == ["llsc,prefetch"] and len(fetch.points) == 6
    assert {p.default_form for p in fetch.points} == {"op_fetch_add_u8 under default", "op_fetch_add_u64 under default"}
    (line, narrow) = section(answer, "library").lines
    assert "llsc = llsc,prefetch" in line + narrow or "llsc,prefetch = llsc" in line + narrow
    assert "less than default" in line and "u8" in line + narrow


def test_a_setting_that_spells_the_default_out_is_no_second_choice():
    rng = np.random.default_rng(7)
    records = [
        under(p, ns, rng, "op_add", "library_add")
        for p, ns in (("default", 9.0), ("load", 9.0), ("store", 30.0), ("store+prefetch", 5.0))
    ]
    answer = one([context()], records)
    assert answer.setting.value == "void=store,void=prefetch"
    (void,) = answer.choices
    assert {p.choice for p in void.points} == {"store", "store,prefetch"}
    old = one(
        [context(features=[])],
        [under(p, ns, rng, "op_add", "library_add") for p, ns in (("default", 9.0), ("llsc", 9.0), ("prefetch", 5.0))],
    )
    assert old.setting.value == "void=prefetch", "without LSE the default is LL/SC"


def test_alike_within_noise_the_simplest_is_taken():
    rng = np.random.default_rng(1)
    medians = {"ldadd": 60.0, "stadd": 5.01, "prfm_strm_stadd": 5.0, "llsc_add": 9.0}
    (void,) = one([context()], [noisy(f, ns, rng, noise=0.03) for f, ns in medians.items()]).choices
    assert (void.choice, void.also) == ("store", ["store,prefetch"])


def test_no_setting_within_noise():
    rng = np.random.default_rng(4)
    answer = one([context()], [noisy(f, 10.0, rng, noise=0.02) for f in ("stadd", "ldadd", "llsc_add")])
    assert (answer.setting.supported, answer.setting.why) == (False, "noise")
    assert answer.setting.sentence == "no setting: the difference is within noise"


@pytest.mark.parametrize("seed", range(12))
def test_equal_forms_never_make_a_setting(seed):
    """All forms cost the same at nine points; a false setting has a chance of 5 % per machine, these seeds show none."""
    rng = np.random.default_rng(seed)
    records = []
    for work in (0, 20, 200):
        for form in ("stadd", "ldadd", "llsc_add", "prfm_strm_stadd"):
            records.append(noisy(form, 10.0 + work, rng, work_iters=work))
            for gap in (0, 100):
                same = cell(form, work_iters=work, contender="same_line", contender_iters=gap, threads=2)
                records += launches(same, 40.0 + work, rng)
    contexts = contexts_of(records)
    assert not one(contexts, records).setting.supported


def test_every_comparison_made_costs_certainty():
    """The clearest of ten comparisons has ten times the p value that it has by itself."""
    rng = np.random.default_rng(2)
    clear = [noisy("ldadd", 10.0, rng, noise=0.02), noisy("stadd", 10.2, rng, noise=0.02)]
    others = [
        noisy(form, 50.0 + work, rng, noise=0.02, work_iters=work)
        for work in range(1, 10)
        for form in ("ldadd", "stadd")
    ]
    (alone,) = one([context()], clear).choices[0].points
    among = next(r for r in one([context()], clear + others).choices[0].points if r.work_iters == 0)
    assert 0 < alone.p < 0.01 and among.p == pytest.approx(10 * alone.p)


def test_a_store_form_that_costs_nothing_under_work():
    """Dear back to back, free when posted behind work: it depends, and the turning point is named in iterations and ns."""
    rng = np.random.default_rng(7)
    records = []
    for work in (0, 10, 100, 200):
        for form, ns in (("stadd", max(63.0, 0.31 * work + 0.3)), ("ldadd", 30 + 0.31 * work)):
            empty = (0.31 * work) * np.exp(rng.normal(0, 0.002, 64))
            windows = ns * np.exp(rng.normal(0, 0.004, 64))
            records.append(record(cell(form, work_iters=work), windows, cpus=[0], baseline_ns=empty.tolist()))
        records.append(noisy("llsc_add", 8 + 0.33 * work, rng, work_iters=work))
    records = [r for r in records if r.cell.form != "llsc_add"] + [
        noisy("llsc_add", 8.0 + 60 * (w > 0) + 0.33 * w, rng, work_iters=w) for w in (0, 10, 100, 200)
    ]
    answer = one([context()], records)
    assert answer.setting.why == "depends"
    turns = "\n".join(section(answer, "classes").lines)
    assert "void=store is better than the default alone at work 200" in turns
    assert "void=store is worse than the default alone at work 0, 10" in turns
    crossing = next(
        line for line in section(answer, "crossovers").lines if "ldadd up to" in line and "stadd from" in line
    )
    assert "stadd from 200 (about 62.00 ns)" in crossing
    places = {c.form: c.where for c in section(answer, "near_far").data}
    assert places["stadd"] == "far_posted"


def test_near_far_is_told_per_core_and_line_and_differing_cores_are_named():
    rng = np.random.default_rng(9)
    records = []
    for cpu, ns in ((0, 5.8), (4, 29.0)):
        records += [
            noisy("stadd", ns, rng, cpu=cpu, placement=f"cpus:{cpu}"),
            noisy("llsc_add", 6.6, rng, cpu=cpu, placement=f"cpus:{cpu}"),
        ]
    answer = one([context(cycle_ns=0.1)], records)
    found = section(answer, "near_far").data
    assert {(c.form, c.cpu) for c in found} == {(f, c) for f in ("stadd", "llsc_add") for c in (0, 4)}
    assert all(len(c.lines) == 32 for c in found)
    (differing,) = section(answer, "cores").data["differences"]
    assert (differing.form, differing.cheapest_cpu, differing.dearest_cpu) == ("stadd", 0, 4)


def test_a_mixed_chip_gets_a_setting_per_core_type_and_the_cost_of_one_for_all():
    rng = np.random.default_rng(11)
    cpus = [
        Cpu(cpu=0, capacity=1024, midr="0xa"),
        Cpu(cpu=1, capacity=1024, midr="0xa"),
        Cpu(cpu=4, capacity=400, midr="0xb"),
    ]
    records = []
    for cpu, medians in ((0, {"ldadd": 5.0, "llsc_add": 10.0}), (4, {"ldadd": 60.0, "llsc_add": 12.0})):
        records += [noisy(f, ns, rng, cpu=cpu, placement=f"cpus:{cpu}") for f, ns in medians.items()]
    answer = one([context(cpus=cpus)], records)
    assert answer.setting.why == "depends", "no one value suits both"
    cores = section(answer, "cores")
    assert {(t.midr, t.setting) for t in cores.data["types"]} == {("0xa", "default"), ("0xb", "void=llsc")}
    costs = {(c.setting, c.midr): c.cost_percent for c in cores.data["one_setting"]}
    assert costs[("default", "0xa")] == 0 and costs[("void=llsc", "0xb")] == 0
    assert costs[("void=llsc", "0xa")] == pytest.approx(100, rel=0.03)
    assert costs[("default", "0xb")] == pytest.approx(400, rel=0.03)
    assert any("pin it to cores of one type" in line for line in cores.lines)


def test_bimodal_lines_are_pointed_out():
    rng = np.random.default_rng(12)
    ns = np.where(np.arange(64) % 32 < 12, 29.0, 5.8) * np.exp(rng.normal(0, 0.005, 64))
    answer = one([context()], [record(cell("stadd"), ns, cpus=[0]), noisy("ldadd", 7.0, rng)])
    (found,) = section(answer, "bimodal").data
    assert found["kind"] == "lines" and [round(m.median_ns) for m in found["modes"]] == [6, 29]


def test_x86_gets_forms_for_code_and_no_setting():
    rng = np.random.default_rng(13)
    records = [noisy(f, ns, rng, order="full") for f, ns in (("lock_add", 5.0), ("lock_xadd", 9.0))]
    answer = one([context(arch="x86_64", features=[])], records)
    assert (answer.setting.supported, answer.setting.why) == (False, "architecture")
    (code,) = section(answer, "code").data
    assert code["forms"] == ["lock_add"]
    assert section(answer, "kernel") is None and section(answer, "compile_time") is None and answer.choices == []


def test_plans_of_their_own_have_sections_and_controls_are_never_advised():
    rng = np.random.default_rng(14)
    forms = {
        "percpu_rseq_add": 0.5,
        "percpu_own_lock_add": 5.0,
        "percpu_racy_add": 0.3,
        "percpu_thread_local_add": 0.28,
    }
    records = [noisy(f, ns, rng, operation="percpu_add", params={"slots": 1}) for f, ns in forms.items()]
    wide = {"movdqa_read": 1.0, "cmpxchg16b_read_once": 18.0, "read_twice_read": 0.5}
    records += [noisy(f, ns, rng, operation="wide_read", width_bits=128) for f, ns in wide.items()]
    answer = one([context(arch="x86_64", features=[])], records)
    assert [f.best for f in section(answer, "percpu").data] == ["percpu_rseq_add"]
    assert [f.best for f in section(answer, "wide").data] == ["movdqa_read"]
    assert section(answer, "cache") is None and section(answer, "where") is None and section(answer, "code") is None
    assert "racy" not in text(answer) and "read_twice_read" not in "\n".join(section(answer, "wide").lines)


def test_an_emulator_and_one_launch_give_no_setting():
    _contexts, records = constructed({"stadd": 29.0, "llsc_add": 6.6, "ldadd": 69.6}, "00000000000000c1")
    emulated = one(contexts_of(records, emulated=True), records)
    assert (emulated.setting.why, emulated.choices) == ("emulated", []) and section(emulated, "near_far") is None
    rng = np.random.default_rng(5)
    same = dict(contender="same_line", threads=2)
    records = launches(cell("stadd", **same), 10.0, rng, count=1) + launches(cell("ldadd", **same), 90.0, rng, count=1)
    assert one(contexts_of(records), records).setting.why == "one_launch"
    (silent,) = advise([], records)
    assert "context is missing" in text(silent) and not silent.setting.supported


def test_the_cpus_name_decides_nothing():
    answers = []
    for name in ("Neoverse V2", "Kunpeng 920"):
        contexts, records = constructed({"stadd": 29.0, "llsc_add": 6.6, "ldadd": 69.6}, "00000000000000c1")
        contexts = [msgspec.structs.replace(c, cpu_model=name, cpu_ids=[name]) for c in contexts]
        answers.append(msgspec.structs.replace(one(contexts, records), cpu_model=""))
    assert answers[0] == answers[1]


def test_the_command(command, tmp_path):
    contexts, records = published()
    other = constructed({"stadd": 29.0, "llsc_add": 6.6, "ldadd": 69.6}, "00000000000000c1")
    path = tmp_path / "two.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in contexts + other[0] + records + other[1]))
    answer = command("advise", path)
    assert answer.returncode == 0 and "LINEWRIGHT_ATOMICS=void=llsc" in answer.stdout
    assert "What this measurement cannot tell" in answer.stdout
    told = json.loads(command("advise", path, "--json").stdout)
    assert [a["setting"]["value"] for a in told] == ["default", "void=llsc"]
    assert {s["name"] for a in told for s in a["sections"]} >= {"classes", "where", "unknown", "kernel", "compile_time"}
    assert "no such" in command.refused("advise", tmp_path / "absent.jsonl").lower()
    (tmp_path / "none.jsonl").write_bytes(msgspec.json.encode(contexts[0]) + b"\n")
    assert "no finished cell" in command.refused("advise", tmp_path / "none.jsonl")
