// SPDX-License-Identifier: MIT
// Quantiles of the log-linear histogram.
#include "wire/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace lw::wire {

void Histogram::merge(const Histogram &other) {
    for (unsigned i = 0; i < buckets; ++i)
        counts_[i] += other.counts_[i];
    samples_ += other.samples_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
}

double Histogram::quantile_ns(double q) const {
    if (samples_ == 0)
        return 0;
    auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(samples_)));
    rank = std::clamp<std::uint64_t>(rank, 1, samples_);
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < buckets; ++i) {
        seen += counts_[i];
        if (seen >= rank)
            return std::min(middle(i) / 1000.0, max_ns_);
    }
    return max_ns_;
}

Quantiles Histogram::quantiles(std::string of, std::uint64_t ops_per_sample) const {
    Quantiles result{std::move(of),     ops_per_sample,    samples_, quantile_ns(0.50),
                     quantile_ns(0.95), quantile_ns(0.99), max_ns_,  {}};
    for (unsigned i = 0; i < buckets; ++i)
        if (counts_[i])
            result.histogram.emplace_back(i, counts_[i]);
    return result;
}

} // namespace lw::wire
