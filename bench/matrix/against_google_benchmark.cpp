// SPDX-License-Identifier: MIT
// Uncontended forms timed by the probe's windows and by Google Benchmark, in turn, in one process: ratios, not absolutes.
#include "probe/line_set.hpp"
#include "probe/machine.hpp"
#include "probe/stats.hpp"
#include "probe/subject.hpp"
#include "probe/window.hpp"

#include <linewright/arch/forms.h>

#include <benchmark/benchmark.h>

#include "../brief.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace lw;
using namespace lw::probe;

const int rounds = lw_bench_times(31, 3);
constexpr double allowed = 0.05;

std::uint64_t *shared_line() {
    static Line_set lines(1);
    return static_cast<std::uint64_t *>(lines.line(0));
}

template <auto Op> void with_google(benchmark::State &state) {
    std::uint64_t *line = shared_line();
    for (auto _ : state)
        Op(line, 1);
}

// Keeps the last time that Google Benchmark reports; prints nothing.
class Catcher final : public benchmark::BenchmarkReporter {
public:
    bool ReportContext(const Context &) override { return true; }
    void ReportRuns(const std::vector<Run> &runs) override { ns_ = runs.back().GetAdjustedRealTime(); }
    double ns() const { return ns_; }

private:
    double ns_ = 0;
};

double google_ns(const std::string &form) {
    Catcher catcher;
    benchmark::RunSpecifiedBenchmarks(&catcher, "^" + form + "$");
    return catcher.ns();
}

struct Pair {
    const char *form;
    const char *operation;
};

} // namespace

int main() {
    std::string name = "against_google_benchmark", time = "--benchmark_min_time=0.01";
    char *arguments[] = {name.data(), time.data(), nullptr};
    int count = 2;
    benchmark::Initialize(&count, arguments);
    benchmark::RegisterBenchmark("lock_add", with_google<lw_lock_add_u64>);
    benchmark::RegisterBenchmark("lock_xadd", with_google<lw_lock_xadd_u64>);
    benchmark::RegisterBenchmark("cmpxchg_loop_read_first", with_google<lw_cmpxchg_loop_read_first_u64>);
    benchmark::RegisterBenchmark("cmpxchg_loop_guess_first", with_google<lw_cmpxchg_loop_guess_first_u64>);

    Machine machine = read_machine();
    std::vector<unsigned> cpus{usable_cpus(machine.topology, {}).front()};
    std::printf("%-28s %12s %12s %8s   (medians of %d rounds in turn, ns)\n", "form", "linewright", "google", "ratio",
                rounds);
    int wrong = 0;
    for (Pair pair : {Pair{"lock_add", "add"}, Pair{"lock_xadd", "fetch_add"}, Pair{"cmpxchg_loop_read_first", "cmpxchg"},
                      Pair{"cmpxchg_loop_guess_first", "cmpxchg"}}) {
        wire::Cell cell;
        cell.form = pair.form;
        cell.operation = pair.operation;
        cell.lines = rounds;
        Made made = make_subject(cell, machine);
        std::vector<double> ours, theirs, ratios;
        for (int round = 0; round < rounds; ++round) {
            Window_request request;
            request.line = round;
            request.length_ms = 10;
            ours.push_back(run_window(*made.subject, machine, cpus, request, nullptr).ns_per_op);
            theirs.push_back(google_ns(pair.form)); // pinned by the window before it
            ratios.push_back(ours.back() / theirs.back());
        }
        double ratio = median(ratios);
        bool within = ratio > 1 - allowed && ratio < 1 + allowed;
        wrong += !within;
        std::printf("%-28s %12.3f %12.3f %8.3f %s\n", pair.form, median(ours), median(theirs), ratio,
                    within ? "" : " more than 5 % apart");
    }
    return wrong && !lw_bench_brief() ? 1 : 0;
}
