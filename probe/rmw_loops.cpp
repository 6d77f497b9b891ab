// The timed loops over single-line forms: one function for each form and width, plainly named for the disassembly test.
#include "probe/rmw_loops.hpp"

#include "probe/own_rows.hpp"
#include "wire/forms.hpp"

#include <linewright/arch/forms.h>
#include <linewright/arch/measure.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lw::probe {
namespace {

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

// How an operation's function is called, by what the operation returns.
template <class T, auto Op, bool wait> [[gnu::always_inline]] inline void run_add(Loop_args &args) {
    T *line = static_cast<T *>(args.target);
    const T operand = static_cast<T>(args.operand);
    repeat(args, [=] {
        if constexpr (std::is_void_v<decltype(Op(line, operand))>) {
            Op(line, operand);
        } else {
            T old = Op(line, operand);
            __asm__ volatile("" : : "r"(old)); // the value is wanted: a compiler builtin may not drop to a cheaper form
        }
        if constexpr (wait)
            lw_wait_completion(line);
    });
}

template <class T, auto Op, bool wait> [[gnu::always_inline]] inline void run_xchg(Loop_args &args) {
    T *line = static_cast<T *>(args.target);
    const T operand = static_cast<T>(args.operand);
    T sum = 0; // keeps every value taken out accounted for: the conservation check of exchanges
    repeat(args, [&sum, line, operand] {
        sum = static_cast<T>(sum + Op(line, operand));
        if constexpr (wait)
            lw_wait_completion(line);
    });
    args.sum_out += sum;
}

template <class T, auto Op, bool wait> [[gnu::always_inline]] inline void run_read(Loop_args &args) {
    const T *line = static_cast<const T *>(args.target);
    repeat(args, [=] {
        T value = Op(line);
        __asm__ volatile("" : : "r"(value)); // the value is wanted: the read may not be dropped
        if constexpr (wait)
            lw_wait_completion(line);
    });
}

} // namespace

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

#define LW_ROW(name, operation, order, bits, needs)                                                                    \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_loop_##name##_u##bits(Loop_args &args) {                    \
        LW_RUN_##operation<std::uint##bits##_t, lw_##name##_u##bits, false>(args);                                     \
    }                                                                                                                  \
    extern "C" [[gnu::noinline, gnu::aligned(64)]] void lw_completed_##name##_u##bits(Loop_args &args) {               \
        LW_RUN_##operation<std::uint##bits##_t, lw_##name##_u##bits, true>(args);                                      \
    }
#include "wire/forms/rmw.def"
#undef LW_ROW

namespace {

constexpr auto loops = std::to_array<Rmw_loop>({
#define LW_ROW(name, operation, order, bits, needs)                                                                    \
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
