# SPDX-License-Identifier: MIT
"""Which of several inlined lines is named, from what LLVM's symboliser and addr2line print."""

from __future__ import annotations

from linewright.elf.source_lines import SourceLine, parse
from linewright.elf.symbols import without_hash

USER = ("run()", "/home/me/server.cpp:12")
HEADER = ("std::atomic<int>::fetch_add(int)", "/usr/include/c++/12/bits/atomic_base.h:618")


def printed(*frames: tuple[str, str]) -> list[str]:
    return ["0x10", *(part for frame in frames for part in frame)]


def test_the_line_that_a_header_was_inlined_into_is_named() -> None:
    wanted = {16: SourceLine(*USER, inlined=(HEADER[0],))}
    lines = printed(HEADER, USER)
    assert parse(lines, [16]) == wanted
    lines[1:3] = [f"{HEADER[0]} (inlined)", f"{HEADER[1]} (discriminator 3)"]
    assert parse(lines, [16]) == wanted


def test_rust_and_cargo_sources_are_libraries_too() -> None:
    for source in ("/rustc/abc/library/core/src/sync/atomic.rs", "/root/.cargo/registry/a/lib.rs"):
        found = parse(printed(("fetch_add", f"{source}:9"), USER), [16])
        assert found == {16: SourceLine(*USER, inlined=("fetch_add",))}


def test_a_header_alone_is_better_than_nothing() -> None:
    assert parse(printed(HEADER), [16]) == {16: SourceLine(*HEADER)}


def test_without_an_own_line_that_of_the_named_function_stands() -> None:
    outer = ("tokio::sync::Semaphore::release", "/root/.cargo/registry/tokio/src/semaphore.rs:7")
    found = parse(printed(HEADER, outer), [16])
    assert found == {16: SourceLine(*outer, inlined=(HEADER[0],))}


def test_line_zero_is_no_line() -> None:
    """As V8's own functions have it; addr2line writes a question mark."""
    for line in "0?":
        found = parse(printed(("Builtins_AtomicsAdd", f"geni/embedded.o:{line}")), [16])
        assert found == {16: SourceLine("Builtins_AtomicsAdd")}


def test_what_addr2line_does_not_know_has_no_name() -> None:
    lines = ["0x10", "??", "??:0", "0x20", *USER]
    assert parse(lines, [16, 32]) == {16: SourceLine(), 32: SourceLine(*USER)}


def test_names_of_rust_are_read_as_they_were_written() -> None:
    """As LLVM's symboliser gives those of the older mangling."""
    escaped = "_$LT$alloc..sync..Arc$LT$T$C$A$GT$$u20$as$u20$core..ops..drop..Drop$GT$::drop"
    wanted = "<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop"
    assert without_hash(f"{escaped}::hf559d70717a3c6b9") == wanted
    closure = "arc::main::_$u7b$$u7b$closure$u7d$$u7d$::h0a1ea0284f0dd6e3"
    assert without_hash(closure) == "arc::main::{{closure}}"
    unit = "tk::main::h0a1ea0284f0dd6e3 (.llvm.16527486042563899280)"
    assert without_hash(unit) == "tk::main"
    assert without_hash("a$b::c") == "a$b::c", "without a hash it is no name of Rust"


def test_a_rust_thread_is_named_by_its_closure() -> None:
    closure = ("program::main::{closure#0}", "/home/me/a.rs:3")
    outer = ("std::sys::backtrace::__rust_begin_short_backtrace", "/rustc/a/backtrace.rs:1")
    assert parse(printed(closure, outer), [16])[16].function == "program::main::{closure#0}"
