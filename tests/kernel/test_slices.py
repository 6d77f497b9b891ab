# SPDX-License-Identifier: MIT
"""Time slice extensions in a small 7.3 kernel that grants them, judged by the kernel's own counts,
and mistakes of its text that must be found there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import kernels  # noqa: E402
import small  # noqa: E402
from machine import MORE  # noqa: E402
from run_arm64 import tool  # noqa: E402

from support.planted import planted  # noqa: E402

pytestmark = pytest.mark.skipif(
    "7.3" not in os.environ.get("LINEWRIGHT_SMALL_KERNELS", "7.3").split(),
    reason="the extensions came with 7.0",
)
PRELOADED = ROOT / "build/native/src/liblinewright-rwlock.so"
WORKLOAD = ROOT / "build/native/workload/linewright-workload"
OFF = "GLIBC_TUNABLES=glibc.pthread.rseq=0"
SLICE = "LINEWRIGHT_WAIT=slice"
OWN = [OFF, "LINEWRIGHT_RSEQ=own", "LW_SAYS=registered by Linewright"]
LOADER = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
HEADER, LIBRARY = "include/linewright/slice.h", "src/percpu/slice.c"
LOCK = "src/rwlock/rwlock.c"
ROOMS = ("common", "percpu", "rwlock", "srcu", "wait")
TORTURE = "tests/cpp/rwlock/torture.c"
MISTAKES = {
    "the end forgets to yield": (
        LIBRARY,
        "syscall(NR_SLICE_YIELD);",
        "",
        "now.aborted",
    ),
    "the request in the wrong byte": (
        HEADER,
        "__atomic_store_n((lw__slice_pair *)(void *)control,",
        "__atomic_store_n((lw__slice_pair *)(void *)(control + 2),",
        "first thread: too seldom",
    ),
    "the inner section gives back": (
        LIBRARY,
        "__atomic_store_n(&own->control, own->within, __ATOMIC_RELAXED);",
        "",
        "!lw__slice.inner",
    ),
    "an inner section asks": (
        HEADER,
        "lw__slice_begin_within();\n    else",
        "control == lw__slice_new ? lw__slice_begin_within() : (void)(*control = 1);\n    else",
        "not so: !asked",
    ),
    "a lock's release ends no section": (
        LOCK,
        "    plain_write_unlock(l);\n    end_section();",
        "    plain_write_unlock(l);",
        "now.aborted == before.aborted",
    ),
    "the request is not taken back": (
        HEADER,
        '"andw $0xff00, %[pair]"',
        '"testw $0xff00, %[pair]"',
        "not so: !control()[0]",
    ),
}
"""A change of the text, where, and what the test says of it: another failure would not be about
it."""


def program(out: Path, arch: str, name: str, *words: str, change: tuple[str, ...] = ()) -> str:
    """tests/kernel/slices.c, or the locks' torture, with the library's sources, and one change of
    their text."""
    compiler, package = small.COMPILER[arch]
    tool(compiler[0], package)
    copy, target = out / f"sources-{name}", out / name
    for folder in ("include", *(f"src/{room}" for room in ROOMS)):
        shutil.copytree(ROOT / folder, copy / folder)
    if change:
        file = copy / change[0]
        file.write_text(planted(file.read_text(), *change[1:]))
    sources = [ROOT / TORTURE if "torture" in name else ROOT / "tests/kernel/slices.c"]
    sources += [source for room in ROOMS for source in sorted((copy / "src" / room).glob("*.c"))]
    command = [*compiler, "-O2", "-pthread", f"-I{copy}/include", "-o", str(target), *words]
    subprocess.run([*command, *map(str, sources)], check=True)
    return str(target)


@pytest.fixture(scope="module")
def boot(tmp_path_factory):
    """All commands in one boot, each with its output and code, by name."""
    out = tmp_path_factory.mktemp("slices")
    with small.or_skipped():
        kernel = small.built("7.3", "x86_64", "--fragment", "slice")
        native = program(out, "x86_64", "native", "-static")
        newer = kernels.fetch("7", "amd64", ROOT / "build") / "libraries"
        runs = {
            "own": [*OWN, native, "granted"],
            "i386": [*OWN, program(out, "i386", "i386", "-static"), "granted"],
            "glibc that registers the whole area": [
                "LW_SAYS=registered by the libc",
                *(str(newer / LOADER), "--library-path", "/lib", "/dynamic", "granted"),
            ],
            "glibc that registers 32 bytes": [
                *("LINEWRIGHT_VERBOSE=1", native, "none", "first 32 bytes")
            ],
            "switched off": [OFF, native, "none", "no restartable sequences"],
        }
        words = ("/torture", "--seconds", "3", "--except", "slices")
        runs["torture"] = [*OWN, SLICE, native, "torture", *words]
        if PRELOADED.exists():
            words = ("--library-path", "/lib", "--preload", "/lib/locks.so", "/torture-pthread")
            runs["preloaded"] = [SLICE, native, "torture", "/lib/loader", *words]
            runs["preloaded"] += ["--seconds", "3", "--except", "ends"]
        if WORKLOAD.exists():
            words = ("spinlock", "--critical", "2us", "--threads", "4", "--duration", "3s")
            runs["workload"] = [*OWN, SLICE, str(WORKLOAD), *words, "--competitors", "--json"]
        for name, change in MISTAKES.items():
            mutant = program(out, "x86_64", name.replace(" ", "-"), "-static", change=change[:3])
            runs[name] = [*OWN, mutant, "granted"]
        init = small.program(ROOT / "tests/system/init.c", "x86_64", out)
    torture = program(out, "x86_64", "torture", "-static")
    without = program(out, "x86_64", "torture-pthread", "-DPTHREAD_LOCKS")
    files = {
        "torture": Path(torture).read_bytes(),
        "torture-pthread": Path(without).read_bytes(),
        "lib/loader": (newer / LOADER).read_bytes(),
        "lib/locks.so": PRELOADED.read_bytes() if PRELOADED.exists() else b"",
        "dynamic": Path(program(out, "x86_64", "dynamic")).read_bytes(),
        "lib/libc.so.6": (newer / LOADER).with_name("libc.so.6").read_bytes(),
    }
    done = small.boot(
        kernel, "x86_64", init, list(runs.values()), "rseq_debug=1", files, MORE["7", "amd64"]
    )
    assert done.ended and not done.complaints(), done.console[-4000:]
    return dict(zip(runs, zip(done.output, done.codes, strict=True), strict=True))


@pytest.mark.parametrize("name", ["own", "i386", "glibc that registers the whole area"])
def test_extensions_are_granted_given_back_and_revoked(boot, name):
    output, code = boot[name]
    assert code == 0, output
    places = ("first thread", "nested", "system call", "handlers", "handler", "child", "thread")
    locks = ("lock", "lock in a child", "lock in a thread")
    for place in (*places, *locks, "revoked", "without the kernel's checks"):
        assert f"{place}: " in output


@pytest.mark.parametrize("name", ["glibc that registers 32 bytes", "switched off"])
def test_programs_run_without(boot, name):
    output, code = boot[name]
    assert code == 0, output
    assert output.count("linewright: no time slice extensions: ") == (name != "switched off")


def test_sections_of_the_workload_end_within_extensions(boot):
    if "workload" not in boot:
        pytest.skip("build linewright-workload for this machine first")
    output, code = boot["workload"]
    assert code == 0, output
    found = json.loads(output[output.index("{") :])
    assert ", time slice extensions, on request, by setting 'slice'" in found["wait"]
    assert found["slices"]["granted"] > 0, output
    assert found["verified"] and found["competitors"]["cpu_ns"] > 0


@pytest.mark.parametrize("name", ["torture", "preloaded"])
def test_the_locks_stay_right_while_their_sections_are_granted_extensions(boot, name):
    if name not in boot:
        pytest.skip("build linewright-rwlock for this machine first")
    output, code = boot[name]
    assert code == 0 and "torture: " in output, output


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(boot, name):
    output, code = boot[name]
    assert code not in (0, None) and MISTAKES[name][3] in output, output
