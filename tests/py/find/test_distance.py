# SPDX-License-Identifier: MIT
"""How far apart `find` advises to keep what threads use: as far as was measured on this machine,
else by convention, and then it says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from linewright.find.line_prices import from_files
from linewright.find.result_document import document, limits
from linewright.find.results import LayoutAdvice, Movement
from linewright.find.sampling import prices_of
from linewright.find.sources import conclude
from linewright.say.document import render_all
from support.analysis_samples import write
from support.find_results import line, result, said_of
from support.spacing_samples import line_of, machine


def measured(path, near=line_of, named=True, **more) -> int | None:
    contexts, records = machine(near, **more)
    write(path / "spacing.jsonl", contexts, records)
    prices, _ = from_files([str(path / "spacing.jsonl")], contexts[0].cpu_model, named)
    return prices.distance and prices.distance.needed


def test_records_of_this_machine_decide_the_distance(tmp_path) -> None:
    assert measured(tmp_path) == 64
    pairs = lambda form, half, d: d < 64 or (1.6 if (d, half) == (64, "lower") else 1.0)
    assert measured(tmp_path, pairs) == 128


def test_undecided_records_and_those_of_another_machine_decide_nothing(tmp_path) -> None:
    assert measured(tmp_path, own=0.4, within=0.3) is None
    assert measured(tmp_path, count=3) is None
    assert from_files([str(tmp_path / "spacing.jsonl")], "another CPU")[0] is None


def test_of_two_kernels_of_one_machine_the_larger_distance_counts(tmp_path) -> None:
    pairs = lambda form, half, d: d < 64 or (1.6 if (d, half) == (64, "lower") else 1.0)
    contexts, records = machine(line_of)
    others, more = machine(pairs, prefix="b")
    others = [replace(c, machine_id="00000000000000cc") for c in others]
    write(tmp_path / "both.jsonl", [*contexts, *others], [*records, *more])
    prices, _ = from_files([str(tmp_path / "both.jsonl")], contexts[0].cpu_model)
    assert prices.distance.needed == 128


def test_the_remedy_names_the_measured_distance_or_that_it_is_a_convention() -> None:
    for apart in (64, 128, 256):
        assert f"(alignas({apart}), or padding)" in said_of(line("false"), apart=apart)[0]
        assert limits(result(line("false"), bytes_apart=apart)) == []
    assert "(alignas(128), or padding)" in said_of(line("false"))[0]
    (note,) = limits(conclude(result(line("false")), ["./p"]))
    assert note.startswith("alignas(128)") and "linewright measure --plan spacing" in note
    (note,) = limits(conclude(result(line("false")), ["./p"], "ssh://host"))
    assert "linewright measure --on ssh://host --plan spacing" in note
    assert limits(conclude(result(line("alone")), ["./p"])) == []


SHARD = LayoutAdvice(type="shard", bytes_before=24, bytes_after=128, count=8, aligned=[])


@pytest.mark.parametrize(("noise", "distance"), [({}, 64), ({"own": 0.4, "within": 0.3}, 128)])
def test_records_beside_a_search_decide_remedy_layout_and_note(
    tmp_path, monkeypatch, noise, distance
) -> None:
    """Records of plan spacing alone, which price no form, are enough."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    contexts, records = machine(**noise)
    write(tmp_path / "results/spacing.jsonl", contexts, records)
    here = SimpleNamespace(cpu_model=contexts[0].cpu_model, on="local")
    findings = result(line("false", advised=SHARD))
    found = conclude(findings, ["./p"], "local", False, *prices_of(findings, None, here))
    assert found.bytes_apart == (distance if not noise else None)
    text = " ".join(render_all([*document(found).evidence[0].lines, *document(found).of("limits")]))
    assert f"(alignas({distance}), or padding)" in text
    assert f"alignas({distance}) on shard: shard grows from 24 to {distance} bytes" in text
    assert ("is a convention" in text) == bool(noise)
    assert (f"alignas({distance}) is what plan spacing measured" in text) != bool(noise)


def test_no_layout_is_advised_where_nothing_is_to_be_changed() -> None:
    """Where it is shown that one CPU at a time uses the line, and not where it only seems so."""
    stays = Movement(answer="by_turns", samples=100, cpus=2)
    for at_once, advises in ((0.9, False), (0.1, True)):
        hot = line("false", advised=SHARD, movement=stays, at_once=at_once)
        said = " ".join(render_all(document(result(hot)).evidence[0].lines))
        assert ("alignas" in said) == advises and ("Change nothing" in said) != advises


def test_lines_that_are_shared_in_pairs_only_are_judged_by_what_was_measured() -> None:
    pair = line("alone", kind_128="false")
    texts = {apart: said_of(pair, apart=apart)[0] for apart in (None, 64, 128, 256)}
    assert texts[None].startswith("Change nothing where lines have 64 bytes; alignas(128) where")
    assert texts[64].startswith("Change nothing: ") and "alignas" not in texts[64]
    assert texts[128].startswith("Separate by alignas(128)")
    assert texts[256].startswith("Separate by alignas(256)")


def test_the_layout_after_the_change_has_the_measured_distance() -> None:
    whole = LayoutAdvice(type="shard", bytes_before=24, bytes_after=128, count=8, aligned=[])
    assert (whole.at(64).bytes_after, whole.at(64).bytes_apart) == (64, 64)
    assert whole.at(256).at(128) == whole
    parted = LayoutAdvice(
        type="pair", bytes_before=40, bytes_after=256, count=1, aligned=["tail"], starts=[8]
    )
    assert parted.at(128) == parted
    assert parted.at(64).bytes_after == 128 and parted.at(256).bytes_after == 512
