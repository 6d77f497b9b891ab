// SPDX-License-Identifier: MIT
// Threads that fight for the same words and the same bytes of one word: no update may be lost, under any policy,
// and none while the policy changes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <linewright/atomic.h>

#include "policies.hpp"

namespace {

constexpr unsigned threads = 3;
constexpr unsigned rounds = 3000;

void all_at_once(const std::function<void(unsigned)> &body) {
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> team;
    for (unsigned id = 0; id < threads; id++)
        team.emplace_back([&, id] {
            ready++;
            while (ready < threads)
                std::this_thread::yield();
            body(id);
        });
    for (std::thread &t : team)
        t.join();
}

#ifdef LW_HAVE_U64
#define FOR_WIDTHS(X) X(8) X(16) X(32) X(64)
#else
#define FOR_WIDTHS(X) X(8) X(16) X(32)
#endif

// Every way of adding, in turn: the sum is exact modulo the width.
#define EXACT_SUM(bits)                                                                                         \
    {                                                                                                           \
        alignas(64) uint##bits##_t word = 5;                                                                    \
        all_at_once([&](unsigned) {                                                                             \
            uint##bits##_t e = 0;                                                                               \
            for (unsigned i = 0; i < rounds; i++) {                                                             \
                lw_add_u##bits(&word, 3);                                                                       \
                lw_inc_u##bits##_release(&word);                                                                \
                lw_sub_u##bits(&word, 2);                                                                       \
                lw_fetch_add_u##bits##_acquire(&word, 7);                                                       \
                lw_dec_return_u##bits(&word);                                                                   \
                lw_sub_return_u##bits##_acq_rel(&word, 4);                                                      \
                lw_dec_u##bits(&word);                                                                          \
                lw_dec_and_test_u##bits##_release(&word);                                                       \
                e = lw_read_u##bits##_relaxed(&word);                                                           \
                while (!lw_try_cmpxchg_u##bits(&word, &e, static_cast<uint##bits##_t>(e + 1)))                  \
                    ;                                                                                           \
                if (!lw_add_unless_u##bits##_relaxed(&word, 2, 0))                                              \
                    lw_add_u##bits(&word, 2);                                                                   \
            }                                                                                                   \
        });                                                                                                     \
        /* 3 + 1 - 2 + 7 - 1 - 4 - 1 - 1 + 1 + 2 */                                                             \
        EXPECT_EQ(word, static_cast<uint##bits##_t>(5 + 5 * threads * rounds)) << bits << " bits, " << setting; \
    }

// Each thread owns one bit of the word and must find it as it left it.
#define OWN_BIT(bits)                                                                                           \
    {                                                                                                           \
        alignas(64) uint##bits##_t word = 0;                                                                    \
        std::atomic<unsigned> wrong{0};                                                                         \
        all_at_once([&](unsigned id) {                                                                          \
            const auto bit = static_cast<uint##bits##_t>(1u << id), others = static_cast<uint##bits##_t>(~bit); \
            for (unsigned i = 0; i < rounds / 2; i++) {                                                         \
                lw_or_u##bits(&word, bit);                                                                      \
                wrong += !(lw_read_u##bits(&word) & bit);                                                       \
                lw_andnot_u##bits##_release(&word, bit);                                                        \
                wrong += (lw_fetch_xor_u##bits(&word, bit) & bit) != 0;                                         \
                wrong += !(lw_fetch_and_u##bits##_acquire(&word, others) & bit);                                \
                wrong += (lw_fetch_or_u##bits##_relaxed(&word, bit) & bit) != 0;                                \
                wrong += !(lw_fetch_andnot_u##bits##_release(&word, bit) & bit);                                \
                lw_xor_u##bits(&word, bit);                                                                     \
                lw_and_u##bits(&word, others);                                                                  \
            }                                                                                                   \
        });                                                                                                     \
        EXPECT_EQ(wrong, 0u) << bits << " bits, " << setting;                                                   \
        EXPECT_EQ(word, 0u) << bits << " bits, " << setting;                                                    \
    }

// A token goes round by exchange: no thread may see a token twice or lose one.
#define TOKENS(bits)                                                                                  \
    {                                                                                                 \
        alignas(64) uint##bits##_t slot = 0;                                                          \
        std::atomic<unsigned> sum{0};                                                                 \
        all_at_once([&](unsigned id) {                                                                \
            auto mine = static_cast<uint##bits##_t>(id + 1);                                          \
            for (unsigned i = 0; i < rounds; i++)                                                     \
                mine = i % 2 ? lw_xchg_u##bits(&slot, mine) : lw_xchg_u##bits##_acq_rel(&slot, mine); \
            sum += mine;                                                                              \
        });                                                                                           \
        EXPECT_EQ(sum + slot, threads * (threads + 1) / 2) << bits << " bits, " << setting;           \
    }

TEST(Contention, SumsAreExactUnderEveryPolicy) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        FOR_WIDTHS(EXACT_SUM)
        FOR_WIDTHS(OWN_BIT)
        FOR_WIDTHS(TOKENS)
    }
    lw_policy_set("default");
}

// Counters that share a word, each owned by one thread, and one the neighbours use: narrow operations never
// write what is beside them.
TEST(Contention, NeighbouringBytesAndHalves) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        alignas(64) std::array<uint8_t, 8> bytes{};
        alignas(64) std::array<uint16_t, 4> halves{};
        all_at_once([&](unsigned id) {
            for (unsigned i = 0; i < rounds; i++) {
                lw_inc_u8(&bytes[id]);
                lw_inc_u16(&halves[id]);
                lw_fetch_add_u8_relaxed(&bytes[id + 1], 2);
                lw_xchg_u8(&bytes[7], static_cast<uint8_t>(i));
                lw_cmpxchg_u16(&halves[3], static_cast<uint16_t>(i), static_cast<uint16_t>(i + 1));
            }
        });
        for (unsigned id = 0; id <= threads; id++) {
            unsigned own = id < threads ? rounds : 0, from_below = id > 0 ? 2 * rounds : 0;
            EXPECT_EQ(bytes[id], static_cast<uint8_t>(own + from_below)) << id << ' ' << setting;
            if (id < threads) {
                EXPECT_EQ(halves[id], rounds) << setting;
            }
        }
    }
    lw_policy_set("default");
}

// A last reference is dropped by exactly one thread, while others take and drop.
TEST(Contention, ReferencesReachZeroOnce) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        for (int repeat = 0; repeat < 30; repeat++) {
            alignas(64) uint32_t references = threads;
            std::atomic<unsigned> last{0}, after_the_end{0};
            all_at_once([&](unsigned id) {
                for (int i = 0; i < 20; i++) {
                    after_the_end += !lw_inc_not_zero_u32(&references);
                    last += lw_dec_and_test_u32(&references);
                }
                last += id % 2 ? lw_dec_and_test_u32(&references) : lw_sub_and_test_u32_acq_rel(&references, 1);
            });
            ASSERT_EQ(last, 1u) << setting;
            ASSERT_EQ(after_the_end, 0u) << setting;
            ASSERT_FALSE(lw_dec_if_positive_u32(&references));
        }
    }
    lw_policy_set("default");
}

#ifndef LW_NO_POLICY
// Forms may meet on one word: the policy changes all the while, and no count is lost.
TEST(Contention, ChangingThePolicyLosesNothing) {
    const std::vector<const char *> settings = settings_of_this_cpu();
    alignas(64) uint32_t word = 0;
    all_at_once([&](unsigned id) {
        for (unsigned i = 0; i < rounds * 4; i++) {
            if (id == 0 && i % 16 == 0)
                lw_policy_set(settings[(i / 16) % settings.size()]);
            lw_inc_u32(&word);
            lw_fetch_add_u32(&word, 2);
            lw_inc_not_zero_u32(&word);
        }
    });
    EXPECT_EQ(word, threads * rounds * 4 * 4);
    lw_policy_set("default");
}
#endif

} // namespace
