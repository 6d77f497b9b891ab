# SPDX-License-Identifier: MIT
"""The code that is shown for a remedy: it compiles in its language with the rest of the type in
place of the dots, and is not given where what was seen does not support that remedy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from linewright.elf import declarations, types
from linewright.elf.symbols import demangle, module
from linewright.find.evidence import Evidence, LinePlace, SiteKey, byte_mask
from linewright.find.fields import Fields
from linewright.find.line_code import code_text
from linewright.find.line_verdict import used_in
from linewright.find.line_words import lock_text
from linewright.find.results import ContendedMember, Hot, Movement, Object, Site, Touch
from support import find_results

C = """
#include <pthread.h>
#include <stdatomic.h>
struct state { long first; atomic_long word; pthread_mutex_t lock; pthread_rwlock_t many;
    long last; } state;
int main(void) { state.word++; return (int)state.last; }
"""
CPP = """
#include <atomic>
#include <mutex>
#include <shared_mutex>
namespace app { struct State { long first; std::atomic<long> word; std::mutex lock;
    std::shared_mutex many; long last; } state; }
int main() { app::state.word++; return app::state.last; }
"""
RUST = """
use std::sync::{Mutex, RwLock, atomic::{AtomicU64, Ordering::Relaxed}};
pub struct Inner { a: u64 }
#[repr(C)] pub struct State { first: u64, word: AtomicU64, lock: Mutex<Inner>,
    many: RwLock<Inner>, last: u64 }
static STATE: State = State { first: 1, word: AtomicU64::new(0), lock: Mutex::new(Inner { a: 1 }),
    many: RwLock::new(Inner { a: 1 }), last: 2 };
fn main() { STATE.word.fetch_add(STATE.lock.lock().unwrap().a, Relaxed);
    println!("{} {} {}", STATE.first, STATE.last, STATE.many.read().unwrap().a); }
"""
GO = """
package main
import ("sync"; "sync/atomic")
type state struct { first int64; word atomic.Int64; lock sync.Mutex; many sync.RWMutex; last int64 }
var one state
func main() { one.word.Add(1); one.lock.Lock(); one.many.RLock(); println(one.last, one.first) }
"""
PROGRAMS = {
    "c": (C, "c", ["gcc", "-g", "-O1", "-pthread"], "main", "state"),
    "c++": (CPP, "cpp", ["g++", "-std=c++20", "-g", "-O1"], "main", "app::state"),
    "rust": (RUST, "rs", ["rustc", "--edition", "2024", "-g"], "program::main", "program::STATE"),
    "go": (GO, "go", ["go", "build"], "main.main", "main.one"),
}
BEFORE = {
    "c": "#include <stdalign.h>\n#include <stdatomic.h>\n#include <pthread.h>\n"
    "#include <linewright/rwlock.h>\nenum { THREADS = 64 };\n",
    "c++": "#include <atomic>\n#include <condition_variable>\n#include <mutex>\n"
    "#include <shared_mutex>\n#include <linewright/rwlock.h>\nenum { THREADS = 64 };\n",
    "rust": "#![allow(dead_code)]\nconst THREADS: usize = 64; pub struct Inner { a: u64 }\n",
    "go": "package main\n{imports}\nconst threads = 64\nfunc main() {}\n",
}
COMPILERS = {
    "c": (["gcc", "-std=gnu11", "-c"], ["clang", "-std=gnu11", "-c"]),
    "c++": (["g++", "-std=c++17", "-c"], ["clang++", "-std=c++17", "-c"]),
    "rust": (["rustc", "--edition", "2024", "--crate-type", "lib"],),
    "go": (["go", "build"],),
}
FILLED = {"c": "int rest{};", "c++": "int rest{};", "rust": "rest{}: u8,", "go": "rest{} int64;"}
INCLUDE = Path(__file__).parents[3] / "include"
HELD = {
    "c": "struct state;",
    "c++": "struct State;",
    "rust": "pub struct State;",
    "go": "type state struct{}",
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """The layout of a language's `state`; each program is built once."""
    known: dict[str, types.Layout] = {}

    def find(language: str) -> types.Layout:
        source, ending, command, function, variable = PROGRAMS[language]
        if shutil.which(command[0]) is None:
            pytest.skip(f"no {command[0]}")
        if language not in known:
            folder = tmp_path_factory.mktemp("language")
            (folder / f"program.{ending}").write_text(source)
            command = [*command, "-o", "program", f"program.{ending}"]
            subprocess.run(command, cwd=folder, check=True)
            path = str(folder / "program")
            code = next(s for s in module(path).functions if demangle(s.name) == function)
            of = next(s for s in module(path).variables if demangle(s.name) == variable)
            known[language] = types.variable(path, code.address + 4, variable, of.address)
        return known[language]

    return find


def member(layout: types.Layout, name: str, writers: int = 2) -> ContendedMember:
    every = (declarations.own_member(layout, at) for at in range(layout.size))
    found = next(w for w in every if w and w.name == name)
    return ContendedMember(
        language=found.language,
        type=found.type,
        name=found.name,
        declared=found.declared,
        following=found.following,
        writers=writers,
    )


def site(instruction: str = "lock add", access: str = "atomic", **more) -> Site:
    about = {"module": "p", "function": "work", "offset": 1, "share": 0.5} | more
    return Site(instruction=instruction, access=access, **about)


def touch(thread: int, writes: bool = True, at: int = 8) -> Touch:
    return Touch(thread=thread, name="", bytes=[(at, 8)], writes=writes, reads=not writes)


SITES = {
    "counting": ("word", [site()], [touch(1), touch(2)]),
    "several": ("word", [site("mov", "write")], [touch(1), touch(2)]),
    "written": ("word", [site("mov", "write")], [touch(1), touch(2, False)]),
    "lock": ("lock", [site(function="pthread_mutex_lock")], [touch(1), touch(2)]),
    "readers": ("many", [site(function="pthread_rwlock_rdlock")], [touch(1), touch(2)]),
    "waits": ("word", [site("mov", "read", role="waits")], [touch(1), touch(2, False)]),
    "counted_uses": ("word", [site(), site("lock sub", role="zero")], [touch(1), touch(2)]),
}
"""What supports each remedy."""


def supported(key: str, layout: types.Layout) -> Hot:
    name, sites, touches = SITES[key]
    writers = sum(t.writes for t in touches)
    line = find_results.line(sites=sites, touches=touches, member=member(layout, name, writers))
    assert line.verdict.advice[0] == key
    return line


def compiled(language: str, shown: str, folder: Path, held: bool = False) -> None:
    """By every compiler of the language here."""
    for number in range(shown.count("…")):
        shown = shown.replace("…", FILLED[language].format(number) if not held else "", 1)
    before = BEFORE[language]
    if language == "go":
        used = [p for p in ("sync", "sync/atomic") if f"{p.split('/')[-1]}." in shown]
        before = before.replace("{imports}", "\n".join(f'import "{p}"' for p in used))
    file = folder / f"shown.{PROGRAMS[language][1]}"
    file.write_text(f"{before}{HELD[language] if held else ''}\n{shown}\n")
    found = [command for command in COMPILERS[language] if shutil.which(command[0])]
    for command in found:
        more = [f"-I{INCLUDE}"] if language.startswith("c") else []
        subprocess.run([*command, *more, "-o", folder / "out", file], cwd=folder, check=True)


@pytest.mark.parametrize("language", PROGRAMS)
@pytest.mark.parametrize("key", SITES)
def test_the_code_of_each_remedy_compiles(layout, tmp_path, key, language) -> None:
    said = code_text(supported(key, layout(language)))
    name = {"c": "C", "c++": "C++", "rust": "Rust", "go": "Go"}[language]
    assert said.startswith(f"in {name}: ") and ("tate" in said)
    shown, _, use = said.removeprefix(f"in {name}: ").partition(" // ")
    assert use
    compiled(language, shown, tmp_path, held=key == "counted_uses")


def test_a_plain_variable_gets_copies_too(layout) -> None:
    plain = ContendedMember(language="c", type="", name="hits", declared="atomic_long @", writers=2)
    line = find_results.line(sites=[site()], touches=[touch(1), touch(2)], member=plain)
    assert code_text(line, 64).startswith(
        "in C: static struct { alignas(64) atomic_long value; } hits[THREADS]; // "
    )


def test_what_a_library_counts_is_lent_by_its_type() -> None:
    chain = ["std::shared_ptr<app::Config>::shared_ptr(std::shared_ptr<app::Config> const&)"]
    line = find_results.line(sites=[site(inlined=["std::atomic<int>::load()", *chain])])
    assert used_in(line.sites[0]) == chain[0]
    assert code_text(line).startswith("in C++: void work(const app::Config &lent); // ")
    chain = ["<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop",
             "core::ptr::drop_in_place<alloc::sync::Arc<program::Config>>"]  # fmt: skip
    line = find_results.line(sites=[site("lock dec", role="zero", inlined=chain)])
    assert code_text(line).startswith("in Rust: fn work(lent: &Config) { … }")


def test_a_pointer_beside_a_count_is_no_reference() -> None:
    """What is done to something within an Arc, as LocalKey<…Arc<…>>::with does."""
    chain = ["<std::thread::local::LocalKey<alloc::sync::Arc<u8>>>::with"]
    line = find_results.line(sites=[site(inlined=chain)])
    assert line.verdict.advice == ("counting",)


def test_no_code_where_the_evidence_does_not_support_it(layout) -> None:
    of = layout("c")
    stays = Movement(answer="by_turns", samples=100, cpus=2)
    for key in SITES:
        line = supported(key, of)
        assert code_text(line)
        turns = replace(line, movement=stays, at_once=1.0)  # a lock's turns are contention
        assert bool(code_text(turns)) == (line.verdict.sharing == "lock")
        assert not code_text(replace(line, kind="alone", kind_128="alone"))
        assert not code_text(replace(line, kind="alone", kind_128="false"))
        assert not code_text(replace(line, member=None))
    counted = supported("counting", of)
    alone = replace(counted, member=member(of, "word", 1))
    assert alone.verdict.advice == ("written",), "one thread adds, as the writer of a sequence lock"
    assert "own_word" in code_text(alone)
    alone = replace(member(of, "lock"), following="")
    assert not code_text(replace(supported("lock", of), member=alone)), "nothing beside the lock"
    data = replace(member(of, "word"), following="long last")
    assert not code_text(replace(supported("lock", of), member=data)), "it is what it protects"


def contended(layout, *uses: tuple[int, int, int, str], shared: int = 16) -> ContendedMember:
    """What two threads want of `state`, of which each writes the first `shared` bytes: by offset
    and length, number and role of an instruction's accesses."""
    line, roles = Evidence(LinePlace((1,), 1), 1, 64), {}
    for tid in (1, 2):
        line.touch(tid, 0, shared, True, 0)
    for ip, (at, size, number, role) in enumerate(uses):
        key, roles[ip] = SiteKey(1, ip, "read", "mov"), role
        line.sites[key], line.bytes_of[key] = number, byte_mask(at, size)
        line.used_at[at] += number
    decoder = SimpleNamespace(arch="x86_64", role=lambda pid, ip: roles[ip])
    addresses = SimpleNamespace(code=None, layout=lambda *_: layout("c"))
    return Fields(addresses, decoder).member(line, [Object("static", symbol="state", start=64)])


def test_a_member_is_named_only_where_uses_show_it(layout) -> None:
    """Two are shared, and the first one was named whatever threads waited for."""
    for uses, name in (
        ([(0, 8, 90, ""), (8, 8, 10, "waits")], "word"),
        ([(0, 8, 10, "waits"), (8, 8, 90, "")], "first"),
        ([(0, 8, 98, ""), (8, 8, 2, "waits")], "first"),
        ([(0, 8, 40, ""), (8, 8, 60, "")], "word"),
    ):
        found = contended(layout, *uses)
        assert (found.name, found.shown) == (name, True), uses
    assert contended(layout, shared=8).shown, "no other is shared"
    for uses in ([], [(0, 16, 90, "waits")]):
        found = contended(layout, *uses)
        assert not found.shown and found.type == "state"
        for key in ("waits", "several", "counting"):
            said = code_text(replace(supported(key, layout("c")), member=found))
            assert said.startswith("in C: a member of state;") and "first" not in said


def test_of_a_word_with_one_writer_others_on_its_line_do_not_matter(layout) -> None:
    """Each thread writes a word, and one of them reads the other's."""
    sites, touches = [site("mov", "write")], [touch(1), touch(2)]
    line = find_results.line(sites=sites, touches=touches, member=member(layout("c"), "word", 1))
    assert line.verdict.advice[0] == "written" and "own_word" in code_text(line)
    both = replace(line, member=member(layout("c"), "word", 2))
    assert both.verdict.advice[0] == "several" and "own_word" not in code_text(both)


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_lock_is_one_by_its_type(layout, language) -> None:
    """A plain access beside it met what threads want of it: copies of it would protect nothing."""
    line = find_results.line(sites=[site("mov", "read")], touches=[touch(1), touch(2)])
    for name, key in (("lock", "lock"), ("many", "lock"), ("word", "several")):
        hot = replace(line, member=member(layout(language), name))
        assert hot.verdict.advice[0] == key, hot.member
        assert (hot.verdict.sharing == "lock") == (key == "lock")


@pytest.mark.parametrize(
    ("sites", "key"),
    [
        ([site(), site("lock sub", role="zero")], "counted_uses"),
        ([site("lock sub", role="zero")], "countdown"),
        ([site("mov", "read", role="waits"), site("xchg", role="takes")], "lock"),
        ([site("mov", "read", role="waits"), site("lock cmpxchg")], "lock"),
        ([site("mov", "read", role="waits"), site("xchg")], "waits"),
        ([site("xchg", role="waits")], "lock"),
        ([site("lock xadd", function="LWLockRelease", role="zero")], "lock"),
        ([site("xchg", function="omp_unset_lock"), site("lock cmpxchg")], "lock"),
        ([site("xchg", function="GOMP_critical_end")], "lock"),
        ([site(), site("cmp", "read", role="waits", share=0.01)], "counting"),
        ([site("mov", "read", role="waits"), site("mov", "read", role="retries")], "retries"),
        ([site("mov", "read", role="waits"), site("mov", "read", role="retries", share=0.04)],
         "retries"),
        ([site("mov", "write"), site("mov", "read", role="retries", share=0.04)], "several"),
        ([site("lock xadd", inlined=["<std::sys::sync::rwlock::futex::RwLock>::read"])], "readers"),
        ([site("lock cmpxchg", inlined=["<std::sys::sync::mutex::futex::Mutex>::lock"])], "lock"),
        ([site("lock add", function="__gnu_cxx::__atomic_add(int volatile*, int)")], "references"),
    ],
)  # fmt: skip
def test_what_instructions_and_inlined_functions_say(sites, key) -> None:
    assert find_results.line(sites=sites).verdict.advice[0] == key


READ = "std::sys::sync::rwlock::futex::RwLock::read_contended"


@pytest.mark.parametrize(
    ("function", "source", "language"),
    [
        (READ, "", "rust"),
        ("program::main::{closure#0}", "/src/main.rs:7", "rust"),
        ("sync.(*RWMutex).RLock", "", "go"),
        ("main.worker", "/src/main.go:7", "go"),
        ("pthread_rwlock_rdlock", "/src/rs.c:7", ""),
        ("core::sync_all(core::Sync*)", "/src/core.cpp:7", ""),
    ],
)
def test_a_program_gets_advice_for_its_own_language(tmp_path, function, source, language) -> None:
    """Of a Rust program without debug information the readers were sent to headers of C."""
    count = find_results.line(sites=[site(function=function, source=source)])
    said, _ = find_results.said_of(count)
    if count.verdict.advice[0] == "counting":
        assert said.startswith("Count per thread" if language else "Count per CPU (<linewright/")
    lock = replace(count, sites=[*count.sites, site(function=READ if language == "rust" else
                   "sync.(*RWMutex).RLock" if language == "go" else "rdlock")])  # fmt: skip
    said, shown = find_results.said_of(lock)[0], code_text(lock)
    assert said.startswith("Give each thread a lock of its own" if language else "Read under SRCU")
    assert ("<linewright" in said) == (not language)
    assert bool(shown) == bool(language)
    if language:
        compiled(language, shown.partition(": ")[2].partition(" // ")[0], tmp_path)


def held_and_awaited(*sites: Site, **more: object) -> str:
    touches = [replace(touch(n), name=name) for n, name in ((1, "main"), (2, "net"), (3, "disk"))]
    return lock_text(find_results.line(sites=list(sites), touches=touches, threads=3, **more), "p")


def test_who_holds_a_lock_and_who_waits_for_it_is_said_where_samples_show_it() -> None:
    lock, unlock = site(function="pthread_mutex_lock", threads=[1, 2, 3]), "pthread_mutex_unlock"
    slow = site(function="__lll_lock_wait", threads=[3])
    assert held_and_awaited(lock) == "", "who takes it may have got it or not"
    whole = held_and_awaited(lock, site(function=unlock, threads=[2, 1]), slow)
    assert whole == (
        "by samples in the lock's functions, held by threads 2 (net) 1 (main), "
        "waited for by thread 3 (disk)"
    )
    assert held_and_awaited(lock, slow).endswith("functions, waited for by thread 3 (disk)")
    assert held_and_awaited(site(function=unlock)) == "", "too few samples of any thread"
    assert held_and_awaited(lock, site(function="unlock_doors", threads=[1])) == "", "no lock's"
    assert held_and_awaited(site(function="release_all", threads=[1])) == "", "no lock"
    assert held_and_awaited(lock, site(function=unlock, threads=[1]), kind="false",
                            kind_128="false") == "", "locks side by side"  # fmt: skip
    go = (
        site(function="sync.(*Mutex).lockSlow", threads=[3]),
        site(function="sync.(*Mutex).Unlock", threads=[1]),
    )
    assert "held by thread 1 (main), waited for by thread 3 (disk)" in held_and_awaited(*go)
