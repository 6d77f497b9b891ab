// SPDX-License-Identifier: MIT
// Watchpoints on a thread's data, one hit each: which thread touches which bytes, without a sample of the access.
#pragma once

#include "find/costs.hpp"
#include "find/lines.hpp"
#include "find/perf.hpp"

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace lw::find {

// What is asked for: a hit of `tid` on `length` bytes at `address` within `ms` milliseconds.
struct Request {
    std::uint64_t id = 0;
    pid_t tid = 0;
    std::uint64_t address = 0;
    unsigned length = 8; // 1, 2, 4 or 8, the address aligned to it
    bool reads = false;  // reads too; x86 cannot watch reads alone
    unsigned ms = 4; // longer for a thread that waits for a CPU
};

// The event that serves a request, disabled, for accesses of the program's own code.
perf_event_attr watch_attributes(const Request &request);
// Opens it for its thread, or for all that a CPU runs; nothing on failure, errno says why. Where that is allowed the
// kernel's accesses count too. x86 stops at them in any case: uncounted, every read() into a watched buffer would stop there
// until the time is over.
Handle open_watch(const Request &request, int cpu = -1);

// Arms watchpoints at a bounded rate: what they cost stays below a share of the CPU time that the program uses. Where CPUs
// are given, each has one watchpoint for all threads that are asked about: a change of tasks then costs nothing, and one is
// set where there were as many as threads. Else each thread has its own.
class Watches {
public:
    // `share` of the program's CPU time that they may cost, and what each costs.
    Watches(Output &output, double share, const Costs &costs = {}) : out_(output), share_(share), costs_(costs) {}

    void ask(const Request &request) { waiting_.push_back(request); }
    // Takes hits and ends of time, arms what is waiting and affordable. Called every few milliseconds; `busy_ns` is the CPU
    // time that the program has used so far, as its samples say; `cpus` those that it was seen on, where whole CPUs may be
    // watched.
    void step(std::uint64_t now_ns, std::uint64_t busy_ns, const std::set<int> &cpus = {});
    bool idle() const { return waiting_.empty() && armed_.empty(); }
    bool waits() const { return !armed_.empty(); }
    std::uint64_t hits() const { return hits_; }
    std::uint64_t armed() const { return count_; }
    // Time that they cost the program.
    std::uint64_t cost_ns() const {
        constexpr std::uint64_t ms_ns = 1'000'000;
        return hits_ * costs_.hit_ns + count_ * costs_.arm_ns + switches_ * costs_.watch_switch_ns +
               waited_ns_ * costs_.wait_ns / ms_ns;
    }

private:
    static constexpr unsigned registers = 4;

    struct Point {
        Handle event;
        Ring ring;
        int cpu;
    };
    // Requests for the same bytes: of one thread, or of all threads where CPUs are watched.
    struct Open {
        Request request;
        std::uint64_t ran_ns, switches; // of its thread before
    };
    struct Armed {
        std::vector<Open> open{};
        std::vector<Point> points{};
        std::uint64_t since_ns = 0, until_ns = 0;
        pid_t tid = 0; // 0: by CPU
        std::size_t hits_left = 0;
    };
    bool free_for(pid_t tid) const;
    bool affordable(std::size_t points) const;
    std::optional<Point> set(const Request &request, int cpu);
    void arm(const std::vector<Request> &requests, std::uint64_t now_ns, const std::set<int> &cpus);
    static bool starved(const Armed &watch, const Open &open, std::uint64_t now_ns);
    void close(Armed &watch, std::vector<Open>::iterator open);
    void take_hits(Armed &watch);
    bool finished(Armed &watch, std::uint64_t now_ns);
    void report(const Request &request, const char *outcome, std::uint64_t after_ns, const Sample *sample);

    Output &out_;
    double share_;
    Costs costs_;
    std::uint64_t busy_ns_ = 0, hits_ = 0, count_ = 0, switches_ = 0;
    std::uint64_t waited_ns_ = 0, stepped_ns_ = 0; // in which CPUs or threads had some, in sum; until when that is counted
    std::deque<Request> waiting_;
    std::list<Armed> armed_;
    std::size_t points_ = 0;           // that are armed
    std::map<pid_t, unsigned> in_use_; // by thread; 0: by CPU
};

} // namespace lw::find
