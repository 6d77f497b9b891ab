# SPDX-License-Identifier: MIT
"""Under the emulator every access is seen: kinds and bytes are exact, controls give none, arm64
programs run here too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest
from find.test_stream import encoded

from linewright.errors import LinewrightError, UserError
from linewright.find import exact
from linewright.find.evidence import byte_mask, sharing_kind
from linewright.find.stream import Access, Task
from support.finding import PLANTED, emulator_with_plugins
from support.places import ROOT

SOURCE = ROOT / "tests/cpp/find/planted.cpp"
SECONDS = "2"


@pytest.fixture(scope="module")
def arm64(tmp_path_factory):
    """The planted programs for arm64, with outline helpers as compilers emit them by default, and
    the library that they load."""
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None:
        pytest.skip("no arm64 compiler")
    emulator_with_plugins("qemu-aarch64")
    program = tmp_path_factory.mktemp("arm64") / "planted"
    subprocess.run(
        [compiler, "-std=c++20", "-O2", "-g", "-pthread", "-o", program, SOURCE], check=True
    )
    library = [
        "-x",
        "c",
        "-O2",
        "-shared",
        "-fPIC",
        "-o",
        program.with_name("libfind_plugin.so"),
        SOURCE.with_name("plugin.c"),
    ]
    subprocess.run([compiler, *library], check=True)
    return program


@pytest.fixture
def native(built):
    emulator_with_plugins("qemu-x86_64")
    return PLANTED


CASES = [
    ("true", "true_counter", "true"),
    ("false", "false_counters", "false"),
    ("false_plain", "plain_counters", "false"),
    ("reader_writer", "flag_line", "true"),
    ("mutex", "planted_mutex", "true"),
    ("fork", "shared mapping", "true"),
]


def line_of(result: dict, name: str) -> dict:
    """The line of a variable; not always the first: on a busy machine others, of the C library's,
    were seen to change hands more often."""
    found = next((line for line in result["lines"] if name in line["object"]), None)
    assert found is not None, shared(result)
    return found


def shared(result: dict) -> list[tuple[str, str]]:
    return [
        (line["object"], line["kind"])
        for line in result["lines"]
        if line["kind"] in ("true", "false")
    ]


@pytest.mark.parametrize(("kind", "name", "wanted"), CASES)
def test_planted_lines_of_a_native_program(
    native, found, kind: str, name: str, wanted: str
) -> None:
    assert line_of(found("--exact", "--", native, kind, 2, SECONDS), name)["kind"] == wanted


@pytest.mark.parametrize(("kind", "name", "wanted"), CASES)
def test_planted_lines_of_an_arm64_program(arm64, found, kind: str, name: str, wanted: str) -> None:
    assert line_of(found("--exact", "--", arm64, kind, 2, SECONDS), name)["kind"] == wanted


@pytest.mark.parametrize("kind", ["private", "private_plain", "read_shared", "stack", "tls"])
def test_controls_give_none(native, found, kind: str) -> None:
    assert shared(found("--exact", "--", native, kind, 2, SECONDS)) == []


def test_an_outline_helper_is_told_apart_by_its_caller(arm64, found) -> None:
    sites = line_of(found("--exact", "--", arm64, "true", 2, SECONDS), "true_counter")["sites"]
    assert any(
        s["function"].startswith("__aarch64_ldadd8") and "true_sharing" in s["caller"]
        for s in sites
    )


def test_all_calls_of_outline_helpers_are_listed_by_call_site(arm64, found, tmp_path) -> None:
    """Also those on lines that nothing else touches, and in a program without symbols."""
    calls = found("--exact", "--", arm64, "private", 2, SECONDS)["helpers"]
    assert calls[0]["helper"].startswith("__aarch64_ldadd8") and calls[0]["count"] > 1000
    assert "private_lines" in calls[0]["function"] and "planted.cpp:" in calls[0]["source"]
    bare = tmp_path / "bare"
    subprocess.run(["aarch64-linux-gnu-strip", "-o", bare, arm64], check=True)
    stripped = found("--exact", "--", bare, "private", 2, SECONDS)["helpers"]
    assert (stripped[0]["helper"], stripped[0]["offset"]) == (
        calls[0]["helper"],
        calls[0]["offset"],
    )


def owner(line: dict, variable: str) -> int:
    """The thread whose copy of a variable is on a line."""
    return int(line["object"].split(f"{variable} of thread ")[1].split(",")[0])


def test_thread_local_variables_have_names(native, arm64, found) -> None:
    for program in (native, arm64):
        line = line_of(
            found("--exact", "--", program, "tls_shared", 2, SECONDS), "own_counter of thread "
        )
        assert (
            owner(line, "own_counter") in {touch["thread"] for touch in line["touches"]}
            and line["kind"] == "true"
        )


def test_thread_local_variables_of_libraries_have_names(native, arm64, found) -> None:
    for program in (native, arm64):
        line = line_of(
            found("--exact", "--", program, "tls_library", 2, SECONDS), "plugin_own of thread "
        )
        assert (
            owner(line, "plugin_own") in {touch["thread"] for touch in line["touches"]}
            and line["kind"] == "true"
        )


def test_no_rate_and_no_time_is_claimed(native, found) -> None:
    result = found("--exact", "--", native, "true", 2, SECONDS)
    assert result["overhead"] is None and line_of(result, "true_counter")["share"] is None
    assert any("time" in text for text in result["blind"])


def test_bytes_are_exact_also_within_a_word(native, found) -> None:
    """The mutex: lock, owner and number of users are written, and the count of a recursive one is
    not."""
    touch = line_of(found("--exact", "--", native, "mutex", 2, SECONDS), "planted_mutex")[
        "touches"
    ][0]
    covered = {byte for at, size in touch["bytes"] for byte in range(at, at + size)}
    assert {0, 8, 12} <= covered and 4 not in covered


def test_a_script_is_refused(built, run, tmp_path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    done = run("--exact", "--", script)
    assert done.returncode == 2 and "no 64-bit program" in done.stderr


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "is missing"),
        ('[ "$1" = --help ] && echo usage && exit\nexit 1', "was built without plugins"),
        ('[ "$1" = --help ] && echo "-plugin FILE" && exit\nexit 1', "does not load the plugin"),
    ],
)
def test_an_emulator_that_cannot_serve_is_refused(script, why, tmp_path, monkeypatch):
    """No package of its own helps on Ubuntu 24.04 or Debian 13, so none is named there; the guide's
    section has the way."""
    emulator = tmp_path / "qemu-x86_64"
    if script:
        emulator.write_text(f"#!/bin/sh\n{script}\n")
        emulator.chmod(0o755)
    monkeypatch.setitem(exact.EMULATORS, "x86_64", str(emulator))
    monkeypatch.setattr(exact, "_arch_of", lambda program: "x86_64")
    with pytest.raises(LinewrightError, match=why) as refused:
        exact.run(tmp_path / "plugin.so", ["true"])
    if isinstance(refused.value, UserError):
        page, _, section = exact.EMULATOR_NEEDED.split()[-1].partition("#")
        headings = re.findall("^###? (.*)", (ROOT / page).read_text(), re.MULTILINE)
        assert exact.EMULATOR_NEEDED in str(refused.value)
        assert section in [re.sub("[^a-z -]", "", h.lower()).replace(" ", "-") for h in headings]


def test_the_emulators_name_is_no_threads() -> None:
    """The first thread was called qemu-x86_64, which no program has named it."""
    run, about = exact.ExactRun(), dict(time_ns=0, event="found", pid=1)
    for tid, name in ((1, "qemu-x86_64"), (2, "reader")):
        run.take(encoded(Task(tid=tid, name=name, **about)))
    assert run.threads == {1, 2} and run.spaces.names == {2: "reader"}


def judged(*accesses: tuple[int, int, int, int, int]) -> str:
    """The kind of a line by thread, instruction, offset of eight bytes, reads and writes."""
    run = exact.ExactRun()
    for tid, ip, at, reads, writes in accesses:
        mask = byte_mask(at, 8)
        counts = dict(reads=reads, writes=writes, atomics=0, bytes=8 * (reads + writes),
                      first=0, last=9, takeovers=100)  # fmt: skip
        run.take(encoded(Access(pid=1, tid=tid, line=64, ip=ip, mask=mask,
                                written=mask if writes else 0, **counts)))  # fmt: skip
    run.weigh()
    (line,) = run.lines.known.values()
    return sharing_kind(line.threads.values())


def test_what_an_instruction_does_a_few_times_is_no_sharing() -> None:
    """False sharing was called true after one read of both words by main at the end."""
    words = (1, 16, 0, 10**6, 10**6), (2, 16, 8, 10**6, 10**6)
    assert judged(*words) == "false"
    assert judged(*words, (1, 32, 8, 1, 0)) == "false"
    assert judged(*words, (1, 32, 8, 500, 0)) == "false", "as a display reads them"
    assert judged(*words, (1, 32, 8, 500_000, 0)) == "true"
    assert judged((1, 16, 0, 0, 20), (2, 16, 0, 0, 20)) == "true"
    each_once = [(tid, 16, 0, 1, 1) for tid in range(1, 65)]
    assert judged(*each_once) == "true", "many threads, and each of them seldom"


def listed(laps: int, takeovers: int, size: int = 4, of_header: int = 0) -> bool:
    """Whether a queue's line is shared whose items one thread writes and another reads, each once
    in a lap; the allocator of one of them uses its first 16 bytes, too."""
    run, all_ = exact.ExactRun(), 2**64 - 1
    count = laps * 64 // size
    common = dict(pid=1, line=64, atomics=0, first=0, last=9)
    for tid, reads, writes in ((1, 0, count), (2, count, 0)):
        run.take(encoded(Access(tid=tid, ip=16 * tid, reads=reads, writes=writes,
                                bytes=size * count, mask=all_, written=all_ if writes else 0,
                                takeovers=takeovers // 2, **common)))  # fmt: skip
    header = byte_mask(0, 16)
    run.take(encoded(Access(tid=1, ip=64, reads=0, writes=of_header, bytes=8 * of_header,
                            mask=header, written=header, takeovers=0, **common)))  # fmt: skip
    found = exact.findings_of(run, ["p"], 0)
    assert len(found.seldom) == (not found.lines), "the guard knows it either way"
    return bool(found.lines)


def test_items_that_pass_once_are_no_sharing_however_threads_take_turns() -> None:
    """A block of a std::deque was listed in some runs: each item was written and read once, which
    moved its line 13 times in one run and 36 in another."""
    for takeovers in (12, 32, 36):
        assert not listed(1, takeovers, of_header=14), takeovers
    assert not listed(1, 128, size=1), "and where the items are bytes"
    assert not listed(3, 96), "nor in a block that was allocated three times"
    assert listed(20, 640), "a ring whose cells are used again and again"
    assert not listed(20, 20), "unless all turns of one thread come first"


def test_one_writer_beside_more_readers_than_are_listed_is_one() -> None:
    """The page listed readers alone, and said that several threads write."""
    run, mask, count = exact.ExactRun(), byte_mask(0, 8), 10**5
    for tid in range(1, 21):
        own = dict(tid=tid, ip=32, reads=count, writes=0, written=0)
        if tid == 20:
            own |= dict(ip=16, reads=0, writes=count, written=mask)
        run.take(encoded(Access(pid=1, line=64, atomics=0, bytes=8 * count, mask=mask, first=0,
                                last=9, takeovers=100, **own)))  # fmt: skip
    (line,) = exact.findings_of(run, ["p"], 0).lines
    assert line.verdict.advice == ("written",) and line.threads == 20


SHORT = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
struct word { uint64_t v; char pad[120]; } shared[3] __attribute__((aligned(128)));
uint64_t per_thread[2] __attribute__((aligned(128)));
static int rounds;
static void *add(void *own) {
    if (own != per_thread) pthread_setname_np(pthread_self(), "adder");
    for (int i = 0; i < rounds; i++) {
        __atomic_fetch_add(&shared[i % 3].v, 1, 0);
        ++*(volatile uint64_t *)own;
    }
    return 0;
}
int main(int c, char **v) {
    pthread_t t;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one)) return 2;
    rounds = atoi(v[c - 1]);
    pthread_create(&t, 0, add, per_thread + 1);
    add(per_thread);
    pthread_join(t, 0);
    return per_thread[0] + per_thread[1] != 2 * rounds;
}
"""


@pytest.mark.parametrize("rounds", [20_000, 300_000])
def test_every_line_is_seen_on_one_cpu(native, found, tmp_path, rounds: int) -> None:
    """Lines had to change hands 32 times, as the host's scheduler let them: here it lets them a few
    times at most."""
    program = tmp_path / "short"
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-xc", "-", "-o", program], input=SHORT,
                   text=True, check=True)  # fmt: skip
    result = found("--exact", "--", program, rounds)
    kinds = sorted((line["object"], line["kind"]) for line in result["lines"])
    assert kinds == [("per_thread", "false"), ("shared", "true"), *(
        (f"shared + {at}", "true") for at in (128, 256))]  # fmt: skip
    for line in result["lines"]:
        names = sorted(touch["name"] for touch in line["touches"])
        assert names == ["", "adder"], "a thread that has ended keeps its name"


POOL = """
#include <condition_variable>
#include <deque>
#include <mutex>
#include <sched.h>
#include <thread>
struct alignas(128) Pool {
    std::mutex mutex;
    alignas(128) std::condition_variable some;
    alignas(128) long done = 0;
    std::deque<int> queue;
    bool over = false;
} pool;
void work() {
    for (std::unique_lock hold(pool.mutex);; pool.queue.pop_front()) {
        pool.some.wait(hold, [] { return pool.over || !pool.queue.empty(); });
        if (pool.queue.empty()) return;
        pool.done += pool.queue.front();
    }
}
int main() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one)) return 2;
    std::thread first(work), second(work);
    for (int i = 0; i < 1000; i++) {
        { std::lock_guard hold(pool.mutex); pool.queue.push_back(1); }
        pool.some.notify_one();
    }
    { std::lock_guard hold(pool.mutex); pool.over = true; }
    pool.some.notify_all();
    first.join(), second.join();
    return pool.done != 1000;
}
"""


def test_threads_that_wake_each_other_take_turns_on_one_cpu(native, found, tmp_path) -> None:
    """A thread that is woken begins within the call that wakes it, and its waker must not wait for
    it after that."""
    program = tmp_path / "pool"
    subprocess.run(["g++", "-std=c++20", "-O1", "-g", "-pthread", "-xc++", "-", "-o", program],
                   input=POOL, text=True, check=True)  # fmt: skip
    result = found("--exact", "--", program)
    assert {("pool", "true"), ("pool + 128", "true"), ("pool + 256", "true")} <= {
        (line["object"], line["kind"]) for line in result["lines"]
    }, shared(result)


CALLS_BACK = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
static FILE *file;
__attribute__((noinline)) void deep(void) { __asm__ volatile(""); }
static ssize_t put(void *none, const char *text, size_t size) { deep(); return size; }
__attribute__((noinline)) void say(void) { fputs("x", file); fflush(file); __asm__ volatile(""); }
static void *work(void *none) {
    for (int i = 0; i < 2000; i++) say();
    return none;
}
int main(void) {
    pthread_t thread;
    file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put});
    pthread_create(&thread, NULL, work, NULL);
    work(NULL);
    return pthread_join(thread, NULL);
}
"""


def test_a_caller_is_named_only_where_its_call_leads_to_the_operation(native, found, tmp_path):
    """The last call before a library gives up a stream's lock is one in the function that it has
    called back, and before the first use of a function one of the dynamic linker."""
    program = tmp_path / "calls_back"
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-Wl,-z,lazy", "-xc", "-", "-o", program],
                   input=CALLS_BACK, text=True, check=True)  # fmt: skip
    lines = found("--exact", "--", program)["lines"]
    callers = {site["caller"].split(" ")[0] for line in lines for site in line["sites"]}
    assert "say" in callers <= {"", "say", "work", "main"}


@pytest.mark.usefixtures("native")
def test_what_the_program_prints_is_no_part_of_the_json(run) -> None:
    done = run("--exact", "--json", "--", "/bin/echo", "said by it", env=os.environ)
    assert json.loads(done.stdout)["source"] == "exact" and "said by it" in done.stderr
