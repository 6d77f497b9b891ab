# SPDX-License-Identifier: MIT
"""Patch atomic64_first in an emulated i386 kernel: the code in memory for each boot option, the
kernel's own test, the module's cells, a workload of ours, and how often each operation locks its
line.

Counts are instructions that the emulator executed. They are a property of the code; no time is
measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import alternatives_i386 as alt  # noqa: E402
import counting  # noqa: E402
import ours  # noqa: E402
import small  # noqa: E402
from machine import BESIDE, Machine, cell, of_form, quiet, sum_of  # noqa: E402
from small import or_skipped  # noqa: E402

OWN = {"6.1": True, "6.12": False}
"""Whether the series' own loops begin with a locked instruction."""
WORKLOAD = Path(
    os.environ.get("LINEWRIGHT_I386_WORKLOAD", ROOT / "build/i386/workload/linewright-workload")
)
PASSED = "atomic64_test: passed"
PIECE = 64
"""Bytes that small_guest prints at once."""


WANTED = os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split()


@pytest.fixture(
    scope="module",
    params=[series for series, arch in ours.PATCHES if arch == "i386" and series in WANTED],
)
def kernel(request) -> tuple[str, Path]:
    with or_skipped():
        return request.param, ours.kernel(request.param, "i386")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> Path:
    return counting.plugin(tmp_path_factory.mktemp("plugin"))


def program_with(item: Path, out: Path) -> None:
    """atomic64_user with the kernel's object: its tables get names that the linker gives a
    beginning and an end."""
    renamed = out / "cx8.o"
    sections = ("altinstructions", "altinstr_replacement")
    words = [word for name in sections for word in ("--rename-section", f".{name}=lw_{name}")]
    subprocess.run(["objcopy", *words, str(item), str(renamed)], check=True)
    small.program(
        ROOT / "tests/kernel/patches/atomic64_user.c",
        "i386",
        out,
        str(renamed),
        "-pthread",
        "-no-pie",
    )
    (out / "atomic64_user-i386").rename(out / "atomic64_user")


def locked(
    folder: Path, plugin: Path, out: Path, options: str
) -> tuple[dict[str, float], list[str]]:
    """LOCK CMPXCHG8B per operation, by form, each without a contender; and what the console
    said."""
    built = small.module(folder, "i386", out / "module")
    init = small.program(ROOT / "tests/system/init.c", "i386", out)
    more = counting.words(plugin, out / "counts", counting.I386)
    machine = Machine(
        folder / "vmlinuz", "i386", built, init, None, f"nokaslr loglevel=7 {options}", more
    )
    done: dict[str, int] = {}
    with quiet(machine):
        for form, operation in (
            ("atomic_add", "add"),
            ("atomic_inc", "add"),
            ("atomic_fetch_add", "fetch_add"),
        ):
            answer = machine.ask(
                cell(form=form, operation=operation, width=64, cpus=0, window_us=20000)
            )
            total = sum_of(answer)
            assert total["expected"] == total["found"], answer
            done[form] = int(total["expected"])
        read = machine.ask(
            cell(form="atomic_read", operation="read", width=64, cpus=0, window_us=20000)
        )
        assert "end stop=length" in read, read
        machine.end()
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
    """The object file itself in a program: four threads, its alternatives applied as the kernel
    would."""
    series, folder = kernel
    text = (folder / "source/arch/x86/include/asm/cpufeatures.h").read_text()
    numbers = {
        name: 32 * int(word) + int(bit)
        for name, word, bit in re.findall(
            r"X86_FEATURE_ATOMIC64_(\w+)\s+\((\d+)\*32\+(\d+)\)", text
        )
    }
    program_with(folder / "source/out/arch/x86/lib/atomic64_cx8_32.o", tmp_path)
    entry_bytes = {"6.1": 12, "6.12": 14}[series]
    command = [
        str(tmp_path / "atomic64_user"),
        str(entry_bytes),
        *(str(numbers[name]) for name in names),
    ]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "options", ["", "atomic64_first=own", "atomic64_first=read", "atomic64_first=perhaps"]
)
def test_a_loop_begins_as_it_is_told(kernel, plugin, tmp_path, options):
    series, folder = kernel
    found, log = locked(folder, plugin, tmp_path, options)
    own = {"atomic64_first=own": True, "atomic64_first=read": False}.get(options, OWN[series])
    for form in ("atomic_add", "atomic_inc", "atomic_fetch_add"):
        # The kernel's own uses of the same functions add a few.
        assert found[form] == pytest.approx(2.0 if own else 1.0, rel=0.02), (form, found)
    assert found["shared reads"] == 0
    assert any("allowed: read, own" in line for line in log) == (
        options == "atomic64_first=perhaps"
    )
    assert any(PASSED in line for line in log), "the kernel's own test of atomic64_t"


def test_reads_that_fetch_the_line_shared_first(kernel, plugin, tmp_path):
    _, folder = kernel
    found, log = locked(folder, plugin, tmp_path, "atomic64_read=shared")
    assert found["shared reads"] > 10000
    assert any(PASSED in line for line in log), "the kernel's own test of atomic64_t"


# ---- the code in memory ----

BOOTS = [
    ("", set(), None),
    ("atomic64_first=own", {"first", "own"}, "read-modify-writes begin with a locked read"),
    ("atomic64_first=read", {"first", "read"}, "read-modify-writes begin with a plain read"),
    ("atomic64_read=own", set(), "reads begin with a locked read"),
    (
        "atomic64_read=shared atomic64_first=own",
        {"first", "own", "SHARED"},
        "reads begin with a plain read",
    ),
    ("atomic64_first=perhaps atomic64_read", set(), "atomic64_first=perhaps: allowed: read, own"),
    ("atomic64_firsts=own", set(), "atomic64_firsts=own"),
]


def chosen_features(series: str, words: set[str]) -> set[str]:
    """The features that a boot switches on: OTHER where the series' own loops begin in the other
    way."""
    other = "first" in words and ("own" in words) != OWN[series]
    return (words & {"SHARED"}) | ({"OTHER"} if other else set())


def code_in_memory(booted: small.Boot, functions: dict[str, tuple[int, int]]) -> dict[int, bytes]:
    """What small_guest has printed, by function."""
    pieces = {
        int(line.split()[0], 16): bytes.fromhex(line.split()[1])
        for line in booted.output[0].splitlines()
    }
    return {
        start: b"".join(pieces[start + at] for at in range(0, length, PIECE))
        for start, length in functions.values()
    }


@pytest.mark.parametrize("options, words, said", BOOTS, ids=[row[0] or "none" for row in BOOTS])
def test_the_booted_code_is_what_the_option_asks_for(kernel, tmp_path, options, words, said):
    """Every function with a place of ours is read back; nothing but those places has changed in
    it."""
    series, folder = kernel
    linked = alt.Kernel(
        folder / "source/out/vmlinux", series, folder / "source/arch/x86/include/asm/cpufeatures.h"
    )
    sites = linked.sites("ATOMIC64_OTHER", "ATOMIC64_SHARED")
    functions = linked.functions_of(sites)
    named = {name.split()[0] for name in functions}
    assert {
        f"atomic64_{name}_cx8"
        for name in ("read", "add_return", "sub_return", "inc_return", "dec_return")
    } <= named
    lines = "".join(
        f"{start + at:x} {'00' * min(PIECE, length - at)}\n"
        for start, length in functions.values()
        for at in range(0, length, PIECE)
    )
    init = small.program(ROOT / "tests/system/init.c", "i386", tmp_path)
    guest = small.program(ROOT / "tests/kernel/small_guest.c", "i386", tmp_path)
    workload = (
        [[str(WORKLOAD), "hash-bucket", "--threads", "4", "--duration", "1s"]]
        if WORKLOAD.exists()
        else []
    )
    commands = [[str(guest), "show", "/code"], *workload]
    booted = small.boot(folder, "i386", init, commands, options, {"code": lines.encode()})
    assert set(booted.codes) == {0} and booted.ended, booted.console[-3000:]
    assert not workload or "verified" in booted.output[1]
    assert PASSED in booted.console and not booted.complaints()
    assert said is None or said in booted.console

    features = {linked.features[f"ATOMIC64_{name}"] for name in chosen_features(series, words)}
    memory = code_in_memory(booted, functions)
    wrong = []
    for start, code in memory.items():
        wrong += linked.other_changes(start, code)
        for site in sites:
            if start <= site.site < start + len(code):
                found = code[site.site - start :][: site.bytes]
                if not linked.site_is(site, found, site.feature in features):
                    wrong.append(f"{site.site:x}: {found.hex()}")
    assert not wrong, wrong
    own = ("own" in words) if "first" in words else OWN[series]
    ((start, _),) = [
        place for name, place in functions.items() if name.startswith("atomic64_add_return_cx8 ")
    ]
    text = alt.disassembled(memory[start], start, tmp_path / "code")
    assert sum(line.startswith("lock cmpxchg8b") for line in text) == (2 if own else 1), text
    ((start, _),) = [
        place for name, place in functions.items() if name.startswith("atomic64_read_cx8 ")
    ]
    text = alt.disassembled(memory[start], start, tmp_path / "code")
    assert text[0].startswith("jmp") == ("SHARED" in words), text


# ---- the module ----


@pytest.mark.parametrize(
    "options", ["", "atomic64_first=own", "atomic64_first=read atomic64_read=shared"]
)
def test_cells_of_64_bits_end_with_right_sums(kernel, tmp_path, options):
    _, folder = kernel
    built = small.module(folder, "i386", tmp_path / "module")
    init = small.program(ROOT / "tests/system/init.c", "i386", tmp_path)
    machine = Machine(folder / "vmlinuz", "i386", built, init, None, options)
    both = BESIDE | {"contender_iters": 10}
    with quiet(machine):
        wide = [
            form for form in machine.forms() if (form["family"], form["width"]) == ("rmw", "64")
        ]
        names = {form["name"] for form in wide}
        assert {
            "atomic_add",
            "atomic_read",
            "cmpxchg8b_read_once",
            "cmpxchg8b_loop_torn_first_add",
        } <= names, names
        for form in wide:
            for fields in ({}, both):
                answer = machine.ask(of_form(form, lines=2, **fields))
                total = sum_of(answer)
                right = total["expected"] == total["found"] and "end stop=length" in answer
                assert right, (form, fields, answer)
        machine.end()
