// SPDX-License-Identifier: MIT
// What a workload is asked for and what it answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lw::workload {

// The request was wrong: one line that says what, where, and what is allowed.
struct Invalid : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A stretch of computing: iterations of a loop around one NOP, as given or as calibrated from a time.
struct Length {
    std::uint64_t iterations = 0;
    double ns = 0; // what those iterations take, measured
};

struct Options {
    std::string kind;
    unsigned threads = 2;
    std::vector<unsigned> cpus;  // thread i is pinned to the i-th; empty: not pinned
    Length critical, parallel;
    double long_hold_ns = 0;     // 0: no long holds
    unsigned write_percent = 10; // rwlock
    unsigned time_every = 16;    // one wait in time_every is timed, on average
    double duration_s = 1;
    std::uint64_t seed = 1;
    unsigned polls = 10'000;     // a waiting thread's, before it gives up its CPU
    bool yields = true;          // whether it gives it up at all
    bool competitors = false;    // on each of the CPUs another thread computes meanwhile
    bool slices = false;         // critical sections of locks ask for time slice extensions: LINEWRIGHT_WAIT
    // Not on the command line:
    double stall_s = 30;         // without any progress for so long at the end, the run is given up as stuck
    bool yield_inside = false;   // the holder gives up the CPU in every section: what a broken lock does not survive
};

// Of all threads, from their start to their end.
struct Switches {
    std::uint64_t voluntary = 0, involuntary = 0;
    std::optional<std::uint64_t>
        in_sections; // critical sections in which the holder lost its CPU; not known on every kernel
};

// Those of the calling thread so far, but for those in critical sections.
Switches thread_switches();

struct Waits {
    std::uint64_t timed = 0;
    double p50_ns = 0, p99_ns = 0, longest_ns = 0; // each includes clock_ns
    double clock_ns = 0;                           // what the two readings of the clock take by themselves
};

// Medians over the rounds of a workload whose waiters sleep, ms for all waiters of a round. With several wakers, wake_ms is
// the mean of what each of them takes for its share.
struct Rounds {
    std::uint64_t count = 0;
    double block_ms = 0, requeue_ms = 0, wake_ms = 0;
    bool requeues = false;
    unsigned wakers = 1;
};

// The one figure that a sweep over thread counts lists: that of the futex benchmark of the same name, else the rate.
struct Figure {
    std::string name, unit;
    double value = 0;
    bool higher_is_better = true;
};

struct Result {
    double seconds = 0;                    // the window
    std::uint64_t operations = 0;          // inside the window, of all threads
    std::vector<std::uint64_t> per_thread; // the same by thread
    double cpu_ns = 0;                     // CPU time of all threads per operation
    double fairness = 0;                   // Jain's index of per_thread: 1 all alike, 1/threads one has all
    Waits waits;
    Switches switches;
    std::vector<unsigned> competed;        // the CPUs with a competitor
    double competitors_cpu_ns = 0;         // the competitors' CPU time in the window, which is not in cpu_ns
    std::uint64_t granted = 0;             // critical sections that ended within a time slice extension
    std::uint64_t long_holds = 0;
    Rounds rounds;                         // hash-bucket
    std::uint64_t all_operations = 0;      // since the threads started: what the checks below are about
    std::vector<std::string> checks;       // what was verified, in words
    std::vector<std::string> failures;     // what was found broken; empty: verified
    bool interrupted = false;

    bool verified() const { return failures.empty(); }
};

// CPUs that this process may run on, in ascending order; their numbers need not be dense.
std::vector<unsigned> allowed_cpus();

// Runs options.kind. `stop` ends the window early. Throws Invalid, or std::system_error when threads cannot be created.
Result run(const Options &options, const std::atomic<bool> &stop);

// Names of the workloads, in the order of the documentation.
const std::vector<std::string> &kinds();

// Threads of a workload besides those asked for: wakers.
unsigned extra_threads(const std::string &kind, unsigned threads);

Figure figure(const Options &options, const Result &result);

double jain(const std::vector<std::uint64_t> &shares);

// Measures `length.ns` for iterations given, or finds the iterations for a time given.
Length length_of_iterations(std::uint64_t iterations);
Length length_of_ns(double ns);

} // namespace lw::workload
