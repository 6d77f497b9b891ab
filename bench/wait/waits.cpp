// SPDX-License-Identifier: MIT
// Locks by how their threads wait, in turns in one process: as many threads as CPUs and twice as many, sections of two lengths. A figure is a
// lock's throughput over that of the ticket lock with plain pauses in the same round, the median of the rounds with the least and the most, and Jain's
// index of the threads' shares. LINEWRIGHT_WAIT sets the hint and back-off of what waits by wait.h.
#include <linewright/atomic.h>
#include <linewright/rwlock.h>
#include <linewright/wait.h>

#include "../brief.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

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

struct Kind {
    const char *name;
    std::unique_ptr<Lock> (*make)();
};
template <class L> std::unique_ptr<Lock> made() { return std::make_unique<L>(); }
constexpr Kind kinds[] = {
    {"tickets, plain pauses", made<Tickets_with_pauses>},
    {"tickets, lw_wait_until", made<Tickets_that_wait>},
    {"tickets, in proportion", made<Tickets_in_proportion>},
    {"one word, back-off", made<Backs_off>},
    {"one word, parks", made<Parks>},
    {"lw_rwlock, written", made<Written>},
    {"glibc, adaptive", made<Glibc<PTHREAD_MUTEX_ADAPTIVE_NP>>},
    {"glibc, default", made<Glibc<PTHREAD_MUTEX_DEFAULT>>},
};
constexpr std::size_t many = std::size(kinds);

void work(unsigned units) {
    for (unsigned i = 0; i < units; i++)
        __asm__ volatile("" : : : "memory");
}

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

void point(unsigned threads, unsigned units, int rounds, std::chrono::milliseconds length) {
    std::vector<std::vector<Run>> runs(many);
    for (int round = 0; round < rounds; round++)
        for (std::size_t k = 0; k < many; k++)
            runs[k].push_back(run(kinds[k], threads, units, length));
    std::printf("%u threads, sections of %u rounds of an empty loop\n", threads, units);
    for (std::size_t k = 0; k < many; k++) {
        std::vector<double> ratios, fair;
        for (std::size_t round = 0; round < runs[k].size(); round++) {
            ratios.push_back(runs[k][round].per_second / runs[0][round].per_second);
            fair.push_back(runs[k][round].fairness);
        }
        std::sort(ratios.begin(), ratios.end());
        std::sort(fair.begin(), fair.end());
        std::printf("  %-24s %8.2f (%.2f to %.2f)   fairness %.2f\n", kinds[k].name, ratios[ratios.size() / 2],
                    ratios.front(), ratios.back(), fair[fair.size() / 2]);
    }
}

} // namespace

int main() {
    cpu_set_t usable;
    sched_getaffinity(0, sizeof usable, &usable);
    const auto cpus = static_cast<unsigned>(CPU_COUNT(&usable));
    char line[400];
    lw_wait_describe(line, sizeof line);
    std::printf("%s\nthroughput over the ticket lock with plain pauses, median (least to most), %u CPUs\n", line, cpus);
    const std::chrono::milliseconds length{lw_bench_times(200, 5)};
    for (const unsigned threads : {cpus, 2 * cpus})
        for (const unsigned units : {50u, 2000u})
            point(threads, units, lw_bench_times(9, 1), length);
    return 0;
}
