// SPDX-License-Identifier: MIT
// Timer events over tasks or the whole machine, one ring for each CPU, and what their records say as lines.
#pragma once

#include "find/code.hpp"
#include "find/lines.hpp"
#include "find/perf.hpp"
#include "find/thread_blocks.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lw::find {

struct Totals {
    std::uint64_t samples = 0, kernel = 0, lost = 0, throttled = 0;
    std::uint64_t switches = 0; // of the program's threads, where whole CPUs are sampled
    std::uint64_t recorded_until_ns = 0; // of them, where recording ended before the end
    std::uint64_t recording_ended_ns = 0; // and when that was seen
};

class Timers {
public:
    // `switch_ns`: what it costs to record a change of tasks.
    Timers(Output &output, std::uint64_t period_ns, std::uint64_t switch_ns)
        : out_(output), code_(output), blocks_(output), period_ns_(period_ns), switch_ns_(switch_ns) {}

    // Opens events for a task on every CPU; new threads and children of it inherit them. 0, or the errno.
    int add(pid_t tid, bool on_exec);
    // Opens one event for each CPU that sees every task; lines are written for `family` and its new children only. Nothing
    // has to be set anew when a CPU changes tasks, which is what events of tasks cost a program that switches often.
    int add_machine(const std::vector<pid_t> &family);
    // Starts the events that did not wait for an exec.
    void start();
    void stop();
    // Lets the CPUs' timers run together again, where each has one: called every few milliseconds.
    void align(std::uint64_t now_ns);
    // Writes what the rings hold.
    void drain();

    // Processes that samples came from since the last call.
    std::unordered_set<std::uint32_t> take_active() { return std::exchange(active_, {}); }
    // CPUs that the program was seen on, where whole CPUs are sampled: so may they be watched.
    const std::set<int> &watchable() const { return watchable_; }
    bool kernel() const { return kernel_; }
    bool whole_machine() const { return machine_; }
    std::size_t events() const { return events_.size(); }
    const Totals &totals() const { return totals_; }

private:
    std::uint64_t period_on(int cpu) const;
    int open(pid_t tid, int cpu, bool on_exec);
    void open_switches();
    void end_switches(std::uint64_t recorded_until_ns);
    bool afford_switch(std::uint64_t now_ns);
    bool ours(std::uint32_t pid);
    void take(const perf_event_header &record);
    void want_surroundings();
    void take_sample(const perf_event_header &record);
    void take_mapping(const perf_event_header &record);
    void take_name(const perf_event_header &record);
    void take_task(const perf_event_header &record, const char *event);
    void take_switch(const perf_event_header &record);

    Output &out_;
    Code code_;
    ThreadBlocks blocks_;
    std::uint64_t period_ns_, switch_ns_;
    std::uint64_t aligned_ns_ = 0; // when the CPUs' timers were started together
    bool kernel_ = true; // samples inside the kernel are allowed
    bool machine_ = false;
    std::unordered_map<std::uint32_t, bool> family_; // of the machine's processes, whether they are the program's
    std::unordered_set<std::uint32_t> active_;
    std::unordered_map<std::uint32_t, std::pair<std::uint64_t, bool>>
        left_; // when threads left their CPUs, and if preempted
    std::set<int> watchable_;
    std::vector<Handle> events_, switches_;
    std::uint64_t started_ns_ = 0, seen_switches_ = 0;
    struct Cpu {
        int first; // event that owns the ring
        Ring ring;
    };
    std::map<int, Cpu> cpus_;
    Sample sample_;
    Totals totals_;
};

} // namespace lw::find
