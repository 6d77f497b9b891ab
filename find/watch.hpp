// Watchpoints on a thread's data, one hit each: which thread touches which bytes, without a sample of the access.
#pragma once

#include "find/costs.hpp"
#include "find/lines.hpp"
#include "find/perf.hpp"

#include <cstdint>
#include <deque>
#include <list>
#include <map>

namespace lw::find {

// What is asked for: a hit of `tid` on `length` bytes at `address` within `ms` milliseconds.
struct Request {
    std::uint64_t id = 0;
    pid_t tid = 0;
    std::uint64_t address = 0;
    unsigned length = 8; // 1, 2, 4 or 8, the address aligned to it
    bool reads = false;  // reads too; x86 cannot watch reads alone
    unsigned ms = 20; // longer for a thread that waits for a CPU
};

// The event that serves a request, disabled.
perf_event_attr watch_attributes(const Request &request);

// Arms watchpoints at a bounded rate: what they cost stays below a share of the CPU time that the program uses.
class Watches {
public:
    // `share` of the program's CPU time that they may cost, and what each costs.
    Watches(Output &output, double share, const Costs &costs = {}) : out_(output), share_(share), costs_(costs) {}

    void ask(const Request &request) { waiting_.push_back(request); }
    // Takes hits and ends of time, arms what is waiting and affordable. Called every few milliseconds; `busy_ns` is the CPU
    // time that the program has used so far, as its samples say.
    void step(std::uint64_t now_ns, std::uint64_t busy_ns);
    bool idle() const { return waiting_.empty() && armed_.empty(); }
    std::uint64_t hits() const { return hits_; }
    std::uint64_t armed() const { return count_; }
    // Time that they cost the program.
    std::uint64_t cost_ns() const {
        return hits_ * costs_.hit_ns + count_ * costs_.arm_ns + switches_ * costs_.watch_switch_ns;
    }

private:
    static constexpr unsigned registers = 4;

    struct Armed {
        Request request;
        Handle event;
        Ring ring;
        std::uint64_t since_ns, until_ns;
        std::uint64_t switches; // of its thread before
    };
    // Whether its thread wanted a CPU and had it for less than half of the time so far: a hit may still come.
    static bool starved(const Armed &watch, std::uint64_t now_ns);
    bool affordable() const;
    void arm(const Request &request, std::uint64_t now_ns);
    bool finished(Armed &watch, std::uint64_t now_ns);
    void report(const Request &request, const char *outcome, std::uint64_t after_ns, const Sample *sample);

    Output &out_;
    double share_;
    Costs costs_;
    std::uint64_t busy_ns_ = 0, hits_ = 0, count_ = 0, switches_ = 0;
    std::deque<Request> waiting_;
    std::list<Armed> armed_;
    std::map<pid_t, unsigned> in_use_;
};

} // namespace lw::find
