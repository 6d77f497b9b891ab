// The table of timed loops over single-line forms.
#pragma once

#include "probe/loop.hpp"

#include <string_view>

namespace lw::probe {

struct Rmw_loop {
    std::string_view form;
    unsigned width_bits;
    Batch issue;     // operations back to back, or with work between them
    Batch completed; // each operation followed by what really waits for it
};

// The loop of a form at a width; null where this architecture has none.
const Rmw_loop *find_rmw_loop(std::string_view form, unsigned width_bits);

} // namespace lw::probe
