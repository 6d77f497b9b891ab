# SPDX-License-Identifier: MIT
"""The two arm64 patches: that they leave no operation out, and what the booted kernel's code is
with each boot option.

Builds and boots small kernels: `make kernel-test`. LINEWRIGHT_SMALL_KERNELS names the series
(default 6.12), LINEWRIGHT_ARM64_WORKLOAD the workload program for arm64 (default: the one of the
preset)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/kernel"), str(ROOT / "kernel")]

import alternatives as alt  # noqa: E402
import ours  # noqa: E402
import small  # noqa: E402
from lwkernel import patches  # noqa: E402
from small import or_skipped  # noqa: E402

SERIES = os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split()
PER_CPU = {"PERCPU_STORE", "PERCPU_LOAD", "PERCPU_PREFETCH"}
OURS = {"LSE_PREFETCH", *PER_CPU}
WORKLOAD = Path(
    os.environ.get("LINEWRIGHT_ARM64_WORKLOAD", ROOT / "build/arm64/workload/linewright-workload")
)
FEATURES = {"6.1": "asm/cpucaps.h", "6.12": "asm/cpucap-defs.h", "7.3": "asm/cpucap-defs.h"}
OBJECTS = ["lib/atomic64_test.o", "lib/refcount.o", "mm/vmstat.o"]
"""Objects that use each header that is changed."""


def _patches(series: str) -> list[str]:
    """Of the two, those that the series has."""
    return [name for name in ours.PATCHES[series, "arm64"] if name.startswith("arm64_")]


@pytest.fixture(scope="module", params=SERIES)
def series(request):
    return request.param


@pytest.fixture(scope="module")
def patched(series) -> Path:
    with or_skipped():
        return ours.kernel(series, "arm64")


def _kernel(folder: Path, series: str) -> alt.Kernel:
    out = folder / "source/out"
    return alt.Kernel(out / "vmlinux", out / "arch/arm64/include/generated" / FEATURES[series])


@pytest.fixture(scope="module")
def kernel(patched, series) -> alt.Kernel:
    return _kernel(patched, series)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """First process, and the program that looks at code and loads modules."""
    out = tmp_path_factory.mktemp("programs")
    sources = (ROOT / "tests/system/init.c", ROOT / "tests/kernel/small_guest.c")
    return tuple(small.program(source, "arm64", out) for source in sources)


@pytest.fixture(scope="module")
def width(patched, tmp_path_factory) -> bytes:
    """A module that looks at the neighbours of small per-CPU variables."""
    return small.small_module(
        patched,
        "arm64",
        ROOT / "tests/kernel/modules/percpu_width",
        tmp_path_factory.mktemp("width"),
    )


@pytest.fixture
def run(kernel, patched, programs, width):
    """Boots with options; every site that outlives the boot has to be the code of the given CPU
    features, and all tests have to pass. Gives what the console said."""
    init, guest = programs

    def booted(features: set[str], options: str, machine: tuple[str, ...] = ()) -> str:
        expected = kernel.applied(features, {"HAS_LSE_ATOMICS", *OURS & set(kernel.features)})
        # Code that is thrown away after the boot cannot be read back, and a branch that is moved to
        # its site gets another distance.
        stays = {
            site: code
            for site, code in expected.items()
            if not _initial(kernel, site) and not any(map(alt.is_branch, _words(code)))
        }
        assert len(stays) > 1000
        lines = "".join(f"{site:x} {code.hex()}\n" for site, code in stays.items())
        tests = next((patched / "source/out").rglob("percpu_test.ko"))
        words = (["text", "/sites"], ["module", "/percpu_test.ko"], ["module", "/width.ko"])
        workload = (
            [[str(WORKLOAD), "hash-bucket", "--threads", "4", "--duration", "1s"]]
            if WORKLOAD.exists()
            else []
        )
        files = {"sites": lines.encode(), "percpu_test.ko": tests.read_bytes(), "width.ko": width}
        commands = [*([str(guest), *more] for more in words), *workload]
        boot = small.boot(patched, "arm64", init, commands, options, files, machine)
        assert set(boot.codes) == {0} and boot.ended, boot.console[-3000:]
        assert f"text same={len(stays)} different=0" in boot.output[0]
        assert "percpu test done" in boot.console
        assert not workload or "verified" in boot.output[3]
        assert "atomic64_test: passed" in boot.console
        assert not boot.complaints()
        return boot.console

    return booted


# ---- in the linked kernel ----


def _prefetches(kernel) -> dict[int, int]:
    """Places of a NOP that may become a prefetch for write, with the register that it names."""
    slots = {}
    for entry in kernel.entries_of("LSE_PREFETCH"):
        (prefetch,) = _words(entry.replacement)
        if alt.is_branch(prefetch):  # the KUnit test asks whether the option is on
            continue
        assert alt.is_prefetch_for_write(prefetch), hex(entry.site)
        assert kernel.bytes_at(entry.site, 4) == alt.NOP.to_bytes(4, "little")
        assert entry.site not in slots, f"two prefetches at {entry.site:x}"
        slots[entry.site] = alt.base_register(prefetch)
    return slots


def test_every_lse_atomic_of_the_kernel_has_its_place_for_a_prefetch(kernel):
    """All LSE instructions outside of replacements stand within five instructions behind a NOP that
    becomes their prefetch."""
    slots = _prefetches(kernel)
    found, without = 0, []
    for address, word in kernel.instructions():
        if alt.is_lse(word):
            before = [address - 4 * distance for distance in range(1, 6)]
            found += 1
            if not any(slots.get(place) == alt.base_register(word) for place in before):
                without.append(f"{address:x}: {word:08x}")
    assert found > 1000
    assert not without, f"{len(without)} of {found}"


def _words(code: bytes) -> list[int]:
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]


def _per_cpu_sites(kernel) -> dict[int, int]:
    """Sites of per-CPU operations without a value, with the instruction of the unpatched kernel: it
    and three NOPs, no exchange."""
    rows = [
        (entry.site, _words(entry.replacement)) for entry in kernel.entries_of("HAS_LSE_ATOMICS")
    ]
    return {
        site: words[0]
        for site, words in rows
        if words[1:] == [alt.NOP] * 3 and alt.is_lse(words[0]) and not words[0] >> 15 & 1
    }


def test_every_exchange_stands_behind_its_place_for_a_prefetch(kernel):
    """An exchange is an alternative itself; the prefetch is a site of its own before it, so that a
    site has one."""
    slots = _prefetches(kernel)
    usual = {
        entry.site: _words(entry.replacement)[0] for entry in kernel.entries_of("HAS_LSE_ATOMICS")
    }
    exchanges = {
        site: word for site, word in usual.items() if alt.is_lse(word) and word >> 12 & 15 == 8
    }
    assert len(exchanges) > 20
    assert not [
        hex(site)
        for site, word in exchanges.items()
        if slots.get(site - 4) != alt.base_register(word)
    ]


def test_every_per_cpu_operation_has_all_three_forms(kernel, series):
    if "arm64_percpu_form" not in _patches(series):
        pytest.skip(f"{series} has the load forms, and no patch of ours")
    sites = _per_cpu_sites(kernel)
    assert len(sites) > 20
    for name in PER_CPU:
        assert {entry.site for entry in kernel.entries_of(name)} == set(sites), name
        for entry in kernel.entries_of(name):
            words = _words(entry.replacement)
            if name == "PERCPU_PREFETCH":
                prefetch = words.pop(0)
                assert alt.is_prefetch_for_write(prefetch)
                assert alt.base_register(prefetch) == alt.base_register(words[0])
            assert set(words[1:]) == {alt.NOP} and alt.is_store_form(words[0]) == (
                name != "PERCPU_LOAD"
            )
            # The same operation, operand and location; 6.1 has 32 bits where the variable has 8 or
            # 16.
            changed = (words[0] ^ sites[entry.site]) & ~31
            narrow = series == "6.1" and sites[entry.site] >> 30 == 2 and words[0] >> 30 < 2
            assert changed & ~(3 << 30 if narrow else 0) == 0, hex(entry.site)


def test_a_kernel_with_the_patches_compiled_out_is_the_unpatched_one(patched, series, tmp_path):
    """The same instructions, in objects that use each header that is changed."""
    config = (patched / "source/out/.config").read_text()
    for line in (line for name in _patches(series) for line in patches.load(name).config(series)):
        assert f"{line}\n" in config
        config = config.replace(f"{line}\n", f"# {line.removesuffix('=y')} is not set\n")
    code = []
    for words in ([], [word for name in _patches(series) for word in ("--patch", name)]):
        tree = tmp_path / f"tree-{len(words)}"
        subprocess.run(
            [str(ROOT / "kernel/build"), series, "arm64", "--tree", str(tree), *words], check=True
        )
        out = tree / "out"
        out.mkdir()
        (out / ".config").write_text(config)
        make = [
            "make",
            "-C",
            str(tree),
            f"O={out}",
            "ARCH=arm64",
            "CROSS_COMPILE=aarch64-linux-gnu-",
            "-j2",
        ]
        for goals in (["olddefconfig"], OBJECTS):
            subprocess.run(
                [*make, *goals], check=True, capture_output=True, stdin=subprocess.DEVNULL
            )
        code.append([_code(out / name) for name in OBJECTS])
    assert all(code[0]) and code[0] == code[1]


def _code(path: Path) -> str:
    done = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-d", "-r", "--no-show-raw-insn", str(path)],
        text=True,
        capture_output=True,
        check=True,
    )
    return done.stdout.split("\n", 3)[3]


# ---- in the booted one ----

NEAR = "arm64.near_atomics_optimization"
MALFORMED = f"Malformed early option '{NEAR}'"
BOOTS = [
    ("", set(), None),
    (f"{NEAR}=1", {"LSE_PREFETCH"}, None),
    (f"{NEAR}=0 percpu_form=store", {"PERCPU_STORE"}, None),
    ("percpu_form=load", {"PERCPU_LOAD"}, None),
    (f"percpu_form=prefetch {NEAR}=on", {"PERCPU_PREFETCH", "LSE_PREFETCH"}, None),
    (f"{NEAR}=2 percpu_form=loads", set(), MALFORMED),
    ("percpu_forms=load", set(), "percpu_forms=load"),
    # As a module's boolean, and as kstrtobool() has it: the first letter counts, and the last of
    # two has the word.
    (NEAR, {"LSE_PREFETCH"}, None),
    (f"{NEAR}=Yes", {"LSE_PREFETCH"}, None),
    (f"{NEAR}=on {NEAR}=off", set(), None),
    (f"{NEAR}=oo", set(), MALFORMED),
]


@pytest.mark.parametrize("options, chosen, said", BOOTS, ids=[row[0] or "none" for row in BOOTS])
def test_the_booted_code_is_what_the_option_asks_for(kernel, series, run, options, chosen, said):
    """All sites are read back from memory; the kernel's own tests of atomics and per-CPU operations
    and a workload of ours on futexes pass; and the kernel complains of nothing."""
    if "percpu_form" in options and "arm64_percpu_form" not in _patches(series):
        pytest.skip(f"{series} has no percpu_form")
    console = run({"HAS_LSE_ATOMICS", *chosen}, options)
    # Debian's 6.1 adds 32 bits to variables of 8 and 16; each form of ours has the variable's
    # width.
    kept = series != "6.1" or bool(chosen & PER_CPU)
    assert f"percpu_width: values right, neighbours {'kept' if kept else 'changed'}" in console
    for name in OURS:
        option = (
            NEAR
            if name == "LSE_PREFETCH"
            else f"percpu_form={name.removeprefix('PERCPU_').lower()}"
        )
        assert (f"({option})" in console) == (name in chosen), option
    _kunit_passed(
        console,
        "arm64_near_atomics",
        f"prefetches are {'on' if 'LSE_PREFETCH' in chosen else 'off'}",
    )
    assert said is None or said in console
    assert "no effect" not in console


@pytest.mark.parametrize("cpu", ["cortex-a53", "cortex-a57"])
@pytest.mark.parametrize("options", ["", f"{NEAR}=1 percpu_form=load", "percpu_form=prefetch"])
def test_a_processor_without_lse_keeps_its_loops(series, run, cpu, options):
    """Every site is the LL/SC loop, whatever the option; an LSE instruction would be undefined
    there. The log names the options that have no effect."""
    if options and "arm64_percpu_form" not in _patches(series):
        options = (
            options.split()[0] if NEAR in options else pytest.skip(f"{series} has no percpu_form")
        )
    console = run(set(), options, ("-cpu", cpu))
    assert "LSE atomic instructions" not in console
    # These loops have the width of the variable in 6.1, too.
    assert "percpu_width: values right, neighbours kept" in console
    for option in ("near_atomics_optimization", "percpu_form"):
        assert (f"{option}: no effect: this system has no LSE atomics" in console) == (
            option in options
        ), option
    assert f"({NEAR})" not in console and "(percpu_form=" not in console
    _kunit_passed(console, "arm64_near_atomics", "SKIP no LSE atomics here")


def _kunit_passed(console: str, suite: str, said: str) -> None:
    assert re.search(rf"\bok \d+ (- )?{suite}\b", console) and "not ok" not in console, console[
        -3000:
    ]
    assert said in console


def _initial(kernel: alt.Kernel, site: int) -> bool:
    section = next(s for s in kernel.sections if s.address <= site < s.address + len(s.data))
    return section.name.startswith((".init", ".exit"))
