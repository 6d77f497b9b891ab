// SPDX-License-Identifier: MIT
// What a timed loop is to the rest of the probe: a function that performs N operations, called once per batch.
#pragma once

#include <linewright/arch/measure.h>

#include <cstddef>
#include <cstdint>

namespace lw::probe {

// What stands behind each operation: dependent additions in a straight line, a loop around one NOP as published, or a loop
// that counts in memory, as code that was not optimised does: two loads, a store and a branch an iteration.
enum class Work_kind : unsigned char { chain, nop_loop, memory };

// One thread's arguments for the batches of a window. Each thread has its own copy, on its own lines.
struct Loop_args {
    void *target = nullptr;            // what the operation acts on: a line, a per-CPU object, a domain …
    std::size_t ops = 1;               // operations to perform; a contender's loop may write back that it did fewer
    std::size_t work = 0;              // units of work after each operation
    Work_kind work_kind = Work_kind::chain;
    std::uint64_t operand = 1;         // value the operation is given
    std::uint64_t sum_out = 0;         // sum of the values that exchanges returned, for conservation checks
    std::uint64_t excluded_ticks = 0;  // time inside the batch that is preparation, not the operation
    void *state = nullptr;             // what a family of loops keeps for this thread
};

using Batch = void (*)(Loop_args &);

// Units of work as dependent additions, one cycle each: a straight line entered so that the units asked for run, and
// whole lines of LW_CHAIN_LINKS beyond that many. It depends on nothing but itself: it overlaps with the operation as far
// as the core looks ahead.
class Chain {
public:
    explicit Chain(std::size_t units)
        : more_((units - 1) / LW_CHAIN_LINKS), skip_((LW_CHAIN_LINKS * (more_ + 1) - units) * LW_CHAIN_LINK_BYTES) {
        __asm__ volatile("" : "+r"(x_)); // set before the loop, not at its head
    }

    [[gnu::always_inline]] void run() {
        lw_dependent_chain(&x_, skip_);
        for (std::size_t more = more_; __builtin_expect(more != 0, 0); --more)
            lw_dependent_chain(&x_, 0);
    }

private:
    const std::size_t more_, skip_;
    unsigned long x_ = 1;
};

// Calls `loop` with the work that the arguments ask for, a function without arguments. The loop is compiled once for each
// kind in `works`: without work it holds nothing but the operation and the count-down.
enum class Works { none, in_registers, all };
template <Works works = Works::in_registers, class Loop>
[[gnu::always_inline]] inline void with_work(const Loop_args &args, Loop loop) {
    const std::size_t units = args.work;
    if (works == Works::none || units == 0)
        return loop([] {});
    if (works == Works::all && args.work_kind == Work_kind::memory)
        return loop([units] { lw_count_in_memory(units); });
    if (args.work_kind != Work_kind::chain)
        return loop([units] {
            for (std::size_t left = units; left; --left)
                lw_nop();
        });
    Chain chain(units);
    loop([&chain]() __attribute__((always_inline)) { chain.run(); });
}

// Where a loop stands: its distance in bytes behind a 64-byte boundary. Files with timed loops are compiled to assembly at
// place 0, everything in them in the namespace place0; probe/CMakeLists.txt makes the text of every place of it, and
// launches take turns with the places.
constexpr unsigned loop_places = 4;
constexpr unsigned loop_offset_bytes(unsigned place) { return 16 * place; }
#define LW_LOOP_TEXT(x) LW_LOOP_TEXT_(x)
#define LW_LOOP_TEXT_(x) #x
[[gnu::always_inline]] inline void align_loop() {
#ifdef LW_NOP_BYTES
    __asm__ volatile(".p2align 6\n\t.rept 0 / " LW_LOOP_TEXT(LW_NOP_BYTES) "\n\tnop\n\t.endr"); // its 0 is the place's bytes
#endif
}

// The loop itself: one operation and its work, `ops` times. Loops that never have work say so.
template <Works works = Works::in_registers, class Step>
[[gnu::always_inline]] inline void repeat(const Loop_args &args, Step step) {
    with_work<works>(args, [&](auto work) __attribute__((always_inline)) {
        std::size_t left = args.ops;
        align_loop();
        do {
            step();
            work();
        } while (--left);
    });
}

} // namespace lw::probe
