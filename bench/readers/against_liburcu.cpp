// SPDX-License-Identifier: MIT
// Readers, their scaling, grace periods and callbacks against liburcu's memb, in one run: each in turn, round after round.
//
// Where the code of a loop happens to lie decides as much as what it does, so every loop exists eight times, 8 bytes apart,
// and the best, median and worst placement are reported. Ratios are formed within a round and have order-statistic intervals
// over the rounds. A goal is met when the whole interval is on its side.
#include "pairs.h"

#include "../brief.h"
#include "../cpus.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fstream>
#include <linux/membarrier.h>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::size_t readers = 20'000;
const auto rounds = static_cast<unsigned>(lw_bench_times(61, 2));
constexpr std::array<const char *, pair_count> names{
    "the loop alone",         "liburcu memb, inline (LGPL)", "liburcu memb, called (not LGPL)", "lw_srcu_read_lock_fast",
    "lw_srcu_down_read_fast", "lw_srcu_read_lock (normal)",  "one locked add, one plain add",   "two locked adds",
};

// What the kernel calls the first CPU: prices of one kind say nothing of another.
std::string cpu_kind() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name") || line.starts_with("CPU part"))
            return line.substr(line.find(':') + 2);
    return "unknown";
}

double now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Interval {
    double low, middle, high;
};

// Order statistics that cover the median with 95 % (normal approximation of the binomial; `values` are dozens).
Interval interval(std::vector<double> values) {
    std::ranges::sort(values);
    const double n = static_cast<double>(values.size());
    const auto k = static_cast<std::size_t>(std::max(0.0, std::floor((n - 1.96 * std::sqrt(n)) / 2)));
    return {values[k], median(values), values[values.size() - 1 - k]};
}

bool met_all = true;

void goal(const char *what, const Interval &x, double bound, bool at_most) {
    const bool met = at_most ? x.high <= bound : x.low >= bound;
    met_all &= met;
    std::printf("  %-62s %6.3f [%.3f, %.3f]  goal: %s %.2f  %s\n", what, x.middle, x.low, x.high,
                at_most ? "at most " : "at least", bound, met ? "met" : "MISSED");
}

// A goal that some processors cannot reach, since what it is made of takes more there: `floor` of it alone.
void goal_within_reach(const char *what, const Interval &x, double bound, const Interval &floor) {
    if (floor.low <= bound)
        goal(what, x, bound, true);
    else
        std::printf("  %-62s %6.3f [%.3f, %.3f]  out of reach of %.2f on this CPU: one locked and one plain add are %.3f\n",
                    what, x.middle, x.low, x.high, bound, floor.middle);
}

lw_srcu_fast fast;
lw_srcu_fast_updown updown;
lw_srcu_normal normal;

lw_srcu *domain_of(unsigned pair) {
    return pair == SRCU_FAST_UPDOWN ? static_cast<lw_srcu *>(&updown)
           : pair == SRCU_NORMAL    ? static_cast<lw_srcu *>(&normal)
                                    : &fast;
}

double time_pair(unsigned pair, unsigned placement) {
    const double start = now_ns();
    loops_at(placement)->loop[pair](domain_of(pair), readers);
    return (now_ns() - start) / readers;
}

// ---- one thread ----

void pairs() {
    std::vector<double> ns[pair_count][placements]; // by round
    for (unsigned round = 0; round <= rounds; ++round)
        for (unsigned placement = 0; placement < placements; ++placement)
            for (unsigned pair = 0; pair < pair_count; ++pair) {
                const double t = time_pair(pair, placement);
                if (round > 0) // the first only warms up
                    ns[pair][placement].push_back(t);
            }
    std::printf("one thread, %u rounds of %zu critical sections at %d placements; ns for entering and leaving\n\n", rounds,
                readers, placements);
    std::printf("  %-34s %8s %8s %8s   placements\n", "", "best", "median", "worst");
    std::vector<double> middle[pair_count]; // by round: the median placement
    double best[pair_count], worst[pair_count];
    for (unsigned pair = 0; pair < pair_count; ++pair) {
        std::vector<double> by_placement;
        for (auto &values : ns[pair])
            by_placement.push_back(median(values));
        for (unsigned round = 0; round < rounds; ++round) {
            std::vector<double> here;
            for (auto &values : ns[pair])
                here.push_back(values[round]);
            middle[pair].push_back(median(here));
        }
        best[pair] = *std::ranges::min_element(by_placement);
        worst[pair] = *std::ranges::max_element(by_placement);
        std::printf("  %-34s %8.3f %8.3f %8.3f   ", names[pair], best[pair], median(by_placement), worst[pair]);
        for (double x : by_placement)
            std::printf(" %.3f", x);
        std::printf("\n");
    }
    auto ratio = [&](unsigned a, unsigned b) {
        std::vector<double> ratios;
        for (unsigned round = 0; round < rounds; ++round)
            ratios.push_back(middle[a][round] / middle[b][round]);
        return interval(ratios);
    };
    std::printf("\n  ratios of median placements within a round, median over rounds [95 %%]\n");
    goal("fast / memb inline", ratio(SRCU_FAST, URCU_MEMB), 0.9, true);
    goal("fast-updown / memb inline", ratio(SRCU_FAST_UPDOWN, URCU_MEMB), 1.2, true);
    goal("memb called / fast", ratio(URCU_MEMB_CALL, SRCU_FAST), 5, false);
    goal("normal / one locked add and one plain add", ratio(SRCU_NORMAL, LOCKED_AND_PLAIN), 1.05, true);
    goal_within_reach("normal / two locked adds", ratio(SRCU_NORMAL, TWO_LOCKED), 0.6, ratio(LOCKED_AND_PLAIN, TWO_LOCKED));
    std::printf("  at the placements that suit each worst and best: fast %.3f / memb %.3f = %.3f; fast-updown %.3f\n\n",
                worst[SRCU_FAST], best[URCU_MEMB], worst[SRCU_FAST] / best[URCU_MEMB],
                worst[SRCU_FAST_UPDOWN] / best[URCU_MEMB]);
}

// ---- more threads ----

// Each thread's ns per critical section while `cpus` of them run the same loop: all have begun before any is timed, and go
// on until all have been. No other thread takes part, so that threads of real-time priority cannot keep the one from running
// that ends them.
std::vector<double> together(unsigned pair, const std::vector<unsigned> &cpus, double window_ns) {
    struct alignas(256) Seat {
        double ns = 0;
    };
    std::vector<Seat> seats(cpus.size());
    std::atomic<std::size_t> begun{0}, timed{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < cpus.size(); ++i)
        threads.emplace_back([&, i] {
            lw_bench_stay_on(cpus[i]);
            urcu_join();
            auto batch = [&] { loops_at(0)->loop[pair](domain_of(pair), 2000); };
            batch();
            for (++begun; begun < cpus.size();)
                batch();
            const double start = now_ns();
            double batches = 0, now;
            do {
                batch();
                ++batches;
                now = now_ns();
            } while (now - start < window_ns);
            seats[i].ns = (now - start) / (batches * 2000);
            for (++timed; timed < cpus.size();)
                batch();
            urcu_part();
        });
    std::vector<double> out;
    for (std::size_t i = 0; i < cpus.size(); ++i) {
        threads[i].join();
        out.push_back(seats[i].ns);
    }
    return out;
}

void scaling(const std::vector<unsigned> &cpus) {
    const auto times = static_cast<unsigned>(lw_bench_times(21, 2));
    const std::array shown{unsigned{SRCU_FAST}, unsigned{SRCU_FAST_UPDOWN}, unsigned{URCU_MEMB}, unsigned{SRCU_NORMAL}};
    std::vector<std::size_t> counts;
    for (std::size_t n = 1; n < cpus.size(); n *= 2)
        counts.push_back(n);
    counts.push_back(cpus.size());
    std::printf("scaling: each thread's ns per critical section, median thread, %u rounds of 8 ms\n\n  %-34s", times,
                "threads");
    for (std::size_t n : counts)
        std::printf(" %8zu", n);
    std::printf("\n");
    std::vector<std::vector<std::vector<double>>> ns(shown.size(), std::vector<std::vector<double>>(counts.size()));
    for (unsigned round = 0; round < times; ++round)
        for (std::size_t which = 0; which < shown.size(); ++which)
            for (std::size_t n = 0; n < counts.size(); ++n)
                ns[which][n].push_back(median(
                    together(shown[which], {cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(counts[n])}, 8e6)));
    for (std::size_t which = 0; which < shown.size(); ++which) {
        std::printf("  %-34s", names[shown[which]]);
        for (auto &values : ns[which])
            std::printf(" %8.3f", median(values));
        std::printf("\n");
    }
    std::printf("\n");
    for (std::size_t which = 0; which < 2 && counts.size() > 1; ++which) {
        std::vector<double> ratios;
        for (unsigned round = 0; round < times; ++round)
            ratios.push_back(ns[which].back()[round] / ns[which].front()[round]);
        goal((std::string(names[shown[which]]) + ": all CPUs / one").c_str(), interval(ratios), 1.1, true);
    }
    std::printf("\n");
}

// ---- grace periods ----

void two_membarriers() {
    for (int i = 0; i < 2; ++i)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void must(int error, const char *what) {
    if (error) {
        std::fprintf(stderr, "against_liburcu: %s: error %d\n", what, error);
        std::exit(1);
    }
}

struct Wait {
    const char *name;
    unsigned reader;
    void (*wait)();
    std::vector<double> ns;
};

void print_waits(const std::vector<Wait> &waits, unsigned each) {
    std::printf("grace periods beside one busy reader: median of %u, %u rounds in turn; microseconds\n\n", each, rounds);
    for (const Wait &w : waits) {
        const Interval x = interval(w.ns);
        std::printf("  %-38s %8.2f [%.2f, %.2f]\n", w.name, x.middle / 1e3, x.low / 1e3, x.high / 1e3);
    }
    std::vector<double> ratios;
    for (unsigned round = 0; round < rounds; ++round)
        ratios.push_back(waits[0].ns[round] / waits[2].ns[round]);
    std::printf("\n");
    goal("fast synchronize / memb synchronize", interval(ratios), 1.1, true);
    std::printf("\n");
}

void grace_periods(const std::vector<unsigned> &cpus) {
    if (cpus.size() < 2) {
        std::printf("grace periods beside a busy reader: needs two CPUs\n\n");
        return;
    }
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    std::vector<Wait> waits{
        {"lw_srcu_synchronize, fast", SRCU_FAST, [] { must(lw_srcu_synchronize(&fast), "lw_srcu_synchronize"); }, {}},
        {"lw_srcu_synchronize_expedited, fast",
         SRCU_FAST,
         [] { must(lw_srcu_synchronize_expedited(&fast), "lw_srcu_synchronize_expedited"); },
         {}},
        {"liburcu memb synchronize_rcu", URCU_MEMB, urcu_wait, {}},
        {"two membarriers, nothing else", SRCU_FAST, two_membarriers, {}},
        {"lw_srcu_synchronize, normal", SRCU_NORMAL, [] { must(lw_srcu_synchronize(&normal), "lw_srcu_synchronize"); }, {}},
    };
    std::atomic<unsigned> reading{pair_count}; // which loop the reader runs; pair_count: it ends
    std::atomic<unsigned> seen{pair_count};
    reading = SRCU_FAST;
    std::thread reader([&] {
        lw_bench_stay_on(cpus[1]);
        urcu_join();
        for (unsigned pair; (pair = reading.load(std::memory_order_relaxed)) != pair_count;) { // a request, no data with it
            loops_at(0)->loop[pair](domain_of(pair), 1000);
            seen.store(pair, std::memory_order_relaxed); // likewise
        }
        urcu_part();
    });
    lw_bench_stay_on(cpus[0]);
    const auto each = static_cast<unsigned>(lw_bench_times(30, 3));
    for (unsigned round = 0; round <= rounds; ++round)
        for (Wait &w : waits) {
            reading = w.reader;
            while (seen != w.reader)
                std::this_thread::yield();
            std::vector<double> ns;
            for (unsigned i = 0; i < each; ++i) {
                const double start = now_ns();
                w.wait();
                ns.push_back(now_ns() - start);
            }
            if (round > 0)
                w.ns.push_back(median(ns));
        }
    reading = pair_count;
    reader.join();
    print_waits(waits, each);
}

// ---- callbacks ----

std::size_t threads_of_process() {
    std::size_t count = 0;
    if (DIR *tasks = opendir("/proc/self/task")) {
        while (const dirent *entry = readdir(tasks))
            count += entry->d_name[0] != '.';
        closedir(tasks);
    }
    return count;
}

struct Item {
    lw_srcu_head head;
    std::size_t *called;
};

void called(lw_srcu_head *head) { ++*reinterpret_cast<Item *>(head)->called; }

void callbacks() {
    constexpr std::size_t count = 100'000, domains = 16;
    const std::size_t before = threads_of_process();
    std::vector<lw_srcu_fast> many(domains);
    for (lw_srcu_fast &domain : many)
        must(lw_srcu_init(&domain), "lw_srcu_init");
    std::size_t done = 0, theirs = 0;
    std::vector<Item> items(count);
    std::vector<double> ours_ns, theirs_ns, ratios;
    const int times = lw_bench_times(22, 3); // the first of them only warms up
    for (int round = 0; round < times; ++round) {
        done = theirs = 0;
        double start = now_ns();
        for (std::size_t i = 0; i < count; ++i) {
            items[i].called = &done;
            must(lw_srcu_call(&fast, &items[i].head, called), "lw_srcu_call");
        }
        must(lw_srcu_barrier(&fast), "lw_srcu_barrier");
        const double ours = (now_ns() - start) / count;
        if (done != count)
            must(1, "callbacks were lost");
        start = now_ns();
        urcu_callbacks(count, &theirs);
        const double liburcus = (now_ns() - start) / count;
        if (round > 0) {
            ours_ns.push_back(ours);
            theirs_ns.push_back(liburcus);
            ratios.push_back(ours / liburcus);
        }
        if (theirs != count)
            must(1, "liburcu's callbacks were lost");
    }
    // One callback in each of many domains: one thread serves them all.
    std::size_t spread = 0;
    for (std::size_t i = 0; i < domains; ++i) {
        items[i].called = &spread;
        must(lw_srcu_call(&many[i], &items[i].head, called), "lw_srcu_call");
    }
    for (lw_srcu_fast &domain : many)
        must(lw_srcu_barrier(&domain), "lw_srcu_barrier");
    const std::size_t after = threads_of_process();
    for (lw_srcu_fast &domain : many)
        must(lw_srcu_cleanup(&domain), "lw_srcu_cleanup");
    if (spread != domains)
        must(1, "callbacks were lost");
    std::printf("%zu callbacks queued at once, from the first call until the last has run, ns for each, median of %d\n\n",
                count, times - 1);
    std::printf("  %-38s %8.1f\n  %-38s %8.1f\n", "lw_srcu_call + lw_srcu_barrier", median(ours_ns),
                "liburcu memb call_rcu + rcu_barrier", median(theirs_ns));
    goal("callbacks, ours / liburcu's, within a round", interval(ratios), 0.5, true);
    std::printf("  threads before: %zu; with callbacks in %zu domains, and liburcu's one: %zu\n", before, domains + 1,
                after);
    const double extra = static_cast<double>(after - before) - 1; // liburcu's thread
    goal("threads for all domains together", {extra, extra, extra}, 1, true);
}

} // namespace

int main() {
    const std::vector<unsigned> cpus = lw_bench_cpus();
    must(lw_srcu_init(&fast), "lw_srcu_init");
    must(lw_srcu_init(&updown), "lw_srcu_init");
    must(lw_srcu_init(&normal), "lw_srcu_init");
    char text[256];
    lw_srcu_describe(&fast, text, sizeof text);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::printf("readers against liburcu memb\n  CPU: %s\n  domain: %s\n\n", cpu_kind().c_str(), text);
    lw_bench_stay_on(cpus.back()); // housekeeping prefers the first
    urcu_join();
    pairs();
    urcu_part();
    scaling(cpus);
    grace_periods(cpus);
    callbacks();
    must(lw_srcu_cleanup(&fast), "lw_srcu_cleanup");
    std::printf("\n%s\n", met_all ? "every goal met in this run" : "not every goal met in this run");
    return 0;
}
