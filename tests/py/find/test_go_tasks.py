# SPDX-License-Identifier: MIT
"""Goroutines that Go moves between its threads, and what `find` says of the words they use."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from support.finding import TRIES

SOURCE = r"""
package main
import ("os"; "runtime"; "sync"; "sync/atomic"; "time")
var words struct { before [64]byte; w [8]int64; after [64]byte }
var stop atomic.Bool
//go:noinline
func bump(w *int64) {
    for n := 0; !stop.Load(); n++ {
        atomic.AddInt64(w, 1)
        if n % 100000 == 0 { runtime.Gosched() }
    }
}
func main() {
    wait := sync.WaitGroup{}
    for i := 0; i < 4; i++ {
        wait.Add(1)
        go func() {
            defer wait.Done()
            if os.Args[1] == "own" { bump(&words.w[i]) } else { bump(&words.w[0]) }
        }()
    }
    time.Sleep(1500 * time.Millisecond)
    stop.Store(true)
    wait.Wait()
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    if shutil.which("go") is None:
        pytest.skip("no go")
    folder = tmp_path_factory.mktemp("go")
    (folder / "a.go").write_text(SOURCE)
    subprocess.run(["go", "build", "-o", "program", "a.go"], cwd=folder, check=True)
    return str(folder / "program")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "kind"), [("own", "false"), ("one", "true")])
def test_goroutines_that_are_moved_are_told_from_threads(
    program, sampling, found, words, kind
) -> None:
    """On a busy machine a run may have too few samples of either thread."""
    said = []
    for _ in range(TRIES):
        (hot, *_) = found("--", program, words)["lines"] or [None]
        if hot and len(hot["touches"]) > 1:
            said.append(hot["kind"])
            assert words == "own" or hot["kind"] == "true"
        if kind in said:
            return
    raise AssertionError(said)
