// SPDX-License-Identifier: MIT
// Programs of the simulated cores: short lists of steps, the loops that the probe runs and the published benchmark's own.
#pragma once

#include "model/machine.hpp"
#include "wire/schema.hpp"

#include <optional>

namespace lw::model {

enum class Kind : std::uint8_t {
    work,            // `count` units of work, or iterations of the one-NOP loop
    load,            // a plain load
    store,           // a plain store, posted; `adds` when it advances the line's value
    atomic,          // a single-instruction read-modify-write of class `of`
    compare,         // a compare-and-swap; on failure the core goes on at `target`
    exclusive_load,  // LDXR
    exclusive_store, // STXR; on failure the core goes on at `target`
    prefetch,        // prefetch for write
    spin,            // loads until it is this thread's turn
    fence,           // waits until every earlier operation is complete
};

// What a compare-and-swap compares with.
enum class Expects : std::uint8_t {
    seen,  // the value that this thread read last
    wrong, // a guess that never fits: it fails once and leaves the line owned
    turn,  // this thread's turn in a handoff
};

struct Step {
    Kind kind = Kind::work;
    Class of = Class::load;
    Expects expects = Expects::seen;
    bool counts = false;     // its completion is one operation of the thread
    bool adds = false;       // a plain store that advances the line's value by one
    bool keeps = false;      // it writes what it found: the line's value stays
    bool nop_loop = false;   // work is iterations of the one-NOP loop
    bool ends = false;       // behind it the loop around the operation takes its time
    std::uint8_t slot = 0;   // which of the thread's lines
    std::uint16_t target = 0;
    std::uint16_t instructions = 1;
    std::uint64_t count = 0;
};

struct Program {
    std::vector<Step> steps; // repeated for ever: one iteration of the loop, or several that differ
    std::vector<unsigned> lines; // line of each slot
    unsigned turn = 0; // parity of the values at which it is this thread's turn
};

// How the loops around the operation are written.
enum class Harness : std::uint8_t {
    probe,     // temporaries in registers, as the probe has them
    published, // outputs of load-form and exclusive operations stored to globals that both threads write
};

// A cell as programs, one for each thread that touches a line; the timed thread is first.
struct Setup {
    std::vector<Program> programs;
    std::vector<unsigned> cores; // the core of each program
    unsigned lines = 1;
    bool handoff = false;
    bool single = false; // one operation on one line in each iteration
    std::vector<State> start; // state of line 0 in each thread's core when a window opens; empty: each start has its turn
};

// Why a machine cannot run a form: such a plan is refused. Empty when it can. Throws wire::Invalid for wrong parameters.
std::string obstacle(const Machine &machine, const wire::Cell &cell);

// Units of work of one iteration of the timed thread.
std::uint64_t work_of(const wire::Cell &cell);

// What the model lacks for a cell whose form it knows: such a cell is recorded as unavailable. Empty when nothing.
std::string lacks(const wire::Cell &cell);

// The programs of a cell that `obstacle` has nothing against. `cores` holds one core for every thread; `completion` puts a
// wait behind each of the timed thread's operations.
Setup make_setup(const Machine &machine, const wire::Cell &cell, const std::vector<unsigned> &cores, Harness harness,
                 bool completion = false);

} // namespace lw::model
