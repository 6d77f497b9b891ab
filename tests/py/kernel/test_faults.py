# SPDX-License-Identifier: MIT
"""linewright.ko where memory is short, its PCI device goes away, or CPUs are taken from it."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from support.places import ROOT
from support.planted import planted

sys.path.insert(0, str(ROOT / "tests/kernel"))

import kernels
import machine
from machine import BESIDE, Machine, cell, of_form, parsed, quiet, sum_of
from small import or_skipped

SERIES, ARCH = "6.1", "amd64"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernel is one for x86-64"),
]

FAULTS = {
    "rmw.c": ("if (!pages[line])", "if (!pages[line] || line == 4000)"),
    "percpu.c": ("if (!words[line])", "if (!words[line] || line == 250)"),
    "readers.c": (
        "int error = guard ? init_guard(",
        "int error = line == 4000 ? -ENOMEM : guard ? init_guard(",
    ),
    "lookups.c": (
        "struct object *object = kmem_cache_alloc(cache, LWK_GFP);\n\n\t\t\tif",
        "struct object *object = line == 7 ? NULL : kmem_cache_alloc(cache, LWK_GFP);\n\n\t\t\tif",
    ),
    "dma.c": ("if (!list->pages[i])", "if (!list->pages[i] || i == 8)"),
}
"""An allocation of each family that fails when most of a cell's memory has been taken."""
CELLS = {
    "rmw.c": {"operation": "add", "form": "atomic_add", "lines": 4096},
    "percpu.c": {"operation": "percpu_add", "form": "this_cpu_add", "lines": 256, "slots": 64},
    "readers.c": {"operation": "readers_pair", "form": "srcu", "width": 8, "lines": 4096},
    "lookups.c": {
        "operation": "readers_lookup",
        "form": "typesafe_ref",
        "width": 8,
        "lines": 8,
        "instances": 16384,
    },
    "dma.c": {
        "operation": "dma_map",
        "form": "dma_sg",
        "width": 8,
        "entries": 16,
        "entry_bytes": 4 << 20,
    },
}
COUNTING = {
    "main.c": (
        'if (!strcmp(verb, "prepare"))',
        """if (!strcmp(verb, "fail")) {
			lwk_say(&session->text, "live %d left %d\\n", lwk_live, lwk_left);
			lwk_left = id;
			return 0;
		}
		if (!strcmp(verb, "prepare"))""",
    ),
    "run.c": ("enum phase {", "int lwk_left, lwk_live;\n\nenum phase {"),
    "Kbuild": ("ccflags-y := ", "ccflags-y := -include $(src)/failing.h "),
}
"""A request `fail N`: the N-th allocation from then on fails; its answer says what is held."""
SMALL_CELLS = [
    {"operation": "add", "form": "atomic_add", "lines": 3, "threads": 2, "contender": "same_line"},
    {"operation": "percpu_add", "form": "this_cpu_add", "lines": 2, "slots": 16},
    {"operation": "readers_pair", "form": "rcu", "width": 8, "lines": 2},
    {"operation": "readers_pair", "form": "srcu", "width": 8, "lines": 2},
    {"operation": "readers_pair", "form": "percpu_rwsem", "width": 8, "lines": 2},
    {"operation": "readers_lookup", "form": "typesafe_lock", "width": 8, "lines": 2}
    | {"instances": 16},
    {"operation": "dma_map", "form": "dma_sg", "width": 8, "entries": 7},
]
"""Below the lines and entries of FAULTS, with which they share a machine."""
SHORT, PLENTY = ("-m", "256"), 3 << 27
"""The emulator's words for 256 MiB of memory, and one and a half times that: with little memory
few requests are enough to use it up."""


def boot(
    out: Path,
    guest: tuple[str, ...],
    *more: str,
    changes: dict[str, tuple[str, str]] | None = None,
    arch: str = ARCH,
) -> Machine:
    """Debian's kernel with the module, or with a copy of it with changes."""
    with or_skipped():
        tree = kernels.fetch(SERIES, arch, ROOT / "build")
        if changes:
            subprocess.run(
                ["make", "-s", "-C", str(ROOT / "kmod"), "tree", f"DEST={out / 'module'}"],
                check=True,
            )
            shutil.copy(ROOT / "tests/kernel/failing.h", out / "module")
            for name, (right, wrong) in changes.items():
                source = out / "module" / name
                source.write_text(planted(source.read_text(), right, wrong))
        kernels.build(SERIES, arch, out / "module")
    init = machine.program(ROOT / "tests/system/init.c", arch, out)
    if guest:
        guest = [str(machine.program(ROOT / "tests/kernel/guest.c", arch, out)), *guest]
    return Machine(tree / "vmlinuz", arch, out / "module", init, guest, more=more)


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Iterator[Machine]:
    booted = boot(tmp_path_factory.mktemp("short"), (), *SHORT, changes=FAULTS | COUNTING)
    with quiet(booted):
        yield booted


def bytes_of(fields: dict[str, object]) -> int:
    """About what the cell has taken when it fails: a lower bound."""
    if "entry_bytes" in fields:
        return 8 * fields["entry_bytes"]
    if "instances" in fields:
        return 7 * fields["instances"] * 136
    return fields["lines"] * (64 * 256 * 2 if "slots" in fields else 2048)


@pytest.mark.parametrize("name", FAULTS)
def test_a_cell_that_fails_gives_its_memory_back(short, name):
    """So often that the machine would have none left otherwise; then a cell of half of what is free
    would be refused by name."""
    fields = "".join(f"{key}={value}\n" for key, value in CELLS[name].items())
    for _ in range(PLENTY // bytes_of(CELLS[name])):
        answer = short.say(f"prepare 0\n{fields}")
        assert answer == ["error the cell could not be prepared: -12"], answer


def every_failure(machine: Machine, request: str, ends_with: str = "") -> int:
    """Make a request again and again, each time with one allocation later failing, until it needs
    none that late: it is done then. Whenever it is refused, it holds nothing; how often it was.
    `ends_with` is a request that gives back what one that was done holds."""

    def held(failing: int) -> tuple[int, int]:
        (answer,) = machine.say(f"fail {failing}")
        _, live, _, left = answer.split()
        return int(live), int(left)

    for number in range(1, 256):
        before, _ = held(number)
        refused = any(line.startswith("error ") for line in machine.say(request))
        after, left = held(0)
        assert not refused or after == before, (request, number, before, after)
        if left:
            assert not refused, (request, number)
            if not ends_with:
                assert after == before
            return number - 1
        if not refused and ends_with:
            machine.say(ends_with)
    raise AssertionError(f"more allocations than can be counted: {request}")


@pytest.mark.parametrize("fields", SMALL_CELLS, ids=lambda cell: cell["form"])
def test_any_allocation_may_fail_and_nothing_stays_behind(short, fields):
    """The first, the second and so on of all that preparing a cell and starting a window take, the
    threads among them; the next attempt works, and what was taken is given back."""
    (start,) = short.say("fail 0")
    lines = "".join(f"{key}={value}\n" for key, value in fields.items())
    taken = every_failure(short, f"prepare 0\n{lines}", "forget 0")
    cpus = "0,1" if "threads" in fields else "0"
    started = every_failure(short, f"window 0\ncpus={cpus}\nwindow_us=1000\n")
    assert taken >= 3 and started >= 3, (taken, started)
    assert short.say("forget 0") == []
    assert short.say("fail 0") == [start]


def test_a_cell_beyond_the_memory_is_refused_by_name(short):
    (refused,) = short.ask(cell(**CELLS["lookups.c"] | {"lines": 4096, "cpus": 0}))
    assert "MiB, half of what is free, are allowed" in refused


def test_what_cells_hold_together_is_bounded(short):
    """Prepared cells, of which there may be many, leave memory to the machine: the last is
    refused, and nothing is killed for it."""
    fields = "".join(f"{key}={value}\n" for key, value in CELLS["rmw.c"].items())
    small = fields.replace("4096", "4000")
    answers = [short.say(f"prepare {number}\n{small}") for number in range(1, 200)]
    assert answers[0] == [] and "half of what is free" in answers[-1][0]
    for number in range(1, 200):
        assert short.say(f"forget {number}") == []
    assert short.say(f"prepare 1\n{small}") == []
    assert not [line for line in short.log if "Out of memory" in line or "oom" in line]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory) -> Iterator[Machine]:
    """With a PCI device, which has gone away and come back before the runner began."""
    device = ("/linewright.ko", "1234:11e8"), "-device", "edu"
    with quiet(boot(tmp_path_factory.mktemp("unchanged"), *device)) as booted:
        yield booted


def test_a_pci_device_may_go_away_and_come_back(unchanged):
    assert "@@exit 0 0" in unchanged.before, "\n".join(unchanged.before[-30:])


def test_a_request_that_is_killed_at_any_moment_ends_soon(tmp_path):
    """Within 100 ms. The machine's clock counts executed instructions, a nanosecond each, so the
    host's load is not in it; it counts those of both CPUs, which run in turns: 200 ms by it. A
    grace period of the kernel's own cannot be ended early."""
    counted = ("-icount", "shift=0,sleep=off")
    booted = boot(tmp_path, ("/linewright.ko", "killed"), *counted, arch="arm64")
    try:
        said = "\n".join(booted.before)
        assert "@@exit 0 0" in said, said[-4000:]
        lasted = dict(re.findall(r"^killed request=(\w+) us=(\d+)$", said, re.MULTILINE))
        assert len(lasted) >= 16
        limits = {name: 1_000_000 if name.startswith("grace_") else 200_000 for name in lasted}
        assert not {name: us for name, us in lasted.items() if int(us) > limits[name]}, lasted
        assert not booted.warnings()
    finally:
        booted.close()


@contextlib.contextmanager
def starved(machine: Machine) -> Iterator[None]:
    """All of a machine's CPUs share a host CPU with a loop, as long as this lasts."""
    allowed = sorted(os.sched_getaffinity(0))
    busy = subprocess.Popen(
        ["taskset", "-c", str(allowed[0]), sys.executable, "-c", "while True: pass"]
    )
    words = ["taskset", "-a", "-c", "-p"]
    try:
        subprocess.run([*words, str(allowed[0]), str(machine.process.pid)], check=True)
        yield
    finally:
        busy.kill()
        busy.wait()


def test_every_window_ends_on_a_machine_whose_cpus_are_taken(unchanged):
    """A window of ten seconds ends at its limit, says so, and its sum is right: this test ends
    because windows do."""
    wanted = ("atomic_add", "llsc_add", "spinlock", "mutex", "rwsem", "srcu", "typesafe_lock")
    forms = [form for form in unchanged.forms() if form["name"] in wanted]
    assert len(forms) > 5
    with starved(unchanged):
        for form, limit_ms in itertools.product(forms, (1, 300)):
            window = {"window_us": 10_000_000, "limit_ms": limit_ms, "windows": 1}
            answer = unchanged.ask(of_form(form, **BESIDE, contender_iters=1000, **window))
            assert "end stop=time" in answer, (form, answer)
            total = sum_of(answer)
            assert total["expected"] == total["found"] and total["wrong"] == "0", (form, total)


def test_a_window_ends_at_its_limit_whatever_batch_is_given(short):
    """A batch that would take minutes. Were it run to its end, the kernel would report that the CPU
    is stuck, and the fixture looks for that."""
    long = {"work": 1_000_000, "batch": 150_000, "limit_ms": 1, "windows": 1, "cpus": 0}
    answer = short.ask(cell(operation="add", form="atomic_add", **long))
    assert answer[-1] == "end stop=time", answer
    total = sum_of(answer)
    assert total["expected"] == total["found"] and int(total["found"]) < 150_000, total


REQUESTS = int(os.environ.get("LINEWRIGHT_KERNEL_REQUESTS", "400"))
"""Accepted requests of the next test; `make kernel-test` takes 10,000."""


def drawn(forms: list[dict[str, str]], random: Random) -> dict[str, object]:
    """A cell and a window with anything that the module takes, most of it at its ends."""

    def up_to(most: int) -> int:
        return random.choice([0, 1, random.randint(0, most), most])

    form = random.choice(forms)
    fields = {key: form[key] for key in ("operation", "width")} | {"form": form["name"]}
    threads = random.choice([1, 2])
    if threads == 2:
        fields |= {"threads": 2, "contender": random.choice(["placebo", "same_line"])}
        fields |= {"contender_iters": up_to(1_000_000)}
    if form["operation"].startswith("readers"):
        fields |= {"delay": up_to(1_000_000), "updater": random.choice(["none", "synchronize"])}
    fields |= {"work": up_to(1_000_000), "work_kind": random.choice(["chain", "memory"])}
    fields |= {"lines": 1 + up_to(3), "slots": random.choice([1, 16]), "instances": 16}
    if form["operation"].startswith("dma") or form["operation"].startswith("clean"):
        fields |= {"entries": 1 + up_to(64), "entry_bytes": 1 + up_to(65_535)}
    window = {"cpus": "0" if threads == 1 else "0,1", "limit_ms": 1 + up_to(4)}
    window |= {"window_us": 10 + up_to(9_999_990), "batch": up_to(1 << 20)}
    return fields | window | {"batch_ns": 1000 + up_to(999_000), "windows": 1}


def test_no_accepted_request_keeps_a_cpu(short):
    """The kernel has nothing to report about requests of any size, each of which ends."""
    random = Random(int(os.environ.get("LINEWRIGHT_SEED", "1")))
    forms = short.forms()
    accepted = 0
    while accepted < REQUESTS:
        asked = drawn(forms, random)
        answer = short.ask(cell(**asked))
        accepted += answer[-1].startswith("end stop=")
        assert answer[-1].startswith(("end stop=", "error ")), (asked, answer)


def test_the_baseline_runs_beside_as_many_threads(short):
    lines = "operation=add\nform=atomic_add\nthreads=2\ncontender=same_line\n"
    assert short.say(f"prepare 0\n{lines}") == []
    for baseline in (0, 1):
        answer = short.say(f"window 0\ncpus=0,1\nwindow_us=300000\nbaseline={baseline}\n")
        threads = [parsed(line) for line in answer if line.startswith("thread ")]
        assert [thread["cpu"] for thread in threads] == ["0", "1"], answer
        assert all(int(thread["ops"]) > 0 for thread in threads), answer
        said = parsed(answer[0])
        assert said["expected"] == said["found"] and (said["found"] == "0") == bool(baseline)


@pytest.mark.parametrize("form", ["spinlock_irq", "irqsave", "incpercpu_irqsave"])
def test_interrupts_stay_off_for_a_bounded_time_only(short, form):
    operation = "readers_pair" if form == "spinlock_irq" else "readers_floor"
    asked = {"operation": operation, "form": form, "width": 8, "threads": 2, "cpus": "0,1"}
    beside = {"contender": "same_line", "delay": 500_001}
    (refused,) = short.ask(cell(**asked, **beside))
    assert "keeps interrupts off" in refused and refused.endswith("allowed: up to 500000")
