// What a timed loop is to the rest of the probe: a function that performs N operations, called once per batch.
#pragma once

#include <linewright/arch/measure.h>

#include <cstddef>
#include <cstdint>

namespace lw::probe {

// One thread's arguments for the batches of a window. Each thread has its own copy, on its own lines.
struct Loop_args {
    void *target = nullptr;            // what the operation acts on: a line, a per-CPU object, a domain …
    std::size_t ops = 1;               // operations to perform; a contender's loop may write back that it did fewer
    std::size_t work = 0;              // iterations of the one-NOP loop after each operation
    std::uint64_t operand = 1;         // value the operation is given
    std::uint64_t sum_out = 0;         // sum of the values that exchanges returned, for conservation checks
    std::uint64_t excluded_ticks = 0;  // time inside the batch that is preparation, not the operation
    void *state = nullptr;             // what a family of loops keeps for this thread
};

using Batch = void (*)(Loop_args &);

// The work between operations: a run-time loop around one NOP, so that every work length has the same code.
[[gnu::always_inline]] inline void work_for(std::size_t iterations) {
    for (; iterations; --iterations)
        lw_nop();
}

// The loop itself. Without work it holds nothing but the operation and the count-down.
template <class Step> [[gnu::always_inline]] inline void repeat(const Loop_args &args, Step step) {
    std::size_t left = args.ops;
    const std::size_t work = args.work;
    if (work == 0) {
        do
            step();
        while (--left);
        return;
    }
    do {
        step();
        work_for(work);
    } while (--left);
}

} // namespace lw::probe
