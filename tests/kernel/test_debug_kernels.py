# SPDX-License-Identifier: MIT
"""linewright.ko in kernels of ours with lockdep and KASAN, and with KCSAN: every kind of cell, and
mistakes that a check must find.

A mistake is a small change of the module's sources. What it breaks is found by the kernel (lockdep,
KASAN, KCSAN, its checks of sleeping, preemption and DMA) or by the module itself: sums, readers
beside an updater, lists as CPU and device see them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import ours  # noqa: E402
import small  # noqa: E402
from machine import BESIDE, Machine, of_form, quiet, sum_of  # noqa: E402
from small import or_skipped  # noqa: E402

from support.planted import planted  # noqa: E402

SERIES = os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split()
KERNELS = [series for series, arch in ours.PATCHES if arch == "x86_64" and series in SERIES]


def built(series: str, fragments: tuple[str, ...] | None = None) -> Path:
    with or_skipped():
        return ours.kernel(series, "x86_64", fragments=fragments)


@pytest.fixture(scope="module")
def kernel() -> Path:
    """The one in which mistakes are made: it has every kind of reader that they are made in."""
    return built("6.12")


@pytest.fixture(scope="module")
def racing() -> Path:
    return built("6.12", ours.RACES)


# ---- the module as it is ----


def cells_of(form: dict[str, str]) -> list[dict[str, object]]:
    """One cell of each kind that a form can run."""
    if form["family"] == "dma":
        lists = {"entries": 9, "entry_bytes": 3000}
        verify = int(form["name"] == "dma_sg")
        directions = ("to_device", "from_device", "bidirectional")
        return [lists | {"direction": to, "verify": verify} for to in directions]
    cells: list[dict[str, object]] = [{"lines": 2, "work": 65}]
    if form["racy"] == "0":
        cells.append(BESIDE | {"contender_iters": 10})
    for updater in ("synchronize", "expedited"):
        if form[updater] == "1":
            cells.append(BESIDE | {"updater": updater, "verify": 1, "delay": 100})
            cells.append(BESIDE | {"updater": updater, "operation": "readers_grace"})
    if form["replace"] == "1":
        cells.append(BESIDE | {"updater": "replace", "verify": 1, "delay": 100, "instances": 4})
    return cells


def whole(kernel: Path, out: Path, *guest: str, more: tuple[str, ...] = ()) -> Machine:
    """The module as it is; the guest, which has run in there first, found nothing wrong."""
    init = small.program(ROOT / "tests/system/init.c", "x86_64", out)
    words = [str(small.program(ROOT / "tests/kernel/guest.c", "x86_64", out)), "/linewright.ko"]
    module = small.module(kernel, "x86_64", out / "module")
    machine = Machine(kernel / "vmlinuz", "x86_64", module, init, [*words, *guest], more=more)
    if "@@exit 0 0" not in machine.before:
        machine.close()
        pytest.fail("\n".join(machine.before[-30:]))
    return machine


@pytest.mark.parametrize("series", KERNELS)
def test_a_pci_device_that_goes_away_is_touched_no_more(series, tmp_path):
    edu = ("-device", "edu")
    with quiet(whole(built(series), tmp_path, "1234:11e8", more=edu)) as machine:
        machine.end()


@pytest.mark.parametrize("series", KERNELS)
def test_every_kind_of_cell_without_a_complaint(series, tmp_path):
    with quiet(whole(built(series), tmp_path)) as machine:
        run_every_kind(machine)


def run_every_kind(machine: Machine, **beside: int) -> None:
    """`beside` are the windows of cells with two threads."""
    ran = 0
    for form in machine.forms():
        for fields in cells_of(form):
            windows = beside if "threads" in fields else {}
            total = sum_of(machine.ask(of_form(form, **fields, **windows)))
            wrong = total["expected"] != total["found"] or total["wrong"] != "0"
            assert not wrong, (form, fields, total)
            ran += 1
    assert ran > 100
    machine.end()


WATCHED = {"windows": 2, "window_us": 200_000}
"""A single window of this length showed KCSAN the race that is made below in 6 of 12 cases."""


def races(machine: Machine) -> list[str]:
    """KCSAN's reports whose title names the module, which has one of the two accesses; the kernel's
    own races are not asked about."""
    reports = re.split("={60,}", "\n".join(machine.log))
    return [said for said in reports if re.search(r"BUG: KCSAN: .*\[linewright\]", said)]


def test_every_kind_of_cell_without_a_race(racing, tmp_path):
    with closing(whole(racing, tmp_path)) as machine:
        run_every_kind(machine, **WATCHED)
    assert not races(machine), "\n".join(races(machine))
    assert not [line for line in machine.warnings() if "KCSAN" not in line]


# ---- mistakes ----


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A change of one file of the module, the cell in which it shows, and what has to be said
    then."""

    file: str
    right: str
    wrong: str
    operation: str
    form: str
    width: int = 8
    fields: dict[str, object] = field(default_factory=dict)
    complaint: str = ""
    """Pattern of a line in the kernel's log."""
    sum_is_wrong: Callable[[dict[str, str]], bool] | None = None


def readers_see_wrong(total: dict[str, str]) -> bool:
    return int(total["wrong"]) > 0


def counts_are_lost(total: dict[str, str]) -> bool:
    return total["expected"] != total["found"]


PAIR = {"file": "readers.c", "operation": "readers_pair"}
FLOOR = {"file": "readers.c", "operation": "readers_floor"}
LONG = BESIDE | {"windows": 6, "window_us": 200000}
ATOMIC = "sleeping function called from invalid context"

IN_FORMS = {
    "sleeping under a spinning lock": Mistake(
        **PAIR,
        form="rwlock",
        right="PAIR(rwlock, NOTHING, read_lock(&g->rwlock),",
        wrong="PAIR(rwlock, NOTHING, read_lock(&g->rwlock); kfree(kzalloc(8, GFP_KERNEL)),",
        complaint=f"BUG: {ATOMIC} at include/linux/sched/mm.h",
    ),
    "a reader that does not lock": Mistake(
        **PAIR,
        form="spinlock",
        right="PAIR(spinlock, NOTHING, spin_lock(&g->spinlock), spin_unlock(&g->spinlock))",
        wrong="PAIR(spinlock, NOTHING, NOTHING, NOTHING)",
        fields=LONG | {"verify": 1, "delay": 3000, "updater": "synchronize"},
        sum_is_wrong=readers_see_wrong,
    ),
    "an updater that does not wait": Mistake(
        **PAIR,
        form="rwsem",
        right="GRACE(rwsem, down_write(&g->rwsem); up_write(&g->rwsem))",
        wrong="GRACE(rwsem, barrier())",
        fields=LONG | {"verify": 1, "delay": 3000, "updater": "synchronize"},
        sum_is_wrong=readers_see_wrong,
    ),
    "an addition of two accesses": Mistake(
        file="rmw.c",
        operation="add",
        form="atomic_add",
        width=32,
        right="ATOMIC(add, add(1, p))",
        wrong="ATOMIC(add, set(p, atomic_read((atomic_t *)p) + 1))",
        fields=LONG,
        sum_is_wrong=counts_are_lost,
    ),
    "a device that does not write": Mistake(
        file="dma.c",
        operation="dma_map",
        form="dma_sg",
        right="if (from)\n\t\tas_device(run, device, mapped, 0x44, true);",
        wrong="",
        fields={"verify": 1, "entries": 4, "entry_bytes": 4096, "direction": "from_device"},
        sum_is_wrong=readers_see_wrong,
    ),
    "a list unmapped for another direction": Mistake(
        file="dma.c",
        operation="dma_unmap",
        form="dma_sg",
        right="dma_unmap_sg(device, sgl, entries, direction);",
        wrong="dma_unmap_sg(device, sgl, entries, DMA_BIDIRECTIONAL);",
        fields={"entries": 4, "entry_bytes": 4096, "direction": "to_device"},
        complaint="DMA-API: .*different direction",
    ),
    "a reader's domain of another kind": Mistake(
        **PAIR,
        form="srcu_fast_updown",
        right="return init_srcu_struct_fast_updown(&guard->srcu);",
        wrong="return init_srcu_struct(&guard->srcu);",
        complaint="WARNING: .*srcu-fast-updown.h",
    ),
    "interrupts left off": Mistake(
        **FLOOR,
        form="irqsave",
        right="FLOOR(irqsave, unsigned long flags, local_irq_save(flags), "
        "local_irq_restore(flags))",
        wrong="FLOOR(irqsave, unsigned long flags, local_irq_save(flags), (void)flags)",
        complaint=f"BUG: {ATOMIC} at .*run.c",
    ),
    "a reader that never leaves": Mistake(
        **PAIR,
        form="srcu_nmisafe",
        right="srcu_read_unlock_nmisafe(&g->srcu, idx))",
        wrong="(void)idx)",
        complaint="WARNING: .*cleanup_srcu_struct",
    ),
}
"""They are made in one module and met in one boot. The kernel speaks of sleeping once a second, so
two of them are apart; the last spoils lockdep."""

IN_MEMORY = {
    "a guard freed before its counter": Mistake(
        **PAIR,
        form="rcu",
        right="\t\tfree_percpu(guards[line]->count);\n\t\tkfree(guards[line]);",
        wrong="\t\tkfree(guards[line]);\n\t\tfree_percpu(guards[line]->count);",
        complaint="BUG: KASAN: slab-use-after-free in finish",
    ),
    "a list freed twice": Mistake(
        file="dma.c",
        operation="dma_map",
        form="dma_sg",
        right="\tif (list->has_table)\n\t\tsg_free_table(&list->table);",
        wrong="\tsg_free_table(&list->table);\n\tkfree(list);",
        fields={"entries": 4, "entry_bytes": 4096, "direction": "to_device"},
        complaint="BUG: KASAN: double-free in (finish|lwk_forget)",
    ),
    "a thread read after it was freed": Mistake(
        file="run.c",
        operation="add",
        form="atomic_inc",
        width=64,
        right="\t\tkfree(run->threads[index]);\n",
        wrong="\t\tkfree(run->threads[index]), run->wrong += run->threads[index]->at.wrong;\n",
        complaint="BUG: KASAN: slab-use-after-free in (free_threads|lwk_window)",
    ),
    "one line too many": Mistake(
        file="rmw.c",
        operation="add",
        form="atomic_add",
        width=64,
        right="for (line = 0; line < run->cell.lines; line++) {\n\t\tpages[line] =",
        wrong="for (line = 0; line <= run->cell.lines; line++) {\n\t\tpages[line] =",
        complaint="BUG: KASAN: slab-out-of-bounds in prepare",
    ),
}
"""KASAN goes on behind its first report (kasan_multi_shot)."""

ALONE = {
    "a lock taken twice": Mistake(
        **PAIR,
        form="rwsem",
        right="PAIR(rwsem, NOTHING, down_read(&g->rwsem), up_read(&g->rwsem))",
        wrong="PAIR(rwsem, NOTHING, down_read(&g->rwsem); down_read(&g->rwsem), "
        "up_read(&g->rwsem); up_read(&g->rwsem))",
        complaint="WARNING: possible recursive locking detected",
    ),
    "two locks in either order": Mistake(
        **PAIR,
        form="mutex",
        right="PAIR(mutex, NOTHING, mutex_lock(&g->mutex), mutex_unlock(&g->mutex))",
        wrong="PAIR(mutex, NOTHING, mutex_lock(&g->mutex); down_read(&g->rwsem); "
        "up_read(&g->rwsem), "
        "mutex_unlock(&g->mutex); "
        "down_read(&g->rwsem); mutex_lock(&g->mutex); mutex_unlock(&g->mutex); up_read(&g->rwsem))",
        complaint="WARNING: possible circular locking dependency detected",
    ),
    "preemption allowed more often than forbidden": Mistake(
        **FLOOR,
        form="preempt",
        right="FLOOR(preempt, NOTHING, preempt_disable(), preempt_enable())",
        wrong="FLOOR(preempt, NOTHING, barrier(), preempt_enable())",
        complaint="WARNING: .*preempt_count_sub",
    ),
    "a lock kept when its request returns": Mistake(
        file="main.c",
        operation="add",
        form="atomic_add",
        width=64,
        right="\t\tmutex_unlock(&running);\n",
        wrong="\t\tmutex_unlock(&running);\n"
        "\t\t{\n\t\t\tstatic DEFINE_MUTEX(kept);\n\n\t\t\tmutex_trylock(&kept);\n\t\t}\n",
        complaint="WARNING: lock held when returning to user space",
    ),
}
"""Lockdep is silent behind its first complaint: each has a boot of its own."""

RACING = {
    "a pointer published by a plain store": Mistake(
        file="lookups.c",
        operation="readers_lookup",
        form="typesafe_ref",
        right="rcu_assign_pointer(world->slots[slot], new);",
        wrong="*(struct object **)&world->slots[slot] = new;",
    ),
}
"""What KCSAN must find."""


def spoilt(folder: Path, mistakes: list[Mistake], out: Path) -> Path:
    """The module with mistakes, built against a kernel for x86-64."""
    subprocess.run(["make", "-s", "-C", str(ROOT / "kmod"), "tree", f"DEST={out}"], check=True)
    for mistake in mistakes:
        source = out / mistake.file
        source.write_text(planted(source.read_text(), mistake.right, mistake.wrong))
    return small.module(folder, "x86_64", out)


def booted(folder: Path, mistakes: list[Mistake], tmp_path: Path) -> Machine:
    module = spoilt(folder, mistakes, tmp_path / "module")
    init = small.program(ROOT / "tests/system/init.c", "x86_64", tmp_path)
    return Machine(folder / "vmlinuz", "x86_64", module, init, None, "kasan_multi_shot")


def found(machine: Machine, mistake: Mistake) -> bool:
    """Whether the mistake is found while its cell runs."""
    said = len(machine.log)
    form = {"operation": mistake.operation, "name": mistake.form, "width": str(mistake.width)}
    answer = machine.ask(of_form(form, **mistake.fields))
    machine.ask("forms")  # what the kernel says behind an answer comes before the next
    if mistake.complaint:
        return any(re.search(mistake.complaint, line) for line in machine.log[said:])
    return mistake.sum_is_wrong(sum_of(answer))


@pytest.mark.parametrize("mistakes", [IN_FORMS, IN_MEMORY], ids=["forms", "memory"])
def test_mistakes_of_one_module_are_found(kernel, mistakes, tmp_path):
    with closing(booted(kernel, list(mistakes.values()), tmp_path)) as machine:
        missed = [name for name, mistake in mistakes.items() if not found(machine, mistake)]
        assert not missed, "\n".join([*missed, *machine.log])


def test_a_race_is_found_by_the_windows_that_look_for_races(racing, tmp_path):
    """A plain store that readers meet. Where their CPU does not run while KCSAN waits at the store,
    which is the host's choice, nothing is seen: several windows may be needed."""
    (mistake,) = RACING.values()
    with closing(booted(racing, [mistake], tmp_path)) as machine:
        (form,) = [form for form in machine.forms() if form["name"] == mistake.form]
        for _ in range(10):
            for fields in cells_of(form):
                machine.ask(of_form(form, **fields, **WATCHED))
            machine.ask("forms")  # what the kernel says behind an answer comes before the next
            if races(machine):
                break
    found = [re.search("data-race in .*", said)[0] for said in races(machine)]
    assert found and all("replace_ref" in line for line in found), "\n".join(machine.log[-200:])


@pytest.mark.parametrize("name", ALONE)
def test_a_mistake_is_found_by_lockdep(kernel, name, tmp_path):
    with closing(booted(kernel, [ALONE[name]], tmp_path)) as machine:
        assert found(machine, ALONE[name]), "\n".join(machine.log[-200:])
