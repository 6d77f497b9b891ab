// SPDX-License-Identifier: MIT
// Medians, their order-statistic intervals, and fairness.
#include "probe/stats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lw::probe {
namespace {

double median_of_sorted(const std::vector<double> &values) {
    std::size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// P(X <= k) for X ~ Binomial(n, 1/2), summed in log space: exact enough for n in the thousands.
double binomial_half_cdf(std::size_t n, std::size_t k) {
    double sum = 0;
    double log_half_n = -static_cast<double>(n) * std::log(2.0);
    double log_choose = 0; // log C(n, 0)
    for (std::size_t i = 0; i <= k; ++i) {
        if (i > 0)
            log_choose += std::log(static_cast<double>(n - i + 1)) - std::log(static_cast<double>(i));
        sum += std::exp(log_choose + log_half_n);
    }
    return sum;
}

} // namespace

double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    std::ranges::sort(values);
    return median_of_sorted(values);
}

wire::Interval median_interval(std::vector<double> values, double confidence) {
    wire::Interval interval;
    std::size_t n = values.size();
    if (n == 0)
        return interval;
    std::ranges::sort(values);
    // values[r] and values[n-1-r] (ranks from 0) bound the median with confidence 1 - 2 P(X <= r): take the largest r
    // for which that is enough.
    double tail = (1 - confidence) / 2;
    std::size_t rank = 0;
    while (rank + 1 <= (n - 1) / 2 && binomial_half_cdf(n, rank + 1) <= tail)
        ++rank;
    interval.median_ns = median_of_sorted(values);
    interval.low_ns = values[rank];
    interval.high_ns = values[n - 1 - rank];
    interval.confidence = std::clamp(1 - 2 * binomial_half_cdf(n, rank), 0.0, confidence);
    return interval;
}

double relative_half_width(const wire::Interval &interval) {
    if (!(interval.median_ns > 0))
        return std::numeric_limits<double>::infinity();
    return (interval.high_ns - interval.low_ns) / 2 / interval.median_ns;
}

double jain(std::span<const double> rates) {
    double sum = 0, squares = 0;
    for (double rate : rates) {
        sum += rate;
        squares += rate * rate;
    }
    return squares > 0 ? sum * sum / (static_cast<double>(rates.size()) * squares) : 1.0;
}

} // namespace lw::probe
