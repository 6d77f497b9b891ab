// SPDX-License-Identifier: MIT
// One timed window: all threads run before it opens and keep running until after it closes.
#pragma once

#include "probe/counters.hpp"
#include "probe/machine.hpp"
#include "probe/subject.hpp"
#include "wire/histogram.hpp"

#include <span>
#include <vector>

namespace lw::probe {

// What the threads do in a window.
enum class Mode : unsigned char {
    timed,              // the operation, batches of the cell's length
    baseline,           // every thread runs the loop with the operation left out
    small,              // the operation in batches of a few, each timed by itself
    completed,          // the operation followed by its wait
    completed_baseline, // the wait alone
};

struct Window_request {
    Mode mode = Mode::timed;
    unsigned line = 0;
    double length_ms = 2;
    std::size_t batch_ops = 0;  // 0: find the length that lasts about `batch_ns`
    double batch_ns = 15'000;
    unsigned small_ops = 16;
    Counters *counters = nullptr;                     // the timed thread's, open already; null: nothing is counted
    const std::vector<Counter_event> *events = nullptr; // what contenders count, beside `counters`
    double small_overhead_ns = 0; // timer and call cost to subtract from each small batch
};

struct Window_result {
    double ns_per_op = 0;             // the timed thread's mean over the window
    std::size_t batch_ops = 0;        // as found or as given
    std::vector<std::uint64_t> ops;   // each thread's operations inside the window
    std::vector<double> ns;           // each thread's time for them
    std::vector<std::uint64_t> ticks; // the same, as counted
    std::vector<unsigned> cpus;       // the CPU each thread was on when the window closed
    bool switched = false, stolen = false, long_batch = false;
    bool moved = false;               // a thread was found on another CPU than its own: the pin did not hold
    Counted timed;                    // the timed thread's events inside the window
    Counted others;                   // the contenders' together, from before the window until after it
    std::uint64_t others_ops = 0;     // operations of the contenders in that time
    std::string error;                // why the window could not be run at all
};

// Runs one window of a subject on the given CPUs (timed thread, which is the caller, first). Batch means go into
// `samples` when it is not null. Sums are accounted to the subject.
Window_result run_window(Subject &subject, const Machine &machine, const std::vector<unsigned> &cpus,
                         const Window_request &request, wire::Histogram *samples);

// ---- the rules for windows that are thrown out (docs/reference/method.md), for every back end ----

// A thread was off its CPU for more than 0.5 % of the window. Less than that moves a mean by less than the precision anyone
// asks for; a rule of "no switch at all" leaves nothing on a machine with one timer daemon.
bool switched_out(double away_ns, double window_ns);

// Wall time and the time that this thread really ran: the difference was spent switched out.
struct Presence {
    double wall_ns, ran_ns;
};
Presence presence();

// A contender was off its CPU when the window opened: it takes its own time from its return and saw too little of the
// window.
bool came_late(double own_ns, double window_ns);

// Notes whether one batch was far longer than the others, unless it `may_be_long`. Otherwise, and where the window counts, the means of its
// batches of `ops` operations, less what reading the clock costs, go into `samples` when it is not null.
void judge_batches(Window_result &result, std::span<const double> batch_ns, double overhead_ns, std::size_t ops,
                   wire::Histogram *samples, bool may_be_long = false);

// Ticks (normally 10 ms) that the hypervisor took from the given CPUs so far; 0 where /proc/stat does not say.
std::uint64_t stolen_ticks(const std::vector<unsigned> &cpus);

// What an empty small batch measures by itself on this CPU, ns: the part of a small batch that is not the operation.
double small_batch_overhead_ns(Subject &subject, const Machine &machine, unsigned small_ops);

// Pins the calling thread to one CPU; false when the kernel refuses.
bool pin_to(unsigned cpu);

// While it lives, the calling thread runs with real-time priority where that is permitted (root, CAP_SYS_NICE,
// RLIMIT_RTPRIO), so that housekeeping waits for the end of the window instead of taking part in it. The kernel still
// gives other processes a twentieth of each second. Without permission nothing changes.
class Real_time {
public:
    Real_time();
    ~Real_time();
    Real_time(const Real_time &) = delete;
    Real_time &operator=(const Real_time &) = delete;

    bool active() const { return active_; }

private:
    bool active_;
};

} // namespace lw::probe
