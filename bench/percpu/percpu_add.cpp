// SPDX-License-Identifier: MIT
// What an add to a per-CPU counter costs against its alternatives, in one run: every loop in turn, many rounds, medians.
//
// "same word" is the time from one add to the next of the same word: how fast a store comes back to a load.
// "rotating" adds to 64 words on 64 lines in turn: throughput, with the last store to a word long done.
// Sums are checked; a loop that lost a count is an error, not a number.
#include "timing.hpp"

#if defined(__x86_64__)
#include "patterns_x86_64.hpp"
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sched.h>

namespace {

using percpu_bench::line, percpu_bench::now_ns, percpu_bench::quantile, percpu_bench::words;
constexpr std::size_t ops = 200'000;
const int rounds = lw_bench_times(101, 3);

struct Memory {
    char *handle = static_cast<char *>(lw_percpu_alloc(words * line, line));
    char *cpu0 = LW__CPU0(handle);
    alignas(256) char own[words * line] = {};
};

// Arguments of a loop: held in registers, as a caller holds a counter's handle.
struct Places {
    char *handle, *cpu0, *own;
};

inline std::uint64_t *at(char *base, std::size_t i) { return reinterpret_cast<std::uint64_t *>(base + i * line); }

// ---- the operations: each takes the memory and which of its words ----

struct Ours {
    static constexpr const char *name = "lw_this_cpu_add";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) { lw_this_cpu_add_u64(at(m.handle, i), 1); }
};

struct Value {
    static constexpr const char *name = "lw_this_cpu_fetch_add";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) { lw_this_cpu_fetch_add_u64(at(m.handle, i), 1); }
};

#if defined(__x86_64__)
struct Load_add_store {
    static constexpr const char *name = "pattern: load, add, store";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) { baseline::load_add_store(m.cpu0 + i * line, 1); }
};

struct Compare_and_store {
    static constexpr const char *name = "pattern: load, compare-and-store";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) { baseline::compare_and_store(m.cpu0 + i * line, 1); }
};
#endif

inline void locked(std::uint64_t *p) {
#if defined(__x86_64__)
    __asm__ volatile("lock addq $1, (%0)" : : "r"(p) : "memory", "cc");
#else
    __atomic_fetch_add(p, 1, __ATOMIC_RELAXED);
#endif
}

struct Locked {
    static constexpr const char *name = "lock add, one line";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) { locked(at(m.own, i)); }
};

struct Getcpu_locked {
    static constexpr const char *name = "getcpu + lock add";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) {
        locked(at(m.cpu0 + (static_cast<std::size_t>(sched_getcpu()) << LW_PERCPU_SHIFT), i));
    }
};

struct Fallback {
    static constexpr const char *name = "our fall-back (no sequences)";
    [[gnu::always_inline]] static void add(Places m, std::size_t i) { lw__percpu_add_second_u64(at(m.handle, i), 1); }
};

thread_local std::uint64_t tls[words * line / 8];

struct Thread_local {
    static constexpr const char *name = "thread-local add";
    [[gnu::always_inline]] static void add(Places, std::size_t i) {
        std::uint64_t *p = &tls[i * line / 8];
        *p += 1;
        __asm__ volatile("" : : : "memory"); // one add each time round
    }
};

// ---- loops ----

template <class Op> [[gnu::noinline]] void same(char *handle, char *cpu0, char *own) {
    const Places m{handle, cpu0, own};
    for (std::size_t n = ops; n; --n)
        Op::add(m, 0);
}

template <class Op> [[gnu::noinline]] void rotating(char *handle, char *cpu0, char *own) {
    const Places m{handle, cpu0, own};
    for (std::size_t n = ops; n; --n)
        Op::add(m, n % words);
}

struct Row {
    const char *name;
    void (*same)(char *, char *, char *);
    void (*rotating)(char *, char *, char *);
    std::vector<double> same_ns, rotating_ns;
};

template <class Op> Row row() { return {Op::name, same<Op>, rotating<Op>, {}, {}}; }

double time_ns(void (*loop)(char *, char *, char *), Memory &m) {
    const double start = now_ns();
    loop(m.handle, m.cpu0, m.own);
    return (now_ns() - start) / ops;
}

std::uint64_t total(Memory &m) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words; i++)
        sum += lw_percpu_sum_u64(at(m.handle, i)) + *at(m.own, i) + tls[i * line / 8];
    return sum;
}

} // namespace

int main() {
    const char *why = "";
    lw_percpu_mode(&why);
    std::printf("per-CPU add; mode: %s\n", why);
    static Memory m;
    if (!m.handle) {
        std::fprintf(stderr, "percpu_add: no memory for the counters\n");
        return 3;
    }
    if (!lw_percpu_thread_registered()) {
        std::fprintf(stderr, "percpu_add: this thread has no restartable sequences, nothing to compare: %s\n", why);
        return 0;
    }
    std::vector<Row> rows;
    rows.push_back(row<Ours>());
#if defined(__x86_64__)
    rows.push_back(row<Load_add_store>());
    rows.push_back(row<Compare_and_store>());
#endif
    rows.push_back(row<Value>());
    rows.push_back(row<Thread_local>());
    rows.push_back(row<Getcpu_locked>());
    rows.push_back(row<Fallback>());
    rows.push_back(row<Locked>());

    std::uint64_t done = 0;
    for (int round = -1; round < rounds; round++) // the first only warms up
        for (Row &r : rows) {
            const double s = time_ns(r.same, m), t = time_ns(r.rotating, m);
            done += 2 * ops;
            if (round >= 0)
                r.same_ns.push_back(s), r.rotating_ns.push_back(t);
        }
    if (total(m) != done) {
        std::fprintf(stderr, "percpu_add: counts were lost: %llu of %llu\n", static_cast<unsigned long long>(total(m)),
                     static_cast<unsigned long long>(done));
        return 1;
    }
    const double ours = quantile(rows.front().same_ns, 0.5), ours_rotating = quantile(rows.front().rotating_ns, 0.5);
    std::printf("%d rounds of %zu adds each, medians (10th-90th percentile), ns per add; every count found again\n\n",
                rounds, ops);
    std::printf("%-34s %25s %8s %25s %8s\n", "", "same word", "x ours", "rotating over 64 words", "x ours");
    for (const Row &r : rows)
        std::printf("%-34s %7.3f (%6.3f - %6.3f) %8.2f %7.3f (%6.3f - %6.3f) %8.2f\n", r.name, quantile(r.same_ns, 0.5),
                    quantile(r.same_ns, 0.1), quantile(r.same_ns, 0.9), quantile(r.same_ns, 0.5) / ours,
                    quantile(r.rotating_ns, 0.5), quantile(r.rotating_ns, 0.1), quantile(r.rotating_ns, 0.9),
                    quantile(r.rotating_ns, 0.5) / ours_rotating);
    return 0;
}
