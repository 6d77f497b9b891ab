// SPDX-License-Identifier: MIT
// One thread of a workload: its random numbers, its timed waits, the sections it holds, what it found broken.
#pragma once

#include "wire/histogram.hpp"
#include "workload/locks.hpp"
#include "workload/preemption.hpp"
#include "workload/workload.hpp"

#include <linewright/arch/measure.h>
#include <linewright/slice.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <vector>

namespace lw::workload {

inline double now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

inline void compute(std::uint64_t iterations) {
    for (; iterations; --iterations)
        lw_nop();
}

// What can be found broken, each counted by every thread for itself.
enum Violation : unsigned { overlap, order, torn, dead, lost, violations };

// A value that the compiler must fetch and store as written: a broken lock lets another thread change it meanwhile.
// Not atomic on purpose, so that ThreadSanitizer watches it too.
template <class T> using Watched = volatile T;

struct alignas(apart) Worker {
    Worker(unsigned id_, const Options &options_, const Patience &patience_, const std::atomic<bool> &stopping_)
        : id(id_), options(options_), patience(patience_), stopping(stopping_),
          state(options_.seed * 0x9e3779b97f4a7c15u + (id_ + 1) * 0xd1342543de82ef95u) {
        seat.id = id_;
        next_long_hold();
    }

    // splitmix64: one sequence for each seed and thread
    std::uint64_t random() {
        std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    // From 1 to 2 × mean - 1, each as likely.
    std::uint64_t gap(std::uint64_t mean) { return 1 + random() % (2 * mean - 1); }

    bool stop() const { return stopping.load(std::memory_order_relaxed); } // polled; nothing is published by it

    // Runs `wait`, times it now and then, and hands on its answer.
    template <class Function> bool timed(Function wait) {
        if (--until_timed)
            return wait();
        until_timed = gap(options.time_every);
        const std::uint64_t before = lw_ticks_ordered();
        const bool had = wait();
        waits.add(static_cast<double>(lw_ticks_ordered() - before)); // ticks; scaled when the run is over
        return had;
    }

    // The critical section's length; now and then a long one, as a lock torture has them.
    void hold() {
        if (options.slices)
            lw_slice_begin();
        preemption.from_here();
        if (options.yield_inside)
            sched_yield();
        if (until_long_hold && --until_long_hold == 0) {
            ++long_holds;
            next_long_hold();
            for (const double end = now_ns() + options.long_hold_ns; now_ns() < end;)
                compute(100);
        } else {
            compute(options.critical.iterations);
        }
        preemption.to_here();
    }

    // Operation done: publish it, then compute what is not exclusive.
    void done() {
        if (options.slices) {
            granted += lw__slice.outer && lw__slice.outer[1] != 0;
            lw_slice_end();
        }
        ++operations;
        published.store(operations, std::memory_order_relaxed); // read by the thread that opens and closes the window
        compute(options.parallel.iterations);
    }

    // One in 2000 × threads × length in ms: the longer the rarer, so that long holds take a like share of the time.
    void next_long_hold() {
        if (options.long_hold_ns > 0)
            until_long_hold = gap(std::max<std::uint64_t>(
                1, static_cast<std::uint64_t>(2000 * options.threads * (options.long_hold_ns / 1e6))));
    }

    const unsigned id;
    const Options &options;
    const Patience &patience;
    const std::atomic<bool> &stopping;
    std::uint64_t state;
    Seat seat;
    std::uint64_t until_timed = 1, until_long_hold = 0, long_holds = 0;
    std::uint64_t operations = 0;
    std::array<std::uint64_t, violations> broken{};
    Preemption preemption;
    Switches switches;
    std::uint64_t granted = 0;
    wire::Histogram waits;
    alignas(apart) std::atomic<std::uint64_t> published{0};
    std::atomic<bool> running{false}, finished{false};
};

} // namespace lw::workload
