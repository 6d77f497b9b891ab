// The timed loops over single-line forms: one function for each form and width, plainly named for the disassembly test.
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

// Compiler builtins: on i386 those of eight bytes may be library calls.
#define LW_ROW_generic(name, operation, order, bits, needs) LW_ROW_generic_##bits(name, operation, order, bits, needs)
#define LW_ROW_generic_32(...) LW_ROW(__VA_ARGS__)
#if defined(__i386__)
#define LW_ROW_generic_64(...)
#else
#define LW_ROW_generic_64(...) LW_ROW(__VA_ARGS__)
#endif

#define LW_ROW(name, operation, order, bits, needs)                                                      \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_loop_##name##_u##bits(Loop_args &args) {      \
        LW_RUN_##operation<std::uint##bits##_t, lw_##name##_u##bits, false>(args);                       \
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

const Rmw_loop *find_rmw_loop(std::string_view form, unsigned width_bits) {
    for (const Rmw_loop &loop : loops)
        if (loop.form == form && loop.width_bits == width_bits)
            return &loop;
    return nullptr;
}

} // namespace lw::probe
