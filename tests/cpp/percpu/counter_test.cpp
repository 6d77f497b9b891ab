// SPDX-License-Identifier: MIT
// lw::counter: exact counts over threads, moves, the whole range, and lack of memory. Built with exceptions and without.
#include <linewright/percpu.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// The linker directs the calls of this file here (--wrap): a counter must free what it allocated, once, and cope with a
// refusal.
static bool refuse;
static int allocated, freed;
extern "C" {
void *__real_lw_percpu_alloc(size_t size, size_t align);
int __real_lw_percpu_free(void *p);
void *__wrap_lw_percpu_alloc(size_t size, size_t align);
int __wrap_lw_percpu_free(void *p);

void *__wrap_lw_percpu_alloc(size_t size, size_t align) {
    if (refuse) {
        errno = ENOMEM;
        return nullptr;
    }
    allocated++;
    return __real_lw_percpu_alloc(size, align);
}

int __wrap_lw_percpu_free(void *p) {
    freed += p != nullptr;
    const int result = __real_lw_percpu_free(p);
    EXPECT_EQ(result, 0) << "freed twice, or never allocated";
    return result;
}
}

namespace {

static_assert(!std::is_copy_constructible_v<lw::counter> && !std::is_copy_assignable_v<lw::counter>,
              "its memory is its own");
static_assert(std::is_nothrow_move_constructible_v<lw::counter> && std::is_nothrow_move_assignable_v<lw::counter>,
              "a vector that grows moves it");

lw::counter at_start;
const struct CountsAtStart {
    CountsAtStart() { ++at_start; }
} counts_at_start;

TEST(Counter, AStaticOneCountsBeforeMain) { EXPECT_EQ(at_start.sum(), 1); }

TEST(Counter, IsExactOverThreads) {
    constexpr int threads = 8, rounds = 50000;
    lw::counter counter;
    EXPECT_EQ(counter.sum(), 0);
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
        all.emplace_back([&counter, t] {
            for (int i = 0; i < rounds; i++) {
                ++counter; // each round adds 1 - 1 + 7 - 5 + t
                --counter;
                counter += 7;
                counter -= 5;
                counter += t;
            }
        });
    for (auto &thread : all)
        thread.join();
    EXPECT_EQ(counter.sum(), std::int64_t{rounds} * (2 * threads + threads * (threads - 1) / 2));
}

TEST(Counter, CoversTheWholeRangeAndWraps) {
    constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
    lw::counter counter;
    counter += most;
    EXPECT_EQ(counter.sum(), most);
    ++counter;
    EXPECT_EQ(counter.sum(), least);
    counter -= least; // has no negative of its own
    EXPECT_EQ(counter.sum(), 0);
    --counter;
    EXPECT_EQ(counter.sum(), -1);
    counter += -4294967296; // borrows from the upper half
    EXPECT_EQ(counter.sum(), -4294967297);
}

TEST(Counter, MovedItKeepsItsCountAndIsFreedOnce) {
    allocated = freed = 0;
    {
        lw::counter first, second;
        first += 10;
        second += 20;
        lw::counter moved(std::move(first));
        ++moved;
        EXPECT_EQ(moved.sum(), 11);
        first = std::move(second); // assigning to what was moved from is allowed
        ++first;
        EXPECT_EQ(first.sum(), 21);
        moved = std::move(first);
        EXPECT_EQ(moved.sum(), 21);
        std::vector<lw::counter> grows;
        for (int i = 0; i < 40; i++) {
            grows.emplace_back();
            grows.back() += i;
        }
        for (int i = 0; i < 40; i++)
            EXPECT_EQ(grows[static_cast<size_t>(i)].sum(), i);
    }
    EXPECT_EQ(allocated, 42);
    EXPECT_EQ(freed, allocated);
}

// With exceptions it throws; without, the program ends.
TEST(CounterDeathTest, WithoutMemoryThereIsNoCounter) {
    refuse = true;
#ifdef __cpp_exceptions
    EXPECT_THROW(lw::counter(), std::bad_alloc);
#else
    EXPECT_EXIT(lw::counter(), testing::KilledBySignal(SIGABRT), "");
#endif
    refuse = false;
}

} // namespace
