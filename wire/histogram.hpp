// SPDX-License-Identifier: MIT
// A log-linear histogram of picoseconds: fixed size, no allocation, relative bucket width below 0.8 %.
#pragma once

#include "wire/schema.hpp"

#include <array>
#include <bit>
#include <cstdint>

namespace lw::wire {

// Values below 256 have a bucket each; above, 128 buckets for every doubling: index = (e << 7) + (value >> e)
// with e = floor(log2(value)) - 7. linewright/schema.py states the same for readers.
class Histogram {
public:
    static constexpr unsigned sub_bits = 7;
    static constexpr unsigned buckets = ((64 - sub_bits) << sub_bits) + (1u << sub_bits);

    static constexpr unsigned index(std::uint64_t value) {
        if (value < (2u << sub_bits))
            return static_cast<unsigned>(value);
        unsigned e = static_cast<unsigned>(std::bit_width(value)) - 1 - sub_bits;
        return (e << sub_bits) + static_cast<unsigned>(value >> e);
    }

    // Lowest value that falls into a bucket.
    static constexpr std::uint64_t lowest(unsigned index) {
        if (index < (2u << sub_bits))
            return index;
        unsigned e = (index >> sub_bits) - 1;
        return std::uint64_t{index - (e << sub_bits)} << e;
    }

    // Middle of a bucket: what a sample in it is reported as.
    static constexpr double middle(unsigned index) {
        if (index < (2u << sub_bits))
            return index;
        unsigned e = (index >> sub_bits) - 1;
        return static_cast<double>(lowest(index)) + static_cast<double>(std::uint64_t{1} << e) / 2.0;
    }

    void add(double ns) {
        double ps = ns * 1000.0;
        ++counts_[index(ps <= 0 ? 0 : static_cast<std::uint64_t>(ps))];
        ++samples_;
        if (ns > max_ns_)
            max_ns_ = ns;
    }

    void merge(const Histogram &other);
    std::uint64_t samples() const { return samples_; }

    // The value that a share `q` of the samples does not exceed, in ns; 0 when empty.
    double quantile_ns(double q) const;

    Quantiles quantiles(std::string of, std::uint64_t ops_per_sample) const;

private:
    std::array<std::uint32_t, buckets> counts_{};
    std::uint64_t samples_ = 0;
    double max_ns_ = 0;
};

} // namespace lw::wire
