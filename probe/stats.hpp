// SPDX-License-Identifier: MIT
// The few statistics that the probe itself needs; everything else is analysis, elsewhere.
#pragma once

#include "wire/schema.hpp"

#include <span>

namespace lw::probe {

double median(std::vector<double> values);

// Median and the order-statistic interval that covers it at `confidence` whatever the distribution: the ranks come from
// the binomial distribution of how many of n values fall below the median. With too few values for that confidence the
// interval is the whole range and its own, lower confidence is stated. Empty input: all zero.
wire::Interval median_interval(std::vector<double> values, double confidence = 0.95);

// Half the interval relative to the median; infinity where the median is not positive.
double relative_half_width(const wire::Interval &interval);

// Jain's fairness index of the rates: 1 when all are equal, 1/n when one thread has everything.
double jain(std::span<const double> rates);

} // namespace lw::probe
