// SPDX-License-Identifier: MIT
// lw::atomic_ref against std::atomic_ref: the same members, the same answers, for every kind of type it takes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <type_traits>
#include <vector>

#include <linewright/atomic.h>

#include "policies.hpp"

extern "C" LW_API void raise_elsewhere(uint32_t *word); // elsewhere.cpp, a shared object

namespace {

enum class Colour : uint16_t { red, green };
struct Pair {
    uint16_t a, b;
    bool operator==(const Pair &) const = default;
};
struct Wide_pair {
    uint32_t a, b;
    bool operator==(const Wide_pair &) const = default;
};
struct Bare { // trivially copyable, and that is all
    explicit Bare(uint32_t number) : n(number) {}
    Bare(const Bare &) = default;
    Bare &operator=(const Bare &) = delete;
    uint32_t n;
    bool operator==(const Bare &) const = default;
};
const std::memory_order orders[] = {std::memory_order_relaxed, std::memory_order_consume, std::memory_order_acquire,
                                    std::memory_order_release, std::memory_order_acq_rel, std::memory_order_seq_cst};

static_assert(lw::atomic_ref<int>::is_always_lock_free);
static_assert(lw::atomic_ref<uint64_t *>::required_alignment == alignof(uint64_t *));
static_assert(std::is_same_v<lw::atomic_ref<int>::value_type, int>);
static_assert(std::is_same_v<lw::atomic_ref<char *>::difference_type, std::ptrdiff_t>);
static_assert(!std::is_copy_assignable_v<lw::atomic_ref<int>> && std::is_copy_constructible_v<lw::atomic_ref<int>>);

// What any type has: the same script for ours and the standard's, results compared.
template <template <class> class Ref, class T> std::vector<T> script(T first, T second) {
    alignas(8) T object = first;
    Ref<T> ref(object);
    std::vector<T> seen;
    for (auto order : orders) {
        if (order != std::memory_order_acquire && order != std::memory_order_consume && order != std::memory_order_acq_rel)
            ref.store(first, order);
        if (order != std::memory_order_release && order != std::memory_order_acq_rel)
            seen.push_back(ref.load(order));
        seen.push_back(ref.exchange(second, order));
        T expected = first;
        seen.push_back(ref.compare_exchange_strong(expected, first, order) ? first : second);
        seen.push_back(expected);
        seen.push_back(ref.compare_exchange_strong(expected, first, order, std::memory_order_relaxed) ? first : second);
        seen.push_back(ref);
        while (!ref.compare_exchange_weak(expected, second, order, std::memory_order_acquire)) {
        }
        seen.push_back(object);
        ref = first;
    }
    seen.push_back(static_cast<T>(ref = second));
    return seen;
}

template <class T> void like_the_standard(T first, T second) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        EXPECT_EQ((script<lw::atomic_ref, T>(first, second)), (script<std::atomic_ref, T>(first, second))) << setting;
    }
    lw_policy_set("default");
}

#ifdef LW_REF_CLEARS_PADDING
// Padding may hold anything: what is compared are values. A loop that rebuilds `expected` from members used not to end.
struct Padded {
    char letter;
    int number;
};

Padded rebuilt(const Padded &from, unsigned char rubbish) {
    Padded made;
    std::memset(&made, rubbish, sizeof(made));
    made.letter = from.letter;
    made.number = from.number;
    return made;
}

TEST(AtomicRef, PaddingDoesNotCount) {
    alignas(8) Padded object = rebuilt({'a', 1}, 0x55);
    lw::atomic_ref<Padded> ref(object);
    Padded expected = rebuilt({'a', 1}, 0xaa);
    ASSERT_TRUE(ref.compare_exchange_strong(expected, rebuilt({'b', 2}, 0x33)));
    unsigned char bytes[sizeof(Padded)];
    std::memcpy(bytes, &object, sizeof(bytes));
    EXPECT_EQ(bytes[1] | bytes[2] | bytes[3], 0) << "what is stored has zeros for padding";
    ref.store(rebuilt({'c', 3}, 0x77));
    for (unsigned failed = 0; failed < 100; ++failed) {
        const Padded now = ref.load();
        expected = rebuilt(now, 0xee);
        if (ref.compare_exchange_weak(expected, rebuilt({'d', 4}, 0x11)))
            break;
        ASSERT_LT(failed, 99u);
    }
    expected = rebuilt({'x', 9}, 0);
    EXPECT_FALSE(ref.compare_exchange_strong(expected, {'y', 8}));
    EXPECT_EQ(expected.letter, 'd');
    EXPECT_EQ(expected.number, 4);
    ref.wait(rebuilt({'z', 0}, 0xff)); // another value: returns at once
}
#endif

#ifdef LW_REF_HAVE_16
struct Head {
    void *first;
    uint64_t turn;
    bool operator==(const Head &) const = default;
};

TEST(AtomicRef, SixteenBytes) {
    alignas(16) Head head{nullptr, 1};
    static_assert(lw::atomic_ref<Head>::required_alignment == 16);
    lw::atomic_ref<Head> ref(head);
    ASSERT_TRUE(ref.is_lock_free());
    for (auto order : {std::memory_order_relaxed, std::memory_order_release, std::memory_order_seq_cst}) {
        ref.store({&head, 5}, order);
        EXPECT_EQ(ref.load(), (Head{&head, 5}));
    }
    EXPECT_EQ(ref.load(std::memory_order_relaxed), (Head{&head, 5}));
    EXPECT_EQ(ref.load(std::memory_order_acquire), (Head{&head, 5}));
    EXPECT_EQ(ref.exchange({nullptr, 6}), (Head{&head, 5}));
    Head expected{nullptr, 7};
    EXPECT_FALSE(ref.compare_exchange_strong(expected, {&head, 8}));
    EXPECT_EQ(expected, (Head{nullptr, 6}));
    EXPECT_TRUE(ref.compare_exchange_strong(expected, {&head, 8}));
    EXPECT_EQ(head, (Head{&head, 8}));
    ref.wait({nullptr, 0});
}

TEST(AtomicRef, SixteenBytesCountExactly) {
    alignas(16) static Head head{nullptr, 0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([] {
            lw::atomic_ref<Head> ref(head);
            for (int turn = 0; turn < 20000; ++turn) {
                Head old = ref.load(std::memory_order_relaxed);
                while (!ref.compare_exchange_weak(old, {reinterpret_cast<void *>(old.turn + 1), old.turn + 1})) {
                }
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(head, (Head{reinterpret_cast<void *>(80000), 80000}));
}
#endif

TEST(AtomicRef, EveryKindOfType) {
    like_the_standard<uint8_t>(1, 255);
    like_the_standard<int8_t>(-1, 100);
    like_the_standard<uint16_t>(0, 0xffff);
    like_the_standard<int>(-5, 5);
    like_the_standard<bool>(false, true);
    like_the_standard<float>(-0.5f, 3.25f);
    like_the_standard<Colour>(Colour::red, Colour::green);
    like_the_standard<Pair>({1, 2}, {3, 4});
    like_the_standard<Bare>(Bare(1), Bare(2));
    static int numbers[4];
    like_the_standard<int *>(&numbers[0], &numbers[3]);
#if defined(LW_HAVE_U64) || defined(LW_WIDE_I386)
    like_the_standard<uint64_t>(1, ~0ULL);
    like_the_standard<int64_t>(std::numeric_limits<int64_t>::min(), 7);
    like_the_standard<double>(1e300, -0.0);
    like_the_standard<Wide_pair>({1, 2}, {0xffffffff, 4});
#endif
}

template <template <class> class Ref, class T> std::vector<T> sums(T v, T w) {
    alignas(8) T object = v;
    Ref<T> ref(object);
    std::vector<T> seen;
    for (auto order : orders) {
        seen.push_back(ref.fetch_add(w, order));
        seen.push_back(ref.fetch_sub(v, order));
        if constexpr (std::is_integral_v<T>) {
            seen.push_back(ref.fetch_or(w, order));
            seen.push_back(ref.fetch_and(v, order));
            seen.push_back(ref.fetch_xor(w, order));
        }
    }
    seen.push_back(ref += w);
    seen.push_back(ref -= v);
    if constexpr (std::is_integral_v<T>) {
        for (T t : {++ref, ref++, --ref, ref--, ref |= w, ref &= v, ref ^= w})
            seen.push_back(t);
    }
    seen.push_back(object);
    return seen;
}

template <class T> void sums_like_the_standard(T v, T w) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        EXPECT_EQ((sums<lw::atomic_ref, T>(v, w)), (sums<std::atomic_ref, T>(v, w))) << setting;
    }
    lw_policy_set("default");
}

TEST(AtomicRef, Arithmetic) {
    sums_like_the_standard<uint8_t>(250, 77);
    sums_like_the_standard<int8_t>(100, 100);
    sums_like_the_standard<int16_t>(-3, 1000);
    sums_like_the_standard<int>(7, -9);
    sums_like_the_standard<int>(std::numeric_limits<int>::max(), 9); // wraps, and is not undefined
    sums_like_the_standard<uint32_t>(0xfffffff0u, 0x123);
    sums_like_the_standard<float>(1.5f, 0.25f);
#if defined(LW_HAVE_U64) || defined(LW_WIDE_I386)
    sums_like_the_standard<int64_t>(-1, 1LL << 40);
    sums_like_the_standard<double>(0.1, 0.2);
#endif
}

TEST(AtomicRef, Pointers) {
    static int numbers[16];
    int *p = numbers;
    lw::atomic_ref<int *> ref(p);
    EXPECT_EQ(ref.fetch_add(3), numbers);
    EXPECT_EQ(ref.fetch_sub(1, std::memory_order_relaxed), numbers + 3);
    EXPECT_EQ(++ref, numbers + 3);
    EXPECT_EQ(ref--, numbers + 3);
    EXPECT_EQ(ref += 5, numbers + 7);
    EXPECT_EQ(ref -= 7, numbers);
    EXPECT_EQ(p, numbers);
}

TEST(AtomicRef, AdditionsWithoutAValue) {
    for (const char *setting : settings_of_this_cpu()) {
        ASSERT_EQ(lw_policy_set(setting), 0);
        uint32_t word = 6;
        lw::atomic_ref<uint32_t> ref(word);
        ref.add(10);
        ref.sub(1, std::memory_order_release);
        EXPECT_EQ(word, 15u);
        ref.and_(0b1101);
        ref.andnot(0b0100, std::memory_order_release);
        ref.or_(0b10000);
        ref.xor_(0b00001);
        EXPECT_EQ(word, 0b11000u);
        EXPECT_EQ(ref.fetch_andnot(0b1000), 0b11000u);
        EXPECT_EQ(word, 0b10000u);
    }
    lw_policy_set("default");
}

#if defined(LW_HAVE_U64) || defined(LW_WIDE_I386)
static_assert(lw::atomic_ref<uint64_t>::required_alignment == 8 && lw::atomic_ref<double>::required_alignment == 8);
static_assert(lw::atomic_ref<Wide_pair>::required_alignment == 8);

// Eight bytes at once, in both halves: two threads add to a counter and to a sum beside it.
TEST(AtomicRef, EightBytesAddUp) {
    constexpr int rounds = 20'000;
    constexpr uint64_t step = 0x1'0000'0001;
    alignas(8) uint64_t count = 0xffffffff;
    alignas(8) double sum = 0;
    auto adder = [&] {
        for (int i = 0; i < rounds; ++i) {
            lw::atomic_ref<uint64_t>(count).add(step);
            lw::atomic_ref<double>(sum).fetch_add(0.5);
        }
    };
    std::thread other(adder);
    adder();
    other.join();
    EXPECT_EQ(count, 0xffffffff + 2 * rounds * step);
    EXPECT_EQ(sum, rounds);
}
#endif

#if defined(LW_WIDE_I386)
// What the compiler aligns to four bytes by itself, where it cannot be seen when this is compiled.
TEST(AtomicRef, MisalignedEightBytesEndTheProgram) {
    alignas(64) static unsigned char bytes[128];
    volatile std::size_t at = 60;
    auto *split = reinterpret_cast<uint64_t *>(bytes + at);
    EXPECT_DEATH(lw::atomic_ref<uint64_t>(*split).load(), "not aligned to 8 bytes; declare it lw_u64");
}
#endif

TEST(AtomicRef, WaitEndsWithNotify) {
    uint16_t turn = 0;
    constexpr uint16_t turns = 200;
    auto player = [&turn](uint16_t parity) {
        lw::atomic_ref<uint16_t> ref(turn);
        for (uint16_t i = parity; i < turns; i = static_cast<uint16_t>(i + 2)) {
            for (uint16_t now; (now = ref.load()) != i;)
                ref.wait(now);
            ref.store(static_cast<uint16_t>(i + 1));
            if (i % 4 < 2)
                ref.notify_all();
            else
                ref.notify_one();
        }
    };
    std::thread even(player, uint16_t{0}), odd(player, uint16_t{1});
    even.join();
    odd.join();
    EXPECT_EQ(turn, turns);
}

TEST(AtomicRef, WaitEndsWithNotifyInAnotherSharedObject) {
    for (int i = 0; i < 100; i++) { // sometimes the waiter comes late
        uint32_t word = 0;
        std::thread waiter([&word] { lw::atomic_ref<uint32_t>(word).wait(0); });
        while (lw::atomic_ref<uint32_t>(lw::detail::parking_of(&word).waiters).load() == 0)
            std::this_thread::yield();
        raise_elsewhere(&word);
        waiter.join();
    }
}

} // namespace
