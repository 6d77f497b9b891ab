// SPDX-License-Identifier: MIT
// A plain text table by itself, for a phone or board that has nothing but this one program.
#pragma once

#include "probe/machine.hpp"

#include <atomic>

namespace lw::probe {

// Measures every form that the CPU has, alone and contended, and prints a table to standard output; 0 or exit code 3.
int print_quick_table(const Machine &machine, std::atomic<bool> &stop);

} // namespace lw::probe
