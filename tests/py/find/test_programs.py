# SPDX-License-Identifier: MIT
"""Kinds of programs: at a fixed address, static, with a library loaded later, with thread-local
data shared, with very many threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from support import find_results, waiting
from support.finding import SAMPLER, sampled
from support.places import ROOT

SECONDS = "0.6"
MANY = 10_000
MOST_CPU_S, MOST_BYTES = 90, 700 << 20
"""Of one run on a program of very many threads, start to page: an order above what is needed."""


@pytest.mark.parametrize(
    ("program", "kind", "name", "wanted"),
    [
        ("find_planted_fixed", "true", "true_counter", "true"),
        ("find_planted_static", "false", "false_counters", "false"),
    ],
)
def test_programs_at_a_fixed_address(
    sampling, found, program: str, kind: str, name: str, wanted: str
) -> None:
    """Names depend on where a program lies; kinds do not, and each is tried at one place."""
    line = found("--", sampling.with_name(program), kind, 2, SECONDS)["lines"][0]
    assert (line["object"].split(" + ")[0], line["kind"]) == (name, wanted)


def test_a_library_loaded_later_is_named(sampling, found) -> None:
    line = found("--", sampling, "dlopen", 2, SECONDS)["lines"][0]
    assert (line["object"], line["object_kind"], line["kind"]) == (
        "plugin_counter",
        "static",
        "true",
    )
    assert (line["sites"][0]["module"], line["sites"][0]["function"]) == (
        "libfind_plugin.so",
        "plugin_add",
    )


@pytest.mark.parametrize("program", ["find_planted", "find_planted_fixed", "find_planted_static"])
def test_a_shared_thread_local_variable_is_named_with_its_thread(
    sampling, found, program: str
) -> None:
    """One thread adds through %fs, the other through a pointer: both are one line, and the variable
    has its name."""
    result = found("--", sampling.with_name(program), "tls_shared", 2, SECONDS)
    line = result["lines"][0]
    assert (line["object_kind"], line["kind"], line["threads"]) == ("thread_local", "true", 2)
    assert "own_counter of thread " in line["object"]
    assert int(line["object"].split()[-1]) in {touch["thread"] for touch in line["touches"]}
    # Both were named above; a third thread, the one that starts them, may be sampled as it ends.
    unknown = [text for text in result["blind"] if "%fs" in text]
    assert [text.rsplit(": ", 1)[1] for text in unknown] in ([], ["1"])


@pytest.mark.parametrize("preloaded", [False, True])
def test_a_librarys_thread_local_variable_is_named(
    sampling, found, preloaded: bool, monkeypatch
) -> None:
    """Loaded later, its block is made when a thread first uses it; loaded at the start, it lies
    beside the program's own."""
    if preloaded:
        monkeypatch.setenv("LD_PRELOAD", str(sampling.with_name("libfind_plugin.so")))
    line = found("--heap", "--", sampling, "tls_library", 2, SECONDS)["lines"][0]
    assert (line["object_kind"], line["kind"], line["threads"]) == ("thread_local", "true", 2)
    assert line["object"].startswith("thread-local plugin_own of thread ")
    assert int(line["object"].split()[-1]) in {touch["thread"] for touch in line["touches"]}


REUSED = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void *add(void *to) {
    struct timespec now;
    do {
        for (int i = 0; i < 1000; i++) __atomic_fetch_add((long *)to, 1, __ATOMIC_SEQ_CST);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1e9 + now.tv_nsec < 0.6e9);
    return to;
}
static void both(long *to) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, add, to);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}
__attribute__((noinline)) static long *first(void) { long *volatile p = malloc(48); return p; }
__attribute__((noinline)) static long *second(void) { long *volatile p = malloc(48); return p; }
int main(void) {
    long *one = first();
    both(one);
    free(one);
    long *two = second();
    both(two);
    return one != two;
}
"""


def test_a_block_that_was_freed_keeps_its_samples_from_the_next_one_there(
    sampling, found, tmp_path
) -> None:
    """The line of both had the later one's name, and all samples."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    (tmp_path / "a.c").write_text(REUSED)
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-pthread", "a.c"], cwd=tmp_path, check=True)
    result = found("--heap", "--", tmp_path / "a.out")
    assert result["exit_code"] == 0, "the allocator gave another place"
    lines = {line["allocated_in"]: line for line in result["lines"]}
    assert set(lines) == {"first", "second"}
    assert len({line["address"] for line in lines.values()}) == 1
    for line in lines.values():
        assert line["kind"] == "true" and 0 < line["share"]["value"] < 1


HEAP_FIELDS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
struct pair { long left, right; };
__attribute__((noinline)) static void add(struct pair *to, int right) {
    struct timespec now;
    do {
        for (int i = 0; i < 1000; i++)
            if (right) __atomic_fetch_add(&to->right, 1, __ATOMIC_SEQ_CST);
            else __atomic_fetch_add(&to->left, 1, __ATOMIC_SEQ_CST);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1e9 + now.tv_nsec < 0.6e9);
}
static void *other(void *pair) { add(pair, 1); return pair; }
int main(void) {
    pthread_t thread;
    struct pair *pair = aligned_alloc(128, 128);
    pthread_create(&thread, NULL, other, pair);
    add(pair, 0);
    pthread_join(thread, NULL);
}
"""


def test_fields_of_a_block_whose_allocation_is_unknown_are_those_of_its_pointers(
    sampling, found, tmp_path
) -> None:
    """Its size was taken for 0, of which any type is a part, and no field had a name."""
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    (tmp_path / "a.c").write_text(HEAP_FIELDS)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "a.c"], cwd=tmp_path, check=True)
    line = found("--", tmp_path / "a.out")["lines"][0]
    assert (line["object_kind"], line["kind"]) == ("heap", "false")
    assert {field["name"] for field in line["fields"]} == {"pair.left", "pair.right"}


LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Not the tests' own wait: a process remembers the memory of the one that started it, and that one
should be small."""


def _limited(words: list[object], descriptors: int | None) -> tuple[dict, float, int]:
    """The result of a run of the command, its seconds of CPU time and its largest memory."""
    env = os.environ | {"LINEWRIGHT_FIND": str(SAMPLER), "PYTHONPATH": str(ROOT)}
    limit = f"ulimit -n {descriptors}; " if descriptors else ""
    command = ["sh", "-c", limit + 'exec "$@"', "sh", sys.executable, "-c", LAUNCHER]
    command += [sys.executable, "-m", "linewright", "find", "--json", *map(str, words)]
    done = waiting.run(command, env=env)
    assert done.returncode == 0, done.stderr
    cpu_s, kib = done.stderr.splitlines()[-1].split()
    return find_results.worded(done.stdout), float(cpu_s), int(kib) * 1024


@pytest.mark.slow
def test_ten_thousand_threads_from_the_start(sampling) -> None:
    """Creation and exit of that many threads may be true sharing of another line, too."""
    result, cpu_s, memory = _limited(["--", sampling, "many", MANY, 3], None)
    lines = [(line["object"], line["kind"]) for line in result["lines"]]
    assert ("true_counter", "true") in lines[:2], lines
    assert cpu_s < MOST_CPU_S and memory < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("descriptors", [1024])
def test_ten_thousand_threads_that_run_already(sampling, descriptors: int) -> None:
    """With too few descriptors for an event each, the page says what was done instead."""
    with subprocess.Popen(
        [sampling, "many", str(MANY), "600"], stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stderr.readline() == f"{MANY} threads\n"
            runs = []

            def search(seconds: str) -> dict:
                runs.append(_limited(["--pid", program.pid, "--for", seconds], descriptors))
                return runs[-1][0]

            sampled(search)
            result, cpu_s, memory = runs[-1]
        finally:
            program.kill()
    left_out = any("threads are not sampled" in note for note in result["notes"])
    assert left_out == (os.geteuid() != 0)  # root has an event for each CPU
    assert [(line["object"], line["kind"]) for line in result["lines"]][:1] == [
        ("true_counter", "true")
    ]
    assert cpu_s < MOST_CPU_S and memory < MOST_BYTES
