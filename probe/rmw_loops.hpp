// SPDX-License-Identifier: MIT
// The table of timed loops over single-line forms.
#pragma once

#include "probe/loop.hpp"

#include <span>
#include <string_view>

namespace lw::probe {

struct Rmw_loop {
    std::string_view form;
    unsigned width_bits;
    Batch issue;     // operations back to back, or with work between them
    Batch completed; // each operation followed by what really waits for it
};

// Every loop at one place.
template <unsigned place> std::span<const Rmw_loop> rmw_loops_at();

// The loop of a form at a width and a place; null where this architecture has none.
const Rmw_loop *find_rmw_loop(std::string_view form, unsigned width_bits, unsigned place = 0);

} // namespace lw::probe
