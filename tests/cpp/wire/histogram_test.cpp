// SPDX-License-Identifier: MIT
// The log-linear histogram against exact order statistics.
#include "wire/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace {

using lw::wire::Histogram;

TEST(Histogram, BucketsAreContiguousAndHoldTheirValues) {
    for (unsigned i = 0; i + 1 < Histogram::buckets; ++i)
        ASSERT_LT(Histogram::lowest(i), Histogram::lowest(i + 1)) << i;
    for (std::uint64_t value : {0ull, 1ull, 255ull, 256ull, 257ull, 511ull, 512ull, 123'456'789ull, 1ull << 62, ~0ull}) {
        unsigned bucket = Histogram::index(value);
        ASSERT_LT(bucket, Histogram::buckets);
        EXPECT_LE(Histogram::lowest(bucket), value);
        if (bucket + 1 < Histogram::buckets) {
            EXPECT_GT(Histogram::lowest(bucket + 1), value);
        }
    }
}

TEST(Histogram, QuantilesAreWithinABucketOfTheExactOnes) {
    std::mt19937_64 random(42);
    std::lognormal_distribution<double> draw(2.0, 1.5);
    auto histogram = std::make_unique<Histogram>();
    std::vector<double> values;
    for (int i = 0; i < 20'000; ++i) {
        values.push_back(draw(random));
        histogram->add(values.back());
    }
    std::ranges::sort(values);
    for (double q : {0.01, 0.5, 0.95, 0.99, 0.999}) {
        double exact = values[static_cast<std::size_t>(std::ceil(q * 20'000)) - 1];
        EXPECT_NEAR(histogram->quantile_ns(q), exact, exact * 0.008 + 0.001) << q;
    }
    EXPECT_DOUBLE_EQ(histogram->quantile_ns(1.0), std::min(histogram->quantile_ns(1.0), values.back()));
    auto quantiles = histogram->quantiles("batch_mean", 10);
    std::uint64_t counted = 0;
    for (auto [bucket, count] : quantiles.histogram)
        counted += count;
    EXPECT_EQ(counted, 20'000u);
    EXPECT_DOUBLE_EQ(quantiles.max_ns, values.back());
}

TEST(Histogram, NothingInNothingOut) {
    auto histogram = std::make_unique<Histogram>();
    EXPECT_EQ(histogram->quantile_ns(0.5), 0);
    histogram->add(-3); // timer cost subtracted from a shorter sample
    EXPECT_EQ(histogram->samples(), 1u);
}

TEST(Histogram, MergeIsAddition) {
    auto a = std::make_unique<Histogram>(), b = std::make_unique<Histogram>();
    for (int i = 1; i <= 100; ++i)
        (i % 2 ? a : b)->add(i);
    a->merge(*b);
    EXPECT_EQ(a->samples(), 100u);
    EXPECT_NEAR(a->quantile_ns(0.5), 50, 0.5);
}

} // namespace
