// SPDX-License-Identifier: MIT
// Every operation at every width and order, under every policy this CPU can do, against plain arithmetic,
// with canary bytes on both sides of the operand.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include <sys/mman.h>

#include <linewright/atomic.h>

#include "policies.hpp"

namespace {

// The operand at every aligned place of 8 bytes, the rest a pattern that must survive.
template <class W> struct Surrounded {
    alignas(16) std::array<unsigned char, 24> bytes;
    std::array<unsigned char, 24> before;
    size_t at;

    Surrounded(size_t lane, W start) : at(8 + lane * sizeof(W)) {
        for (size_t i = 0; i < bytes.size(); i++)
            bytes[i] = static_cast<unsigned char>(0xa5 ^ (i * 29));
        std::memcpy(&bytes[at], &start, sizeof start);
        before = bytes;
    }
    W *word() { return reinterpret_cast<W *>(&bytes[at]); }
    W value() const {
        W v;
        std::memcpy(&v, &bytes[at], sizeof v);
        return v;
    }
    bool neighbours_untouched() const {
        return std::memcmp(bytes.data(), before.data(), at) == 0 &&
               std::memcmp(&bytes[at + sizeof(W)], &before[at + sizeof(W)], bytes.size() - at - sizeof(W)) == 0;
    }
};

template <class W> constexpr std::array<W, 8> samples() {
    constexpr W top = static_cast<W>(W{1} << (sizeof(W) * 8 - 1));
    return {
        W{0}, W{1}, W{2}, W{0x5a}, static_cast<W>(0xfedcba9876543210ULL), static_cast<W>(top - 1), top, static_cast<W>(-1)};
}

template <class W> struct Outcome {
    W left;      // in memory
    uint64_t returned;
};

unsigned long checked; // operation × width × order × policy
std::set<std::string> names;

// Function pointers, not template parameters: the loops below are compiled once per width, not per operation.
template <class W> struct One {
    uint64_t (*run)(W *p, W v);
    Outcome<W> (*reference)(W old, W v);
};

template <class W> struct Two {
    uint64_t (*run)(W *p, W first, W second);
    Outcome<W> (*reference)(W old, W first, W second);
};

template <class W> bool as_promised(const Surrounded<W> &s, uint64_t returned, const Outcome<W> &expected) {
    return returned == expected.returned && s.value() == expected.left && s.neighbours_untouched();
}

template <class W> std::string what(size_t lane, const Surrounded<W> &s, uint64_t returned, const Outcome<W> &expected) {
    return "lane " + std::to_string(lane) + ": left " + std::to_string(s.value()) + " for " + std::to_string(expected.left) +
           ", returned " + std::to_string(returned) + " for " + std::to_string(expected.returned) +
           (s.neighbours_untouched() ? "" : ", and wrote beside the operand");
}

// One operand: run gives what the operation returns (0 for none), reference what must be left and returned.
template <class W> void check(const char *name, One<W> op) {
    checked++;
    names.insert(name);
    for (size_t lane = 0; lane < 8 / sizeof(W); lane++)
        for (W start : samples<W>())
            for (W v : samples<W>()) {
                Surrounded<W> s(lane, start);
                Outcome<W> expected = op.reference(start, v);
                uint64_t returned = op.run(s.word(), v);
                if (!as_promised(s, returned, expected))
                    FAIL() << name << " of " << +start << " and " << +v << ", " << what(lane, s, returned, expected);
            }
}

// Two operands, for lw_cmpxchg and its like: tried with the right, a wrong and a nearly right expectation.
template <class W> void check_two(const char *name, Two<W> op) {
    checked++;
    names.insert(name);
    for (size_t lane = 0; lane < 8 / sizeof(W); lane++)
        for (W start : samples<W>())
            for (W first : {start, static_cast<W>(start + 1), static_cast<W>(start ^ (W{1} << (sizeof(W) * 8 - 1)))})
                for (W second : samples<W>()) {
                    Surrounded<W> s(lane, start);
                    Outcome<W> expected = op.reference(start, first, second);
                    uint64_t returned = op.run(s.word(), first, second);
                    if (!as_promised(s, returned, expected))
                        FAIL() << name << " of " << +start << ", " << +first << " and " << +second << ", "
                               << what(lane, s, returned, expected);
                }
}

#define VOID_ORDERS(X, op, bits, ...) \
    X(lw_##op##_u##bits, bits, __VA_ARGS__) X(lw_##op##_u##bits##_release, bits, __VA_ARGS__)
#define ORDERS(X, op, bits, ...)                      \
    X(lw_##op##_u##bits, bits, __VA_ARGS__)           \
    X(lw_##op##_u##bits##_relaxed, bits, __VA_ARGS__) \
    X(lw_##op##_u##bits##_acquire, bits, __VA_ARGS__) \
    X(lw_##op##_u##bits##_release, bits, __VA_ARGS__) \
    X(lw_##op##_u##bits##_acq_rel, bits, __VA_ARGS__)

#define ONE(name, call, after, returned)                                                     \
    check<W>(#name, {[](W *p, W v) -> uint64_t {                                             \
                         (void)v;                                                            \
                         call;                                                               \
                     },                                                                      \
                     [](W old, W v) {                                                        \
                         (void)old;                                                          \
                         (void)v;                                                            \
                         return Outcome<W>{static_cast<W>(after), static_cast<W>(returned)}; \
                     }});
#define TWO(name, call, left, returned)                              \
    check_two<W>(#name,                                              \
                 {[](W *p, W first, W second) -> uint64_t { call; }, \
                  [](W old, W first, W second) { return Outcome<W>{static_cast<W>(left), static_cast<W>(returned)}; }});

#define NO_VALUE(name, bits, after) ONE(name, name(p, v); return 0, after, 0)
#define NO_VALUE_BY_ONE(name, bits, after) ONE(name, name(p); return 0, after, 0)
#define VALUE(name, bits, after, returned) ONE(name, return name(p, v), after, returned)
#define VALUE_BY_ONE(name, bits, after, returned) ONE(name, return name(p), after, returned)
#define CMPXCHG(name, bits, ...) TWO(name, return name(p, first, second), old == first ? second : old, old)
// returned: the flag twice, and whether `expected` is what was found (unless it was left alone)
#define TRY_CMPXCHG(name, bits, ...)               \
    TWO(name, bool done = name(p, &first, second); \
        return done * 2u + (done || first == *p), old == first ? second : old, old == first ? 3 : 1)
#define ADD_UNLESS(name, bits, ...) TWO(name, return name(p, second, first), old == first ? old : old + second, old != first)

template <class W> void check_width();

#define CHECK_WIDTH(bits)                                                        \
    template <> void check_width<uint##bits##_t>() {                             \
        using W = uint##bits##_t;                                                \
        VOID_ORDERS(NO_VALUE, add, bits, old + v)                                \
        VOID_ORDERS(NO_VALUE, sub, bits, old - v)                                \
        VOID_ORDERS(NO_VALUE_BY_ONE, inc, bits, old + 1)                         \
        VOID_ORDERS(NO_VALUE_BY_ONE, dec, bits, old - 1)                         \
        VOID_ORDERS(NO_VALUE, and, bits, old & v)                                \
        VOID_ORDERS(NO_VALUE, andnot, bits, old & ~v)                            \
        VOID_ORDERS(NO_VALUE, or, bits, old | v)                                 \
        VOID_ORDERS(NO_VALUE, xor, bits, old ^ v)                                \
        ORDERS(VALUE, fetch_add, bits, old + v, old)                             \
        ORDERS(VALUE, fetch_sub, bits, old - v, old)                             \
        ORDERS(VALUE, fetch_and, bits, old & v, old)                             \
        ORDERS(VALUE, fetch_andnot, bits, old & ~v, old)                         \
        ORDERS(VALUE, fetch_or, bits, old | v, old)                              \
        ORDERS(VALUE, fetch_xor, bits, old ^ v, old)                             \
        ORDERS(VALUE, add_return, bits, old + v, old + v)                        \
        ORDERS(VALUE, sub_return, bits, old - v, old - v)                        \
        ORDERS(VALUE_BY_ONE, inc_return, bits, old + 1, old + 1)                 \
        ORDERS(VALUE_BY_ONE, dec_return, bits, old - 1, old - 1)                 \
        ORDERS(VALUE, xchg, bits, v, old)                                        \
        ORDERS(CMPXCHG, cmpxchg, bits)                                           \
        ORDERS(TRY_CMPXCHG, try_cmpxchg, bits)                                   \
        ORDERS(ADD_UNLESS, add_unless, bits)                                     \
        ORDERS(VALUE_BY_ONE, inc_not_zero, bits, old ? old + 1 : 0, old != 0)    \
        ORDERS(VALUE_BY_ONE, dec_if_positive, bits, old ? old - 1 : 0, old != 0) \
        ORDERS(VALUE, sub_and_test, bits, old - v, old == v)                     \
        ORDERS(VALUE_BY_ONE, dec_and_test, bits, old - 1, old == 1)              \
        VALUE_BY_ONE(lw_read_u##bits, bits, old, old)                            \
        VALUE_BY_ONE(lw_read_u##bits##_relaxed, bits, old, old)                  \
        VALUE_BY_ONE(lw_read_u##bits##_acquire, bits, old, old)                  \
        NO_VALUE(lw_write_u##bits, bits, v)                                      \
        NO_VALUE(lw_write_u##bits##_release, bits, v)                            \
        NO_VALUE(lw_write_u##bits##_seq_cst, bits, v)                            \
    }

CHECK_WIDTH(8)
CHECK_WIDTH(16)
CHECK_WIDTH(32)
#ifdef LW_HAVE_U64
CHECK_WIDTH(64)
constexpr unsigned widths = 4;
#else
constexpr unsigned widths = 3;
#endif

TEST(Operations, EveryWidthOrderAndPolicy) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        SCOPED_TRACE(setting);
        checked = 0;
        names.clear();
        check_width<uint8_t>();
        check_width<uint16_t>();
        check_width<uint32_t>();
#ifdef LW_HAVE_U64
        check_width<uint64_t>();
#endif
        // 8 void operations × 2 orders, 18 with a value × 5, 3 reads and 3 writes
        EXPECT_EQ(checked, widths * (8 * 2 + 18 * 5 + 6));
        EXPECT_EQ(names.size(), checked) << "a name was checked twice";
    }
    lw_policy_set("default");
}

// A narrow expected value whose register holds more than its width must still compare equal.
TEST(Operations, UpperBitsOfNarrowArgumentsDoNotCount) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        uint8_t byte = 0xff;
        volatile unsigned wide = 0xabcdef00u;
        EXPECT_EQ(lw_cmpxchg_u8(&byte, static_cast<uint8_t>(wide - 1), 7), 0xff) << setting;
        EXPECT_EQ(byte, 7) << setting;
        uint16_t half = 0xffff;
        volatile unsigned wider = 0xabcd0000u;
        EXPECT_EQ(lw_cmpxchg_u16(&half, static_cast<uint16_t>(wider - 1), 9), 0xffff) << setting;
        EXPECT_EQ(half, 9) << setting;
    }
    lw_policy_set("default");
}

// Once it has written, the expected value may belong to another thread: here it lies where a store would end the test.
TEST(Operations, ExpectedIsLeftAloneBySuccess) {
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // zeros
    ASSERT_NE(page, MAP_FAILED);
#define SUCCEEDS(name, bits, ...)                                         \
    {                                                                     \
        uint##bits##_t word = 0;                                          \
        EXPECT_TRUE(name(&word, static_cast<uint##bits##_t *>(page), 7)); \
        EXPECT_EQ(word, 7u);                                              \
    }
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        ORDERS(SUCCEEDS, try_cmpxchg, 8)
        ORDERS(SUCCEEDS, try_cmpxchg, 16)
        ORDERS(SUCCEEDS, try_cmpxchg, 32)
#ifdef LW_HAVE_U64
        ORDERS(SUCCEEDS, try_cmpxchg, 64)
#endif
    }
    lw_policy_set("default");
    munmap(page, 4096);
}

} // namespace
