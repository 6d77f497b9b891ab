// SPDX-License-Identifier: MIT
// The documented forms of a counter as loops, each compiled at several places in the code; by one compiler or another.
#pragma once

#include <cstddef>

namespace percpu_bench {

constexpr std::size_t form_placements = 8;
using Form_loop = void (*)(std::size_t n);

struct Form {
    const char *shape; // where the loop finds the counter's handle
    Form_loop loops[form_placements];
};

struct Forms {
    const char *compiler;
    const Form *rows;
    std::size_t count;
    long long (*counted)(); // by all of them together
};

} // namespace percpu_bench

extern "C" {
percpu_bench::Forms forms_of_this_compiler();
percpu_bench::Forms forms_of_clang();
}
