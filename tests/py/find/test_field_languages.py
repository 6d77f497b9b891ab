# SPDX-License-Identifier: MIT
"""Fields of C++, Rust and Go: what their compilers write of types, variables and pointers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from linewright.elf import declarations, types
from linewright.elf.symbols import content, demangle, module
from linewright.find.addresses import Names
from linewright.find.decode import DWARF_REGISTERS, Decoder
from linewright.find.space import Spaces
from linewright.find.stream import Map, Sample

CPP = r"""
#include <array>
#include <atomic>
#include <memory>
struct Base { std::atomic<long> calls; long old; };
template <class T> struct Ring { T head; T tail; };
namespace app {
class Cache : public Base {
  public:
    virtual ~Cache() = default;
    struct Slot { std::atomic<long> value; int kind; };
    static std::atomic<long> all;
    Ring<std::atomic<long>> ring{};
    std::array<Slot, 3> slots{};
};
std::atomic<long> Cache::all;
Cache cache;
}
namespace other { long cache[2]; }
extern "C" [[gnu::noinline]] void fixed() {
    app::cache.ring.head++; app::Cache::all++; other::cache[1]++;
}
extern "C" [[gnu::noinline]] void pointed(app::Cache &c) { c.slots[1].value++; }
extern "C" [[gnu::noinline]] long owned() {
    auto made = std::make_unique<app::Cache>();
    pointed(*made);
    return made->old;
}
int main() { fixed(); return (int)owned(); }
"""
RUST = r"""
use std::sync::{Arc, atomic::{AtomicU64, Ordering::Relaxed}};
struct Inner { misses: AtomicU64, hits: AtomicU64 }
struct Shard { kind: AtomicU64, s: Inner }
static SHARDS: [Shard; 4] = [const { Shard { kind: AtomicU64::new(0),
    s: Inner { misses: AtomicU64::new(0), hits: AtomicU64::new(0) } } }; 4];
#[unsafe(no_mangle)] #[inline(never)]
fn fixed(n: usize) { SHARDS[1].s.hits.fetch_add(n as u64, Relaxed);
    SHARDS[2].s.misses.fetch_add(1, Relaxed); SHARDS[2].kind.fetch_add(1, Relaxed); }
#[unsafe(no_mangle)] #[inline(never)]
fn pointed(b: &Shard) { b.s.hits.fetch_add(1, Relaxed); }
#[unsafe(no_mangle)] #[inline(never)]
fn owned() -> Arc<Shard> { Arc::new(Shard { kind: AtomicU64::new(0),
    s: Inner { misses: AtomicU64::new(0), hits: AtomicU64::new(0) } }) }
fn main() { fixed(std::env::args().count()); let b = owned(); pointed(&b);
    println!("{}", b.s.misses.load(Relaxed)); }
"""
GO = r"""
package main
import "sync/atomic"
type inner struct{ misses, hits int64 }
type shard struct { kind int64; s inner }
type padded struct { _ [0]func(); hits atomic.Int64; _ [48]byte; misses atomic.Int64; _ struct{} }
var shards [8]shard
var both padded
//go:noinline
func fixed() { atomic.AddInt64(&shards[1].s.hits, 1); both.hits.Add(1); both.misses.Add(1) }
//go:noinline
func pointed(b *shard) { atomic.AddInt64(&b.s.hits, 1) }
func main() { fixed(); b := new(shard); pointed(b); println(b.s.hits) }
"""
COMPILERS = {
    "g++": (CPP, "g++ -O2 -std=c++20 -gdwarf-5 -o program program.cpp"),
    "g++, DWARF 4": (CPP, "g++ -O2 -std=c++20 -gdwarf-4 -o program program.cpp"),
    "g++, split": (CPP, "g++ -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -o program program.cpp"),
    "clang++": (CPP, "clang++-14 -O2 -std=c++20 -gdwarf-5 -o program program.cpp"),
    "clang++, split": (
        CPP,
        "clang++-14 -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -o program program.cpp",
    ),
    "g++, types apart": (
        CPP,
        "g++ -O2 -std=c++20 -gdwarf-5 -fdebug-types-section -o program program.cpp",
    ),
    "g++, DWARF 4, types apart": (
        CPP,
        "g++ -O2 -std=c++20 -gdwarf-4 -fdebug-types-section -o program program.cpp",
    ),
    "g++, split, types apart": (
        CPP,
        "g++ -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -fdebug-types-section -o program program.cpp",
    ),
    "g++, packed": (CPP, "g++ -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -o program program.cpp"),
    "g++, packed, types apart": (
        CPP,
        "g++ -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -fdebug-types-section -o program program.cpp",
    ),
    "clang++, packed": (
        CPP,
        "clang++-14 -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -o program program.cpp",
    ),
    "rustc": (RUST, "rustc --edition 2024 -g -O -o program program.rs"),
    "go": (GO, "go build -o program program.go"),
}


def pack(folder: Path) -> None:
    """The .dwo files of a program, and of another one that stands before it, in one package."""
    if shutil.which("llvm-dwp") is None:
        pytest.skip("no llvm-dwp")
    (folder / "other.c").write_text("struct other { long a; } other; int main(void) { return 0; }")
    words = "gcc -gdwarf-5 -gsplit-dwarf -o other other.c"
    subprocess.run(words.split(), cwd=folder, check=True)
    files = sorted(folder.glob("*.dwo"))
    subprocess.run(["llvm-dwp", *files, "-o", folder / "program.dwp"], check=True)
    for file in files:
        file.unlink()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The program of a compiler, built once."""
    known: dict[str, str] = {}

    def build(compiler: str) -> str:
        source, command = COMPILERS[compiler]
        words = command.split()
        if shutil.which(words[0]) is None:
            pytest.skip(f"no {words[0]}")
        if compiler not in known:
            folder = tmp_path_factory.mktemp("language")
            (folder / words[-1]).write_text(source)
            subprocess.run(words, cwd=folder, check=True)
            if "packed" in compiler:
                pack(folder)
            known[compiler] = str(folder / "program")
        return known[compiler]

    return build


def symbol(program: str, name: str, kind: str = "functions"):
    return next(s for s in getattr(module(program), kind) if demangle(s.name) == name)


def atomic(program: str, function: str) -> tuple[int, int, int]:
    """The function's first atomic access: its address, DWARF's number of its register, and its
    displacement."""
    arch = "x86_64"
    found = symbol(program, function)
    code = content(program, found.address, found.size)
    for i in Decoder(arch, None)._own.forwards(code, found.address, 0):
        for operand in i.operands:
            if operand.access == "atomic" and operand.base >= 0:
                register = DWARF_REGISTERS[arch].index(operand.base)
                return i.address, register, operand.displacement
    raise AssertionError(function)


CPPS = [name for name in COMPILERS if name.startswith(("g++", "clang"))]


@pytest.mark.parametrize("compiler", CPPS)
def test_a_class_is_named_by_its_members_and_its_bases(built, compiler) -> None:
    program = built(compiler)
    code = symbol(program, "fixed").address
    at = symbol(program, "app::cache", "variables").address
    layout = types.variable(program, code, "app::cache", at)
    paths = [f.path for f in layout.fields(8, layout.size)]
    assert paths == [
        ".calls", ".old", ".ring.head", ".ring.tail", ".slots[0].value", ".slots[0].kind",
        ".slots[1].value", ".slots[1].kind", ".slots[2].value", ".slots[2].kind",
    ]  # fmt: skip


@pytest.mark.parametrize("compiler", CPPS)
def test_of_variables_with_one_name_the_one_at_the_address_counts(built, compiler) -> None:
    program = built(compiler)
    code = symbol(program, "fixed").address
    sizes = {
        name: types.variable(program, code, name, symbol(program, name, "variables").address).size
        for name in ("app::cache", "other::cache", "app::Cache::all")
    }
    assert sizes == {"app::cache": 88, "other::cache": 16, "app::Cache::all": 8}


@pytest.mark.parametrize("compiler", CPPS)
def test_a_smart_pointer_leads_to_the_blocks_type(built, compiler) -> None:
    program = built(compiler)
    found = symbol(program, "owned")
    layout = types.allocated(program, found.address + found.size // 2, 88)
    assert layout is not None and layout.name == "Cache"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_lies_behind_a_pointer_has_its_field(built, compiler) -> None:
    """As on a stack or Go's heap: nothing but the accessing code says what it is."""
    program = built(compiler)
    if compiler == "go":
        address, register, displacement = atomic(program, "main.pointed")
    else:
        address, register, displacement = atomic(program, "pointed")
    layout, offset = types.pointed(program, address, register, displacement)
    paths = [f.path for f in layout.fields(offset, offset + 8)]
    wanted = {"rustc": ("Shard", ".s.hits"), "go": ("main.shard", ".s.hits")}
    assert (layout.name, paths[0]) == wanted.get(compiler, ("Cache", ".slots[1].value"))
    assert types.pointed(program, address, register, displacement + 4096) is None


@pytest.mark.parametrize(
    ("compiler", "variable", "function"),
    [("rustc", "program::SHARDS", "fixed"), ("go", "main.shards", "main.fixed")],
)
def test_static_variables_of_other_languages(built, compiler, variable, function) -> None:
    program = built(compiler)
    at = symbol(program, variable, "variables").address
    layout = types.variable(program, symbol(program, function).address, variable, at)
    assert "[1].s.hits" in [f.path for f in layout.fields(24, 48)]


def test_a_blank_field_of_go_is_not_what_is_used(built) -> None:
    """It takes no place or is padding, and was named where the field behind it is used."""
    program = built("go")
    at = symbol(program, "main.both", "variables").address
    layout = types.variable(program, symbol(program, "main.fixed").address, "main.both", at)
    assert [f.path for f in layout.fields(0, layout.size)] == [".hits.v", ".misses.v"]
    assert [declarations.own_member(layout, at).name for at in (0, 56)] == ["hits", "misses"]
    assert declarations.own_member(layout, 30) is None


def test_a_block_behind_an_arc_has_its_type(built) -> None:
    program = built("rustc")
    found = symbol(program, "owned")
    assert "Shard" in types.allocated(program, found.address + found.size // 2, 40).name


@pytest.fixture(scope="module")
def plain_rust(tmp_path_factory):
    """Without optimisation, where an atomic operation is a function of the library's that has no
    frame pointer."""
    if shutil.which("rustc") is None:
        pytest.skip("no rustc")
    folder = tmp_path_factory.mktemp("rust")
    (folder / "program.rs").write_text(RUST)
    words = "rustc --edition 2024 -g -o program program.rs"
    subprocess.run(words.split(), cwd=folder, check=True)
    return str(folder / "program")


def helper(program: str):
    """The function of the library that adds."""
    return next(
        s for s in module(program).functions if "AtomicU64" in s.name and "fetch_add" in s.name
    )


def test_callers_of_code_without_frame_pointers_are_read_off_the_stack(plain_rust) -> None:
    """What stands in the register of frame pointers is no pointer there, and by it a caller would
    be left out or made up."""
    program, inner, outer = plain_rust, helper(plain_rust), symbol(plain_rust, "pointed")
    ip, _, _ = atomic(program, demangle(inner.name))
    base, stack = 0x400000, 0x7F0000000000
    spaces = Spaces()
    for offset, size, address, _ in module(program).segments:
        page = address & ~4095
        spaces.mapping(
            Map(time_ns=0, pid=1, start=base + page, length=(address - page + size + 4095) & ~4095,
                offset=offset & ~4095, device=1, inode=1, path=program, executable=True,
                writable=False, shared=False)
        )  # fmt: skip
    back = base + outer.address + outer.size // 2
    registers = [0] * 18
    registers[7] = stack
    sample = Sample(time_ns=1, pid=1, tid=1, ip=base + ip, bits=64, registers=registers,
                    chain=[base + ip, 0x1234], top=[back, 0, 0, 0, 0, 0, 0, 0])  # fmt: skip
    found = Names(spaces).callers(sample)
    assert found[0] == back and 0x1234 not in found, [hex(at) for at in found]


def test_a_split_file_that_is_another_builds_gives_no_types(built, tmp_path) -> None:
    """The compiler's folder is gone, as where a program was installed."""
    program = built("g++, split")
    (dwo,) = Path(program).parent.glob("*.dwo")
    moved = tmp_path / "program"
    shutil.copy(program, moved)
    dwo.rename(tmp_path / dwo.name)
    code = symbol(program, "fixed").address
    at = symbol(program, "app::cache", "variables").address
    assert types.variable(str(moved), code, "app::cache", at), "found beside the program"
    other = CPP.replace("long old", "long old, older")
    (tmp_path / "program.cpp").write_text(other)
    command = "g++ -O2 -std=c++20 -gdwarf-5 -gsplit-dwarf -o other program.cpp"
    subprocess.run(command.split(), cwd=tmp_path, check=True)
    (tmp_path / "other-program.dwo").rename(tmp_path / dwo.name)
    types._whole.cache_clear()
    assert types.variable(str(moved), code, "app::cache", at) is None
