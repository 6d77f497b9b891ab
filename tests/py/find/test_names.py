# SPDX-License-Identifier: MIT
"""Which of several inlined lines is named, from what LLVM's symboliser and addr2line print."""

from __future__ import annotations

import json

from linewright.find.names import _from_addr2line, _from_llvm

USER = ("run()", "/home/me/server.cpp:12")
HEADER = ("std::atomic<int>::fetch_add(int)", "/usr/include/c++/12/bits/atomic_base.h:618")


def llvm(*frames: tuple[str, str]) -> list[str]:
    symbols = [
        {"FunctionName": name, "FileName": at.rpartition(":")[0], "Line": int(at.split(":")[1])}
        for name, at in frames
    ]
    return [json.dumps({"Symbol": symbols})]


def test_the_line_that_a_header_was_inlined_into_is_named() -> None:
    assert _from_llvm(llvm(HEADER, USER), [16]) == {16: USER}
    lines = ["0x0000000000000010", *HEADER, *USER]
    assert _from_addr2line(lines, [16]) == {16: USER}


def test_rust_and_cargo_sources_are_libraries_too() -> None:
    for source in ("/rustc/abc/library/core/src/sync/atomic.rs", "/root/.cargo/registry/a/lib.rs"):
        assert _from_llvm(llvm(("fetch_add", f"{source}:9"), USER), [16]) == {16: USER}


def test_a_header_alone_is_better_than_nothing() -> None:
    assert _from_llvm(llvm(HEADER), [16]) == {16: HEADER}


def test_what_addr2line_does_not_know_has_no_name() -> None:
    lines = ["0x10", "??", "??:0", "0x20", *USER]
    assert _from_addr2line(lines, [16, 32]) == {16: ("", ""), 32: USER}
