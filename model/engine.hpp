// SPDX-License-Identifier: MIT
// The discrete-event engine: cores that run programs, homes that serialise the transactions of each line.
#pragma once

#include "model/program.hpp"

#include <cstddef>

namespace lw::model {

// Where a core's time goes, seen from its oldest incomplete operation.
enum class Phase : std::uint8_t { work, home, snoop, execute, retry };
constexpr unsigned phases = 5;
const char *phase_name(Phase phase);

// Who holds the lines when a run begins.
enum class Start : std::uint8_t { invalid, timed_dirty, other_dirty, shared };

struct Limits {
    std::uint64_t warm_ops = 0;   // operations of the timed thread before the window opens
    Ps warm_time = 0;             // and time, so that a rare contender has come once
    std::uint64_t ops = 1;        // operations of the timed thread within the window
    std::uint64_t batch_ops = 64; // operations of one batch mean
    Ps time = 0;                  // the run ends here at the latest
    std::uint64_t visits = 0;     // operations that each other thread completes before the window closes,
    Ps patience = 0;              // or else the time after which it closes without them
    Ps spread = 1'000'000;        // the other threads begin within this time after the timed one
};

struct Trace_event {
    Ps begin, end;
    unsigned core; // home transactions: the requester
    Phase phase;
    bool home; // at the line's home, not in a core
};

struct Outcome {
    Ps window = 0;                      // length of the window
    std::vector<std::uint64_t> ops;     // by thread, within the window
    std::vector<Ps> batches;            // time of each batch of the timed thread
    std::array<Ps, phases> spent{};     // the timed core's window by phase
    std::array<std::uint64_t, 16> tenures{}; // operations between getting the line and losing it, bucket = bit_width
    std::uint64_t failed = 0;           // failed compare-and-swaps and exclusive stores of the timed thread
    std::uint64_t expected = 0, found = 0; // operations that add, and the lines' final values
    std::uint64_t events = 0;
    std::uint64_t messages_sent = 0, messages_delivered = 0, messages_left = 0;
    Ps home_busy = 0;                   // busiest home, whole run
    Ps elapsed = 0;                     // whole run
    bool starved = false;               // a thread did not get the operations that the window waited for
};

// A rule of nature that a run broke: a defect of the model, never of its input.
struct Broken_law : std::logic_error {
    using std::logic_error::logic_error;
};

// Runs a setup. With `checked`, every step is held against the conservation laws: single writer or many readers, sum of
// adds, no lost message, Little's law at the homes, home utilisation of at most one. Throws Broken_law.
Outcome run(const Machine &machine, const Setup &setup, const Limits &limits, Start start, std::uint64_t seed, bool checked,
            std::vector<Trace_event> *trace = nullptr);

} // namespace lw::model
