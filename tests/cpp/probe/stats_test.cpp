// SPDX-License-Identifier: MIT
// The probe's statistics against their definitions.
#include "probe/stats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace {

using namespace lw::probe;

TEST(Median, OfOddEvenAndNone) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(median({}), 0);
}

TEST(MedianInterval, UsesTheTextbookRanks) {
    // n = 10: ranks 2 and 9 (from 1) cover with 97.9 %; n = 20: ranks 6 and 15 with 95.9 %.
    std::vector<double> ten, twenty;
    for (int i = 1; i <= 10; ++i)
        ten.push_back(i);
    for (int i = 1; i <= 20; ++i)
        twenty.push_back(i);
    auto a = median_interval(ten), b = median_interval(twenty);
    EXPECT_EQ(a.low_ns, 2);
    EXPECT_EQ(a.high_ns, 9);
    EXPECT_EQ(b.low_ns, 6);
    EXPECT_EQ(b.high_ns, 15);
    EXPECT_DOUBLE_EQ(a.confidence, 0.95);
}

TEST(MedianInterval, StatesALowerConfidenceWhenThereAreTooFewValues) {
    auto interval = median_interval({5, 1, 3});
    EXPECT_EQ(interval.low_ns, 1);
    EXPECT_EQ(interval.high_ns, 5);
    EXPECT_DOUBLE_EQ(interval.confidence, 0.75); // 1 - 2 / 2^3
    EXPECT_DOUBLE_EQ(median_interval({2}).confidence, 0.0);
}

TEST(MedianInterval, NeverCollapsesWhileValuesDiffer) {
    std::vector<double> values{1};
    for (int i = 2; i <= 400; ++i) {
        values.push_back(i);
        auto interval = median_interval(values);
        EXPECT_LT(interval.low_ns, interval.median_ns) << i;
        EXPECT_LT(interval.median_ns, interval.high_ns) << i;
    }
}

TEST(MedianInterval, CoversAsOftenAsItSays) {
    std::mt19937_64 random(7);
    std::exponential_distribution<double> draw(1);
    const double truth = std::log(2.0);
    int covered = 0, trials = 4000;
    for (int trial = 0; trial < trials; ++trial) {
        std::vector<double> values;
        for (int i = 0; i < 33; ++i)
            values.push_back(draw(random));
        auto interval = median_interval(values);
        covered += interval.low_ns <= truth && truth <= interval.high_ns;
    }
    EXPECT_GE(covered, trials * 0.95 - 3 * std::sqrt(trials * 0.95 * 0.05));
}

TEST(HalfWidth, IsRelativeAndInfiniteWithoutAMedian) {
    EXPECT_DOUBLE_EQ(relative_half_width({10, 9, 11, 0.95}), 0.1);
    EXPECT_TRUE(std::isinf(relative_half_width({0, 0, 0, 0.95})));
}

TEST(Jain, IsOneForEqualAndOneNthForAll) {
    EXPECT_DOUBLE_EQ(jain(std::vector<double>{2, 2, 2}), 1);
    EXPECT_DOUBLE_EQ(jain(std::vector<double>{5, 0, 0, 0}), 0.25);
    EXPECT_DOUBLE_EQ(jain(std::vector<double>{}), 1);
}

} // namespace
