// SPDX-License-Identifier: MIT
// The machine that these tests run on, read before any window pins this thread and narrows what it may use, and a back end
// for it.
#pragma once

#include "probe/machine.hpp"
#include "probe/run.hpp"

namespace lw::probe {

inline const Machine &machine() {
    static const Machine read = read_machine();
    return read;
}
inline const bool read_early = (machine(), true);

inline User_space &back_end() {
    static User_space own(machine());
    return own;
}

} // namespace lw::probe
