// SPDX-License-Identifier: MIT
// What the per-CPU runs share: the clock, quantiles, and the memory that every loop goes round.
#pragma once

#include "../brief.h"

#include <linewright/percpu.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <vector>

namespace percpu_bench {

constexpr std::size_t words = 64, line = 128;

inline double now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

inline double quantile(std::vector<double> v, double q) {
    std::ranges::sort(v);
    return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1))];
}

} // namespace percpu_bench
