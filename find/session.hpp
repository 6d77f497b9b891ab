// SPDX-License-Identifier: MIT
// One run of the sampler: what is asked for, and the loop that samples until the program or the time ends.
#pragma once

#include "find/launch.hpp"
#include "find/lines.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace lw::find {

std::uint64_t monotonic_ns();

struct Options {
    std::uint64_t period_ns = 1'000'000; // CPU time of a thread between samples, at least
    double sample_share = 1;          // of the program's CPU time that samples may cost: lengthens the period
    pid_t pid = 0;                    // sampled where it is already running; 0: `command` is started
    double seconds = 0;               // 0: until the program ends
    double watch_share = 0.01;        // of the program's CPU time that watchpoints may cost
    int commands = -1;                // descriptor that requests come from; nothing begins before the first
    std::string signals{};              // folder of the fall-back's rings; empty: perf_event_open
    std::vector<std::string> command{};
    std::vector<Variable> environment{}; // of the program, beside ours
};

// The request was wrong (exit code 2); the text is one line.
struct WrongRequest : std::runtime_error {
    using runtime_error::runtime_error;
};
// perf_event_open is refused (exit code 4); nothing was started.
struct Refused : std::runtime_error {
    using runtime_error::runtime_error;
};

// Samples, writes lines; the program's exit code is in the last line.
void sample(Output &output, const Options &options);

} // namespace lw::find
