#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the gain that `linewright find` bounds hold? 30 small programs, each with one planted shared
line, and the same repaired: the bound of the page against the CPU time that the repair saves.

    bounds [--pairs N] [--seconds S] [--prices FILE] [--only WORD]

Two threads run each program, each on a CPU of its own; both versions run in alternation. A thread
saves a part of the time of its rounds, and counts by the CPU time that it takes in the shared
version: as the page has it, each thread does the same work as before. The table is Markdown, with
the median of the pairs, the least and the greatest."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from in_tree import ENVIRONMENT, FIND

# isort: split
import msgspec
from scipy import stats

from linewright import numbers
from linewright.find.results import Result
from support.finding import SAMPLER

HARNESS = r"""
#ifdef __cplusplus
#include <atomic>
#include <memory>
#include <mutex>
#else
#include <stdalign.h>
#include <stdatomic.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef REPAIRED
#define OWN me /* a copy for each thread */
#define ALONE alignas(128)
enum { NEAR = 4096, BLOCK = 256 }; /* heap blocks */
#else
#define OWN 0
#define ALONE
enum { NEAR = 64, BLOCK = 8 };
#endif
alignas(128) static int ended;
static pthread_barrier_t both;
alignas(128) static struct { MEMBERS } planted[2];
static inline void work(int times) {
    for (unsigned long x = 1; times--;)
        __asm__ volatile("imul $3, %0" : "+r"(x));
}
static void a_round(int me, unsigned long n) {
    (void)me, (void)n;
    BODY
}
static void *thread(void *given) {
    int me = given != NULL;
    unsigned long rounds = 0;
    struct timespec spent;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(me, &own);
    if (sched_setaffinity(0, sizeof own, &own))
        abort();
    pthread_barrier_wait(&both);
    while (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
        for (int i = 0; i < 64; i++)
            a_round(me, rounds++);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    printf("%d %lu %.0f\n", me, rounds, spent.tv_sec * 1e9 + spent.tv_nsec);
    return NULL;
}
int main(int none, char **argv) {
    (void)none;
    pthread_t threads[2];
    START
    double wanted = atof(argv[1]) / 2;
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, thread, i ? argv : NULL);
    usleep(1000 * (useconds_t)atol(argv[1]));
    for (int i = 0; i < 2; usleep(1000)) { /* a busy machine: until both had half of that time */
        clockid_t clock;
        struct timespec had;
        pthread_getcpuclockid(threads[i], &clock);
        clock_gettime(clock, &had);
        i += had.tv_sec * 1e3 + had.tv_nsec / 1e6 >= wanted;
    }
    __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
"""


class Planted(NamedTuple):
    """A program: members of both elements of `planted`, and what a thread does in each round."""

    name: str
    members: str
    body: str
    start: str = ""


ONE, TWO = "ALONE _Atomic long n;", "ALONE _Atomic long n; ALONE _Atomic long other;"
SPIN = "while (atomic_exchange_explicit(&planted[OWN].lock, 1, memory_order_acquire)) ;"
OPEN = "atomic_store_explicit(&planted[OWN].lock, 0, memory_order_release);"
LOCK = "ALONE _Atomic int lock; int value;"
HELD = f"{SPIN} planted[OWN].value++; {OPEN}"
PROGRAMS = (
    Planted("counters side by side", ONE, "planted[me].n++;"),
    Planted("counters side by side, work between", ONE, "planted[me].n++; work(30);"),
    Planted("one counter", ONE, "planted[OWN].n++;"),
    Planted("one counter, work between", ONE, "planted[OWN].n++; work(30);"),
    Planted("one counter, much work between", ONE, "planted[OWN].n++; work(200);"),
    Planted("statistics of three counters", "ALONE _Atomic long requests, bytes, errors;",
            "planted[OWN].requests++; planted[OWN].bytes += 64; work(20);"
            "if (n % 16 == 0) planted[OWN].errors++;"),
    Planted("two atomics of one struct", TWO, "if (me) planted->n++; else planted->other++;"),
    Planted("two atomics of one struct, work between", TWO,
            "if (me) planted->n++; else planted->other++; work(60);"),
    Planted("eight atomics of one line", "ALONE _Atomic long n[4];", "planted[me].n[n % 4]++;"),
    Planted("requests in flight", ONE, "planted[OWN].n++; work(20); planted[OWN].n--;"),
    Planted("reference count", ONE,
            "planted[OWN].n++; work(10); if (atomic_fetch_sub(&planted[OWN].n, 1) == 0) abort();"),
    Planted("greatest value", ONE,
            "long seen = planted[OWN].n;"
            "while (!atomic_compare_exchange_weak(&planted[OWN].n, &seen, seen + 1)) ;"),
    Planted("bits of one word", ONE,
            "atomic_fetch_or(&planted[OWN].n, 1l << n % 64); work(10);"
            "atomic_fetch_and(&planted[OWN].n, ~(1l << n % 64));"),
    Planted("numbers that are given out", ONE,
            "work(5 + atomic_fetch_add(&planted[OWN].n, 1) % 4);"),
    Planted("flags that are exchanged", ONE, "atomic_exchange(&planted[me].n, 1);"),
    Planted("queue, head beside tail", TWO,
            "atomic_fetch_add(me ? &planted->n : &planted->other, 1); work(15);"),
    Planted("flag beside a counter", "ALONE _Atomic long n; ALONE int on;",
            "if (me) planted->n++;"
            "else if (!__atomic_load_n(&planted->on, __ATOMIC_RELAXED)) work(4);"),
    Planted("spin lock", LOCK, HELD),
    Planted("spin lock, work outside", LOCK, HELD + "work(100);"),
    Planted("spin locks side by side", LOCK, HELD.replace("OWN", "me")),
    Planted("ticket lock", "ALONE _Atomic unsigned next; _Atomic unsigned now; long value;",
            "unsigned mine = planted[OWN].next++;"
            "while (atomic_load_explicit(&planted[OWN].now, memory_order_acquire) != mine) ;"
            "planted[OWN].value++; work(30);"
            "atomic_store_explicit(&planted[OWN].now, mine + 1, memory_order_release); work(30);"),
    Planted("pthread mutex", "ALONE pthread_mutex_t lock; long value;",
            "pthread_mutex_lock(&planted[OWN].lock); planted[OWN].value++;"
            "pthread_mutex_unlock(&planted[OWN].lock); work(50);"),
    Planted("sequence lock beside a counter",
            "ALONE _Atomic unsigned sequence; long a, b; ALONE _Atomic long n;",
            "if (me) planted->n++; else { planted->sequence++; planted->a++, planted->b++;"
            "planted->sequence++; }"),
    Planted("sequence lock of two writers", "ALONE _Atomic unsigned sequence; long a;",
            "unsigned seen = planted[OWN].sequence & ~1u;"
            "if (atomic_compare_exchange_strong(&planted[OWN].sequence, &seen, seen + 1))"
            "{ planted[OWN].a++; planted[OWN].sequence++; } work(20);"),
    Planted("heap blocks side by side", "_Atomic long *n;", "(*planted[me].n)++; work(10);",
            "do planted[0].n = planted[1].n, planted[1].n = malloc(BLOCK);"
            "while ((size_t)planted[0].n / NEAR != (size_t)planted[1].n / NEAR);"),
    Planted("C++ atomics side by side", "ALONE std::atomic<long> n;", "planted[me].n++; work(10);"),
    Planted("C++ shared_ptr that is copied", "ALONE std::shared_ptr<long> is;",
            "auto copy = planted[me].is; work(20);",
            "planted[0].is.reset(new long(1)); planted[1].is = planted[0].is;"
            "if (sizeof *planted > 64) planted[1].is.reset(new long(1));"),
    Planted("C++ mutex", "ALONE std::mutex lock; long value;",
            "{ std::lock_guard hold(planted[OWN].lock); planted[OWN].value++; } work(50);"),
    Planted("C++ sum of doubles", "ALONE std::atomic<double> sum;",
            "double seen = planted[OWN].sum;"
            "while (!planted[OWN].sum.compare_exchange_weak(seen, seen + 1)) ;"),
    Planted("C++ top of a stack", "ALONE std::atomic<long *> top; long node;",
            "long *seen = planted[OWN].top;"
            "planted[OWN].top.compare_exchange_strong(seen, seen ? nullptr : &planted[OWN].node);"),
)  # fmt: skip


def build(planted: Planted, folder: str) -> list[str]:
    """Both versions: shared, repaired."""
    plus, text = "C++" in planted.name, HARNESS
    for mark in ("members", "body", "start"):
        text = text.replace(mark.upper(), getattr(planted, mark))
    compile_ = ["g++", "-std=c++20"] if plus else ["gcc", "-std=c11", "-D_GNU_SOURCE"]
    made = []
    for version in ("shared", "repaired"):
        made.append(f"{folder}/{version}")
        flags = ["-O2", "-g", "-pthread", f"-D{version.upper()}", "-o", made[-1]]
        language = "c++" if plus else "c"
        command = [*compile_, *flags, "-x", language, "-"]
        subprocess.run(command, input=text, text=True, check=True)
    return made


def times(program: str, window: str) -> list[tuple[float, float]]:
    """Of each thread nanoseconds of a round, and CPU time."""
    done = subprocess.run([program, window], stdout=subprocess.PIPE, text=True, check=True)
    rows = [tuple(map(float, line.split())) for line in sorted(done.stdout.splitlines())]
    return [(spent / rounds, spent) for _, rounds, spent in rows]


def saved(shared: str, repaired: str, window: str) -> float:
    """Part of the CPU time that the repair saves, in one run of each."""
    before, after = times(shared, window), times(repaired, window)
    parts = [spent * (1 - now / was) for (was, spent), (now, _) in zip(before, after, strict=True)]
    return sum(parts) / sum(spent for _, spent in before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--prices", help="records of this machine, of plan rmw")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not SAMPLER.exists():
        print("not run: the sampler is not built")
        return 0
    window, long_run = f"{1000 * options.seconds:.0f}", f"{3000 * options.seconds:.0f}"
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        prices = options.prices or f"{folder}/prices.jsonl"
        if not options.prices:
            plan = ["measure", "--plan", "rmw", "--budget", "40s", "--only", "*/*/*/w0/*"]
            command = [*FIND[:-1], *plan, "--format", "none", "-o", prices]
            subprocess.run(command, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
        print("| planted | the page: at most | saved | holds |\n" + "| --- " * 4 + "|")
        for planted in PROGRAMS:
            if options.only not in planted.name:
                continue
            versions = build(planted, folder)
            command = [*FIND, "--json", "--heap", "--prices", prices, "--", versions[0], long_run]
            done = subprocess.run(
                command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            found = msgspec.json.decode(done.stdout, type=Result).lines
            bounds = [line.ceiling.gain.high for line in found if line.ceiling]
            pairs = [saved(*versions, window) for _ in range(options.pairs)]
            gain = statistics.median(pairs)
            answers.append(bool(bounds) and gain <= sum(bounds))
            says = numbers.percent(sum(bounds), False) if bounds else "nothing"
            between = f"{numbers.percent(min(pairs))} to {numbers.percent(max(pairs))}"
            row = [planted.name, says, f"{numbers.percent(gain)} ({between})"]
            print(f"| {' | '.join([*row, 'yes' if answers[-1] else 'no'])} |", flush=True)
    low, high = stats.binomtest(sum(answers), len(answers)).proportion_ci(0.95, method="exact")
    print(f"\nholds in {sum(answers)} of {len(answers)} ({100 * low:.0f} to {100 * high:.0f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
