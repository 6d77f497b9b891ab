# SPDX-License-Identifier: MIT
"""Patch dma_one_wait in an emulated RISC-V kernel: lists are whole, and each is waited for once.

A test module gives the kernel cache operations that model a cache: what was issued is done when it
is waited for. So a wait that is missing gives wrong lists (which one test shows), and calls are
counted. A processor of T-Head's, in a newer emulator, then executes the real operations, which are
counted as instructions. No time is measured."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import counting  # noqa: E402
import newer_qemu  # noqa: E402
import ours  # noqa: E402
import small  # noqa: E402
from small import or_skipped  # noqa: E402

SERIES = [
    word for word in os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split() if word != "6.1"
]
"""6.1 has no cache operations of vendors."""
DIRECTIONS = {0: "bidirectional", 1: "to device", 2: "from device"}
STEPS = ("map", "for_cpu", "for_device", "unmap")
LISTS = 3 * 5 * 2 * 2
"""Directions, sizes, lengths and offsets that the module goes through, for each of two devices."""


def _kernel(series: str, without: str = "") -> Kernel:
    with or_skipped():
        return Kernel(ours.kernel(series, "riscv", without), series == "7.3")


@pytest.fixture(scope="module", params=SERIES)
def patched(request) -> Kernel:
    return _kernel(request.param)


@pytest.fixture(scope="module", params=SERIES)
def unpatched(request) -> Kernel:
    return _kernel(request.param, "dma_one_wait")


@pytest.fixture(scope="module")
def newer() -> newer_qemu.Qemu:
    with or_skipped():
        return newer_qemu.fetch()


MODULE = "/dma_lists.ko"


def lists_of(
    kernel: Kernel, out: Path, options: str, runs: list[list[str]], **more
) -> tuple[list[list[dict]], str]:
    """Boots and runs the guest's commands; of each, the lists that the module reports; and the
    console."""
    init = small.program(ROOT / "tests/system/init.c", "riscv", out)
    guest = small.program(ROOT / "tests/kernel/small_guest.c", "riscv", out)
    module = small.small_module(
        kernel.folder, "riscv", ROOT / "tests/kernel/modules/dma_lists", out
    )
    commands = [[str(guest), *words] for words in runs]
    # The table of operations is constant once the kernel has started: rodata=off lets the module
    # write it.
    options = f"loglevel=7 rodata=off {options}"
    boot = small.boot(
        kernel.folder, "riscv", init, commands, options, {"dma_lists.ko": module}, **more
    )
    assert boot.codes == [0] * len(runs) and boot.ended, boot.console[-4000:]
    assert not boot.complaints(), boot.complaints()
    return [_rows(output) for output in boot.output], boot.console


def _rows(text: str) -> list[dict]:
    rows = []
    for line in re.findall(r"dma_lists: (coherent=.*)$", text, re.MULTILINE):
        fields = dict(word.split("=") for word in line.split())
        rows.append({name: _number(value) for name, value in fields.items()})
    return rows


def _number(value: str) -> int | tuple[int, ...]:
    return tuple(map(int, value.split("/"))) if "/" in value else int(value)


@dataclass(frozen=True)
class Kernel:
    """A small kernel; a batched one (7.3) waits behind lists itself, so that the patch only tells
    it how."""

    folder: Path
    batched: bool

    def expected(
        self, row: dict, step: str, once: bool, bounced: bool = False
    ) -> tuple[int, int, int]:
        """Operations waited for one by one, operations without a wait, waits."""
        idle = row["direction"] == 1 and step in ("for_cpu", "unmap")
        entries = 0 if idle else row["entries"]
        if row["coherent"] or not once:
            return (0, 0, 0) if row["coherent"] else (entries, 0, 0)
        if not self.batched:
            return 0, entries, int(not idle)
        # It also waits where nothing was issued, and for each entry that is copied to or from its
        # bounce buffer.
        copied = entries if bounced and step != "for_device" else 0
        return 0, entries, 1 + copied

    def check(self, rows: list[dict], once: bool, bounced: bool = False) -> None:
        """Lists are whole, nothing is left unfinished, and calls are as many as expected."""
        assert len(rows) == 2 * LISTS
        assert {row["direction"] for row in rows} == set(DIRECTIONS)
        for row in rows:
            assert (row["wrong"], row["unfinished"], row["failed"]) == (0, 0, 0), row
            for step in STEPS:
                assert row[step] == self.expected(row, step, once, bounced), (step, row)


@pytest.mark.parametrize(
    "options, once",
    [
        ("", False),
        ("dma_one_wait=0", False),
        ("dma_one_wait=1", True),
        ("dma_one_wait=maybe", False),
    ],
)
def test_a_list_is_whole_and_waited_for_as_the_option_says(patched, tmp_path, options, once):
    (rows,), console = lists_of(patched, tmp_path, options, [["module", MODULE]])
    patched.check(rows, once)
    assert bool(re.search(r"dma_one_wait.*invalid|[Ii]nvalid.*dma_one_wait", console)) == (
        "maybe" in options
    )


@pytest.mark.parametrize("once", [False, True])
def test_lists_in_bounce_buffers_are_whole(patched, tmp_path, once):
    options = f"swiotlb=force dma_one_wait={int(once)}"
    (rows,), _ = lists_of(patched, tmp_path, options, [["module", MODULE]])
    patched.check(rows, once, bounced=True)


def test_a_wait_that_is_left_out_would_be_noticed(patched, tmp_path):
    (rows,), _ = lists_of(patched, tmp_path, "dma_one_wait=1", [["module", MODULE, "forget=1"]])
    assert all(row["wrong"] for row in rows if not row["coherent"]), rows
    assert not any(row["wrong"] for row in rows if row["coherent"]), rows


def test_operations_of_a_vendor_that_only_come_with_their_wait_are_used_as_they_are(
    patched, tmp_path
):
    (rows,), _ = lists_of(patched, tmp_path, "dma_one_wait=1", [["module", MODULE, "halves=0"]])
    patched.check(rows, once=False)


def test_the_unpatched_kernel_waits_for_every_entry(unpatched, tmp_path):
    (rows,), _ = lists_of(unpatched, tmp_path, "", [["module", MODULE]])
    unpatched.check(rows, once=False)


def test_the_option_is_switched_while_the_kernel_runs(patched, tmp_path):
    if patched.batched:
        pytest.skip("an option of the boot alone")
    switch = "/sys/module/kernel/parameters/dma_one_wait"
    runs = [
        ["module", MODULE],
        ["write", switch, "1"],
        ["module", MODULE],
        ["write", switch, "0"],
        ["module", MODULE],
    ]
    found, _ = lists_of(patched, tmp_path, "", runs)
    for rows, once in ((found[0], False), (found[2], True), (found[4], False)):
        patched.check(rows, once)


# ---- a processor of T-Head's, and one with Zicbom, in an emulator that has them ----

THEAD = {
    "th.sync.s": (0xFFFFFFFF, 0x0190000B),
    "clean": (0xFFF07FFF, 0x0290000B),
    "invalidate": (0xFFF07FFF, 0x02A0000B),
}
ZICBOM = {
    "clean": (0xFFF07FFF, 0x0010200F),
    "invalidate": (0xFFF07FFF, 0x0000200F),
    "fence": (0xF000707F, 0x0000000F),
}


def counted(
    kernel: Kernel, newer, out: Path, options: str, cpu: str, kinds
) -> tuple[counting.Counter, list[dict]]:
    plugin = newer.plugin(out)
    words = ("-cpu", cpu, *newer.words, *counting.words(plugin, out / "counts", kinds))
    more = {"machine": words, "emulator": newer.command}
    (rows,), _ = lists_of(kernel, out, options, [["module", MODULE, "model=0"]], **more)
    assert not any(row["wrong"] or row["failed"] for row in rows), rows
    counts = counting.by_function(kernel.folder / "source/out/vmlinux", out / "counts", kinds)
    print(
        f"{kernel.folder.name} {cpu} {options or 'no option'}:",
        *(f"{kind} {total(counts, kind)}" for kind in kinds),
    )
    return counts, rows


def total(counts: counting.Counter, kind: str, *functions: str) -> int:
    return sum(
        count
        for (of, name), count in counts.items()
        if of == kind and (not functions or name in functions)
    )


def waits(counts: counting.Counter) -> int:
    """Those of lists: the kernel's start cleans and invalidates pools of its own."""
    return total(counts, "th.sync.s") - total(counts, "th.sync.s", "thead_errata_cache_wback_inv")


def entries(kernel: Kernel, rows: list[dict], column: int, once: bool) -> int:
    """One column of what is expected, over all lists and steps."""
    return sum(kernel.expected(row, step, once)[column] for row in rows for step in STEPS)


def test_a_processor_of_t_heads_waits_for_every_entry(patched, unpatched, newer, tmp_path):
    found = []
    for kernel in (patched, unpatched):
        out = tmp_path / kernel.folder.name
        out.mkdir()
        counts, rows = counted(kernel, newer, out, "", "thead-c906", THEAD)
        assert waits(counts) == entries(kernel, rows, 0, once=False), counts
        found.append((total(counts, "clean"), total(counts, "invalidate")))
    assert found[0] == found[1] and min(found[0]) > 0


def test_and_once_for_a_list_with_the_option(patched, newer, tmp_path):
    """The same lines are cleaned and invalidated. What shares lines with other data goes through
    bounce buffers, which a batched kernel waits for one by one."""
    found = {}
    for options in ("", "dma_one_wait=1"):
        out = tmp_path / str(len(found))
        out.mkdir()
        counts, rows = counted(patched, newer, out, options, "thead-c906", THEAD)
        found[options] = (total(counts, "clean"), total(counts, "invalidate"))
        waited = waits(counts)
    lists = entries(patched, rows, 2, once=True)
    every = entries(patched, rows, 0, once=False)
    assert waited == lists or (patched.batched and lists < waited < every), (waited, lists, every)
    assert found[""] == found["dma_one_wait=1"]


@pytest.mark.parametrize("options", ["", "dma_one_wait=1"])
def test_zicbom_has_no_wait_to_save(patched, newer, tmp_path, options):
    counts, _ = counted(
        patched, newer, tmp_path, options, "rv64,zicbom=on,cbom_blocksize=64", ZICBOM
    )
    assert total(counts, "clean") > 0 and total(counts, "invalidate") > 0
    names = [name for (_, name) in counts if name.startswith("arch_sync_dma")]
    assert names and total(counts, "fence", *names) == 0, counts
