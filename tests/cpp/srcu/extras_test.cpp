// SPDX-License-Identifier: MIT
// SRCU's conveniences: guards, waits on a condition and with a limit, freeing by callback, exchanging pointers, the header
// check.
#include "support.hpp"

#include <ctime>
#include <type_traits>

extern "C" {
int leave_by_return(lw_srcu_fast *s);
int leave_by_break(lw_srcu_normal *s);
}

namespace {

bool inside(lw_srcu *s) { return describe(s).find("0 readers inside") == std::string::npos; }

// A domain as programs have it: its type is its flavour.
template <class Flavour> struct Typed : Flavour {
    Typed() { EXPECT_EQ(lw_srcu_init(static_cast<Flavour *>(this)), 0); }
    ~Typed() { EXPECT_EQ(lw_srcu_cleanup(this), 0) << describe(this); }
};

template <class Flavour> void guard_by_exception() {
    Typed<Flavour> d;
    try {
        const lw::srcu_guard<Flavour> outer(d);
        const lw::srcu_guard<Flavour> inner(d);
        EXPECT_NE(describe(&d).find("2 readers inside"), std::string::npos) << describe(&d);
        throw 1;
    } catch (int) {
    }
    EXPECT_FALSE(inside(&d));
}

TEST(SrcuGuard, EndsWithItsScope) {
    guard_by_exception<lw_srcu_normal>();
    guard_by_exception<lw_srcu_fast>();
    guard_by_exception<lw_srcu_fast_updown>();
    Typed<lw_srcu_fast> fast;
    Typed<lw_srcu_normal> normal;
    {
        lw_srcu_fast &plain = fast;
        const lw::srcu_guard guard(plain); // inferred
        EXPECT_TRUE(inside(&fast));
    }
    EXPECT_EQ(leave_by_return(&fast), 1);
    EXPECT_EQ(leave_by_break(&normal), 3);
    EXPECT_FALSE(inside(&fast));
    EXPECT_FALSE(inside(&normal));
}

// A domain stays where it is; a vector that grows does not compile.
static_assert(!std::is_copy_constructible_v<lw_srcu> && !std::is_move_constructible_v<lw_srcu>);
static_assert(!std::is_copy_assignable_v<lw_srcu> && std::is_standard_layout_v<lw_srcu>);
static_assert(std::is_nothrow_move_constructible_v<lw::srcu_guard<lw_srcu_fast>>);
static_assert(!std::is_copy_constructible_v<lw::srcu_guard<lw_srcu_fast>>);

template <class Flavour> void moved_guard() {
    Typed<Flavour> d, other;
    {
        lw::srcu_guard<Flavour> first(d);
        lw::srcu_guard<Flavour> second(std::move(first));
        EXPECT_NE(describe(&d).find(" 1 readers inside"), std::string::npos) << describe(&d);
        lw::srcu_guard<Flavour> third(other);
        third = std::move(second); // ends the other one
        EXPECT_FALSE(inside(&other));
        EXPECT_TRUE(inside(&d));
    }
    EXPECT_FALSE(inside(&d));
}

TEST(SrcuGuard, IsMovable) {
    moved_guard<lw_srcu_normal>();
    moved_guard<lw_srcu_fast>();
    moved_guard<lw_srcu_fast_updown>();
    Typed<lw_srcu_fast_updown> d;
    lw::srcu_guard<lw_srcu_fast_updown> guard(d);
    std::thread([moved = std::move(guard)] {}).join(); // ends there
    EXPECT_FALSE(inside(&d));
}

TEST(SrcuRetire, CallsTheDeleterAfterAGracePeriod) {
    struct Counted {
        explicit Counted(int &n) : dead(&n) {}
        ~Counted() { ++*dead; }
        int *dead;
    };
    Domain d(LW__SRCU_FAST);
    int dead = 0, by_deleter = 0;
    const auto reader = enter(&d);
    EXPECT_EQ(lw::retire(d, new Counted(dead)), 0);
    auto *const held = new Counted(dead);
    EXPECT_EQ(lw::retire(d, held,
                         [&by_deleter, owner = std::make_unique<int>(7)](Counted *p) {
                             by_deleter = *owner;
                             delete p;
                         }),
              0);
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(held->dead, &dead); // still alive
    leave(&d, reader);
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
    EXPECT_EQ(dead, 2);
    EXPECT_EQ(by_deleter, 7);
    lw_srcu none{};
    Counted on_stack(dead);
    EXPECT_EQ(lw::retire(none, &on_stack), -EINVAL); // refused: not deleted
}

extern "C" int dereference_atomics(void);
TEST(SrcuPointers, AreAtomicsOfEitherLanguage) {
    static int object = 3;
    const std::atomic<int *> cpp(&object);
    int *plain = &object;
    int *const &constant = plain;
    EXPECT_EQ(lw_srcu_dereference(cpp), &object);
    EXPECT_EQ(lw_srcu_dereference(plain), &object);
    EXPECT_EQ(lw_srcu_dereference(constant), &object);
    EXPECT_EQ(dereference_atomics(), 0);
}

TEST(SrcuCondSynchronize, WaitsOnlyWhereTheCookieIsNotReached) {
    Domain d(LW__SRCU_FAST);
    EXPECT_EQ(lw_srcu_cond_synchronize(&d, 0), -EINVAL);
    const auto reached = lw_srcu_get_state(&d);
    EXPECT_EQ(lw_srcu_synchronize(&d), 0);
    const auto reader = enter(&d);
    const auto before = lw_srcu_get_state(&d);
    EXPECT_EQ(lw_srcu_cond_synchronize(&d, reached), 0); // returns although a reader is inside
    EXPECT_EQ(lw_srcu_get_state(&d), before);
    std::atomic<bool> over = false;
    std::thread waiter([&] {
        EXPECT_EQ(lw_srcu_cond_synchronize(&d, before), 0);
        over = true;
    });
    std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(over);
    leave(&d, reader);
    waiter.join();
    EXPECT_TRUE(lw_srcu_poll(&d, before));
}

TEST(SrcuTimeout, GivesUpAndLeavesOthersWaiting) {
    Domain d(LW__SRCU_FAST);
    EXPECT_EQ(lw_srcu_synchronize_timeout(&d, 300'000'000'000), 0);
    EXPECT_EQ(lw_srcu_synchronize_timeout(&d, UINT64_MAX), 0);
    const auto reader = enter(&d);
    std::thread([&] { EXPECT_EQ(lw_srcu_synchronize_timeout(&d, 0), -ETIMEDOUT); }).join();
    std::atomic<bool> over = false;
    std::vector<std::thread> waiters;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; i++)
        waiters.emplace_back([&, i] {
            if (i)
                EXPECT_EQ(lw_srcu_synchronize_timeout(&d, 10'000'000), -ETIMEDOUT);
            else
                EXPECT_EQ(lw_srcu_synchronize(&d), 0);
            over = over || i == 0;
        });
    waiters[1].join(); // the limit of those who drive and of those who sleep
    waiters[2].join();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 10ms);
    EXPECT_FALSE(over);
    leave(&d, reader);
    waiters[0].join();
    EXPECT_TRUE(over);
}

// A hundred years are more seconds than a long of 32 bits holds: a waiter whose sleep is refused would spin.
TEST(SrcuTimeout, ALongOneSleeps) {
    static thread_local std::atomic<int> *mine; // of this waiter
    std::atomic<int> sleeps[2] = {0, 0};
    constexpr unsigned at_sleep = 7; // LW__SRCU_AT_SLEEP
    Domain d(LW__SRCU_FAST);
    const auto count = +[](unsigned where) {
        if (mine && where == at_sleep)
            ++*mine;
    };
    __atomic_store_n(&lw__srcu_test_point, count, __ATOMIC_RELEASE);
    const auto reader = enter(&d);
    std::vector<std::thread> waiters;
    for (auto &number : sleeps) // one drives and sleeps again and again, the other sleeps once
        waiters.emplace_back([&] {
            mine = &number;
            EXPECT_EQ(lw_srcu_synchronize_timeout(&d, 3'150'000'000'000'000'000), 0);
        });
    while (sleeps[0] == 0 || sleeps[1] == 0 || sleeps[0] + sleeps[1] < 50)
        std::this_thread::sleep_for(1ms);
    leave(&d, reader);
    for (auto &w : waiters)
        w.join();
    __atomic_store_n(&lw__srcu_test_point, nullptr, __ATOMIC_RELEASE);
    EXPECT_LT(std::min<int>(sleeps[0], sleeps[1]), 10);
}

// Without LW_DEBUG too, where the thread's own words show it: it would wait for ever.
TEST(SrcuUpdaters, InACriticalSectionOfTheirThreadAreRefused) {
    for (const auto flavour : all_flavours) {
        Domain d(flavour);
        if (describe(&d).find("counts per thread") == std::string::npos)
            GTEST_SKIP() << "no thread has words of its own";
        Domain other(flavour);
        const auto outer = enter(&d);
        leave(&d, enter(&d));
        // What updown readers begin, another thread may end.
        const int expected = flavour == LW__SRCU_FAST_UPDOWN ? -ETIMEDOUT : -EDEADLK;
        EXPECT_EQ(lw_srcu_synchronize_timeout(&d, 1'000'000), expected);
        if (flavour != LW__SRCU_FAST_UPDOWN) {
            EXPECT_EQ(lw_srcu_synchronize(&d), -EDEADLK);
            EXPECT_EQ(lw_srcu_synchronize_expedited(&d), -EDEADLK);
            EXPECT_EQ(lw_srcu_cond_synchronize(&d, lw_srcu_get_state(&d)), -EDEADLK);
            EXPECT_EQ(lw_srcu_barrier(&d), -EDEADLK);
        }
        EXPECT_EQ(lw_srcu_synchronize(&other), 0);
        std::thread([&] { EXPECT_EQ(lw_srcu_synchronize_timeout(&d, 1'000'000), -ETIMEDOUT); }).join();
        leave(&d, outer);
        EXPECT_EQ(lw_srcu_synchronize(&d), 0);
    }
}

struct Freed {
    char text[100];
    lw_srcu_head head;
};
struct Far {
    char text[5000];
    lw_srcu_head head;
};

TEST(SrcuFree, FreesAfterAGracePeriod) {
    Domain d(LW__SRCU_FAST);
    const auto reader = enter(&d);
    for (int i = 0; i < 1000; i++) {
        auto *p = static_cast<Freed *>(std::malloc(sizeof(Freed)));
        ASSERT_EQ(lw_srcu_free(&d, p, head), 0);
    }
    EXPECT_NE(describe(&d).find("1000 callbacks queued"), std::string::npos) << describe(&d);
    leave(&d, reader);
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
    EXPECT_NE(describe(&d).find(" 0 callbacks queued"), std::string::npos) << describe(&d);
    Far far;
    EXPECT_EQ(lw_srcu_free(&d, &far, head), -EINVAL); // the head lies too far in
}

TEST(SrcuPointers, AreExchanged) {
    int a = 1, b = 2;
    int *p = &a;
    EXPECT_EQ(lw_srcu_xchg_pointer(p, &b), &a);
    EXPECT_EQ(p, &b);
    EXPECT_EQ(lw_srcu_cmpxchg_pointer(p, &a, nullptr), &b); // unequal: not stored
    EXPECT_EQ(p, &b);
    EXPECT_EQ(lw_srcu_cmpxchg_pointer(p, &b, &a), &b);
    EXPECT_EQ(p, &a);
    EXPECT_TRUE(lw_srcu_read_lock_held(nullptr)); // not known without LW_DEBUG
}

#ifndef LW_SANITIZED
TEST(Interface, OfOtherHeadersIsRefused) {
    lw__check_interface(LW_INTERFACE);
    EXPECT_EQ(in_child([] {
                  fclose(stderr);
                  lw__check_interface(LW_INTERFACE - 1);
                  return 0;
              }),
              128 + SIGABRT);
}
#endif

} // namespace
