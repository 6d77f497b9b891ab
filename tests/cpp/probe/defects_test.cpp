// SPDX-License-Identifier: MIT
// Mistakes that tools people trust have made, each provoked here to see that this one does not make it.
#include "probe/line_set.hpp"
#include "probe/rmw_loops.hpp"
#include "probe/subject.hpp"
#include "probe/window.hpp"
#include "this_machine.hpp"
#include "wire/forms.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sched.h>
#include <set>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace lw;
using namespace lw::probe;

std::vector<unsigned> usable() { return usable_cpus(machine().topology, {}); }

wire::Cell cell_of(const char *form, const char *operation, unsigned threads = 1) {
    wire::Cell cell;
    cell.form = form;
    cell.operation = operation;
    cell.width_bits = sizeof(void *) * 8;
    cell.threads = threads;
    cell.contender = threads > 1 ? "same_line" : "none";
    cell.lines = 2;
    return cell;
}

Window_result window_of(const wire::Cell &cell, const std::vector<unsigned> &cpus, double ms) {
    Made made = make_subject(cell, machine());
    Window_request request;
    request.length_ms = ms;
    return run_window(*made.subject, machine(), cpus, request, nullptr);
}

// A contender pinned to a CPU that does not exist, the error ignored: a "contention" row of exactly twice the time.
TEST(Defect, APinThatFailsIsAnError) {
    Window_result alone = window_of(cell_of("empty", "none"), {65'000}, 0.2);
    EXPECT_NE(alone.error.find("refused to pin the timed thread to CPU 65000"), std::string::npos) << alone.error;
    Window_result pair = window_of(cell_of("empty", "none", 2), {usable()[0], 65'000}, 0.2);
    EXPECT_NE(pair.error.find("refused to pin a contender to CPU 65000"), std::string::npos) << pair.error;
}

// A limit on threads or memory met half way: the contenders that were started wait for a window that never opens.
TEST(Defect, AContenderThatCannotStartIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer itself dies without memory";
#endif
    if (usable().size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    std::vector<unsigned> cpus(17, usable()[1]); // sixteen stacks of 8 MiB
    cpus[0] = usable()[0];
    Made made = make_subject(cell_of("empty", "none", 17), machine());
    Window_request request;
    request.length_ms = 0.2;
    run_window(*made.subject, machine(), {usable()[0]}, request, nullptr); // whatever is allocated once

    unsigned long long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit old{};
    getrlimit(RLIMIT_AS, &old);
    const rlimit tight{static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{20} << 20),
                       old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    void *beyond = mmap(nullptr, std::size_t{64} << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Window_result window;
    if (beyond == MAP_FAILED)
        window = run_window(*made.subject, machine(), cpus, request, nullptr);
    setrlimit(RLIMIT_AS, &old);
    if (beyond != MAP_FAILED) {
        munmap(beyond, std::size_t{64} << 20);
        GTEST_SKIP() << "memory cannot be limited here (an emulator)";
    }
    EXPECT_NE(window.error.find("could not be started"), std::string::npos) << window.error;
}

// Affinity changed while running: the thread is found elsewhere, and its time is no measurement.
TEST(Defect, AThreadMovedByOthersIsNoticed) {
    if (usable().size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    long self = syscall(SYS_gettid);
    std::atomic<bool> stop{false};
    std::atomic<int> moves{0};
    std::jthread mover([self, to = usable()[1], &stop, &moves] {
        pin_to(to); // out of the way of the window, which may have real-time priority
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(to, &set);
        while (!stop) { // repeatedly: on a busy machine the time at which the window opens is not known
            sched_setaffinity(static_cast<pid_t>(self), sizeof set, &set);
            ++moves;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    bool moved = false;
    while (moves < 1000 && !moved) // most of them while a window is open, however seldom the mover has its CPU
        moved = window_of(cell_of("empty", "none"), {usable()[0]}, 100).moved;
    stop = true;
    EXPECT_TRUE(moved);
}

// Time-sharing inside a sample, unnoticed.
TEST(Defect, ASharedCpuIsNoticed) {
    const bool real_time = [] {
        pin_to(usable()[0]);
        Real_time lowest;
        return sched_getscheduler(0) == SCHED_RR;
    }();
    std::atomic<bool> stop{false}, started{false}, above_us{false};
    std::atomic<int> bursts{0};
    std::jthread spinner([&, cpu = usable()[0]] {
        pin_to(cpu);
        // Above the window's own priority where that is permitted; in bursts, so that the window gets its share.
        sched_param above{};
        above.sched_priority = sched_get_priority_min(SCHED_FIFO) + 1;
        above_us = sched_setscheduler(0, SCHED_FIFO, &above) == 0;
        started = true;
        while (!stop.load(std::memory_order_relaxed)) {
            auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
            while (std::chrono::steady_clock::now() < until) {
            }
            ++bursts;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    while (!started)
        std::this_thread::yield();
    if (real_time && !above_us) {
        stop = true;
        GTEST_SKIP() << "only the lowest real-time priority is permitted: nothing can push a window aside";
    }
    bool switched = false;
    while (bursts < 1000 && !switched)
        switched = window_of(cell_of("empty", "none"), {usable()[0]}, 100).switched;
    stop = true;
    EXPECT_TRUE(switched);
}

// "0.00047 ns per operation": the loop had been optimised away. Here the time grows with the operations asked for.
TEST(Defect, NoLoopIsOptimisedAway) {
    std::uint64_t word = 0;
    for (const wire::Form &form : wire::all_forms()) {
        const Rmw_loop *loop = wire::belongs_to(form, wire::this_arch) ? find_rmw_loop(form.name, form.width_bits) : nullptr;
        if (!loop || !machine().has(form.needs))
            continue;
        auto shortest = [&](std::size_t ops) {
            double best = 1e18;
            for (int i = 0; i < 7; ++i) {
                Loop_args args;
                args.target = &word;
                args.ops = ops;
                timespec before{}, after{};
                clock_gettime(CLOCK_MONOTONIC, &before);
                loop->issue(args);
                clock_gettime(CLOCK_MONOTONIC, &after);
                best = std::min(best, static_cast<double>(after.tv_sec - before.tv_sec) * 1e9 +
                                          static_cast<double>(after.tv_nsec - before.tv_nsec));
            }
            return best;
        };
        // Twenty operations in a nanosecond: no CPU retires loops that fast.
        EXPECT_GT(shortest(1'000'000), 1'000'000 * 0.05) << form.name;
    }
}

// A record that was not line-aligned: 115 instead of 10 ns. No two lines of a set share a pair of lines or a page.
TEST(Defect, LinesAreApartOnPagesAndOffsetsOfTheirOwn) {
    Line_set lines(64);
    auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    std::set<std::uintptr_t> pages, offsets;
    for (unsigned i = 0; i < lines.count(); ++i) {
        auto address = reinterpret_cast<std::uintptr_t>(lines.line(i));
        EXPECT_EQ(address % 256, 0u);
        EXPECT_TRUE(pages.insert(address / page).second);
        offsets.insert(address % page);
    }
    EXPECT_EQ(offsets.size(), std::min<std::size_t>(64, page / 256));
}

// The number of CPUs assumed dense: covered with made-up trees in topology_test; here, the real mask's last CPU works.
TEST(Defect, TheHighestAllowedCpuCanBeUsed) {
    Window_result window = window_of(cell_of("empty", "none"), {usable().back()}, 1);
    EXPECT_EQ(window.error, "");
    EXPECT_EQ(window.cpus.at(0), usable().back());
}

// The rank (from 0) of the order statistic that bounds the median of n values from below with at most 2.5 % beyond it:
// the binomial sums are whole numbers, n is small.
std::size_t lower_rank(std::size_t n) {
    std::uint64_t choose = 1, at_or_below = 1; // C(n, 0) and the sum of C(n, 0..rank)
    std::size_t rank = 0;
    for (; rank < n; ++rank) {
        choose = choose * (n - rank) / (rank + 1);
        at_or_below += choose;
        if (at_or_below * 40 > std::uint64_t{1} << n)
            break;
    }
    return rank;
}

// A minimum reported as the latency, an error bar capped at a constant: the stated value is the median of all windows
// and its interval ends at the order statistics that their number asks for. (Under a coarse clock these may be equal.)
TEST(Defect, TheReportedValueIsTheMedianOfAllWindows) {
    EXPECT_EQ(lower_rank(5), 0u); // the whole range: five values are too few for 95 %
    EXPECT_EQ(lower_rank(9), 1u);
    EXPECT_EQ(lower_rank(20), 5u);
    wire::Plan plan;
    plan.name = "test";
    plan.budget_s = 60;
    plan.window_ms = 0.3;
    plan.min_windows = 9;
    plan.max_windows = 9;
    plan.cells.push_back(cell_of("empty", "none"));
    wire::Record record;
    Run_hooks hooks;
    hooks.record = [&](const wire::Record &made) { record = made; };
    for (int attempt = 0; attempt < 10 && record.window_ns.empty(); ++attempt)
        run_plan(plan, back_end(), "0", hooks);
    if (record.window_ns.empty())
        GTEST_SKIP() << "every window was disturbed";
    ASSERT_TRUE(record.issue);
    std::vector<double> sorted = record.window_ns;
    std::ranges::sort(sorted);
    std::size_t n = sorted.size();
    EXPECT_DOUBLE_EQ(record.issue->median_ns, n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2);
    EXPECT_EQ(record.issue->low_ns, sorted[lower_rank(n)]);
    EXPECT_EQ(record.issue->high_ns, sorted[n - 1 - lower_rank(n)]);
}

// Operations before or after a window counted into it, or time outside it: every figure then comes out too low or too high.
TEST(Defect, AWindowHoldsItsOwnOperationsOnly) {
    Made made = make_subject(cell_of("builtin_fetch_add", "fetch_add"), machine());
    Window_request request;
    request.length_ms = 1;
    request.batch_ops = 1000;
    Window_result window = run_window(*made.subject, machine(), {usable()[0]}, request, nullptr);
    ASSERT_EQ(window.error, "");
    ASSERT_EQ(window.ops.size(), 1u);
    EXPECT_EQ(window.ops[0] % 1000, 0u);
    auto sum = made.subject->check();
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->found, window.ops[0] + 2000); // one batch to warm up, one while the window closes
    EXPECT_GE(window.ns.at(0), 1e6 - machine().clock.tick_ns); // its length in whole ticks
    EXPECT_DOUBLE_EQ(window.ns_per_op, window.ns.at(0) / static_cast<double>(window.ops[0]));
}

// What one word lacks another has too much: added up, the two would be right.
TEST(Defect, OneWordDoesNotMakeUpForAnother) {
    Check sum;
    sum.add(5, 5);
    sum.add(2, 2);
    EXPECT_EQ(sum.expected, 7u);
    EXPECT_EQ(sum.found, 7u);
    sum.add(4, 3);
    sum.add(3, 4);
    sum.add(9, 9);
    EXPECT_EQ(sum.expected, 4u);
    EXPECT_EQ(sum.found, 3u);
}

// All threads run before the window opens: a contender has operations in every window that it was part of.
TEST(Defect, ContendersRunThroughTheWholeWindow) {
    if (usable().size() < 2)
        GTEST_SKIP() << "needs two CPUs";
    wire::Cell cell = cell_of("builtin_fetch_add", "fetch_add", 2);
    Made made = make_subject(cell, machine());
    bool present = false;
    for (int whole = 0, tries = 0; whole < 5 && tries < 25; ++tries) {
        Window_request request;
        request.length_ms = 20;
        Window_result window = run_window(*made.subject, machine(), {usable()[0], usable()[1]}, request, nullptr);
        ASSERT_EQ(window.error, "");
        present |= window.ops.at(1) > 0;
        if (window.switched || window.stolen || window.long_batch)
            continue; // a busy test machine: such a window is discarded in a run, too
        ++whole;
        EXPECT_GT(window.ops.at(1), 0u);
        EXPECT_NEAR(window.ns.at(1), window.ns.at(0), window.ns.at(0) * 0.5 + 5e6); // its own clock saw the same window
    }
    EXPECT_TRUE(present) << "not in one window did the contender do anything, and no busy machine explains that";
    auto sum = made.subject->check();
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->expected, sum->found);
}

} // namespace
