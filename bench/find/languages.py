#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is a planted line found, and are its kind, field, function and movement right, whatever compiled
the program? Counts over languages and ways to build.

    languages [--repeats N] [--seconds S] [--only WORD]

Each program runs as `true` (two threads add to one field), `false` (to neighbouring fields) and
`own` (each to a line of its own: nothing may be said to move). Java and Node keep no types for
debuggers, so no field is asked of them. The table is Markdown."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from in_tree import ENVIRONMENT, FIND

# isort: split
from support.finding import SAMPLER

C = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct inner { long misses, hits; };
struct shard { long kind; struct inner s; };
struct pair { long left, right; };
struct slot { long mine, rest[31]; };
static struct shard shard __attribute__((aligned(128)));
static struct pair *pair;
static struct slot slots[2];
static volatile int stop;
static const char *kind;
__attribute__((noinline)) static void bump_true(struct shard *to) {
    while (!stop) __atomic_fetch_add(&to->s.hits, 1, __ATOMIC_SEQ_CST);
}
__attribute__((noinline)) static void bump_false(struct pair *to, int right) {
    while (!stop) if (right) __atomic_fetch_add(&to->right, 1, __ATOMIC_SEQ_CST);
                  else __atomic_fetch_add(&to->left, 1, __ATOMIC_SEQ_CST);
}
__attribute__((noinline)) static void bump_own(struct slot *to) {
    while (!stop) __atomic_fetch_add(&to->mine, 1, __ATOMIC_SEQ_CST);
}
static void *work(void *right) {
    if (!strcmp(kind, "true")) bump_true(&shard);
    else if (!strcmp(kind, "false")) bump_false(pair, right != NULL);
    else bump_own(&slots[right != NULL]);
    return NULL;
}
int main(int count, char **words) {
    pthread_t threads[2];
    kind = words[1];
    pair = aligned_alloc(128, 128);
    memset(pair, 0, 128);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    usleep(1e6 * atof(words[count - 1]));
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}
"""
OPENMP = r"""
#include <omp.h>
#include <stdlib.h>
#include <string.h>
struct shard { long kind; struct { long misses, hits; } s; } shard __attribute__((aligned(128)));
struct pair { long left, right; } pair __attribute__((aligned(128)));
struct slot { long mine, rest[31]; } slots[2];
int main(int count, char **words) {
    double end = omp_get_wtime() + atof(words[count - 1]);
    int kind = words[1][0];
    #pragma omp parallel num_threads(2)
    while (omp_get_wtime() < end)
        for (int i = 0; i < 1000; i++)
            if (kind == 't') {
                #pragma omp atomic
                shard.s.hits++;
            } else if (kind == 'o') {
                #pragma omp atomic
                slots[omp_get_thread_num()].mine++;
            } else if (omp_get_thread_num()) {
                #pragma omp atomic
                pair.right++;
            } else {
                #pragma omp atomic
                pair.left++;
            }
}
"""
CPP = r"""
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
struct inner { long misses; std::atomic<long> hits; };
struct shard_type { long kind; inner s; };
struct pair { std::atomic<long> left, right; };
struct slot { std::atomic<long> mine; long rest[31]; };
alignas(128) static shard_type shard;
alignas(128) static slot slots[2];
static std::atomic<bool> stop;
[[gnu::noinline]] static void bump_true(shard_type &to) { while (!stop) to.s.hits++; }
[[gnu::noinline]] static void bump_false(pair &to, bool right) {
    while (!stop) if (right) to.right++; else to.left++;
}
[[gnu::noinline]] static void bump_own(slot &to) { while (!stop) to.mine++; }
int main(int, char **words) {
    std::string kind = words[1];
    auto made = std::make_unique<pair>();
    auto work = [&](int right) {
        if (kind == "true") bump_true(shard);
        else if (kind == "false") bump_false(*made, right);
        else bump_own(slots[right]);
    };
    std::thread one(work, 0), two(work, 1);
    std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(words[2])));
    stop = true;
    one.join(), two.join();
}
"""
RUST = r"""
use std::sync::{Arc, atomic::{AtomicBool, AtomicU64, Ordering::SeqCst}};
struct Inner { _misses: AtomicU64, hits: AtomicU64 }
#[repr(C, align(128))] struct Shard { _kind: AtomicU64, s: Inner }
#[repr(C)] struct Pair { left: AtomicU64, right: AtomicU64 }
#[repr(C, align(256))] struct Slot { mine: AtomicU64 }
static SHARD: Shard = Shard { _kind: AtomicU64::new(0),
    s: Inner { _misses: AtomicU64::new(0), hits: AtomicU64::new(0) } };
static SLOTS: [Slot; 2] = [const { Slot { mine: AtomicU64::new(0) } }; 2];
static STOP: AtomicBool = AtomicBool::new(false);
#[inline(never)] fn bump_true(to: &Shard) {
    while !STOP.load(SeqCst) { to.s.hits.fetch_add(1, SeqCst); }
}
#[inline(never)] fn bump_false(to: &Pair, right: bool) {
    while !STOP.load(SeqCst) {
        if right { to.right.fetch_add(1, SeqCst); } else { to.left.fetch_add(1, SeqCst); }
    }
}
#[inline(never)] fn bump_own(to: &Slot) {
    while !STOP.load(SeqCst) { to.mine.fetch_add(1, SeqCst); }
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let pair = Arc::new(Pair { left: AtomicU64::new(0), right: AtomicU64::new(0) });
    let threads: Vec<_> = (0..2).map(|right| {
        let (kind, pair) = (words[1].clone(), pair.clone());
        std::thread::spawn(move || match kind.as_str() {
            "true" => bump_true(&SHARD),
            "false" => bump_false(&pair, right == 1),
            _ => bump_own(&SLOTS[right]),
        })
    }).collect();
    std::thread::sleep(std::time::Duration::from_secs_f64(words[2].parse().unwrap()));
    STOP.store(true, SeqCst);
    for thread in threads { thread.join().unwrap(); }
}
"""
GO = r"""
package main
import ("os"; "strconv"; "sync"; "sync/atomic"; "time")
type inner struct{ misses, hits int64 }
type shard struct{ kind int64; s inner }
type pair struct{ left, right int64 }
type slot struct{ mine int64; rest [31]int64 }
var stop atomic.Bool
//go:noinline
func bump_true(to *shard) { for !stop.Load() { atomic.AddInt64(&to.s.hits, 1) } }
//go:noinline
func bump_false(to *pair, right bool) {
    for !stop.Load() {
        if right { atomic.AddInt64(&to.right, 1) } else { atomic.AddInt64(&to.left, 1) }
    }
}
//go:noinline
func bump_own(to *slot) { for !stop.Load() { atomic.AddInt64(&to.mine, 1) } }
func main() {
    one, two, slots, wait := new(shard), new(pair), new([2]slot), sync.WaitGroup{}
    for right := 0; right < 2; right++ {
        wait.Add(1)
        go func(right int) {
            defer wait.Done()
            switch os.Args[1] {
            case "true": bump_true(one)
            case "false": bump_false(two, right == 1)
            default: bump_own(&slots[right])
            }
        }(right)
    }
    seconds, _ := strconv.ParseFloat(os.Args[2], 64)
    time.Sleep(time.Duration(seconds * 1e9))
    stop.Store(true)
    wait.Wait()
}
"""
JAVA = r"""
import java.util.concurrent.atomic.*;
public class Main {
    static volatile boolean stop;
    static final AtomicLong hits = new AtomicLong();
    static final AtomicLongArray words = new AtomicLongArray(128);
    static void bump_true() { while (!stop) hits.incrementAndGet(); }
    static void bump_false(int at) { while (!stop) words.incrementAndGet(at); }
    public static void main(String[] given) throws Exception {
        Thread[] threads = new Thread[2];
        for (int i = 0; i < 2; i++) {
            int at = 32 + i * (given[0].equals("false") ? 1 : 64);
            boolean one = given[0].equals("true");
            threads[i] = new Thread(one ? Main::bump_true : () -> bump_false(at));
            threads[i].start();
        }
        Thread.sleep((long)(1000 * Double.parseDouble(given[1])));
        stop = true;
        for (Thread thread : threads) thread.join();
    }
}
"""
NODE = r"""
const { Worker, isMainThread, workerData } = require('worker_threads');
function bump(words, at, end) {
    while (Date.now() < end) for (let i = 0; i < 100000; i++) Atomics.add(words, at, 1);
}
if (isMainThread) {
    const [kind, seconds] = process.argv.slice(2);
    const words = new Int32Array(new SharedArrayBuffer(1024));
    const end = Date.now() + 1000 * Number(seconds), apart = { true: 0, false: 1, own: 64 }[kind];
    for (const right of [0, 1])
        new Worker(__filename, { workerData: { words, at: 64 + right * apart, end } });
} else bump(workerData.words, workerData.at, workerData.end);
"""
DEBUG_FILE = (
    "objcopy --only-keep-debug program program.debug && strip --strip-all program"
    " && objcopy --add-gnu-debuglink=program.debug program"
)
BUILDS = {
    "C, gcc -O0": (C, "a.c", "gcc -O0 -g -pthread -o program a.c"),
    "C, gcc -O2": (C, "a.c", "gcc -O2 -g -pthread -o program a.c"),
    "C, gcc -O2 -flto": (C, "a.c", "gcc -O2 -g -flto -pthread -o program a.c"),
    "C, gcc -O2, debug file": (C, "a.c", f"gcc -O2 -g -pthread -o program a.c && {DEBUG_FILE}"),
    "C, clang -O0": (C, "a.c", "clang-14 -O0 -g -pthread -o program a.c"),
    "OpenMP, gcc -O2": (OPENMP, "a.c", "gcc -O2 -g -fopenmp -o program a.c"),
    "C++, g++ -O0": (CPP, "a.cpp", "g++ -O0 -std=c++20 -g -pthread -o program a.cpp"),
    "C++, g++ -O2": (CPP, "a.cpp", "g++ -O2 -std=c++20 -g -pthread -o program a.cpp"),
    "C++, g++ -O2 -flto": (CPP, "a.cpp", "g++ -O2 -std=c++20 -g -flto -pthread -o program a.cpp"),
    "C++, g++ -O2, debug file": (
        CPP, "a.cpp", f"g++ -O2 -std=c++20 -g -pthread -o program a.cpp && {DEBUG_FILE}"
    ),
    "Rust, no optimisation": (RUST, "a.rs", "rustc -g -o program a.rs"),
    "Rust -O": (RUST, "a.rs", "rustc -O -g -o program a.rs"),
    "Rust -O -C lto": (RUST, "a.rs", "rustc -O -g -C lto -o program a.rs"),
    "Rust -O, debug file": (RUST, "a.rs", f"rustc -O -g -o program a.rs && {DEBUG_FILE}"),
    "Go": (GO, "a.go", "go build -o program a.go"),
    "Go -N -l": (GO, "a.go", "go build -gcflags='-N -l' -o program a.go"),
    "Java": (JAVA, "Main.java", "javac Main.java"),
    "Node": (NODE, "a.js", "true"),
}  # fmt: skip
RUNS = {
    "Java": "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -cp {folder} Main",
    "Node": "node --perf-basic-prof {folder}/a.js",
}
FIELDS = {"true": {"s.hits"}, "false": {"left", "right"}}
TRUE_SHARING = {("Go -N -l", "false")}
"""Planted false sharing that is true sharing: before each addition to the second field, this code
reads a byte of the first one to see whether the pointer is nil."""
OWN = re.compile("bump|_omp_fn")
"""Functions of the programs that add."""
MARKS = ("found", "kind", "field", "function", "moves")


def judged(name: str, kind: str, result: dict) -> tuple[set[str], int]:
    """What is right of the planted line, and how many other lines are said to move."""
    moving = [
        line for line in result["lines"]
        if line["kind"] in ("true", "false") and line["movement"]["answer"] != "one_cpu"
    ]  # fmt: skip
    mine = [h for h in moving if any(OWN.search(function(s)) for s in h["sites"])]
    planted = mine or sorted(moving, key=lambda h: -h["share"]["value"])[:1]
    if kind == "own" or not planted or planted[0]["share"]["value"] < 0.2:
        return set(), sum(line["movement"]["answer"] == "moves" for line in moving)
    (hot,) = planted[:1]
    fields = " ".join([*hot["identity"], *(f["name"] for f in hot["fields"])])
    said = {"found", *(["function"] if mine else [])}
    right = "true" if (name, kind) in TRUE_SHARING else kind
    said |= {"kind"} if hot["kind"] == right else set()
    said |= {"moves"} if hot["movement"]["answer"] == "moves" else set()
    if name not in RUNS and all(field in fields for field in FIELDS[kind]):
        said.add("field")
    others = [h for h in moving if h is not hot and h["movement"]["answer"] == "moves"]
    return said, len(others)


def function(site: dict) -> str:
    return f"{site['function']} {site['caller']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not SAMPLER.exists():
        print("not run: no sampler (cmake --preset native)")
        return 0
    print(f"| built | runs | {' | '.join(MARKS)} | other lines said to move |")
    print("| --- " * (len(MARKS) + 3) + "|")
    for name, (source, file, build) in BUILDS.items():
        if options.only not in name:
            continue
        if shutil.which(build.split()[0]) is None or (
            name in RUNS and shutil.which(RUNS[name].split()[0]) is None
        ):
            print(f"| {name} | not installed |")
            continue
        with tempfile.TemporaryDirectory(prefix="linewright-languages-") as folder:
            Path(folder, file).write_text(source)
            subprocess.run(["sh", "-c", build], cwd=folder, check=True, stderr=subprocess.DEVNULL)
            program = RUNS.get(name, "{folder}/program").format(folder=folder).split()
            right, others = Counter(), 0
            for kind in ("true", "false", "own"):
                for _ in range(options.repeats):
                    words = ["--json", "--", *program, kind, str(options.seconds)]
                    done = subprocess.run(
                        [*FIND, *words],
                        cwd=folder, env=ENVIRONMENT,  # V8 writes its logs there
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    )  # fmt: skip
                    said, more = judged(name, kind, json.loads(done.stdout))
                    right.update(said)
                    others += more
        planted = 2 * options.repeats
        cells = ["–" if mark == "field" and name in RUNS else right[mark] for mark in MARKS]
        print(f"| {name} | {planted} | {' | '.join(map(str, cells))} | {others} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
