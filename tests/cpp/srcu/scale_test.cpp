// SPDX-License-Identifier: MIT
// SRCU with many domains: all of them count on the threads' words, memory is used where a thread counts, ended ones are
// given back, and only a domain that has work is served.
#include "../own_memory.hpp"
#include "support.hpp"

namespace {

constexpr unsigned many = 2000; // 1,008 of them fit into a record on i386

struct Domains {
    std::unique_ptr<lw_srcu[]> all{new lw_srcu[many]()};
    Domains() {
        for (unsigned i = 0; i < many; i++)
            EXPECT_EQ(lw__srcu_init(&all[i], LW__SRCU_FAST), 0);
    }
    ~Domains() {
        for (unsigned i = 0; i < many; i++)
            EXPECT_EQ(lw_srcu_cleanup(&all[i]), 0) << i;
    }
};

TEST(SrcuScale, AllDomainsCountPerThread) {
    Domain first(LW__SRCU_FAST);
    leave(&first, enter(&first)); // this thread's record is older than most domains
    Domains domains;
    const unsigned per_thread = sizeof(void *) == 8 ? many : 1000;
    for (unsigned i = 0; i < many; i++) {
        lw_srcu *const s = &domains.all[i];
        if (LW_HAVE_THREAD_WORDS && i < per_thread) {
            ASSERT_NE(describe(s).find("counts per thread"), std::string::npos) << i;
        }
        const auto index = enter(s);
        EXPECT_EQ(lw_srcu_cleanup(s), -EBUSY) << i;
        leave(s, index);
        if (i % 100 == 0)
            std::thread([s] { leave(s, enter(s)); }).join(); // its counts are folded
        EXPECT_EQ(lw_srcu_synchronize(s), 0);
    }
}

#if !defined(LW_SANITIZED) && LW_HAVE_THREAD_WORDS
TEST(SrcuScale, MemoryIsUsedWhereAThreadCounts) {
    if (!own_memory_kib() || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        GTEST_SKIP() << "this kernel does not count pages, or makes them as large as it likes";
    Domains domains;
    lw_srcu *const last = &domains.all[many - 1];
    constexpr int threads = 50;
    std::atomic<int> inside = 0;
    std::atomic<bool> go = false;
    std::vector<std::thread> all;
    const auto spawn = [&](bool read) {
        inside = 0;
        go = false;
        const long before = own_memory_kib();
        for (int i = 0; i < threads; i++)
            all.emplace_back([&, read] {
                if (read)
                    leave(last, enter(last));
                inside++;
                go.wait(false);
            });
        while (inside < threads)
            std::this_thread::sleep_for(1ms);
        const long kib = own_memory_kib() - before;
        go = true;
        go.notify_all();
        for (auto &t : all)
            t.join();
        all.clear();
        return kib;
    };
    spawn(true); // stacks and arenas
    const long without = spawn(false), with = spawn(true);
    EXPECT_LT(with - without, threads * 40) << "KiB; a record for all domains has " << many * 32 / 1024;
}
#endif

// Entries that ended while they were listed for work are given back: by the worker, and where there is none.
TEST(SrcuScale, EndedDomainsAreGivenBack) {
    const auto churn = [] {
        for (int i = 0; i < 70'000; i++) { // more than there are entries
            lw_srcu s;
            ASSERT_EQ(lw__srcu_init(&s, LW__SRCU_NORMAL), 0) << i;
            if (i % 8 == 0) {
                ASSERT_NE(lw_srcu_start_poll(&s), 0u);
            }
            ASSERT_EQ(lw_srcu_cleanup(&s), 0) << i;
        }
    };
    ASSERT_EQ(lw_srcu_worker_stop(), 0);
    churn();
    ASSERT_EQ(lw_srcu_worker_start(), 0);
    churn();
    ASSERT_EQ(lw_srcu_worker_stop(), 0);
    ASSERT_EQ(lw_srcu_worker_start(), 0);
}

// Callbacks in many domains, from several threads, while others end: each runs once.
TEST(SrcuScale, EveryDomainsWorkIsServed) {
    static std::atomic<unsigned> ran;
    ran = 0;
    Domains domains;
    std::vector<std::vector<lw_srcu_head>> heads(4, std::vector<lw_srcu_head>(many));
    std::vector<std::thread> callers;
    for (auto &mine : heads)
        callers.emplace_back([&] {
            for (unsigned i = 0; i < many; i++)
                ASSERT_EQ(lw_srcu_call(&domains.all[i], &mine[i], [](lw_srcu_head *) { ran++; }), 0);
        });
    for (int i = 0; i < 200; i++) {
        lw_srcu s;
        ASSERT_EQ(lw__srcu_init(&s, LW__SRCU_FAST), 0);
        ASSERT_NE(lw_srcu_start_poll(&s), 0u);
        ASSERT_EQ(lw_srcu_cleanup(&s), 0);
    }
    for (auto &c : callers)
        c.join();
    for (unsigned i = 0; i < many; i++)
        EXPECT_EQ(lw_srcu_barrier(&domains.all[i]), 0);
    EXPECT_EQ(ran, heads.size() * many);
}

// A structure that was copied or moved: a table that grew, say. The original works on.
TEST(SrcuCopies, AreRefused) {
    lw_srcu original, copy, stale;
    ASSERT_EQ(lw__srcu_init(&original, LW__SRCU_NORMAL), 0);
    std::memcpy(static_cast<void *>(&copy), &original, sizeof copy);
    lw_srcu_head head;
    EXPECT_EQ(lw_srcu_synchronize(&copy), -EINVAL);
    EXPECT_EQ(lw_srcu_call(&copy, &head, [](lw_srcu_head *) {}), -EINVAL);
    EXPECT_EQ(lw_srcu_barrier(&copy), -EINVAL);
    EXPECT_EQ(lw_srcu_get_state(&copy), 0u);
    EXPECT_EQ(lw_srcu_cleanup(&copy), -EINVAL);
    EXPECT_EQ(describe(&copy), "a copy of a domain, which may not be copied");
    EXPECT_EQ(lw_srcu_synchronize(&original), 0);
    std::memcpy(static_cast<void *>(&stale), &original, sizeof stale);
    EXPECT_EQ(lw_srcu_cleanup(&original), 0);
    EXPECT_EQ(lw_srcu_synchronize(&stale), -EINVAL); // the domain has ended
    Domain another(LW__SRCU_NORMAL); // has taken its place
    EXPECT_EQ(lw_srcu_synchronize(&stale), -EINVAL);
    EXPECT_EQ(lw_srcu_cleanup(&stale), -EINVAL);
}

} // namespace
