# SPDX-License-Identifier: MIT
"""`linewright inspect` on files that used to mislead it or to cost it minutes: each was found by
outside checking."""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path

import pytest

from linewright.elf.image import imported
from linewright.elf.inspection import inspect, locked
from linewright.elf.symbols import without_sections
from support import waiting
from support.arm64_programs import SOURCES, TRIPLET, build, needs_cross_compiler, strip
from support.places import ROOT

TEXT_BYTES, HEADERS = 1 << 20, 65_000
MEASURED = """
import sys
from linewright.elf.inspection import inspect
from linewright.errors import UserError
try:
    inspect(sys.argv[1])
except UserError as error:
    print(error)
# Not ru_maxrss: that one remembers the process that started this one.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


def one_text_named_often(path: Path, table: str) -> Path:
    """A 5 MB arm64 program whose 65,000 headers all name the same megabyte of text."""
    end = 64 + TEXT_BYTES
    segments, sections = (HEADERS, 0) if table == "segments" else (0, HEADERS)
    head = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack(
            "<HHIQQQIHHHHHH",
            2,
            183,
            1,
            0x400000,
            end if segments else 0,
            end if sections else 0,
            0,
            64,
            56,
            segments,
            64,
            sections,
            0,
        )
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 64, 0x400000, 0x400000, TEXT_BYTES, TEXT_BYTES, 4096)
    section = struct.pack("<IIQQQQIIQQ", 0, 1, 6, 0x400000, 64, TEXT_BYTES, 0, 0, 4, 0)
    path.write_bytes(head + bytes(TEXT_BYTES) + (segment if segments else section) * HEADERS)
    return path


@pytest.mark.parametrize("table", ["segments", "sections"])
def test_a_text_named_often_costs_no_memory(tmp_path, table):
    path = one_text_named_often(tmp_path / table, table)
    done = waiting.run([sys.executable, "-c", MEASURED, path], cwd=ROOT, check=True)
    said, megabytes = done.stdout.splitlines()
    assert f"{HEADERS} text sections" in said
    assert int(megabytes) < 400, "the text was copied"


def native(tmp_path: Path, source: str, *flags: str) -> Path:
    (tmp_path / "source.c").write_text(source)
    return build(tmp_path / "program", tmp_path / "source.c", *flags, compiler=("gcc-12",))


def test_a_text_of_prefixes_costs_no_time(tmp_path):
    program = native(
        tmp_path, '__asm__(".text\\n.fill 65536, 1, 0xf0\\nnop"); int main(void) { return 0; }'
    )
    begun = time.process_time()
    assert not inspect(str(program)).functions
    assert time.process_time() - begun < 10


TABLE = '__asm__(".text\\n.balign 16\\n.globl table\\ntable: .fill 64, 4, {word}\\n.balign 16");'


def test_data_in_x86_text_is_not_shown_as_atomics(tmp_path):
    locked = 0x0001_87F0  # lock xchg %eax,(%ecx) and a zero byte
    source = (
        TABLE.format(word=locked)
        + "int main(void) { static int v; return __atomic_fetch_add(&v, 1, 5); }"
    )
    found = inspect(str(native(tmp_path, source, "-s")))
    assert sum(f.locked.total() for f in found.functions) == 1
    assert found.data >= 32


@needs_cross_compiler
def test_data_in_arm64_text_is_not_shown_as_atomics(command, tmp_path):
    (tmp_path / "source.c").write_text(
        TABLE.format(word="0xb8200020")  # ldadd w0, w0, [x1]
        + 'int main(void) { int v = 0; __asm__ volatile(".arch_extension lse\\n ldadd w0, w1, '
        '[%0]" :: "r"(&v) : "w0",'
        ' "w1"); return v; }'
    )
    program = build(tmp_path / "program", tmp_path / "source.c")
    for path in (program, strip(program)):
        found = inspect(str(path))
        assert sum(f.lse.total() for f in found.functions) == 1, path
        assert found.data == 64
    assert (
        "64 patterns of atomic instructions outside of every function of known extent"
        in command("inspect", path).stdout
    )


@needs_cross_compiler
@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_calls_over_long_branch_veneers_are_seen(tmp_path, linker):
    (tmp_path / "near.c").write_text(
        "extern int far(int *); int main(void) { int v = 0; return far(&v); }"
    )
    (tmp_path / "far.c").write_text(
        '__attribute__((section(".far"), noinline)) int far(int *p) { return '
        "__atomic_fetch_add(p, 1, 5); }"
    )
    (tmp_path / "script").write_text(
        "SECTIONS { .far 0x20000000 : { *(.far) } } INSERT AFTER .bss;"
    )
    compiler = (
        ("clang-19", "--target=aarch64-linux-gnu", "-moutline-atomics") if linker == "lld" else None
    )
    program = build(
        tmp_path / "program",
        "-no-pie",
        f"-fuse-ld={linker}",
        tmp_path / "near.c",
        tmp_path / "far.c",
        f"-Wl,-T,{tmp_path / 'script'}",
        **({"compiler": compiler} if compiler else {}),
    )
    by_name = {f.name: dict(f.calls) for f in inspect(str(program)).functions}
    assert by_name["far"] == {"__aarch64_ldadd4_acq_rel": 1}


@needs_cross_compiler
def test_rights_that_a_program_takes_are_said(command, tmp_path):
    program = build(tmp_path / "program", SOURCES / "sums.c")
    assert "set-user-ID" not in command("inspect", program).stdout
    program.chmod(0o4755)
    assert "set-user-ID rights" in command("inspect", program).stdout
    assert json.loads(command("inspect", "--json", program).stdout)["privileges"] == "set-user-ID"


LLSC_ONLY = """
    .text
    .globl __aarch64_ldadd4_acq_rel
    .type __aarch64_ldadd4_acq_rel, %function
__aarch64_ldadd4_acq_rel:
    mov w16, w0
0:  ldaxr w0, [x1]
    add w17, w0, w16
    stlxr w15, w17, [x1]
    cbnz w15, 0b
    ret
    .size __aarch64_ldadd4_acq_rel, . - __aarch64_ldadd4_acq_rel
    .section .note.GNU-stack, "", %progbits
"""


@needs_cross_compiler
def test_helpers_without_a_test_of_the_cpu_are_named_as_what_they_are(command, tmp_path):
    """The helpers of Rust's compiler_builtins, where a program is not linked with libgcc's: LL/SC
    on every CPU."""
    (tmp_path / "helper.S").write_text(LLSC_ONLY)
    (tmp_path / "main.c").write_text(
        "int main(void) { static int v; return __atomic_fetch_add(&v, 1, 4); }"
    )
    program = build(tmp_path / "program", tmp_path / "main.c", tmp_path / "helper.S")
    found = inspect(str(program))
    assert dict(found.fixed) == {"__aarch64_ldadd4_acq_rel": 1}
    assert not found.unknown and not found.recognised
    main = next(f for f in found.functions if f.name == "main")
    assert dict(main.calls) == {"__aarch64_ldadd4_acq_rel": 1} and not main.llsc
    assert "1 helper without a test of the CPU" in command("inspect", program).stdout


WIDE = """
__extension__ typedef unsigned __int128 wide; wide v;
wide old(void) { return __atomic_load_n(&v, 5); } int main(void) { return (int)old(); }
"""


@needs_cross_compiler
def test_calls_of_libatomic_are_flagged(command, tmp_path):
    source = tmp_path / "wide.c"
    source.write_text(WIDE)
    program = build(tmp_path / "wide", source, "-latomic")
    found = inspect(str(program))
    assert found.libatomic == ("__atomic_load_16",)
    assert any(f.libatomic["__atomic_load_16"] for f in found.functions)
    assert "It calls libatomic: __atomic_load_16." in command("inspect", program).stdout


@needs_cross_compiler
def test_with_libraries_looks_through_each(command, tmp_path):
    library = build(
        tmp_path / "libsums.so", SOURCES / "sums.c", "-shared", "-fPIC", "-Wl,-soname,libsums.so"
    )
    program = build(
        tmp_path / "program",
        SOURCES / "calls_sums.c",
        library,
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--no-as-needed",
    )
    answer = command("inspect", "--all", "--json", program)
    data = json.loads(answer.stdout)
    names = {Path(other["path"]).name: other for other in data["libraries"]}
    assert {"libsums.so", "libc.so.6", "ld-linux-aarch64.so.1"} <= set(names)
    assert names["libsums.so"]["sums"]["helper_calls"] == 10 and data["missing_libraries"] == []
    library.unlink()
    text = command("inspect", "--all", program).stdout
    assert "Not found: libsums.so." in text and f"{TRIPLET}" in text


LOCKS = """
#include <pthread.h>
int main(void) { static pthread_rwlock_t lock; return pthread_rwlock_rdlock(&lock); }
"""


@pytest.mark.parametrize("hash_style", ["gnu", "sysv"])
def test_a_file_without_its_section_table_still_calls_what_it_calls(command, tmp_path, hash_style):
    """It runs as before; "calls pthread_rwlock_*" was denied, and `run --locks` refused it."""
    program = native(tmp_path, LOCKS, f"-Wl,--hash-style={hash_style}")
    bare = tmp_path / "bare"
    bare.write_bytes(without_sections(program.read_bytes()))
    assert imported(str(bare)) == imported(str(program))
    said = " ".join(command("inspect", str(bare)).stdout.split())
    assert "`linewright run --locks` can replace the readers-writer locks of bare." in said
    bare.write_bytes(bare.read_bytes()[: TEXT_BYTES >> 9])
    assert "damaged ELF file" in command.refused("inspect", str(bare))


@needs_cross_compiler
def test_calls_through_stubs_are_counted_without_a_section_table(tmp_path):
    """Only the section table says that there is a .rela.plt; the dynamic section says where."""
    source = tmp_path / "wide.c"
    source.write_text(WIDE)
    program, bare = build(tmp_path / "wide", source, "-latomic"), tmp_path / "bare"
    bare.write_bytes(without_sections(program.read_bytes()))
    calls, those_of_bare = (
        [f.libatomic for f in inspect(str(path)).functions if f.libatomic]
        for path in (program, bare)
    )
    assert calls == those_of_bare and {"__atomic_load_16": 1} in calls


def test_whom_other_locks_do_not_reach_is_said(command, tmp_path):
    program = native(tmp_path, LOCKS)
    program.chmod(0o4755)
    said = " ".join(command("inspect", str(program)).stdout.split())
    assert "set-user-ID rights" in said and "preloads nothing" in said


def test_debug_information_alone_holds_no_code_to_count(command, tmp_path):
    """It had no locked operation, or what its other bytes look like."""
    source = "int v; int main(void) { return __atomic_fetch_add(&v, 1, 5); }"
    program, apart = native(tmp_path, source, "-g"), tmp_path / "program.debug"
    waiting.run(["objcopy", "--only-keep-debug", program, apart], check=True)
    said = command.refused("inspect", str(apart))
    assert "program.debug: debug information without its code" in said


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("f2f00fb10f", "lock_cmpxchg"),
        ("f3f048830701", "lock_add"),
        ("f28707", "xchg"),
        ("f38707", "xchg"),
        ("f0f20fb10f", "lock_cmpxchg"),
        ("66f02ef3ff07", "lock_inc"),
    ],
)
def test_a_lock_that_may_be_elided_is_locked(code, name):
    """With XACQUIRE or XRELEASE before it, or between it and its LOCK, no operation was counted."""
    assert list(locked(bytes.fromhex(code) + b"\x90", 16, "x86_64")) == [(16, name)]


@pytest.mark.parametrize("code", ["f20107", "f0f20307", "f0f28907", "f2f0c3"])
def test_what_takes_no_lock_is_not_locked(code):
    """Without the prefix, with a register to change, a plain store; none is one that can be run."""
    assert not list(locked(bytes.fromhex(code) + b"\x90", 16, "x86_64"))
