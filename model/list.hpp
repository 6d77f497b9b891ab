// SPDX-License-Identifier: MIT
// Cache maintenance over a list of entries on a simulated core: issue rate, lines under way, and the waits.
#pragma once

#include "model/machine.hpp"
#include "wire/schema.hpp"

namespace lw::model {

struct List_outcome {
    Ps pass = 0;   // one pass over the list
    Ps walk = 0;   // the same pass with the instructions left out
    std::uint64_t lines = 0, waits = 0;
};

bool is_list(const wire::Cell &cell);

// One pass of a cell of plan `cache`. Throws wire::Invalid for parameters that the plan does not have.
List_outcome run_list(const Machine &machine, const wire::Cell &cell);

constexpr unsigned list_line_bytes = 64;

} // namespace lw::model
