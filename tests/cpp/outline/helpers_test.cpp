// SPDX-License-Identifier: MIT
// Every outlined helper in every form against plain C++: result, memory, neighbours, registers; and sums under contention.
#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "outline.h"
int lw_checked_call(void (*helper)(), std::uint64_t regs[5]);

#define LW_ORDERS(X, op, size) X(op, size, relax) X(op, size, acq) X(op, size, rel) X(op, size, acq_rel) X(op, size, sync)
#define LW_SIZES(X, op) LW_ORDERS(X, op, 1) LW_ORDERS(X, op, 2) LW_ORDERS(X, op, 4) LW_ORDERS(X, op, 8)
#define LW_HELPERS(X) \
    LW_SIZES(X, cas)  \
    LW_ORDERS(X, cas, 16) LW_SIZES(X, swp) LW_SIZES(X, ldadd) LW_SIZES(X, ldclr) LW_SIZES(X, ldset) LW_SIZES(X, ldeor)
#define LW_DECLARE(op, size, order) void __aarch64_##op##size##_##order();
LW_HELPERS(LW_DECLARE)
}

namespace {

struct Helper {
    std::string op;
    unsigned size;
    std::string order;
    void (*call)();
};

const std::vector<Helper> &helpers() {
#define LW_ROW(op, size, order) {#op, size, #order, __aarch64_##op##size##_##order},
    static const std::vector<Helper> all = {LW_HELPERS(LW_ROW)};
    return all;
}

std::vector<unsigned> forms_that_run_here() {
    if (getauxval(AT_HWCAP) & (1u << 8))
        return {0, LW_OUTLINE_LSE, LW_OUTLINE_PREFETCH, LW_OUTLINE_LSE | LW_OUTLINE_PREFETCH};
    return {0, LW_OUTLINE_PREFETCH};
}

void take_form(unsigned form) { std::memset(lw_outline_forms, static_cast<int>(form), LW_OUTLINE_OPS); }

std::uint64_t narrow(std::uint64_t value, unsigned size) {
    return size >= 8 ? value : value & ((std::uint64_t{1} << (8 * size)) - 1);
}

std::uint64_t updated(const std::string &op, std::uint64_t old, std::uint64_t operand) {
    if (op == "swp")
        return operand;
    if (op == "ldadd")
        return old + operand;
    if (op == "ldclr")
        return old & ~operand;
    if (op == "ldset")
        return old | operand;
    return old ^ operand;
}

// 16 bytes on both sides of the value must keep their canaries.
struct alignas(64) Place {
    std::uint64_t before[2];
    std::uint64_t value[2];
    std::uint64_t after[2];

    explicit Place(std::uint64_t low, std::uint64_t high)
        : before{0x1111222233334444, 0x5555666677778888}, value{low, high}, after{0x9999aaaabbbbcccc, 0xddddeeeeffff0001} {}
    bool canaries_live() const {
        return before[0] == 0x1111222233334444 && before[1] == 0x5555666677778888 && after[0] == 0x9999aaaabbbbcccc &&
               after[1] == 0xddddeeeeffff0001;
    }
};

TEST(Helpers, AreAll125) { EXPECT_EQ(helpers().size(), 125u); }

TEST(Helpers, ReturnTheOldValueAndTouchNothingElse) {
    std::mt19937_64 random(20251121);
    for (unsigned form : forms_that_run_here()) {
        take_form(form);
        for (const Helper &helper : helpers()) {
            SCOPED_TRACE(helper.op + std::to_string(helper.size) + "_" + helper.order + " form " + std::to_string(form));
            const bool cas = helper.op == "cas", wide = helper.size == 16;
            const std::uint64_t mask = narrow(~std::uint64_t{0}, helper.size);
            for (int round = 0; round < 16; ++round) {
                const std::uint64_t old = random(), high = random(), operand = random(), desired_high = random();
                const bool match = round % 2;
                Place place(old, high);
                const auto address = reinterpret_cast<std::uint64_t>(place.value);
                // Narrow arguments come with garbage above their width, as the calling convention allows.
                const std::uint64_t garbage = random() & ~mask;
                std::uint64_t regs[5], left[5];
                if (!cas) {
                    const std::uint64_t args[5] = {narrow(operand, helper.size) | garbage, address, 2, 3, 4};
                    std::memcpy(regs, args, sizeof regs);
                } else if (!wide) {
                    const std::uint64_t expected = match ? old & mask : (old ^ 1) & mask;
                    const std::uint64_t args[5] = {expected | garbage, operand, address, 3, 4};
                    std::memcpy(regs, args, sizeof regs);
                } else {
                    // Mismatches in the low, in the high and in both halves.
                    const std::uint64_t args[5] = {match || round % 4 == 0 ? old : ~old,
                                                   match || round % 4 == 2 ? high : ~high, operand, desired_high, address};
                    std::memcpy(regs, args, sizeof regs);
                    if (!match && round % 4 == 0)
                        regs[1] = ~high;
                }
                std::memcpy(left, regs, sizeof left);
                ASSERT_EQ(lw_checked_call(helper.call, left), 0);
                ASSERT_TRUE(place.canaries_live());
                ASSERT_EQ(left[0] & mask, old & mask);
                for (int i = wide ? 2 : 1; i < 5; ++i)
                    ASSERT_EQ(left[i], regs[i]) << "x" << i;
                std::uint64_t want = old, want_high = high;
                if (wide) {
                    ASSERT_EQ(left[1], high);
                    if (match)
                        want = operand, want_high = desired_high;
                } else if (!cas || match) {
                    const std::uint64_t result = cas ? operand : updated(helper.op, old, operand);
                    want = (old & ~mask) | (result & mask);
                }
                ASSERT_EQ(place.value[0], want);
                ASSERT_EQ(place.value[1], want_high);
            }
        }
    }
}

// Threads add under forms that change while they run: what the window before the constructor has run looks like.
TEST(Helpers, SumsAreExactWhileFormsChange) {
    using Add8 = std::uint64_t (*)(std::uint64_t, std::uint64_t *);
    using Cas4 = std::uint32_t (*)(std::uint32_t, std::uint32_t, std::uint32_t *);
    const auto add = reinterpret_cast<Add8>(&__aarch64_ldadd8_acq_rel);
    const auto cas = reinterpret_cast<Cas4>(&__aarch64_cas4_relax);
    constexpr int threads = 4, rounds = 20000;
    alignas(128) static std::uint64_t sum;
    alignas(128) static std::uint32_t taken;
    sum = 0, taken = 0;
    take_form(0);
    std::atomic<int> running{threads};
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t)
        pool.emplace_back([&] {
            for (int i = 0; i < rounds; ++i) {
                add(3, &sum);
                std::uint32_t seen = 0, wanted;
                do {
                    wanted = seen;
                } while ((seen = cas(wanted, wanted + 1, &taken)) != wanted);
            }
            --running;
        });
    const auto forms = forms_that_run_here();
    for (unsigned i = 0; running; ++i) {
        take_form(forms[i % forms.size()]);
        std::this_thread::yield();
    }
    for (auto &thread : pool)
        thread.join();
    EXPECT_EQ(sum, std::uint64_t{3} * threads * rounds);
    EXPECT_EQ(taken, std::uint32_t{threads} * rounds);
}

} // namespace
