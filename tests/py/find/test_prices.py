# SPDX-License-Identifier: MIT
"""Ceilings from records, remedies by kind, and what --pad makes of a name: with cases in which each
would be wrong."""

from __future__ import annotations

import json
import shlex
import subprocess

import msgspec
import pytest
from msgspec.structs import replace

from linewright.errors import UserError
from linewright.find import line_words
from linewright.find.line_prices import Prices, from_files
from linewright.find.result_document import document
from linewright.find.results import Hot, Movement, Site, ThreadShare, Touch
from linewright.forms import standing_for
from linewright.say.document import Document, render_all
from linewright.schema import Cell, Estimate, Record
from linewright.trial import heap_padding
from support import find_results
from support.command_lines import complaint, follow, refused
from support.finding import TRIES
from support.places import EXAMPLES, FAKE_PROBE


def record(
    contender: str,
    ns: float,
    *,
    form: str = "lock_add",
    work: int = 0,
    launch: int = 0,
    status: str = "ok",
    **more: object,
) -> Record:
    cell = Cell(operation="add", form=form, contender=contender, work_iters=work)
    return Record(
        linewright_record=3,
        context_id=f"{launch:016x}",
        id=cell.id,
        cell=cell,
        plan="rmw",
        launch=launch,
        status=status,
        window_ns=[ns] * 3,
        **more,
    )


def hot(
    kind: str = "true",
    *,
    instruction: str = "lock add",
    access: str = "atomic",
    share: float = 0.5,
    **more,
) -> Hot:
    site = Site(
        instruction=instruction,
        module="p",
        function=more.pop("function", "f"),
        role=more.pop("role", ""),
        offset=1,
        access=access,
        share=share,
    )
    known = Estimate(value=share, low=share - 0.1, high=share + 0.1)
    return find_results.line(kind, **({"share": known, "sites": [site]} | more))


def test_prices_estimate_what_contention_adds_and_bound_nothing() -> None:
    """Of additions with work between them a repair saved 12 and 22 % of the time, all that the
    sites had; of two threads' prices at most 11 and 16 % followed (`bench/find/bounds.py`)."""
    prices = Prices([], [record("none", 5.0), record("same_line", 20.0)])
    found = prices.ceiling(hot(), "x86_64")
    assert (found.gain.low, found.gain.value) == pytest.approx((0.4 * 0.75, 0.5 * 0.75))
    assert found.gain.high == hot().share.high
    said = line_words.gain_text(find_results.priced(hot(), prices=prices).lines[0])
    assert said.startswith(
        "at most 60 % of CPU time to gain; 38 % at the prices of two busy threads"
    )


@pytest.mark.parametrize("role", ["waits", "retries"])
def test_waiting_for_another_thread_ends_with_the_contention(role: str) -> None:
    """A ticket lock's waiting loads had 95 % of its line's samples: the page said at most 3.7 %,
    and a lock for each thread saved 92 %."""
    prices = Prices([], [record("none", 5.0), record("same_line", 20.0)])
    taking = hot(share=0.05).sites[0]
    waiting = replace(taking, instruction="mov", access="read", role=role, share=0.95)
    known = Estimate(value=0.9, low=0.88, high=0.92)
    own = ThreadShare(thread=7, name="", share=Estimate(value=1, low=1, high=1), plain=0.95)
    line = find_results.line(sites=[taking, waiting], share=known, slowed=[own])
    found = prices.ceiling(line, "x86_64")
    assert (found.gain.high, found.most_slowed, found.plain) == (0.92, 1, 0)
    said = line_words.gain_text(find_results.priced(line, prices=prices).lines[0])
    assert said == "at most 92 % of CPU time to gain: threads wait for each other there"
    searching = replace(line, sites=[taking, replace(waiting, role="")])
    assert prices.ceiling(searching, "x86_64").gain.high == pytest.approx(0.92 * 0.05)


def test_time_at_plain_accesses_of_the_line_is_no_part_of_the_gain() -> None:
    """Ceilings of 94 to 100 % were said of plain stores, whose separation gained 3 to 25 %."""
    prices = Prices([], [record("none", 5.0), record("same_line", 16.0)])
    line = hot(share=1.0, kind="false")
    reader = msgspec.structs.replace(line.sites[0], instruction="mov", access="read", share=0.5)
    locker = msgspec.structs.replace(line.sites[0], share=0.5)
    known = Estimate(value=1.0, low=1.0, high=1.0)
    slowed = [
        ThreadShare(thread=tid, name="", share=known, plain=plain)
        for tid, plain in ((1, 0.0), (2, 1.0))
    ]
    mixed = msgspec.structs.replace(line, sites=[reader, locker], share=known, slowed=slowed)
    found = prices.ceiling(mixed, "x86_64")
    assert (found.slowed_thread, found.most_slowed) == (1, 1.0)
    assert (found.gain.low, found.gain.high) == pytest.approx((0.5 * 11 / 16, 0.5))
    said = line_words.gain_text(find_results.priced(mixed, prices=prices).lines[0])
    assert said.endswith("50 % of its time is at plain accesses, whose gain is unknown")


def simulated_file(tmp_path, name: str, **more):
    context = json.loads((EXAMPLES / "context-valid-x86-64.json").read_text()) | {
        "target": f"simulated:{name}",
        "cpu_model": f"simulated: {name}",
    }
    rows = [record("none", 5.0, **more), record("same_line", 20.0, **more)]
    lines = [
        json.dumps(context | {"context_id": "0" * 16}),
        *(msgspec.json.encode(row).decode() for row in rows),
    ]
    path = tmp_path / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_simulated_machine_prices_a_ceiling_where_it_is_named_and_that_is_said(tmp_path) -> None:
    path = simulated_file(tmp_path, "server")
    known, said = from_files([path], "Some CPU", named=True)
    assert known.ceiling(hot(), "x86_64").gain.value == pytest.approx(0.5 * 0.75)
    text = line_words.note_text(said)
    assert "simulated machine server" in text and "no measurement" in text
    band = simulated_file(tmp_path, "wide", metrics={"p05_ns": 4.0, "p95_ns": 40.0})
    ceiling = from_files([band], "Some CPU", named=True)[0].ceiling(hot(), "x86_64")
    for price in (ceiling.alone_ns, ceiling.contended_ns):
        assert (price.low_ns, price.high_ns, price.confidence) == (4.0, 40.0, 0.9)
    assert ceiling.gain.low == 0 and ceiling.gain.high == hot().share.high
    unasked, why = from_files([path], "Some CPU")
    assert unasked is None and "no records of this machine" in line_words.note_text(why)
    bounds = simulated_file(tmp_path, "bounds", status="unavailable")
    assert from_files([bounds], "Some CPU", named=True)[0] is None


def test_launches_that_differ_lower_what_is_sure() -> None:
    records = [
        record("none", 5.0),
        record("same_line", 10.0, launch=1),
        record("same_line", 50.0, launch=2),
    ]
    found = Prices([], records).ceiling(hot(), "x86_64")
    assert found.gain.low == pytest.approx(0.4 * 0.5)


def test_what_costs_no_more_contended_brings_nothing() -> None:
    found = Prices([], [record("none", 5.0), record("same_line", 4.0)]).ceiling(hot(), "x86_64")
    assert found.gain.value == 0


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


def test_plain_stores_have_no_ceiling_and_what_they_often_gain_is_said() -> None:
    prices = Prices([], [record("none", 5.0), record("same_line", 20.0)])
    line = hot(instruction="mov", access="write", share=0.2)
    (found,) = find_results.priced(line, prices=prices).lines
    assert found.ceiling is None
    assert line_words.gain_text(found).startswith("gain unknown: ")
    assert line_words.gain_text(hot()) == "", (
        "an atomic operation without a price is no plain store"
    )
    assert line_words.gain_text(hot("alone", instruction="mov", access="write")) == ""


def test_a_line_that_stays_gains_nothing() -> None:
    prices = Prices([], [record("none", 5.0), record("same_line", 20.0)])
    stays = Movement(answer="by_turns", samples=100, cpus=2)
    for at_once, gains in ((0.9, False), (0.1, True)):
        line = hot(movement=stays, at_once=at_once)
        assert (prices.ceiling(line, "x86_64") is not None) == gains


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
        ("lock cmpxchg8b", "i386", "cmpxchg8b_loop_read_first_add"),
        ("lock cmpxchg16b", "x86_64", "cmpxchg_loop_read_first"),
        ("mov", "x86_64", ""),
    ],
)
def test_instructions_and_their_forms(instruction: str, arch: str, form: str) -> None:
    assert standing_for(instruction, arch) == form


def remedy(line: Hot) -> str:
    return find_results.said_of(line)[0]


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
    assert remedy(hot(instruction="lock add")).startswith("Count per CPU")
    assert "Count per CPU" not in remedy(
        hot(instruction="lock xadd", function="pthread_rwlock_rdlock")
    )
    assert "SRCU" in remedy(hot(instruction="lock xadd", function="pthread_rwlock_rdlock"))


def test_a_lock_of_arm64_is_known_by_the_caller_of_the_outline_helper() -> None:
    """glibc's locks call helpers there; the helper alone could be a counter's."""
    line = hot(instruction="ldadda", function="__aarch64_ldadd4_acq")
    assert remedy(line).startswith("Count per CPU")
    for caller, begins in (("pthread_rwlock_rdlock", "Read under SRCU"), ("pthread_mutex_lock",
                           "Hold the lock less often")):  # fmt: skip
        site = msgspec.structs.replace(line.sites[0], module="libc.so.6", caller=caller)
        assert remedy(msgspec.structs.replace(line, sites=[site])).startswith(begins)


def lock_line(readers: float, writers: float, module: str = "libc.so.6", **more) -> Hot:
    """A line whose samples are of taking a readers-writer lock, and some of releasing it."""
    shares = {"rdlock": readers, "wrlock": writers, "unlock": 0.1}
    line = hot(instruction="lock xadd", share=readers + writers + 0.1, **more)
    site = line.sites[0]
    sites = [
        msgspec.structs.replace(site, module=module, function=f"pthread_rwlock_{f}", share=share)
        for f, share in shares.items()
        if share
    ]
    return msgspec.structs.replace(line, sites=sites)


def reader(form: str, ns: float, threads: int = 2, launch: int = 0, **params) -> Record:
    cell = Cell(
        operation="readers_pair", form=form, width_bits=8, order="acq_rel", threads=threads,
        contender="same_line" if threads > 1 else "none", params={"read_delay": 0} | params,
    )  # fmt: skip
    given = record("none", ns, launch=launch)
    return msgspec.structs.replace(given, cell=cell, id=cell.id, plan="readers")


@pytest.mark.parametrize(
    ("readers", "writers", "begins", "trial"),
    [
        (0.5, 0.0, "Read under SRCU", True),
        (0.4, 0.1, "Read under SRCU", True),
        (0.39, 0.1, "Hold the lock less often, or split it: by the samples readers and", False),
        (0.2, 0.2, "Hold the lock less often, or split it: by the samples writers", False),
        (0.0, 0.3, "Hold the lock less often, or split it: by the samples writers", False),
        (0.0, 0.0, "Hold the lock less often, split it, or do more", False),
    ],
)
def test_who_takes_a_readers_writer_lock_decides_the_advice(readers, writers, begins, trial):
    said, step = find_results.said_of(lock_line(readers, writers), ["./p", "x y"])
    assert said.startswith(begins)
    assert ("run --locks" in said) == trial
    assert (step == "linewright trial --locks -- ./p 'x y'") == trial
    assert complaint(step) == ""


def test_of_a_run_without_samples_none_are_named() -> None:
    """`--exact` said "by the samples" of locks."""
    for readers, writers in ((5, 0), (3, 1), (1, 3)):
        line = lock_line(readers, writers)
        sites = [msgspec.structs.replace(s, share=0.0, accesses=int(s.share)) for s in line.sites]
        more = {"certainty": "exact", "share": None, "accesses": 9}
        exact = msgspec.structs.replace(line, sites=sites, **more)
        for known, seen in ((line, "by the samples"), (exact, "by its accesses")):
            text = find_results.said_of(known)[0]
            assert (f"{seen} " in text, "sample" in text) == (True, known is line), text


def test_locks_that_no_library_can_stand_in_for_are_not_sent_to_one() -> None:
    for line in (
        lock_line(0.5, 0.0, module="p"),
        hot(instruction="lock xadd", function="own::lock_shared()"),
    ):
        said, step = find_results.said_of(line, ["./p"])
        assert said.startswith("Read under SRCU") and "--locks" not in said + step


LOCK_PRICES = [
    *(reader("rwsem", ns, launch=at) for at, ns in enumerate((200.0, 180.0, 220.0))),
    *(reader("biased_rwlock", ns, launch=at) for at, ns in enumerate((2.0, 1.8, 2.2))),
    reader("rwsem", 20.0, threads=1),
    reader("biased_rwlock", 1.0, threads=1),
]


def test_cheaper_readers_save_what_the_c_librarys_cost_more() -> None:
    found = Prices([], LOCK_PRICES).ceiling(lock_line(0.5, 0.0), "x86_64")
    assert found.form == "biased_rwlock"
    assert (found.gain.low, found.gain.value, found.gain.high) == pytest.approx(
        (0.5 * (180 - 2.2) / 180, 0.6 * 198 / 200, 0.7 * (220 - 1.8) / 220)
    )
    priced = find_results.priced(lock_line(0.5, 0.0), prices=Prices([], LOCK_PRICES))
    said = " ".join(render_all(document(priced).evidence[0].lines))
    assert "with readers that write no shared line: 49 % to 69 % of CPU time to gain" in said
    assert "pthread_rwlock_t 180 to 220 ns, biased 1.80 to 2.20 ns" in said


@pytest.mark.parametrize(
    "wrong",
    [
        reader("biased_rwlock", 190.0, updater="synchronize"),
        reader("biased_rwlock", 190.0, read_delay=200),
        reader("biased_rwlock", 190.0, threads=8),
        msgspec.structs.replace(reader("biased_rwlock", 190.0), status="error"),
    ],
)
def test_readers_beside_an_updater_are_no_price_of_a_lock(wrong: Record) -> None:
    found = Prices([], [*LOCK_PRICES, wrong]).ceiling(lock_line(0.5, 0.0), "x86_64")
    assert found.alone_ns.high_ns == 2.2


def test_writers_save_nothing_by_cheaper_readers() -> None:
    adds = [record("none", 5.0, form="lock_xadd"), record("same_line", 20.0, form="lock_xadd")]
    for line in (lock_line(0.2, 0.2), lock_line(0.3, 0.2), lock_line(0.0, 0.0)):
        found = Prices([], [*LOCK_PRICES, *adds]).ceiling(line, "x86_64")
        assert found.form == "lock_xadd", "what ending the contention could bring"
    assert Prices([], LOCK_PRICES[:3]).ceiling(lock_line(0.5, 0.0), "x86_64") is None


def test_an_addition_whose_old_value_is_used_is_no_counter() -> None:
    said = remedy(hot(instruction="lock xadd", role="old value"))
    assert said.startswith("Take several numbers at once") and "batches" not in said
    assert remedy(hot(instruction="lock xadd")).startswith("Count per CPU")
    assert remedy(hot(instruction="ldaddal")).startswith("Count per CPU")


@pytest.mark.parametrize(("share", "said"), [(0.3, "Do fewer"), (0.02, "Take several numbers")])
def test_a_word_that_is_taken_as_well_counts_nothing(share: float, said: str) -> None:
    """Rust's RwLock without debug information: a compare-and-swap locks, an addition unlocks."""
    added = hot(instruction="lock xadd", role="old value")
    (site,) = added.sites
    sites = [
        msgspec.structs.replace(site, share=1 - share),
        msgspec.structs.replace(site, instruction="lock cmpxchg", role="", share=share),
    ]
    assert remedy(msgspec.structs.replace(added, sites=sites)).startswith(said)


def test_a_wait_is_no_reader() -> None:
    line = hot(instruction="mov", access="read", role="waits")
    assert remedy(line).startswith("Let the waiting threads look less often")
    assert "wait" not in remedy(hot(instruction="mov", access="read"))


def test_references_have_their_own_advice() -> None:
    line = hot(instruction="lock xadd", function="std::shared_ptr<int>::shared_ptr(...)")
    assert remedy(line).startswith("Hand the object on by reference")


def test_a_lone_writer_whose_bytes_others_read_is_not_told_to_move() -> None:
    writer = Touch(thread=1, name="", bytes=[(0, 8)], writes=True, reads=False)
    readers = [
        Touch(thread=tid, name="", bytes=[(0, 8)], writes=False, reads=True) for tid in (2, 3)
    ]
    line = hot(instruction="mov", access="write")
    shared = msgspec.structs.replace(line, touches=[writer, *readers], threads=3)
    assert "other bytes only" not in remedy(shared)
    elsewhere = Touch(thread=4, name="", bytes=[(32, 8)], writes=False, reads=True)
    beside = msgspec.structs.replace(line, touches=[writer, *readers, elsewhere], threads=4)
    assert "Thread 4 uses other bytes only" in remedy(beside)


def page(lines: list[Hot], **more: object) -> Document:
    return document(find_results.result(*lines, **more))


def test_a_share_of_near_samples_is_called_an_estimate_and_no_bound() -> None:
    estimated, counted = page([hot(estimated=True)]), page([hot()])
    assert estimated.tables[0].rows[0][1] == "about 50 % (40 to 60)"
    assert counted.tables[0].rows[0][1] == "50 % (40 to 60)"


def test_a_fence_is_said_to_wait_for_the_stores_before_it() -> None:
    fence = hot("alone", instruction="lock or", object_kind="stack")
    said = render_all(
        page([], alone=[fence, hot("alone", instruction="lock or")]).evidence[0].lines
    )
    assert "a full fence: it waits" in said[0] and "a full fence" not in said[1]


def test_the_proof_is_offered_where_there_is_one() -> None:
    line = hot("false", object_kind="heap", allocated_in="make node")
    _, step = find_results.said_of(line, ["./p", "a b"])
    assert step == "linewright trial --pad 'make node' -- ./p 'a b'"
    assert find_results.said_of(hot("false"), ["./p"])[1] == ""


@pytest.mark.parametrize("on", ["local", "ssh://me@host", "exec:docker exec -i 'my box'"])
def test_every_command_that_is_offered_is_taken(command, on: str) -> None:
    offered = [
        find_results.said_of(line, ["./p", "a b", "--pad"], on=on)[1]
        for line in (
            hot("false", object_kind="heap", allocated_in="std::vector<int, (a)0>::push"),
            hot("false", object_kind="heap"),
            hot(instruction="ldaddal", function="__aarch64_ldadd8_acq_rel"),
            hot(instruction="lock xadd", role="old value"),
            hot(),
        )
    ]
    assert {line.split()[1] for line in offered} == {"trial", "find", "measure"}
    assert [complaint(line) for line in offered] == [""] * len(offered)
    if on == "local":
        for line in offered:
            assert "measure" not in line or refused(command, line) == {}


def test_the_policy_is_offered_where_outline_helpers_do_it() -> None:
    line = hot(instruction="ldaddal", function="__aarch64_ldadd8_acq_rel")
    said, step = find_results.said_of(line, ["./p"])
    assert "LINEWRIGHT_ATOMICS" in said and step == "linewright trial -- ./p"
    said, step = find_results.said_of(hot(instruction="ldaddal"), ["./p"])
    assert "LINEWRIGHT_ATOMICS" not in said and not step.startswith("linewright trial")


def test_padding_is_not_offered_within_one_block() -> None:
    line = hot("false", object_kind="heap", allocated_in="make", one_block=True)
    said, step = find_results.said_of(line, ["./p"])
    assert step == "" and said.startswith("Separate the fields or elements within")


def test_threads_beside_a_true_sharing_are_told_to_move() -> None:
    """A lock of two threads, and a third that reads a neighbouring field."""
    touches = [
        Touch(thread=number, name="", bytes=[(at, 8)], writes=number < 3, reads=True)
        for number, at in ((1, 0), (2, 0), (3, 8))
    ]
    line = msgspec.structs.replace(
        hot("true", function="pthread_mutex_lock"), touches=touches, threads=3
    )
    assert remedy(line).endswith(
        "Thread 3 uses other bytes only: move them to a line of their own."
    )
    both = msgspec.structs.replace(line, touches=touches[:2], threads=2)
    assert "move" not in remedy(both)


def test_a_block_of_many_fields_is_seen_as_one(sampling, found) -> None:
    line = found("--heap", "--", sampling, "heap_fields", 2, "0.6")["lines"][0]
    assert line["kind"] == "false" and line["one_block"] and line["next_command"] == ""


def test_a_function_is_padded_by_its_range(sampling) -> None:
    nm = subprocess.run(["nm", "-CS", sampling], capture_output=True, text=True, check=True).stdout
    begin, size = next(line.split()[:2] for line in nm.splitlines() if line.endswith(" main"))
    end = int(begin, 16) + int(size, 16)
    assert (
        heap_padding.ranges("main", str(sampling)) == f"find_planted+{int(begin, 16):#x}-{end:#x}"
    )
    assert heap_padding.ranges("lib.so+0x20", str(sampling)) == "lib.so+0x1f-0x20"
    assert heap_padding.ranges("lib.so+0x20-0x40", str(sampling)) == "lib.so+0x20-0x40"


def test_a_static_variable_is_told_what_to_do_instead(sampling) -> None:
    with pytest.raises(UserError, match="static variable"):
        heap_padding.ranges("true_counter", str(sampling))
    with pytest.raises(UserError, match="no function"):
        heap_padding.ranges("nothing_of_that_name", str(sampling))


STAYS = ("by_turns", "one_cpu")


def moving(found, *words: object) -> dict:
    """A search whose first line moves: on a busy machine the threads may take turns."""
    for _ in range(TRIES):
        result = found(*words)
        if result["lines"] and result["lines"][0]["movement"]["answer"] not in STAYS:
            return result
    return pytest.fail("no line moved in any run")


def test_the_commands_of_a_heap_block_lead_to_the_trial_of_its_padding(
    sampling, found, command
) -> None:
    """Each is executed as it was printed, the trial with two rounds of a shorter program."""
    for _ in range(TRIES):
        line = moving(found, "--", sampling, "heap_false", 2, "0.6")["lines"][0]
        _, *words = shlex.split(line["next_command"])
        assert words[:2] == ["find", "--heap"]
        again = command("find", "--json", *words[1:]).stdout
        line = find_results.worded(again)["lines"][0]
        assert line["allocated_in"] == "main"
        if line["next_command"]:
            break
    else:
        pytest.fail("the threads took turns in every run")
    _, trial, *words = shlex.split(line["next_command"])
    assert (trial, words[:2], words[-1]) == ("trial", ["--pad", "main"], "0.6")
    done = command(trial, "--runs", "2", "--set", "warmup=0", "--json", *words[:-1], "0.05")
    assert done.returncode == 0 and "no heap block came from there" not in done.stderr, done.stderr
    settings = json.loads(done.stdout)["session"]["settings"]
    assert [setting["name"] for setting in settings] == ["unpadded", "pad main"]


def test_the_measurement_that_a_search_asks_for_gives_it_its_ceiling(
    sampling, found, command
) -> None:
    command.probe = FAKE_PROBE
    words = ("--", sampling, "true", 2, "0.6")
    before = moving(found, *words)
    ((line, (answer, made)),) = follow(command, " ".join(before["notes"])).items()
    assert line == "linewright measure" and answer.returncode == 0
    (command.directory / "results").mkdir()
    made.rename(command.directory / "results" / made.name)
    after = moving(found, *words)
    assert before["lines"][0]["ceiling"] is None and after["lines"][0]["ceiling"] is not None
    assert "No ceiling" not in " ".join(after["notes"])


def test_a_mix_of_reads_and_writes_is_no_price_of_either() -> None:
    mixed = [record(contender, 9.0) for contender in ("none", "same_line")]
    share = {"write_percent": 10}
    mixed = [replace(r, cell=replace(r.cell, params=share)) for r in mixed]
    assert not Prices([], mixed)
