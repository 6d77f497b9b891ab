// SPDX-License-Identifier: MIT
// SRCU's interface, at its edges: every flavour, both ways of counting, cookies, callbacks, refusals, fork, overflow, denied
// membarrier.
#include "support.hpp"

extern "C" {
int prepare_debug_cases(void);
extern void (*const wrong_uses[])(void);
}

LW_DEFINE_SRCU(lw_srcu_fast, defined);

namespace {

LW_DEFINE_STATIC_SRCU(lw_srcu_normal, defined_static);
LW_DEFINE_STATIC_SRCU(lw_srcu_normal, defined_too); // a namespace takes more than one

// Both ways of counting: on threads' words as far as this architecture has them, and per CPU.
class Srcu : public testing::TestWithParam<unsigned> {
protected:
    void SetUp() override { lw__srcu_test_slots = GetParam(); }
    void TearDown() override { lw__srcu_test_slots = UINT_MAX; }
};
INSTANTIATE_TEST_SUITE_P(Words, Srcu, testing::Values(UINT_MAX, 0u),
                         [](const auto &i) { return i.param ? "thread" : "cpu"; });

TEST(SrcuRequests, AreRefusedWithAnErrno) {
    lw_srcu s;
    EXPECT_EQ(lw__srcu_init(&s, static_cast<lw__srcu_flavour>(0)), -EINVAL);
    EXPECT_EQ(lw__srcu_init(&s, static_cast<lw__srcu_flavour>(4)), -EINVAL);
    EXPECT_EQ(lw__srcu_init(nullptr, LW__SRCU_FAST), -EINVAL);
    lw_srcu zero{};
    lw_srcu_head head;
    EXPECT_EQ(lw_srcu_cleanup(&zero), -EINVAL);
    EXPECT_EQ(lw_srcu_synchronize(&zero), -EINVAL);
    EXPECT_EQ(lw_srcu_barrier(&zero), -EINVAL);
    EXPECT_EQ(lw_srcu_call(&zero, &head, [](lw_srcu_head *) {}), -EINVAL);
    EXPECT_EQ(lw_srcu_on_stall(&zero, 1, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(lw_srcu_start_poll(&zero), 0u);
    EXPECT_FALSE(lw_srcu_poll(&zero, 2));
    EXPECT_EQ(describe(&zero), "not initialised");
    Domain d(LW__SRCU_FAST);
    EXPECT_EQ(lw_srcu_call(&d, nullptr, [](lw_srcu_head *) {}), -EINVAL);
    EXPECT_EQ(lw_srcu_call(&d, &head, nullptr), -EINVAL);
    EXPECT_FALSE(lw_srcu_poll(&d, 0));
    char four[4];
    EXPECT_GT(lw_srcu_describe(&d, four, sizeof four), 4);
    EXPECT_EQ(std::strlen(four), 3u);
}

TEST(SrcuDefined, IsReadyAndNamed) {
    EXPECT_EQ(describe(&defined).substr(0, 21), "defined: flavour fast");
    leave(&defined, enter(&defined));
    leave(&defined_static, enter(&defined_static));
    leave(&defined_too, enter(&defined_too));
    EXPECT_EQ(lw_srcu_synchronize(&defined), 0);
    EXPECT_EQ(lw_srcu_synchronize(&defined_static), 0);
}

TEST_P(Srcu, CleanupIsRefusedWhileReadersAreInside) {
    for (const auto flavour : all_flavours) {
        Domain d(flavour);
        const auto outer = enter(&d), inner = enter(&d);
        EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY);
        EXPECT_NE(describe(&d).find("2 readers inside"), std::string::npos) << describe(&d);
        leave(&d, inner);
        EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY);
        leave(&d, outer);
    }
}

TEST_P(Srcu, WaitsForEarlierReadersOnly) {
    for (const auto flavour : all_flavours) {
        Domain d(flavour);
        for (int round = 0; round < 4; round++) { // either index
            std::atomic<bool> over = false;
            const auto old = enter(&d);
            std::thread waiter([&] {
                EXPECT_EQ(round % 2 ? lw_srcu_synchronize(&d) : lw_srcu_synchronize_expedited(&d), 0);
                over = true;
            });
            std::this_thread::sleep_for(5ms);
            EXPECT_FALSE(over);
            leave(&d, old);
            waiter.join();
        }
        const auto cookie = lw_srcu_get_state(&d);
        EXPECT_FALSE(lw_srcu_poll(&d, cookie));
        EXPECT_EQ(lw_srcu_synchronize(&d), 0);
        EXPECT_TRUE(lw_srcu_poll(&d, cookie));
    }
}

TEST_P(Srcu, AReaderEndsInAnotherThreadAndInASignalHandler) {
    static Domain *domain;
    static lw_srcu_index handed_over;
    Domain d(LW__SRCU_FAST_UPDOWN);
    domain = &d;
    for (const bool by_signal : {false, true}) {
        handed_over = enter(&d);
        EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY);
        if (by_signal) {
            signal(SIGUSR2, [](int) { leave(domain, handed_over); });
            raise(SIGUSR2);
        } else {
            std::thread([&] { leave(&d, handed_over); }).join();
        }
        EXPECT_EQ(lw_srcu_synchronize(&d), 0);
    }
}

TEST_P(Srcu, CountsOutliveTheirThreads) {
    Domain d(LW__SRCU_FAST_UPDOWN);
    std::vector<lw_srcu_index> indices(40);
    for (auto &c : indices)
        std::thread([&] { c = enter(&d); }).join();
    EXPECT_NE(describe(&d).find("40 readers inside"), std::string::npos) << describe(&d);
    EXPECT_EQ(lw_srcu_synchronize(&defined), 0);
    for (const auto c : indices)
        std::thread([&] { leave(&d, c); }).join();
    EXPECT_EQ(lw_srcu_synchronize(&d), 0);
}

TEST_P(Srcu, SectionsInDestructorsOfEndingThreads) {
    static Domain *domain;
    Domain d(LW__SRCU_FAST);
    domain = &d;
    pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, [](void *) { leave(domain, enter(domain)); }), 0);
    for (int i = 0; i < 10; i++)
        std::thread([&] {
            pthread_setspecific(key, &d);
            leave(&d, enter(&d));
        }).join();
    pthread_key_delete(key);
    EXPECT_EQ(lw_srcu_synchronize(&d), 0);
}

TEST_P(Srcu, CountsWrap) {
    Domain d(LW__SRCU_FAST);
    lw__srcu_test_set_counts(d.domain, ULONG_MAX - 1);
    for (int round = 0; round < 4; round++) {
        const auto cookie = lw_srcu_start_poll(&d);
        const auto c = enter(&d), c2 = enter(&d);
        EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY);
        leave(&d, c);
        leave(&d, c2);
        EXPECT_EQ(lw_srcu_synchronize(&d), 0);
        EXPECT_TRUE(lw_srcu_poll(&d, cookie));
    }
}

TEST_P(Srcu, StatesAskForAWholeGracePeriod) {
    Domain d(LW__SRCU_FAST);
    const auto c = enter(&d);
    const auto first = lw_srcu_start_poll(&d);
    EXPECT_EQ(lw_srcu_poll(&d, first), false);
    std::this_thread::sleep_for(3ms); // the worker begins the grace period, or has not yet: either is right
    const auto second = lw_srcu_get_state(&d);
    EXPECT_LT(second - first, 8u);
    EXPECT_FALSE(lw_srcu_poll(&d, first));
    leave(&d, c);
    while (!lw_srcu_poll(&d, first)) // comes by itself
        std::this_thread::sleep_for(100us);
    EXPECT_EQ(lw_srcu_synchronize(&d), 0);
    EXPECT_TRUE(lw_srcu_poll(&d, second));
}

TEST(SrcuStates, WrapAndAreForgottenOnceReached) {
    Domain d(LW__SRCU_NORMAL);
    for (const unsigned long seq : {2ul, ULONG_MAX / 2 + 1001, ULONG_MAX - 3, ULONG_MAX - 1}) {
        lw__srcu_test_set_seq(d.domain, seq & ~1ul, 0); // no cookie of the last round may seem to lie in the future
        const auto cookie = lw_srcu_start_poll(&d);
        while (!lw_srcu_poll(&d, cookie)) // comes by itself
            std::this_thread::sleep_for(100us);
        lw_srcu_head head;
        ASSERT_EQ(lw_srcu_call(&d, &head, [](lw_srcu_head *) {}), 0);
        EXPECT_EQ(lw_srcu_barrier(&d), 0); // by then the worker has served the domain
        EXPECT_EQ(lw_srcu_synchronize(&d), 0);
        const auto quiet = lw_srcu_get_state(&d);
        std::this_thread::sleep_for(2ms);
        EXPECT_EQ(lw_srcu_get_state(&d), quiet) << "grace periods without a request";
    }
}

TEST_P(Srcu, ConcurrentWaitersAllReturn) {
    Domain d(LW__SRCU_FAST);
    std::atomic<unsigned long> first = lw_srcu_get_state(&d);
    std::vector<std::thread> waiters;
    const auto c = enter(&d);
    for (int i = 0; i < 8; i++)
        waiters.emplace_back([&, i] { EXPECT_EQ(i % 3 ? lw_srcu_synchronize(&d) : lw_srcu_synchronize_expedited(&d), 0); });
    std::this_thread::sleep_for(20ms);
    leave(&d, c);
    for (auto &w : waiters)
        w.join();
    EXPECT_TRUE(lw_srcu_poll(&d, first));
}

// Delays a waiter between checking and sleeping, as preemption does: the driver has left by then and wakes no thread any
// more.
TEST(SrcuWaiters, MissNoWakeUp) {
    Domain d(LW__SRCU_NORMAL);
    constexpr unsigned at_sleep = 7; // src/srcu/domain.h
    static std::atomic<unsigned> late;
    late = 0;
    __atomic_store_n(
        &lw__srcu_test_point,
        +[](unsigned where) {
            if (where != at_sleep)
                sched_yield(); // longer grace periods, so that others find a driver
            else if (late++ % 2)
                std::this_thread::sleep_for(200us);
        },
        __ATOMIC_RELEASE);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; i++)
        waiters.emplace_back([&] {
            for (int n = 0; n < 100; n++)
                ASSERT_EQ(lw_srcu_synchronize(&d), 0);
        });
    for (auto &w : waiters)
        w.join();
    __atomic_store_n(&lw__srcu_test_point, nullptr, __ATOMIC_RELEASE);
    RecordProperty("late", static_cast<int>(late));
}

TEST_P(Srcu, CallbacksRunInOrderAndInBatches) {
    constexpr int count = 100000;
    struct Item {
        lw_srcu_head head;
        int number;
    };
    static std::atomic<int> next, out_of_order;
    next = out_of_order = 0;
    Domain d(LW__SRCU_FAST);
    std::vector<Item> items(count);
    const auto before = lw_srcu_get_state(&d);
    for (int i = 0; i < count; i++) {
        items[i].number = i;
        ASSERT_EQ(lw_srcu_call(&d, &items[i].head,
                               [](lw_srcu_head *h) {
                                   if (reinterpret_cast<Item *>(h)->number != next++)
                                       out_of_order++;
                               }),
                  0);
    }
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
    EXPECT_EQ(next, count);
    EXPECT_EQ(out_of_order, 0);
    EXPECT_LT(lw_srcu_get_state(&d) - before, 2ul * count); // not one grace period each
}

TEST(SrcuCallbacks, WaitForReadersAndMayMakeAndEndDomains) {
    static std::atomic<int> ran, barrier_refused;
    ran = barrier_refused = 0;
    Domain d(LW__SRCU_FAST);
    const auto c = enter(&d);
    lw_srcu_head head;
    ASSERT_EQ(lw_srcu_call(&d, &head,
                           [](lw_srcu_head *) {
                               { // a domain inside a callback, waited for there
                                   Domain inner(LW__SRCU_NORMAL);
                                   EXPECT_EQ(lw_srcu_synchronize(&inner), 0);
                                   barrier_refused = lw_srcu_barrier(&inner) == -EDEADLK;
                               }
                               ran++;
                           }),
              0);
    EXPECT_EQ(lw_srcu_cleanup(&d), -EBUSY);
    std::this_thread::sleep_for(10ms);
    EXPECT_EQ(ran, 0);
    { // another domain's callbacks do not wait for this one's reader
        Domain other(LW__SRCU_FAST);
        EXPECT_EQ(lw_srcu_barrier(&other), 0);
    }
    leave(&d, c);
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(barrier_refused, 1);
}

TEST(SrcuCallbacks, PreventCleanupWhileQueued) {
    Domain d(LW__SRCU_FAST);
    static std::atomic<bool> go;
    static lw_srcu_head blocker, head;
    static lw_srcu *domain;
    static std::atomic<int> inside;
    go = false;
    domain = &d;
    ASSERT_EQ(lw_srcu_call(&d, &blocker,
                           [](lw_srcu_head *) {
                               while (!go)
                                   std::this_thread::sleep_for(100us);
                           }),
              0);
    ASSERT_EQ(lw_srcu_call(&d, &head, [](lw_srcu_head *) { inside = lw_srcu_cleanup(domain); }), 0);
    EXPECT_EQ(lw_srcu_cleanup(&d), -EAGAIN);
    go = true;
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
    EXPECT_EQ(inside, -EAGAIN); // the last one: not over before it has returned
}

TEST_P(Srcu, DomainsAndThreadsLeaveNothingBehind) {
    Domain warm(LW__SRCU_FAST_UPDOWN);
    const std::string how = describe(&warm);
    void *const before = lw_percpu_alloc(32, 32);
    ASSERT_EQ(lw_percpu_free(before), 0);
    for (int i = 0; i < 300; i++) // more than there are slots
        Domain d(all_flavours[i % 3]);
    { // the last domain gets what the first got
        Domain d(LW__SRCU_FAST_UPDOWN);
        EXPECT_EQ(describe(&d), how);
    }
    void *const after = lw_percpu_alloc(32, 32);
    EXPECT_EQ(after, before);
    EXPECT_EQ(lw_percpu_free(after), 0);

    const bool per_thread = LW_HAVE_THREAD_WORDS && GetParam();
    EXPECT_EQ(how.find("counts per thread") != std::string::npos, per_thread) << how;
    if (!per_thread)
        return;
    std::vector<lw_srcu_index> indices(40); // one thread after the other: all of them count in one record
    for (auto &c : indices)
        std::thread([&] { c = enter(&warm); }).join();
    static std::atomic<bool> reported;
    static std::string text;
    reported = false;
    ASSERT_EQ(lw_srcu_on_stall(
                  &warm, 1,
                  [](const lw_srcu *, unsigned, const char *t, void *) {
                      if (!reported) {
                          text = t;
                          reported = true;
                      }
                  },
                  nullptr),
              0);
    std::thread waiter([&] { EXPECT_EQ(lw_srcu_synchronize(&warm), 0); });
    while (!reported)
        std::this_thread::sleep_for(1ms);
    for (const auto c : indices)
        leave(&warm, c);
    waiter.join();
    EXPECT_NE(text.find("locks - unlocks = 40\n"), std::string::npos) << text;
}

TEST(SrcuDomains, MoreThanThereAreSlots) {
    std::vector<std::unique_ptr<Domain>> many;
    std::vector<lw_srcu_index> indices;
    for (int i = 0; i < 300; i++) {
        many.push_back(std::make_unique<Domain>(all_flavours[i % 3]));
        indices.push_back(enter(many.back().get()));
    }
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(lw_srcu_cleanup(many[i].get()), -EBUSY);
        leave(many[i].get(), indices[i]);
    }
}

TEST_P(Srcu, AStuckReaderIsReported) {
    static std::atomic<int> reports;
    static std::string text;
    reports = 0;
    Domain d(LW__SRCU_FAST);
    ASSERT_EQ(lw_srcu_on_stall(
                  &d, 20,
                  [](const lw_srcu *, unsigned age, const char *t, void *argument) {
                      EXPECT_GE(age, 20u);
                      EXPECT_EQ(argument, &reports);
                      if (!reports++)
                          text = t;
                  },
                  &reports),
              0);
    const auto c = enter(&d);
    std::thread waiter([&] { EXPECT_EQ(lw_srcu_synchronize(&d), 0); });
    while (!reports)
        std::this_thread::sleep_for(1ms);
    leave(&d, c);
    waiter.join();
    EXPECT_NE(text.find("not over after"), std::string::npos) << text;
    const bool per_thread = describe(&d).find("counts per thread") != std::string::npos;
    const std::string whose = "thread " + std::to_string(syscall(SYS_gettid)) + ", index";
    EXPECT_NE(text.find(per_thread ? whose : "CPU "), std::string::npos) << text;
}

#ifndef LW_SANITIZED
TEST_P(Srcu, AChildGoesOn) {
    if (std::getenv("LW_USER_EMULATION"))
        GTEST_SKIP() << "qemu-user ends when a child of several threads starts one";
    Domain d(LW__SRCU_FAST);
    static lw_srcu_head head;
    static std::atomic<int> ran;
    ran = 0;
    std::atomic<bool> inside = false, leave_now = false;
    std::thread other([&] {
        const auto c = enter(&d);
        inside = true;
        while (!leave_now)
            std::this_thread::sleep_for(100us);
        leave(&d, c);
    });
    while (!inside)
        std::this_thread::sleep_for(100us);
    ASSERT_EQ(lw_srcu_call(&d, &head, [](lw_srcu_head *) { ran++; }), 0);
    EXPECT_EQ(in_child([&] {
                  if (lw_srcu_cleanup(&d) != -EBUSY) // the other thread's critical section is still counted
                      return 1;
                  if (lw_srcu_forget_readers(&d) || lw_srcu_synchronize(&d) || lw_srcu_barrier(&d))
                      return 2;
                  leave(&d, enter(&d));
                  return ran == 1 && lw_srcu_cleanup(&d) == 0 ? 0 : 3;
              }),
              0);
    leave_now = true;
    other.join();
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
}

// fork() waits for no callback, and the child has all that were queued but the one that runs.
TEST(SrcuFork, InTheMiddleOfABatch) {
    if (std::getenv("LW_USER_EMULATION"))
        GTEST_SKIP() << "see AChildGoesOn";
    Domain d(LW__SRCU_FAST);
    static lw_srcu_head heads[4];
    static std::atomic<int> begun, ran;
    static std::atomic<bool> go;
    begun = ran = 0;
    go = false;
    const auto c = enter(&d); // all four become one batch
    ASSERT_EQ(lw_srcu_call(&d, &heads[0],
                           [](lw_srcu_head *) {
                               begun++;
                               while (!go)
                                   std::this_thread::sleep_for(100us);
                               lw_percpu_free(lw_percpu_alloc(8, 8));
                               ran++;
                           }),
              0);
    for (int i = 1; i < 4; i++)
        ASSERT_EQ(lw_srcu_call(&d, &heads[i], [](lw_srcu_head *) { ran++; }), 0);
    leave(&d, c);
    while (!begun)
        std::this_thread::sleep_for(100us);
    EXPECT_EQ(in_child([&] {
                  if (lw_srcu_cleanup(&d) != -EAGAIN || lw_srcu_barrier(&d))
                      return 1;
                  return ran == 3 && lw_srcu_cleanup(&d) == 0 ? 0 : 2;
              }),
              0);
    go = true;
    EXPECT_EQ(lw_srcu_barrier(&d), 0);
    EXPECT_EQ(ran, 4);
}

// The parent had stored the final number and not yet that no grace period is in progress.
TEST(SrcuFork, BetweenTheTwoStoresThatEndAGracePeriod) {
    if (std::getenv("LW_USER_EMULATION"))
        GTEST_SKIP() << "see AChildGoesOn";
    Domain d(LW__SRCU_FAST);
    lw__srcu_test_set_seq(d.domain, 2, 2);
    EXPECT_EQ(in_child([&] {
                  const auto c = enter(&d);
                  const auto cookie = lw_srcu_start_poll(&d);
                  for (int i = 0; i < 50; i++) {
                      if (lw_srcu_poll(&d, cookie))
                          return 1; // with a reader inside
                      std::this_thread::sleep_for(200us);
                  }
                  leave(&d, c);
                  while (!lw_srcu_poll(&d, cookie))
                      std::this_thread::sleep_for(100us);
                  return 0;
              }),
              0);
    lw__srcu_test_set_seq(d.domain, 2, 0);
}

TEST(SrcuDebug, WrongUsesAbort) {
    ASSERT_EQ(prepare_debug_cases(), 0);
    constexpr int first_right = 8; // in debug_cases.c
    constexpr auto starts_a_thread = [](int i) { return i == 4 || i == 6 || i >= 9; };
    for (int i = 0; wrong_uses[i]; i++) {
        if (starts_a_thread(i) && std::getenv("LW_USER_EMULATION"))
            continue; // see AChildGoesOn
        const int code = in_child([&] {
            fclose(stderr);
            wrong_uses[i]();
            return 0;
        });
        EXPECT_EQ(code, i < first_right ? 128 + SIGABRT : 0) << "case " << i;
    }
}
#endif

#ifdef LW_PLUGIN
TEST(SrcuDomains, AreNotReadByAnotherCopyOfTheLibrary) {
    void *plugin = dlopen(LW_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto read = reinterpret_cast<void (*)(lw_srcu *)>(dlsym(plugin, "plugin_read"));
    ASSERT_NE(read, nullptr);
    lw__srcu_test_slots = 0; // words per CPU are anybody's
    Domain per_cpu(LW__SRCU_FAST);
    lw__srcu_test_slots = UINT_MAX;
    read(&per_cpu);
    EXPECT_EQ(lw_srcu_synchronize(&per_cpu), 0);
    Domain d(LW__SRCU_FAST);
    EXPECT_EQ(in_child([&] {
                  fclose(stderr);
                  read(&d);
                  return 0;
              }),
              128 + SIGABRT);
}
#endif

// ---- membarrier ----

TEST(SrcuMembarrier, DeniedAfterInitEndsNoGracePeriod) {
    Domain d(LW__SRCU_FAST), normal(LW__SRCU_NORMAL);
    if (describe(&d).find("by membarrier") == std::string::npos)
        GTEST_SKIP() << describe(&d);
    static lw_srcu_head head;
    static std::atomic<int> ran;
    ran = 0;
    const auto cookie = lw_srcu_get_state(&d);
    __atomic_store_n(&lw__srcu_test_membarrier, +[](int) { return EPERM; }, __ATOMIC_RELEASE);
    EXPECT_EQ(lw_srcu_synchronize(&d), -EPERM);
    EXPECT_EQ(lw_srcu_synchronize_expedited(&d), -EPERM);
    ASSERT_EQ(lw_srcu_call(&d, &head, [](lw_srcu_head *) { ran++; }), 0);
    EXPECT_EQ(lw_srcu_barrier(&d), -EPERM);
    EXPECT_FALSE(lw_srcu_poll(&d, cookie));
    EXPECT_EQ(lw_srcu_cleanup(&d), -EPERM);
    EXPECT_EQ(ran, 0);
    EXPECT_NE(describe(&d).find("denied"), std::string::npos) << describe(&d);
    EXPECT_EQ(lw_srcu_synchronize(&normal), 0); // needs none
    __atomic_store_n(&lw__srcu_test_membarrier, nullptr, __ATOMIC_RELEASE); // and it comes back
    while (lw_srcu_barrier(&d) == -EPERM) // the worker may be in a step that it began before
        ;
    EXPECT_EQ(ran, 1);
    EXPECT_TRUE(lw_srcu_poll(&d, cookie));
}

#if !defined(LW_SANITIZED)
TEST(SrcuMembarrier, IsDeniedByASeccompFilterAfterInit) {
    Domain d(LW__SRCU_FAST);
    if (describe(&d).find("by membarrier") == std::string::npos)
        GTEST_SKIP() << describe(&d);
    const int code = in_child([&] {
        sock_filter steps[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter = {4, steps};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            return 77;
        lw_srcu young;
        if (lw__srcu_init(&young, LW__SRCU_FAST))
            return 1;
        return lw_srcu_synchronize(&d) == -EPERM && lw_srcu_synchronize(&young) == 0 ? 0 : 2;
    });
    if (code == 77)
        GTEST_SKIP() << "this system allows no filter";
    EXPECT_EQ(code, 0);
}
#endif

} // namespace
