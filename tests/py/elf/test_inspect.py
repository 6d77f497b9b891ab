# SPDX-License-Identifier: MIT
"""`linewright inspect` against nm, against instructions written down one by one, and against
damaged files."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linewright.elf import arm64, image, outline_helpers
from linewright.elf.inspection import inspect
from linewright.errors import UserError
from support import waiting
from support.arm64_programs import (
    GCC,
    ROOT,
    SOURCES,
    TRIPLET,
    build,
    needs_cross_compiler,
    nm_helpers,
    strip,
)

pytestmark = needs_cross_compiler


@pytest.fixture(scope="module")
def sums(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("inspect") / "sums", SOURCES / "sums.c")


@pytest.mark.parametrize(
    "flags", [(), ("-no-pie",), ("-static",), ("-mbranch-protection=standard",)]
)
def test_helpers_agree_with_nm_stripped_or_not(tmp_path, flags):
    program = build(tmp_path / "program", SOURCES / "sums.c", *flags)
    wanted = nm_helpers(program)
    assert wanted
    for path in (program, strip(program)):
        found = inspect(str(path))
        assert set(found.recognised) == wanted
        assert not found.unknown and not found.own
        assert found.image.stripped == (path != program)


@pytest.mark.parametrize("more", [(), (SOURCES / "writes_back.S",)])
def test_every_helper_is_known(tmp_path, more):
    libgcc = subprocess.run(
        [GCC, "-print-libgcc-file-name"], capture_output=True, text=True, check=True
    ).stdout.strip()
    listed = subprocess.run(
        [f"{TRIPLET}-nm", "--defined-only", libgcc], capture_output=True, text=True
    ).stdout
    names = sorted(set(re.findall(r" T (__aarch64_(?:cas|swp|ld)\w+)", listed)))
    assert len(names) == 125
    source = tmp_path / "all.c"
    source.write_text(
        "".join(f"void {n}(void);\n" for n in names)
        + f"void (*const all[])(void) = {{{', '.join(names)}}};\n"
    )
    found = inspect(str(strip(build(tmp_path / "all.so", source, *more, "-shared", "-fPIC"))))
    assert sorted(found.recognised) == names
    assert found.recognised.total() == 125


def test_a_function_named_like_a_helper_is_not_one_by_its_name(tmp_path):
    found = inspect(str(build(tmp_path / "program", SOURCES / "own_helper.c")))
    assert dict(found.unknown) == {"__aarch64_ldadd4_relax": 1}
    assert "__aarch64_ldadd4_acq_rel" in found.recognised


def test_lookalikes_are_none(tmp_path):
    tell = SOURCES / "tell.c"
    for flags, wanted in (((), {}), (("-DONE_REAL",), {"__aarch64_ldadd8_acq_rel": 1})):
        found = inspect(
            str(
                build(
                    tmp_path / "program",
                    SOURCES / "lookalikes_main.c",
                    SOURCES / "lookalikes.S",
                    tell,
                    "-mno-outline-atomics",
                    *flags,
                )
            )
        )
        assert dict(found.recognised) == wanted


def test_linewrights_own_helpers_are_told_apart(tmp_path):
    archive = ROOT / "build/arm64/src/outline/liblinewright_outline.a"
    if not archive.is_file():
        pytest.skip("the arm64 library is not built")
    program = build(tmp_path / "program", SOURCES / "sums.c", archive)
    for path in (program, strip(program)):
        found = inspect(str(path))
        assert set(found.own) == nm_helpers(program)
        assert not found.recognised and not found.unknown
        work = max(found.functions, key=lambda f: f.calls.total())
        assert set(work.calls) == nm_helpers(program)
        assert not any(f.lse or f.llsc for f in found.functions)
    library = archive.with_suffix(".so")
    found = inspect(str(build(tmp_path / "by-stub", SOURCES / "sums.c", library)))
    assert set(next(f for f in found.functions if f.name == "work").calls) == nm_helpers(program)


def test_inlined_forms_by_function(tmp_path):
    source = tmp_path / "forms.c"
    source.write_text(
        """
        #define FORM(name, text) __attribute__((noinline)) void name(long *p) { \\
            register long *x1 __asm__("x1") = p; \\
            __asm__ volatile(".arch_extension lse\\n" text :: \\
                "r"(x1) : "x0","x2","x3","x4","x5","memory"); }
        FORM(stores, "stadd x0, [x1]\\nstclrb w0, [x1]\\nstsetl w0, [x1]\\nldadd x0, xzr, [x1]")
        FORM(loads, "ldadda x0, xzr, [x1]\\nldsmax x0, x2, [x1]\\nldeoralh w0, w2, [x1]")
        FORM(swaps, "swp x0, x2, [x1]\\nswpalb w0, wzr, [x1]")
        FORM(compares, "cas x0, x2, [x1]\\ncasalb w0, w2, [x1]\\ncasp x2, x3, x4, x5, [x1]")
        FORM(loops, "1: ldaxr x0, [x1]\\nstlxr w2, x0, [x1]\\ncbnz w2, 1b\\n"
              "2: ldxp x2, x3, [x1]\\nstxp w0, x2, x3, [x1]\\ncbnz w0, 2b")
        FORM(neither, "ldapr x0, [x1]\\nldar x0, [x1]\\nstlr x0, [x1]\\nldr x0, [x1]\\n"
              "ldp x2, x3, [x1]\\nclrex\\nldrb w0, [x1, w2, uxtw]")
        int main(void) { long v[2] = {0}; stores(v); return 0; }
        """
    )
    assembler = "-Wa,-march=armv8.3-a"
    found = {
        f.name: f
        for f in inspect(
            str(build(tmp_path / "forms", source, "-march=armv8.3-a+nolse", assembler))
        ).functions
    }
    assert dict(found["stores"].lse) == {"store": 4}
    assert dict(found["loads"].lse) == {"load": 3}
    assert dict(found["swaps"].lse) == {"swap": 2}
    assert dict(found["compares"].lse) == {"cas": 3}
    assert found["loops"].llsc == 2 and not found["loops"].lse
    assert "neither" not in found


def test_encodings_agree_with_the_disassembler(sums):
    """Every word that objdump calls atomic in real libraries is found, and no other."""
    library = Path(f"/usr/{TRIPLET}/lib/libc.so.6")
    listing = waiting.run([f"{TRIPLET}-objdump", "-d", "-j", ".text", library], check=True).stdout
    wanted: dict[str, int] = {"store": 0, "load": 0, "swap": 0, "cas": 0, "ll": 0}
    for mnemonic in re.findall(r"^ +[0-9a-f]+:\t[0-9a-f]{8} \t(\w+)", listing, re.M):
        for form, pattern in (
            ("store", r"st(add|clr|set|eor|[su]max|[su]min)l?[bh]?$"),
            ("load", r"ld(add|clr|set|eor|[su]max|[su]min)(a|l|al)?[bh]?$"),
            ("swap", r"swp(a|l|al)?[bh]?$"),
            ("cas", r"casp?(a|l|al)?[bh]?$"),
            ("ll", r"lda?x[rp][bh]?$"),
        ):
            wanted[form] += bool(re.match(pattern, mnemonic))
    found = {"store": 0, "load": 0, "swap": 0, "cas": 0, "ll": 0}
    loaded = image.load(str(library))
    (text,) = [t for t in loaded.texts if len(t.code) > 100_000]
    seen = arm64.find(np.frombuffer(text.code, dtype="<u4"))
    found |= {form: len(indices) for form, indices in seen.lse.items()} | {
        "ll": len(seen.exclusive_loads)
    }
    assert found == wanted
    assert wanted["cas"] and wanted["ll"]


def test_locked_operations_of_x86(tmp_path):
    if shutil.which("gcc-12") is None:
        pytest.skip("no native compiler")
    source = tmp_path / "locked.c"
    source.write_text(
        """
        #include <stdatomic.h>
        __attribute__((noinline)) int add(atomic_int *p) { return atomic_fetch_add(p, 2); }
        __attribute__((noinline)) int swap(atomic_int *p) { return atomic_exchange(p, 2); }
        __attribute__((noinline)) int plain(int *p) { return *p += 2; }
        int main(void) { atomic_int v = 0; int w = 0; return add(&v) + swap(&v) + plain(&w); }
        """
    )
    for flags in ((), ("-m32", "-I/usr/include/x86_64-linux-gnu")):
        found = inspect(str(build(tmp_path / "locked", source, *flags, compiler=("gcc-12",))))
        by_name = {f.name: dict(f.locked) for f in found.functions}
        assert by_name["add"] == {"lock_xadd": 1}
        assert by_name["swap"] == {"xchg": 1}
        assert "plain" not in by_name


def test_the_command(command, sums):
    answer = command("inspect", sums)
    assert answer.returncode == 0 and answer.stderr == ""
    assert answer.stdout.startswith(
        "`linewright run` can switch its 10 outlined helpers, and so what their callers do."
    )
    assert "10 calls of helpers in 1 function; nothing inlined." in answer.stdout
    data = json.loads(command("inspect", "--json", sums).stdout)
    assert data["machine"] == "arm64" and data["switchable"] == {
        "run_time": True,
        "link_time": False,
    }
    assert data["sums"] == {"helper_calls": 10, "inlined_lse": 0, "inlined_llsc": 0, "locked": 0}
    assert {name for f in data["functions"] for name in f["contains"]} == nm_helpers(sums)
    static = build(sums.with_name("static"), SOURCES / "sums.c", "-static")
    assert "`linewright run` cannot switch its" in command("inspect", static).stdout
    native = command("inspect", shutil.which("true"))
    assert native.returncode == 0 and native.stdout.startswith("Nothing can be switched")


def test_what_is_no_program_is_one_line(command, tmp_path, sums):
    for name, content in (
        ("empty", b""),
        ("text", b"hello"),
        ("script", b"#!/bin/sh\n"),
        ("archive", b"!<arch>\n"),
        ("head", b"\x7fELF"),
    ):
        (tmp_path / name).write_bytes(content)
        assert name in command.refused("inspect", str(tmp_path / name))
    assert "a directory" in command.refused("inspect", str(tmp_path))
    assert "No such file" in command.refused("inspect", str(tmp_path / "absent"))
    assert "not a regular file" in command.refused("inspect", "/dev/zero")
    raw = sums.read_bytes()
    (tmp_path / "cut").write_bytes(raw[: len(raw) // 3])
    command.refused("inspect", str(tmp_path / "cut"))
    (tmp_path / "mips").write_bytes(raw[:18] + struct.pack("<H", 8) + raw[20:])
    assert "MIPS" in command.refused("inspect", str(tmp_path / "mips"))
    (tmp_path / "big").write_bytes(
        b"\x7fELF\2\2\1"
        + bytes(9)
        + struct.pack(">HHIQQQIHHHHHH", 3, 183, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)
    )
    assert "big-endian" in command.refused("inspect", str(tmp_path / "big"))
    object_file = build(tmp_path / "sums.o", SOURCES / "sums.c", "-c")
    assert "object file" in command.refused("inspect", str(object_file))


def test_text_above_every_program_is_refused(command, tmp_path, sums):
    """All of it moved up by half the address space: nothing contradicts itself, but sums of
    addresses no longer fit."""
    raw = bytearray(sums.read_bytes())
    for table, count, size, flags, address in ((32, 56, 56, None, 16), (40, 60, 64, 8, 16)):
        start, entries = (
            struct.unpack_from("<Q", raw, table)[0],
            struct.unpack_from("<H", raw, count)[0],
        )
        for at in range(start, start + entries * size, size):
            if flags is None or struct.unpack_from("<Q", raw, at + flags)[0] & 2:
                struct.pack_into(
                    "<Q",
                    raw,
                    at + address,
                    struct.unpack_from("<Q", raw, at + address)[0] + (1 << 63),
                )
    (tmp_path / "high").write_bytes(raw)
    assert "its text lies where no program can" in command.refused(
        "inspect", str(tmp_path / "high")
    )


def test_what_is_made_for_a_dynamic_linker_without_auditing_is_told(command, tmp_path):
    program = build(
        tmp_path / "program", SOURCES / "sums.c", "-Wl,--dynamic-linker=/lib/ld-musl-aarch64.so.1"
    )
    stand_in = build(
        tmp_path / "libc.musl-aarch64.so.1",
        SOURCES / "sums.c",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libc.musl-aarch64.so.1",
    )
    library = build(
        tmp_path / "library.so",
        SOURCES / "sums.c",
        "-Wl,--no-as-needed",
        stand_in,
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-lgcc",
    )
    for path in (program, library):
        assert "made for musl, whose dynamic linker knows no auditing" in " ".join(
            command("inspect", path).stdout.split()
        )
        assert not json.loads(command("inspect", "--json", path).stdout)["switchable"]["run_time"]


def _survives(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    try:
        inspect(str(path))
    except UserError as error:
        assert "\n" not in str(error)


# The beginning holds the headers; the section table is at the end.
@settings(
    max_examples=150,
    deadline=60_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(data=st.data())
def test_damaged_files_are_refused_or_read(tmp_path_factory, sums, data):
    raw = bytearray(strip(sums).read_bytes() if data.draw(st.booleans()) else sums.read_bytes())
    tables = struct.unpack_from("<Q", raw, 40)[0]
    for _ in range(data.draw(st.integers(1, 6))):
        where = data.draw(
            st.one_of(
                st.integers(0, 63),
                st.integers(64, 700),
                st.integers(tables, len(raw) - 8),
                st.integers(0, len(raw) - 8),
            )
        )
        width = data.draw(st.sampled_from((1, 2, 4, 8)))
        value = data.draw(
            st.one_of(
                st.sampled_from((0, 1, 2, 7, 64, 2**31, 2**32 - 1, 2**63, 2**64 - 1)),
                st.integers(0, 2**64 - 1),
            )
        )
        raw[where : where + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    if data.draw(st.integers(0, 5)) == 0:
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    _survives(tmp_path_factory.getbasetemp() / "damaged", bytes(raw))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                (0x90000010, 0x39400210, 0x34000070, 0xF8E00020, 0xD65F03C0, 0xD503245F)
            ),
            st.integers(0, 2**32 - 1),
        ),
        max_size=60,
    ),
    st.integers(0, 2**48).map(lambda a: a & ~3),
)
def test_no_words_upset_the_search(words, address):
    array = np.array(words, dtype="<u4")
    outline_helpers.find(array, address, ((0, 2**64),))
    arm64.find(array)
    arm64.stub_slots(array, address)
