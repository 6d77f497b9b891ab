// SPDX-License-Identifier: MIT
// Cells of a plan on a simulated machine: windows, modes, the breakdown of an operation's cost, and the record of each.
#pragma once

#include "model/engine.hpp"

#include <functional>

namespace lw::model {

struct Effort {
    unsigned windows = 12;        // of a contended cell; an uncontended one, which repeats itself, takes three
    std::uint64_t ops = 2000;     // operations of the timed thread in a window, at least
    std::uint64_t visits = 2;     // operations of every other thread in a window, at least
    Ps longest = 1'500'000'000;   // simulated time of a window beyond what a rare contender needs, at most
    bool checked = false;         // hold every step against the conservation laws
    bool completion = true;       // also the cost of an operation with what waits for it
    Harness harness = Harness::probe;
};

struct Mode {
    double ns;
    double share; // of the batches
};

struct Simulated {
    std::vector<double> window_ns;
    std::vector<double> batch_ns; // means of `batch_ops` operations, windows one after the other
    std::uint64_t batch_ops = 1;
    double baseline_ns = 0;
    std::vector<double> completion_ns;
    double completion_baseline_ns = 0;
    std::vector<Mode> modes; // more than one: the cell is metastable; none: the timed thread starved
    std::array<double, phases> spent_ns{}; // per operation; they add up to the issue interval
    std::array<std::uint64_t, 16> tenures{};
    std::vector<std::uint64_t> thread_ops;
    double window_total_ns = 0;
    double longest_ns = 0; // of the runs: what a thread that never succeeds waited at least
    std::uint64_t failed = 0, expected = 0, found = 0, events = 0;
    double home_utilisation = 0;
    bool starved = false; // a thread did not get its turns within the longest window
    double least_fair = 1; // Jain's index of the least fair window in which a thread starved
    std::vector<unsigned> cores;
    std::string placement_class;
};

// The cores that a cell's threads run on, timed first; throws wire::Invalid where the machine has none such.
std::vector<unsigned> place(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &allowed);
std::string placement_class(const Machine &machine, const std::vector<unsigned> &cores);

// Simulates a cell that `obstacle` has nothing against.
Simulated simulate(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &allowed,
                   const Effort &effort, std::uint64_t seed);

// Everything about a plan that can be wrong on this machine, without running it; throws wire::Invalid.
void check_plan(const Machine &machine, const wire::Plan &plan);

// The record of a cell. An uncalibrated machine's says nothing in nanoseconds but the machine's bounds, which the caller
// adds.
wire::Record record_of(const Machine &machine, const wire::Plan &plan, const wire::Cell &cell, const Effort &effort);

// The fastest of several self-sustaining states first; one element where there is one, none where there are no batches.
std::vector<Mode> modes_of(const std::vector<double> &batches);

// Batches that lie apart by this ratio are modes.
constexpr double mode_gap = 1.25;

} // namespace lw::model
