// SPDX-License-Identifier: MIT
// waits [ROUNDS]
//
// Locks by how their threads wait, in turns in one process, 11 rounds unless told: as many threads as CPUs and twice as many, sections of two
// lengths; what waits by wait.h under `auto` and under each hint of this CPU. A figure is a lock's throughput over that of the ticket lock with
// plain pauses in the same round, the median of the rounds with the least and the most, and Jain's index of the threads' shares. Threads are
// pinned, to the CPUs in turn.
// Behind them the goals of wait.h, each from ratios within rounds: met or not met where the interval of their median allows no other answer, else
// undecided. The hint that `auto` stands for is no rival but the same code: that row says how far two runs of one thing differ.
#include <linewright/atomic.h>
#include <linewright/rwlock.h>
#include <linewright/wait.h>

#include "../brief.h"
#include "../cpus.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#ifdef LW_TBB
#include <oneapi/tbb/mutex.h>
#include <tbb/spin_mutex.h>
#endif

namespace {

struct Lock {
    virtual ~Lock() = default;
    virtual void lock() = 0;
    virtual void unlock() = 0;
};

// Every ticket is called in its turn. The words lie on lines of their own.
struct Tickets : Lock {
    alignas(128) uint32_t next = 0;
    alignas(128) uint32_t served = 0;
    uint32_t take() { return lw_fetch_add_u32_relaxed(&next, 1); }
    void unlock() override { lw_write_u32_release(&served, served + 1); } // pairs with the acquire loads of the waits
};

struct Tickets_with_pauses final : Tickets {
    void lock() override {
        for (const uint32_t mine = take(); lw_read_u32_acquire(&served) != mine;)
            lw_cpu_relax();
    }
};

struct Tickets_that_wait final : Tickets {
    void lock() override { lw_wait_until_u32(&served, take()); }
};

struct Tickets_in_proportion final : Tickets {
    void lock() override {
        const lw_backoff backoff = LW_BACKOFF_INIT;
        const uint32_t mine = take();
        for (uint32_t now; (now = lw_read_u32_acquire(&served)) != mine;)
            lw_backoff_wait_behind(&backoff, mine - now - 1);
    }
};

// Tries when it has seen the word free, and backs off after each try that failed.
struct Backs_off final : Lock {
    alignas(128) uint32_t held = 0;
    void lock() override {
        lw_backoff backoff = LW_BACKOFF_INIT;
        while (lw_read_u32_relaxed(&held) || lw_xchg_u32_acquire(&held, 1)) // pairs with unlock()'s release
            lw_backoff_wait(&backoff);
    }
    void unlock() override { lw_write_u32_release(&held, 0); }
};

// 0 free, 1 held, 2 held and a thread may sleep for it.
struct Parks final : Lock {
    alignas(128) uint32_t state = 0;
    void lock() override {
        uint32_t seen = 0;
        if (lw_try_cmpxchg_u32_acquire(&state, &seen, 1)) // this and the next pair with unlock()'s release
            return;
        while (lw_xchg_u32_acquire(&state, 2))
            lw_park_while_u32(&state, 2);
    }
    void unlock() override {
        if (lw_xchg_u32_release(&state, 0) == 2)
            lw_unpark_u32(&state);
    }
};

struct Written final : Lock {
    alignas(128) lw_rwlock own = LW_RWLOCK_INIT_PLAIN;
    void lock() override {
        if (lw_rwlock_write_lock(&own))
            std::abort();
    }
    void unlock() override {
        if (lw_rwlock_write_unlock(&own))
            std::abort();
    }
};

template <int type> struct Glibc final : Lock {
    alignas(128) pthread_mutex_t own{};
    Glibc() {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, type);
        pthread_mutex_init(&own, &attributes);
        pthread_mutexattr_destroy(&attributes);
    }
    ~Glibc() override { pthread_mutex_destroy(&own); }
    void lock() override { pthread_mutex_lock(&own); }
    void unlock() override { pthread_mutex_unlock(&own); }
};

#ifdef LW_TBB
template <class Mutex> struct Threading_blocks final : Lock {
    alignas(128) Mutex own;
    void lock() override { own.lock(); }
    void unlock() override { own.unlock(); }
};
#endif

struct Kind {
    const char *name;
    std::unique_ptr<Lock> (*make)();
    bool by_setting; // waits by wait.h
};
template <class L> std::unique_ptr<Lock> made() { return std::make_unique<L>(); }
constexpr Kind kinds[] = {
    {"tickets, plain pauses", made<Tickets_with_pauses>, false},
    {"glibc, adaptive", made<Glibc<PTHREAD_MUTEX_ADAPTIVE_NP>>, false},
    {"glibc, default", made<Glibc<PTHREAD_MUTEX_DEFAULT>>, false},
#ifdef LW_TBB
    {"tbb::spin_mutex", made<Threading_blocks<tbb::spin_mutex>>, false},
    {"tbb::mutex", made<Threading_blocks<tbb::mutex>>, false},
#endif
    {"tickets, lw_wait_until", made<Tickets_that_wait>, true},
    {"tickets, in proportion", made<Tickets_in_proportion>, true},
    {"one word, back-off", made<Backs_off>, true},
    {"one word, parks", made<Parks>, true},
    {"lw_rwlock, written", made<Written>, true},
};
constexpr const Kind &spinning = *std::begin(kinds), &library = *std::prev(std::end(kinds));
constexpr const char *hints[] = {"none", "pause", "tpause", "umwait", "mwaitx", "yield", "isb", "sb", "wfe", "wfet"};

void work(unsigned units) {
    for (unsigned i = 0; i < units; i++)
        __asm__ volatile("" : : : "memory");
}

const std::vector<unsigned> cpus = lw_bench_cpus();

struct Run {
    double per_second;
    double fairness;
};

// All threads lock, work, unlock and work as long outside, until the time is over.
Run run(const Kind &kind, unsigned threads, unsigned units, std::chrono::milliseconds length) {
    const std::unique_ptr<Lock> lock = kind.make();
    std::atomic<bool> stop{false};
    std::vector<uint64_t> done(threads * 16); // a line or two for each
    uint64_t inside = 0;
    std::vector<std::thread> all;
    const auto begun = std::chrono::steady_clock::now();
    for (unsigned t = 0; t < threads; t++)
        all.emplace_back([&, t] {
            lw_bench_stay_on(cpus[t % cpus.size()]);
            while (!stop.load(std::memory_order_relaxed)) {
                lock->lock();
                inside++;
                work(units);
                lock->unlock();
                done[t * 16]++;
                work(units);
            }
        });
    std::this_thread::sleep_for(length);
    stop.store(true, std::memory_order_relaxed);
    for (std::thread &thread : all)
        thread.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    double sum = 0, squares = 0;
    for (unsigned t = 0; t < threads; t++) {
        const auto own = static_cast<double>(done[t * 16]);
        sum += own;
        squares += own * own;
    }
    if (inside != static_cast<uint64_t>(sum)) {
        std::fprintf(stderr, "waits: %s let two threads inside\n", kind.name);
        std::exit(1);
    }
    return {sum / seconds, squares > 0 ? sum * sum / (threads * squares) : 0};
}

// A lock under a setting, and its run in each round.
struct Series {
    const Kind &kind;
    std::string setting; // of locks that wait by wait.h
    std::vector<Run> rounds;
    bool usual = false; // the hint that `auto` stands for
};

// `auto` first, by whose name every lock has one series.
std::vector<Series> every_series() {
    std::vector<Series> all;
    for (const Kind &kind : kinds) {
        all.push_back({kind, "auto", {}});
        for (const char *hint : hints)
            if (kind.by_setting && lw_wait_set(hint, nullptr, 0) == 0)
                all.push_back({kind, hint, {}, lw_wait_word == 0});
    }
    return all;
}

struct Ratio {
    double median, low, high;
};

// The median of one series over another, round by round, and its interval: the two ranks between which it lies with at least 95 % (the sign
// test's); with fewer than six rounds there are none, and anything is possible.
Ratio ratio(const Series &one, const Series &other, double Run::*figure) {
    std::vector<double> all;
    for (std::size_t round = 0; round < one.rounds.size(); round++) {
        const double own = one.rounds[round].*figure, beside = other.rounds[round].*figure;
        all.push_back(own == beside ? 1 : own / beside); // both may have done nothing
    }
    std::sort(all.begin(), all.end());
    const std::size_t count = all.size();
    double chance = std::ldexp(1.0, -static_cast<int>(count)), below = chance; // of so few rounds below the median
    if (2 * below > 0.05)
        return {all[count / 2], 0, std::numeric_limits<double>::infinity()};
    std::size_t left_out = 0;
    for (std::size_t k = 1;; k++) {
        chance *= static_cast<double>(count - k + 1) / static_cast<double>(k);
        below += chance;
        if (2 * below > 0.05)
            break;
        left_out = k;
    }
    return {all[count / 2], all[left_out], all[count - 1 - left_out]};
}

const char *answer(const Ratio &found, double goal) {
    return found.low >= goal ? "met" : found.high < goal ? "not met" : "undecided";
}

constexpr double of_the_best = 0.97, of_its_fairness = 0.95, over_spinning = 2;

// A lock under `auto` beside each other hint: the goal is met where it is beside all of them, and missed where it is beside one, which is shown.
void beside_hints(const std::vector<Series> &all, const Kind &kind, double Run::*figure, double goal, const char *what) {
    const Series *automatic = nullptr, *shown = nullptr;
    Ratio worst{};
    for (const Series &series : all) {
        if (&series.kind != &kind)
            continue;
        if (!automatic) {
            automatic = &series;
            continue;
        }
        const Ratio found = ratio(*automatic, series, figure);
        if (series.usual) {
            std::printf("  %-24s %-10s %5s  %5.2f (%.2f to %.2f) of %-8s itself\n", kind.name, what, "", found.median,
                        found.low, found.high, series.setting.c_str());
            continue;
        }
        const bool missed = found.high < goal, worst_missed = shown && worst.high < goal;
        if (!shown || (missed != worst_missed ? missed : found.low < worst.low)) {
            worst = found;
            shown = &series;
        }
    }
    if (shown)
        std::printf("  %-24s %-10s %5.2f  %5.2f (%.2f to %.2f) of %-8s %s\n", kind.name, what, goal, worst.median, worst.low,
                    worst.high, shown->setting.c_str(), answer(worst, goal));
}

void goals(const std::vector<Series> &all, bool crowded) {
    std::printf("  %-24s %-10s %5s  ratio\n", "goals", "of", "least");
    for (const Kind &kind : kinds)
        if (kind.by_setting) {
            beside_hints(all, kind, &Run::per_second, of_the_best, "throughput");
            beside_hints(all, kind, &Run::fairness, of_its_fairness, "fairness");
        }
    if (!crowded)
        return;
    const auto of = [&all](const Kind &kind) -> const Series & {
        return *std::find_if(all.begin(), all.end(), [&](const Series &series) { return &series.kind == &kind; });
    };
    const Ratio found = ratio(of(library), of(spinning), &Run::per_second);
    std::printf("  %-24s %-10s %5.2f  %5.2f (%.2f to %.2f) of %s: %s\n", library.name, "throughput", over_spinning,
                found.median, found.low, found.high, spinning.name, answer(found, over_spinning));
}

void point(unsigned threads, unsigned units, int rounds, std::chrono::milliseconds length, bool crowded) {
    std::vector<Series> all = every_series();
    for (int round = 0; round < rounds; round++)
        for (std::size_t i = 0; i < all.size(); i++) { // begun elsewhere in each round
            Series &series = all[(i + static_cast<std::size_t>(round)) % all.size()];
            char error[400];
            if (lw_wait_set(series.setting.c_str(), error, sizeof error)) {
                std::fprintf(stderr, "waits: %s\n", error);
                std::exit(1);
            }
            series.rounds.push_back(run(series.kind, threads, units, length));
        }
    std::printf("%u threads, sections of %u rounds of an empty loop\n", threads, units);
    for (const Series &series : all) {
        std::vector<double> ratios, fair;
        for (std::size_t round = 0; round < series.rounds.size(); round++) {
            ratios.push_back(series.rounds[round].per_second / std::max(1.0, all[0].rounds[round].per_second));
            fair.push_back(series.rounds[round].fairness);
        }
        std::sort(ratios.begin(), ratios.end());
        std::sort(fair.begin(), fair.end());
        std::printf("  %-24s %-8s %8.2f (%.2f to %.2f)   fairness %.2f\n", series.kind.name,
                    series.kind.by_setting ? series.setting.c_str() : "", ratios[ratios.size() / 2], ratios.front(),
                    ratios.back(), fair[fair.size() / 2]);
    }
    goals(all, crowded);
}

} // namespace

int main(int argc, char **argv) {
    const int rounds = argc == 2 ? std::atoi(argv[1]) : lw_bench_times(11, 1);
    if (argc > 2 || rounds < 1) {
        std::fprintf(stderr, "usage: waits [ROUNDS]\n");
        return 2;
    }
    const auto count = static_cast<unsigned>(cpus.size());
    char line[400];
    lw_wait_describe(line, sizeof line);
    std::printf("%s\nthroughput over the ticket lock with plain pauses, median (least to most), %u CPUs\n", line, count);
    const std::chrono::milliseconds length{lw_bench_times(100, 2)};
    for (const bool crowded : {false, true})
        for (const unsigned units : {50u, 2000u})
            point(crowded ? 2 * count : count, units, rounds, length, crowded);
    return 0;
}
