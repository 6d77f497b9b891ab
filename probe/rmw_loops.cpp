// SPDX-License-Identifier: MIT
// The timed loops over single-line forms: one function for each form and width, plainly named for the disassembly test.
//
// They stand at every place of loops (probe/loop.hpp): the same code at other distances from a 64-byte boundary, for
// launches to differ in.
#include "probe/rmw_loops.hpp"

#include "probe/own_rows.hpp"
#include "probe/step_loops.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/forms.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lw::probe {
#define LW_RUN_none run_add
#define LW_RUN_add run_add
#define LW_RUN_fetch_add run_add
#define LW_RUN_cmpxchg run_add
#define LW_RUN_xchg run_xchg
#define LW_RUN_read run_read

// Compiler builtins: those wider than a register may be library calls.
#define LW_OWN_generic(bits) LW_OWN_generic_##bits
#define LW_OWN_generic_32 0,
#if UINTPTR_MAX > 0xffffffff
#define LW_OWN_generic_64 0,
#endif

// lw_loop_stadd_u64 is the loop at the first place, lw_loop1_stadd_u64 at the second.
#define LW_ROW(name, operation, order, bits, needs)                                                      \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_loop_##name##_u##bits(Loop_args &args) {      \
        LW_RUN_##operation<std::uint##bits##_t, lw_##name##_u##bits, false, Works::all>(args);           \
    }                                                                                                    \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_completed_##name##_u##bits(Loop_args &args) { \
        LW_RUN_##operation<std::uint##bits##_t, lw_##name##_u##bits, true>(args);                        \
    }
#include "wire/forms/rmw.def"
#undef LW_ROW

namespace {

constexpr auto loops = std::to_array<Rmw_loop>({
#define LW_ROW(name, operation, order, bits, needs) \
    Rmw_loop{#name, bits, lw_loop_##name##_u##bits, lw_completed_##name##_u##bits},
#include "wire/forms/rmw.def"
#undef LW_ROW
});

} // namespace

template <> std::span<const Rmw_loop> rmw_loops_at<0>() { return loops; }

} // namespace lw::probe
