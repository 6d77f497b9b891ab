// SPDX-License-Identifier: MIT
// Loops around one operation on one line, by what the operation returns. `wait`: each operation is waited for, and
// has no work behind it.
#pragma once

#include "probe/loop.hpp"

#include <type_traits>

namespace lw::probe {
inline namespace place0 { // instances whose address is taken are one place's own

template <class T, auto Op, bool wait = false, Works works = wait ? Works::none : Works::in_registers>
[[gnu::always_inline]] inline void run_add(Loop_args &args) {
    T *line = static_cast<T *>(args.target);
    const T operand = static_cast<T>(args.operand);
    repeat<works>(args, [=] {
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

template <class T, auto Op, bool wait = false, Works works = wait ? Works::none : Works::in_registers>
[[gnu::always_inline]] inline void run_xchg(Loop_args &args) {
    T *line = static_cast<T *>(args.target);
    const T operand = static_cast<T>(args.operand);
    T sum = 0; // keeps every value taken out accounted for: the conservation check of exchanges
    repeat<works>(args, [&sum, line, operand] {
        sum = static_cast<T>(sum + Op(line, operand));
        if constexpr (wait)
            lw_wait_completion(line);
    });
    args.sum_out += sum;
}

template <class T, auto Op, bool wait = false, Works works = wait ? Works::none : Works::in_registers>
[[gnu::always_inline]] inline void run_read(Loop_args &args) {
    const T *line = static_cast<const T *>(args.target);
    repeat<works>(args, [=] {
        T value = Op(line);
        __asm__ volatile("" : : "r"(value)); // the value is wanted: the read may not be dropped
        if constexpr (wait)
            lw_wait_completion(line);
    });
}

} // namespace place0
} // namespace lw::probe
