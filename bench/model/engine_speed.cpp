// SPDX-License-Identifier: MIT
// Events a second of the engine, from 2 to 256 simulated cores that all want one line.
#include "model/engine.hpp"

#include "tests/cpp/model/small_machine.hpp"

#include "../brief.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <numeric>

namespace {

using namespace lw;
using namespace lw::model;

// Processor time, so that other programs on the machine do not count.
double seconds_now() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double events_per_second(unsigned cores, const char *form) {
    const Machine machine = parse_machine(lw::model::test::machine_json(cores).dump());
    wire::Cell cell;
    cell.operation = "add";
    cell.form = form;
    cell.contender = "same_line";
    cell.threads = cores;
    std::vector<unsigned> places(cores);
    std::iota(places.begin(), places.end(), 0u);
    const Setup setup = make_setup(machine, cell, places, Harness::probe);
    const Limits limits{.warm_ops = 10,
                        .ops = std::max<std::uint64_t>(static_cast<std::uint64_t>(lw_bench_times(400'000, 10'000)) / cores,
                                                       lw_bench_times(200, 20)),
                        .batch_ops = 64,
                        .time = 1'000'000'000'000};
    double best = 0;
    for (int round = 0; round < lw_bench_times(3, 1); ++round) {
        const double began = seconds_now();
        const Outcome outcome = run(machine, setup, limits, Start::invalid, 1, false);
        best = std::max(best, static_cast<double>(outcome.events) / (seconds_now() - began));
    }
    return best;
}

} // namespace

int main() {
    std::printf("million events a second of processor time, best of 3\n%8s %10s %10s %10s\n", "cores", "ldadd", "stadd",
                "ns/event");
    double two = 0;
    for (unsigned cores : {2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
        const double near = events_per_second(cores, "ldadd"), far = events_per_second(cores, "stadd");
        const double slower = std::min(near, far);
        if (cores == 2)
            two = slower;
        std::printf("%8u %10.1f %10.1f %10.1f  %.2f x two cores\n", cores, near / 1e6, far / 1e6, 1e9 / slower,
                    two / slower);
    }
    return 0;
}
