// SPDX-License-Identifier: MIT
// A described machine, resolved to integers: what linewright/model/machine_file.py makes of machines/*.toml.
#pragma once

#include "model/protocol.hpp"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace lw::model {

// Picoseconds. All of the model's time is integral, so that a seed gives the same bits on every machine.
using Ps = std::int64_t;

// A machine that cannot be accepted: one line that says where, what, and what is allowed.
struct Bad_machine : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// How an atomic operation looks to the memory system. x86's locked operations are all of class `load`.
enum class Class : std::uint8_t { load, store, swap, compare };
constexpr unsigned classes = 4;

// Where an atomic is performed, decided by the line's state in the core when it comes to the operation.
enum class Where : std::uint8_t { near, far, none };

// Every constant of the model. Names and units are those of a machine file; times are picoseconds here.
struct Constants {
    // Core
    Ps unit = 0;              // one unit of straight-line work (one dependent one-cycle instruction)
    Ps nop_iter = 0;          // one iteration of the loop around one NOP
    Ps nop_exit = 0;          // mispredicted end of a NOP loop of nop_exit_from iterations or more
    std::int64_t nop_exit_from = 0;
    Ps loop = 0;              // one iteration of the loop around the operation
    std::int64_t window = 0;  // instructions that the core runs ahead of an incomplete operation
    std::int64_t store_buffer = 0; // posted operations that the core can hold
    Ps near_load = 0, near_store = 0, near_swap = 0, near_compare = 0; // near execution, line held, by class
    Ps exclusive_load = 0, exclusive_store = 0;                       // LDXR and STXR with the line held
    Ps plain_load = 0, plain_store = 0, prefetch = 0, fence = 0;
    Ps retry = 0;             // a mispredicted retry branch of a compare-and-swap or exclusive loop
    Ps poll = 0;              // between two looks at a line that has not changed
    // Line: the fixed part of each step; distances are added
    Ps request = 0;           // core to home
    Ps home = 0;              // look-up at the home
    Ps snoop = 0;             // home to holder, look-up there included
    Ps data = 0;              // holder (or home) to requester
    Ps memory = 0;            // more, when no cache holds the line
    Ps acknowledge = 0;       // requester to home, after the data
    Ps far = 0;               // execution at the home until the requester knows
    Ps far_busy = 0;          // execution at the home until the next transaction
    std::int64_t far_outstanding = 1; // far operations of one core under way
    Ps prefetch_dropped = 0;  // more time at the home for a far operation whose prefetch was dropped
    std::int64_t jitter = 0;  // each message's time varies by ± this many thousandths
    // Cache maintenance
    Ps maintain_issue = 0, maintain_busy = 0, maintain_drain = 0; // per line, per line under way, per wait
    std::int64_t maintain_outstanding = 1;
};

struct Options {
    bool prefetch_dropped_while_far = false; // a prefetch for write is dropped while a far atomic of the core is under way
    bool locked_drains = false; // atomics wait for the store buffer to drain (x86)
    bool upgrade_at_once = false; // a core that upgrades its shared copy does not wait for the others to drop theirs
    bool upgrade_behind_load = false; // an atomic whose line a load is fetching asks for it unique at once
};

struct Machine {
    std::string name, arch;
    unsigned cores = 0, homes = 0;
    unsigned central_homes = 0; // homes at the end of the list that lie half-way between the last-level caches of a socket
    std::vector<Ps> core_home, core_core; // one-way distances, row by core
    std::vector<unsigned> l3, socket; // by core
    Constants constants;
    Options options;
    Where policy[classes][4]; // by class and state (I, SC, UC, UD)

    Ps to_home(unsigned core, unsigned home) const { return core_home[core * homes + home]; }
    // The core beside which a home stands; linewright/model/machine_file.py takes distances from the same one.
    unsigned home_core(unsigned home) const { return home * cores / (homes - central_homes); }
    Ps between(unsigned a, unsigned b) const { return core_core[a * cores + b]; }
    Ps near(Class of) const {
        const Constants &c = constants;
        switch (of) {
        case Class::load: return c.near_load;
        case Class::store: return c.near_store;
        case Class::swap: return c.near_swap;
        case Class::compare: return c.near_compare;
        }
        return 0;
    }
};

// Reads a resolved machine; throws Bad_machine.
Machine parse_machine(const std::string &text);

} // namespace lw::model
