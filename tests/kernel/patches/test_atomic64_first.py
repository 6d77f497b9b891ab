"""Patch atomic64_first in an emulated i386 kernel: the kernel's own test, and how often each operation locks its line.

Counts are instructions that the emulator executed. They are a property of the code; no time is measured.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import counting  # noqa: E402
import ours  # noqa: E402
import small  # noqa: E402
from machine import Machine, cell, parsed  # noqa: E402
from run_arm64 import Unavailable  # noqa: E402

OWN = {"6.1": True, "6.12": False}
"""Whether the series' own loops begin with a locked instruction."""


@pytest.fixture(scope="module", params=os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split())
def kernel(request) -> tuple[str, Path]:
    try:
        return request.param, ours.kernel(request.param, "i386")
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> Path:
    return counting.plugin(tmp_path_factory.mktemp("plugin"))


def program_with(item: Path, out: Path) -> None:
    """atomic64_user with the kernel's object: its tables get names that the linker gives a beginning and an end."""
    renamed = out / "cx8.o"
    sections = ("altinstructions", "altinstr_replacement")
    words = [word for name in sections for word in ("--rename-section", f".{name}=lw_{name}")]
    subprocess.run(["objcopy", *words, str(item), str(renamed)], check=True)
    small.program(ROOT / "tests/kernel/patches/atomic64_user.c", "i386", out, str(renamed), "-pthread", "-no-pie")
    (out / "atomic64_user-i386").rename(out / "atomic64_user")


def locked(folder: Path, plugin: Path, out: Path, options: str) -> tuple[dict[str, float], list[str]]:
    """LOCK CMPXCHG8B per operation, by form, each without a contender; and what the console said."""
    built = small.module(folder, "i386", out / "module")
    init = small.program(ROOT / "tests/system/init.c", "i386", out)
    more = counting.words(plugin, out / "counts", counting.I386)
    machine = Machine(folder / "vmlinuz", "i386", built, init, None, f"nokaslr loglevel=7 {options}", more)
    done: dict[str, int] = {}
    try:
        for form, operation in (("atomic_add", "add"), ("atomic_inc", "add"), ("atomic_fetch_add", "fetch_add")):
            answer = machine.ask(cell(form=form, operation=operation, width=64, cpus=0, window_us=20000))
            (total,) = [parsed(line) for line in answer if line.startswith("sum ")] or pytest.fail("\n".join(answer))
            assert total["expected"] == total["found"], answer
            done[form] = int(total["expected"])
        read = machine.ask(cell(form="atomic_read", operation="read", width=64, cpus=0, window_us=20000))
        assert "end stop=windows" in read, read
        machine.end()
        assert not machine.warnings(), "\n".join(machine.log[-80:])
    finally:
        machine.close()
    counts = counting.by_function(folder / "source/out/vmlinux", out / "counts", counting.I386)
    kind = "lock cmpxchg8b"
    found = {
        "atomic_add": counts[kind, "atomic64_add_return_cx8"] / done["atomic_add"],
        "atomic_inc": counts[kind, "atomic64_inc_return_cx8"] / done["atomic_inc"],
        "atomic_fetch_add": counts[kind, "module"] / done["atomic_fetch_add"],
        "shared reads": counts[kind, "atomic64_read_shared"],
    }
    return found, machine.log


@pytest.mark.parametrize("names", [(), ("OTHER",), ("SHARED",), ("OTHER", "SHARED")])
def test_the_kernels_object_counts_right_on_a_real_processor(kernel, tmp_path, names):
    """The object file itself in a program: four threads, its alternatives applied as the kernel would."""
    series, folder = kernel
    text = (folder / "source/arch/x86/include/asm/cpufeatures.h").read_text()
    numbers = {
        name: 32 * int(word) + int(bit)
        for name, word, bit in re.findall(r"X86_FEATURE_ATOMIC64_(\w+)\s+\((\d+)\*32\+(\d+)\)", text)
    }
    program_with(folder / "source/out/arch/x86/lib/atomic64_cx8_32.o", tmp_path)
    entry_bytes = {"6.1": 12, "6.12": 14}[series]
    command = [str(tmp_path / "atomic64_user"), str(entry_bytes), *(str(numbers[name]) for name in names)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("options", ["", "atomic64_first=own", "atomic64_first=read", "atomic64_first=perhaps"])
def test_a_loop_begins_as_it_is_told(kernel, plugin, tmp_path, options):
    series, folder = kernel
    found, log = locked(folder, plugin, tmp_path, options)
    own = {"atomic64_first=own": True, "atomic64_first=read": False}.get(options, OWN[series])
    for form in ("atomic_add", "atomic_inc", "atomic_fetch_add"):
        # The kernel's own uses of the same functions add a few.
        assert found[form] == pytest.approx(2.0 if own else 1.0, rel=0.02), (form, found)
    assert found["shared reads"] == 0
    assert any("allowed: read, own" in line for line in log) == (options == "atomic64_first=perhaps")
    assert any("atomic64_test: passed" in line for line in log), "the kernel's own test of atomic64_t"


def test_reads_that_fetch_the_line_shared_first(kernel, plugin, tmp_path):
    _, folder = kernel
    found, log = locked(folder, plugin, tmp_path, "atomic64_read=shared")
    assert found["shared reads"] > 10000
    assert any("atomic64_test: passed" in line for line in log), "the kernel's own test of atomic64_t"
