# SPDX-License-Identifier: MIT
"""The code that a page shows for a type: every member as its compiler would take it, and separated
by what is written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from linewright.elf import declarations, types
from linewright.elf.symbols import demangle, module
from linewright.find.evidence import Evidence, LinePlace
from linewright.find.fields import fields_on, separated
from linewright.find.line_code import separation

MEMBERS = [
    "long int a", "_Atomic(long int) atomic", "struct inner nested", "struct inner *to",
    "const char *text", "char *const fixed", "word named", "int table[3][4]", "int (*row)[4]",
    "enum kind kind", "volatile long int seen", "void *any",
]  # fmt: skip
C = (
    "typedef unsigned long word; struct inner { long a, b; }; enum kind { one };"
    f"struct pair {{ {'; '.join(MEMBERS)}; void (*call)(int); unsigned bit : 3; }} pair;"
    "long plain[8]; struct shard { long x, y; } shards[4]; struct { long x; } nameless[4];"
    "int main(void) { pair.a++; plain[1]++; shards[1].y++; nameless[1].x++; return 0; }"
)
CPP = r"""
#include <atomic>
#include <string>
namespace app {
struct Slot { std::atomic<long> hits; long misses; const std::string *name; long &to; } slots[4] = {
    {0, 0, nullptr, slots[0].misses}, {0, 0, nullptr, slots[0].misses},
    {0, 0, nullptr, slots[0].misses}, {0, 0, nullptr, slots[0].misses}};
}
int main() { app::slots[1].hits++; return app::slots[2].misses; }
"""
RUST = r"""
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[repr(C)] pub struct Shard { hits: AtomicU64, table: [[u32; 3]; 2], misses: AtomicU64 }
static SHARDS: [Shard; 4] = [const { Shard { hits: AtomicU64::new(0), table: [[0; 3]; 2],
    misses: AtomicU64::new(0) } }; 4];
fn main() { SHARDS[std::env::args().count()].hits.fetch_add(1, Relaxed);
    println!("{}", SHARDS[0].misses.load(Relaxed)); }
"""
GO = r"""
package main
import "sync/atomic"
type inner struct{ a int64 }
type shard struct { hits atomic.Int64; of inner; to *inner; few [4]int32; misses int64 }
var shards [4]shard
type table struct { by map[string]*atomic.Int64; made func(*atomic.Int64) int64 }
var tables [2]table
var nameless struct { total atomic.Int64; rest [4]int64 }
var few [8]int64
func main() { few[len(shards[0].few)]++; shards[1].hits.Add(1); println(shards[2].misses)
    println(tables[1].by, tables[1].made, nameless.total.Add(1)) }
"""
PROGRAMS = {
    "c": (C, ["gcc", "-g", "-O1"], "main"),
    "c++": (CPP, ["g++", "-std=c++20", "-g", "-O1"], "main"),
    "rust": (RUST, ["rustc", "--edition", "2024", "-g"], "program::main"),
    "go": (GO, ["go", "build"], "main.main"),
}
ENDINGS = {"c": "c", "c++": "cpp", "rust": "rs", "go": "go"}


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """The layout of a variable of a language's program, which is built once."""
    known: dict[str, Path] = {}

    def find(language: str, name: str) -> types.Layout:
        source, command, function = PROGRAMS[language]
        if shutil.which(command[0]) is None:
            pytest.skip(f"no {command[0]}")
        if language not in known:
            folder = tmp_path_factory.mktemp("language")
            file = folder / f"program.{ENDINGS[language]}"
            file.write_text(source)
            subprocess.run([*command, "-o", folder / "program", file], cwd=folder, check=True)
            known[language] = folder / "program"
        program = str(known[language])
        code = next(s for s in module(program).functions if demangle(s.name) == function)
        variable = next(s for s in module(program).variables if demangle(s.name) == name)
        return types.variable(program, code.address + 4, name, variable.address)

    return find


def advised(layout: types.Layout, *starts: int) -> str:
    """The code that is shown where thread after thread uses eight bytes from these on."""
    found = Evidence(LinePlace((1,), 1), 1, 64)
    for tid, at in enumerate(starts, 1):
        found.touch(tid, at, 8, True, 0)
    fields = fields_on(layout, 64, "x", 64)
    return separation(separated(layout, 64, fields, found), None)


def test_every_member_of_a_c_structure_is_declared_as_it_was(layout) -> None:
    pair = layout("c", "pair")
    found = [declarations.member(pair, at) for at in range(pair.size)]
    assert [f.member for f in found if f] == MEMBERS
    assert {(f.language, f.type) for f in found if f} == {("c", "pair")}
    assert declarations.member(layout("c", "nameless"), 0) is None


def test_a_plain_value_in_an_array_is_declared_as_the_array(layout) -> None:
    """A copy of the one element for each thread would have no place for the others."""
    declared = [
        declarations.own_member(layout(language, name), 0).declared
        for language, name in (("c", "plain"), ("go", "main.few"))
    ]
    assert declared == ["long int @[8]", "@ [8]int64"]


def test_members_of_other_languages(layout) -> None:
    for language, name, wanted in (
        ("c++", "app::slots", ["std::atomic<long> hits", "long misses", "const std::string *name",
         "long &to"]),
        ("rust", "program::SHARDS", ["hits: core::sync::atomic::AtomicU64", "table: [[u32; 3]; 2]",
         "misses: core::sync::atomic::AtomicU64"]),
        ("go", "main.shards", ["hits atomic.Int64", "of inner", "to *inner", "few [4]int32",
         "misses int64"]),
        ("go", "main.tables", ["by map[string]*atomic.Int64", "made func(*atomic.Int64) int64"]),
        ("go", "main.nameless", []),
    ):  # fmt: skip
        of = layout(language, name)
        found = [f.member for at in range(of.element) if (f := declarations.member(of, at))]
        plain = [m.replace("long int", "long").replace("> >", ">>") for m in found]
        assert [m.replace("Atomic<u64>", "AtomicU64") for m in plain] == wanted


@pytest.mark.parametrize(
    ("language", "name", "starts", "code"),
    [
        ("c", "pair", (0, 8), "in C: struct pair { … alignas(128) _Atomic(long int) atomic; … };"),
        ("c", "shards", (0, 16), "in C: struct shard { alignas(128) long int x; … };"),
        ("c", "plain", (0, 8), "in C: struct Apart { alignas(128) long int value; };"),
        ("c", "nameless", (0, 8), ""),
    ],
)
def test_the_code_in_c(layout, language, name, starts, code) -> None:
    assert advised(layout(language, name), *starts) == code


def test_the_code_in_other_languages(layout) -> None:
    cpp, rust, go = (
        layout(*of) for of in (("c++", "app::slots"), ("rust", "program::SHARDS"),
                               ("go", "main.shards"))
    )  # fmt: skip
    assert advised(cpp, 0, cpp.element).startswith(
        "in C++: struct alignas(128) Slot { std::atomic<"
    )
    assert "struct Slot { … alignas(128) long" in advised(cpp, 0, 8)
    assert advised(rust, 0, rust.element).startswith(
        "in Rust: #[repr(align(128))] struct Shard { hits: "
    )
    said = advised(rust, 0, 32)
    assert said.startswith(
        "in Rust: #[repr(align(128))] struct Apart<T>(T); struct Shard { … misses: Apart<core::"
    )
    assert f"; … _ [{128 - go.element}]byte }}" in advised(go, 0, go.element)
    said = advised(go, 0, go.element - 8)
    assert said == "in Go: type shard struct { … _ [128]byte; misses int64; … }"


@pytest.mark.parametrize("language", ["c", "c++"])
def test_what_is_shown_is_taken_by_the_compiler_and_separates(layout, tmp_path, language) -> None:
    """With the other members in place of the dots."""
    said = advised(layout("c", "pair"), 0, 8).removeprefix("in C: ")
    before = said.replace("{ …", "{ long a;").replace("; …", "; long c;")
    words = {"c": ("stdalign.h", "_Static_assert"), "c++": ("cstddef", "static_assert")}[language]
    file = tmp_path / f"shown.{ENDINGS[language]}"
    if language == "c++":
        before = before.replace("_Atomic(long int)", "long")
    file.write_text(
        f"#include <stddef.h>\n#include <{words[0]}>\n{before}\n"
        f'{words[1]}(offsetof(struct pair, atomic) == 128 && sizeof(struct pair) == 256, "");\n'
    )
    command = PROGRAMS[language][1]
    subprocess.run([*command, "-c", "-o", tmp_path / "shown.o", file], check=True)


def test_a_structure_without_a_name_has_that_of_the_typedef(tmp_path) -> None:
    """As pthread_mutex_t, and most structures of C programs."""
    source = (
        "#include <stdlib.h>\ntypedef struct { long a, b; } pair_t;"
        "int main(void) { pair_t *const to = malloc(sizeof *to); to->b++; return (int)to->a; }"
    )
    (tmp_path / "program.c").write_text(source)
    subprocess.run(["gcc", "-g", "-o", "program", "program.c"], cwd=tmp_path, check=True)
    path = str(tmp_path / "program")
    code = next(s for s in module(path).functions if s.name == "main")
    assert types.allocated(path, code.address + 4, 16).name == "pair_t"
