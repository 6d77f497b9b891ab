"""Ceilings from records, remedies by kind, and what --pad makes of a name: with cases in which each would be wrong."""

from __future__ import annotations

import json
import subprocess

import msgspec
import pytest

from linewright.errors import UserError
from linewright.find.prices import Prices, form_of, from_files
from linewright.find.remedies import advised
from linewright.find.schema import Hot, Site, Slowed, Touch
from linewright.schema import VERSION, Cell, Estimate, Record
from linewright.trial import pad
from support.places import EXAMPLES


def record(
    contender: str, ns: float, *, form: str = "lock_add", work: int = 0, launch: int = 0, status: str = "ok"
) -> Record:
    cell = Cell(operation="add", form=form, contender=contender, work_iters=work)
    return Record(
        linewright_record=VERSION,
        context_id=f"{launch:016x}",
        id=cell.id,
        cell=cell,
        plan="rmw",
        launch=launch,
        status=status,
        window_ns=[ns] * 3,
    )


def hot(
    kind: str = "true", *, instruction: str = "lock add", access: str = "atomic", share: float = 0.5, **more
) -> Hot:
    site = Site(
        instruction=instruction, module="p", function=more.pop("function", "f"), offset=1, access=access, share=share
    )
    about = {"object": "x", "object_kind": "static", "kind_128": kind} | more
    return Hot(
        address=64,
        pid=1,
        line_bytes=64,
        kind=kind,
        certainty="sampled",
        share=Estimate(value=share, low=share - 0.1, high=share + 0.1),
        touches=[],
        threads=2,
        sites=[site],
        **about,
    )


def test_the_ceiling_is_the_share_times_what_contention_adds() -> None:
    found = Prices([], [record("none", 5.0), record("same_line", 20.0)]).ceiling(hot(), "x86_64")
    assert (found.gain.low, found.gain.value, found.gain.high) == pytest.approx((0.4 * 0.75, 0.5 * 0.75, 0.6 * 0.75))


def test_time_at_plain_accesses_of_the_line_may_end_wholly() -> None:
    """Seen with a lock beside a field that is only read: 49 % of the time was the reader's, and apart all of it took 93
    % less."""
    prices = Prices([], [record("none", 5.0), record("same_line", 16.0)])
    line = hot(share=1.0, kind="false")
    reader = msgspec.structs.replace(line.sites[0], instruction="mov", access="read", share=0.5)
    locker = msgspec.structs.replace(line.sites[0], share=0.5)
    known = Estimate(value=1.0, low=1.0, high=1.0)
    found = prices.ceiling(msgspec.structs.replace(line, sites=[reader, locker], share=known), "x86_64")
    slowed = [Slowed(thread=tid, name="", share=known, plain=plain) for tid, plain in ((1, 0.0), (2, 1.0))]
    held = prices.ceiling(msgspec.structs.replace(line, slowed=slowed), "x86_64")
    assert (held.slowed_thread, held.most_slowed) == (2, 1.0)
    part = 11 / 16
    assert found.gain.low == pytest.approx(0.5 * part) and found.gain.high == pytest.approx(0.5 * part + 0.5)


def simulated_file(tmp_path, name: str, **more):
    context = json.loads((EXAMPLES / "context-valid-x86-64.json").read_text()) | {
        "target": f"simulated:{name}",
        "cpu_model": f"simulated: {name}",
    }
    rows = [record("none", 5.0, **more), record("same_line", 20.0, **more)]
    lines = [json.dumps(context | {"context_id": "0" * 16}), *(msgspec.json.encode(row).decode() for row in rows)]
    path = tmp_path / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_simulated_machine_prices_a_ceiling_where_it_is_named_and_that_is_said(tmp_path) -> None:
    path = simulated_file(tmp_path, "server")
    known, said = from_files([path], "Some CPU", named=True)
    assert known.ceiling(hot(), "x86_64").gain.value == pytest.approx(0.5 * 0.75)
    assert "simulated machine server" in said and "no measurement" in said
    unasked, why = from_files([path], "Some CPU")
    assert unasked is None and "no records of this machine" in why
    bounds = simulated_file(tmp_path, "bounds", status="unavailable")
    assert from_files([bounds], "Some CPU", named=True)[0] is None


def test_launches_that_differ_widen_it() -> None:
    records = [record("none", 5.0), record("same_line", 10.0, launch=1), record("same_line", 50.0, launch=2)]
    found = Prices([], records).ceiling(hot(), "x86_64")
    assert found.gain.low == pytest.approx(0.4 * 0.5) and found.gain.high == pytest.approx(0.6 * 0.9)


def test_what_costs_no_more_contended_brings_nothing() -> None:
    found = Prices([], [record("none", 5.0), record("same_line", 4.0)]).ceiling(hot(), "x86_64")
    assert found.gain.high == 0


@pytest.mark.parametrize(
    "records",
    [
        [record("none", 5.0)],
        [record("none", 5.0), record("placebo", 20.0)],
        [record("none", 5.0), record("same_line", 20.0, work=50)],
        [record("none", 5.0), record("same_line", 20.0, status="error")],
        [record("none", 5.0, form="xchg"), record("same_line", 20.0, form="xchg")],
    ],
)
def test_without_both_prices_of_the_form_there_is_no_ceiling(records: list[Record]) -> None:
    assert Prices([], records).ceiling(hot(), "x86_64") is None


def test_plain_stores_have_no_price() -> None:
    prices = Prices([], [record("none", 5.0), record("same_line", 20.0)])
    assert prices.ceiling(hot(instruction="mov", access="write"), "x86_64") is None


@pytest.mark.parametrize(
    ("instruction", "arch", "form"),
    [
        ("lock xadd", "x86_64", "lock_xadd"),
        ("lock inc", "x86_64", "lock_add"),
        ("lock cmpxchg", "x86_64", "cmpxchg_loop_read_first"),
        ("ldaddal", "arm64", "ldadd"),
        ("ldaxr", "arm64", "llsc_add"),
        ("stlxr", "arm64", "llsc_add"),
        ("casal", "arm64", "cas_loop_read_first"),
        ("mov", "x86_64", None),
    ],
)
def test_instructions_and_their_forms(instruction: str, arch: str, form: str | None) -> None:
    assert form_of(instruction, arch) == form


def remedy(line: Hot) -> str:
    return advised([line], ["./p"])[0].remedy


def test_padding_is_advised_for_false_sharing_alone() -> None:
    assert remedy(hot("false")).startswith("Separate")
    for line in (
        hot("true"),
        hot("true", instruction="mov", access="write"),
        hot("alone"),
        hot("read"),
        hot("unknown"),
    ):
        assert "Separate" not in remedy(line) and "alignas" not in remedy(line)


def test_a_lock_is_no_counter() -> None:
    assert "Counting" in remedy(hot(instruction="lock xadd"))
    assert "Counting" not in remedy(hot(instruction="lock xadd", function="pthread_rwlock_rdlock"))
    assert "SRCU" in remedy(hot(instruction="lock xadd", function="pthread_rwlock_rdlock"))


def test_the_proof_is_offered_where_there_is_one() -> None:
    line = hot("false", object_kind="heap", allocated_in="make node")
    assert advised([line], ["./p", "a b"])[0].next_command == "linewright trial --pad 'make node' -- ./p 'a b'"
    assert advised([hot("false")], ["./p"])[0].next_command == ""


def test_the_policy_is_offered_where_outline_helpers_do_it() -> None:
    line = hot(instruction="ldaddal", function="__aarch64_ldadd8_acq_rel")
    (said,) = advised([line], ["./p"])
    assert "LINEWRIGHT_ATOMICS" in said.remedy and said.next_command == "linewright trial -- ./p"
    (inlined,) = advised([hot(instruction="ldaddal")], ["./p"])
    assert "LINEWRIGHT_ATOMICS" not in inlined.remedy and not inlined.next_command.startswith("linewright trial")


def test_padding_is_not_offered_within_one_block() -> None:
    line = hot("false", object_kind="heap", allocated_in="make", one_block=True)
    (said,) = advised([line], ["./p"])
    assert said.next_command == "" and said.remedy.startswith("Separate within the block")


def test_threads_beside_a_true_sharing_are_told_to_move() -> None:
    """A lock of two threads, and a third that reads a neighbouring field."""
    touches = [
        Touch(thread=number, name="", bytes=[(at, 8)], writes=number < 3, reads=True)
        for number, at in ((1, 0), (2, 0), (3, 8))
    ]
    line = msgspec.structs.replace(hot("true", function="pthread_mutex_lock"), touches=touches, threads=3)
    assert remedy(line).endswith("Thread 3 uses other bytes only: move them to a line of their own.")
    both = msgspec.structs.replace(line, touches=touches[:2], threads=2)
    assert "move" not in remedy(both)


def test_a_block_of_many_fields_is_seen_as_one(sampling, found) -> None:
    line = found("--heap", "--", sampling, "heap_fields", 2, "1.2")["lines"][0]
    assert line["kind"] == "false" and line["one_block"] and line["next_command"] == ""


def test_a_function_is_padded_by_its_range(sampling) -> None:
    nm = subprocess.run(["nm", "-CS", sampling], capture_output=True, text=True, check=True).stdout
    begin, size = next(line.split()[:2] for line in nm.splitlines() if line.endswith(" main"))
    end = int(begin, 16) + int(size, 16)
    assert pad.ranges("main", str(sampling)) == f"find_planted+{int(begin, 16):#x}-{end:#x}"
    assert pad.ranges("lib.so+0x20", str(sampling)) == "lib.so+0x1f-0x20"
    assert pad.ranges("lib.so+0x20-0x40", str(sampling)) == "lib.so+0x20-0x40"


def test_a_static_variable_is_told_what_to_do_instead(sampling) -> None:
    with pytest.raises(UserError, match="static variable"):
        pad.ranges("true_counter", str(sampling))
    with pytest.raises(UserError, match="no function"):
        pad.ranges("nothing_of_that_name", str(sampling))


def test_the_line_of_a_heap_block_names_the_function_to_pad(sampling, found) -> None:
    line = found("--heap", "--", sampling, "heap_false", 2, "1.2")["lines"][0]
    assert line["allocated_in"] == "main"
    assert line["next_command"].startswith("linewright trial --pad main -- ")
