// SPDX-License-Identifier: MIT
// Runs a plan: blocks of interleaved cells, one record each.
#pragma once

#include "probe/back_end.hpp"
#include "wire/schema.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace lw::probe {

struct Progress {
    std::string id;         // the cell that a window just ended of
    std::size_t done = 0;   // windows so far of this launch
    std::size_t total = 0;  // estimated windows of this launch
    std::size_t cells_done = 0;
    std::size_t cells = 0;
    bool cell_done = false;
};

struct Run_hooks {
    std::function<void(const wire::Record &)> record; // called as each block of cells ends
    std::function<void(const Progress &)> progress;
    const std::atomic<bool> *stop = nullptr; // set from a signal handler: finish the window, keep finished cells
};

// The order in which windows visit a cell's lines: each once a round, in an order drawn anew for every round, since drift
// while a cell is measured must not appear as a difference of lines.
class Line_order {
public:
    explicit Line_order(unsigned lines);

    // The line of the next window. There must be at least one line.
    unsigned next(std::mt19937_64 &random);

private:
    std::vector<unsigned> lines_;
    std::size_t visited_; // in this round
};

// The end of the block of cells that begins at `first`: about `block_cells`, but the forms of one point, neighbours in the
// plan, stay together, up to 256.
std::size_t block_end(const wire::Plan &plan, std::size_t first);

// Why a cell's figure is not reliable, with how many of its windows were disturbed and how many kept.
std::string disturbed_text(std::uint64_t disturbed, std::uint64_t kept);

// Everything about a plan that can be wrong there, without running it; throws wire::Invalid.
void check_plan(const wire::Plan &plan, const Back_end &back_end);

// Runs the plan; false when it was stopped before its end. Throws wire::Invalid as check_plan does.
bool run_plan(const wire::Plan &plan, Back_end &back_end, const std::string &context_id, const Run_hooks &hooks);

} // namespace lw::probe
