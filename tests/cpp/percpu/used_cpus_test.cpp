// SPDX-License-Identifier: MIT
// Sums leave out words that were never used, and miss none that were: built for a machine with a thousand possible CPUs.
#include <linewright/percpu.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::vector<int> usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus.push_back(cpu);
    return cpus;
}

bool run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

// Without lw_per_cpu_ptr(), after which sums read that CPU's words too.
char *unit(const void *p, unsigned cpu) {
    const auto address = reinterpret_cast<uintptr_t>(LW__CPU0(const_cast<void *>(p))) & ~uintptr_t{LW_PERCPU_STRIDE - 1};
    return reinterpret_cast<char *>(address + std::size_t{cpu} * LW_PERCPU_STRIDE);
}

// The CPUs of these copies are possible and never used: none below this number, because of where this process may run.
unsigned first_unused() {
    // 1004 possible CPUs where the list that this test was built with can be read, else a multiple of 64.
    const unsigned possible = lw_percpu_nr_cpus(), unused = possible - 4;
    return possible < 8 || unused <= static_cast<unsigned>(usable_cpus().back()) ? possible : unused;
}

// Reading what cannot be read would end the test.
void make_unreadable(const void *p, int rights = PROT_NONE) {
    for (unsigned cpu = first_unused(); cpu < lw_percpu_nr_cpus(); cpu++)
        ASSERT_EQ(mprotect(unit(p, cpu), LW_PERCPU_STRIDE, rights), 0);
}

void make_readable(const void *p) { make_unreadable(p, PROT_READ | PROT_WRITE); }

TEST(UsedCpus, WordsThatWereNeverUsedAreNotRead) {
    if (first_unused() == lw_percpu_nr_cpus())
        GTEST_SKIP() << "every CPU may be used";
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8)), *q = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    ASSERT_TRUE(p && q);
    for (int i = 0; i < 10; i++) {
        lw_this_cpu_inc(p);
        lw_this_cpu_fetch_add(q, 1u);
    }
    lw__percpu_add_second_u64(p, 5); // this thread's stripe
    make_unreadable(p);
    EXPECT_EQ(lw_percpu_sum(p), 15u);
    uint64_t *const many[] = {p, q};
    uint64_t sums[2];
    lw_percpu_sum_many_u64(many, 2, sums);
    EXPECT_EQ(sums[0], 15u);
    EXPECT_EQ(sums[1], 10u); // a value, whichever CPUs it was stored on
    EXPECT_EQ(lw_percpu_free(p), 0);
    p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8)); // the same place: zeroing visits what was used
    EXPECT_EQ(lw_percpu_sum(p), 0u);
    make_readable(p);
    EXPECT_EQ(lw_percpu_free(p), 0);
    EXPECT_EQ(lw_percpu_free(q), 0);
}

// Who asked for a copy may have stored there: sums visit it, but sums in other chunks do not.
TEST(UsedCpus, ACopyThatWasAskedForIsSummedInItsChunk) {
    if (first_unused() == lw_percpu_nr_cpus())
        GTEST_SKIP() << "every CPU may be used";
    void *const whole = lw_percpu_alloc(LW_PERCPU_MAX_SIZE, 8); // fills its chunk
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    lw_this_cpu_inc(p);
    *static_cast<uint64_t *>(lw_per_cpu_ptr(whole, first_unused())) = 7;
    EXPECT_EQ(lw_percpu_sum(static_cast<uint64_t *>(whole)), 7u);
    make_unreadable(p);
    EXPECT_EQ(lw_percpu_sum(p), 1u);
    make_readable(p);
    EXPECT_EQ(lw_percpu_free(p), 0);
    EXPECT_EQ(lw_percpu_free(whole), 0);
}

TEST(UsedCpus, ManySumsAreThoseOfEach) {
    std::vector<lw_counter> counters(700); // more than one chunk holds together with the large ones
    std::vector<void *> large;
    for (std::size_t i = 0; i < counters.size(); i++) {
        ASSERT_EQ(lw_counter_init(&counters[i]), 0);
        if (i % 100 == 0)
            large.push_back(lw_percpu_alloc(LW_PERCPU_MAX_SIZE / 2, 8));
        lw_counter_add(&counters[i], static_cast<int64_t>(i));
        if (i % 3 == 0)
            std::thread([&] { lw__percpu_add_second_u64(counters[i].words, 1000); }).join();
    }
    std::vector<int64_t> sums(counters.size(), -1);
    lw_counter_sum_many(counters.data(), counters.size(), sums.data());
    for (std::size_t i = 0; i < counters.size(); i++) {
        EXPECT_EQ(sums[i], static_cast<int64_t>(i + (i % 3 == 0 ? 1000 : 0)));
        EXPECT_EQ(sums[i], lw_counter_sum(&counters[i]));
        lw_counter_destroy(&counters[i]);
    }
    lw_counter_sum_many(nullptr, 0, nullptr);
    for (void *p : large)
        EXPECT_EQ(lw_percpu_free(p), 0);
}

// Every thread that takes the fall-back has its own stripe until these come round.
TEST(UsedCpus, EveryStripeIsSummed) {
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    for (unsigned i = 1; i <= 50; i++) {
        std::thread([&] { lw__percpu_add_second_u64(p, 3); }).join();
        ASSERT_EQ(lw_percpu_sum(p), 3u * i);
    }
    EXPECT_EQ(lw_percpu_free(p), 0);
}

// The program begins on one CPU and may use more later: those count as soon as a thread counts there. LW_THEN_ON: the CPUs
// to use after that, in a program that was started anew.
TEST(UsedCpus, ACpuThatComesIntoUseIsSummed) {
    if (lw_percpu_mode(nullptr) == LW_PERCPU_ATOMIC)
        GTEST_SKIP() << "no sequences";
    const char *list = std::getenv("LW_THEN_ON");
    const auto cpus = usable_cpus();
    if (!list) {
        if (cpus.size() < 2)
            GTEST_SKIP() << "one CPU";
        std::string all;
        for (int cpu : cpus)
            all += std::to_string(cpu) + " ";
        const pid_t pid = fork();
        if (pid == 0) {
            setenv("LW_THEN_ON", all.c_str(), 1);
            if (run_on(cpus[0]))
                execl("/proc/self/exe", "used_cpus_test", "--gtest_filter=UsedCpus.ACpuThatComesIntoUseIsSummed", nullptr);
            _exit(99);
        }
        int status = -1;
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        EXPECT_EQ(status, 0);
        return;
    }
    ASSERT_EQ(cpus.size(), 1u);
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    uint64_t expected = 0;
    std::istringstream then_on(list);
    for (int cpu; then_on >> cpu;) {
        ASSERT_TRUE(run_on(cpu));
        for (int i = 0; i < 1000; i++)
            lw_this_cpu_inc(p);
        expected += 1000;
        EXPECT_EQ(lw_percpu_sum(p), expected) << "CPU " << cpu;
        // By sequences, but for those that something interrupted again and again.
        const auto *word = reinterpret_cast<const uint64_t *>(reinterpret_cast<const char *>(p) + LW_PERCPU_STRIDE +
                                                              static_cast<std::size_t>(cpu) * LW_PERCPU_STRIDE);
        EXPECT_GT(__atomic_load_n(word, __ATOMIC_RELAXED), 900u) << "CPU " << cpu;
    }
    EXPECT_GE(expected, 2000u);
    EXPECT_EQ(lw_percpu_free(p), 0);
}

} // namespace
