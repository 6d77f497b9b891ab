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

TEST(UsedCpus, WordsThatWereNeverUsedAreNotRead) {
    // 1004 where the list that this test was built with can be read, else a multiple of 64.
    const unsigned possible = lw_percpu_nr_cpus(), unused = possible - 4;
    if (possible < 8 || unused <= static_cast<unsigned>(usable_cpus().back()))
        GTEST_SKIP() << "every CPU may be used";
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(8, 8));
    ASSERT_NE(p, nullptr);
    for (int i = 0; i < 10; i++)
        lw_this_cpu_inc(p);
    lw__percpu_add_second_u64(p, 5); // this thread's stripe
    // Reading what cannot be read would end the test.
    for (unsigned cpu = unused; cpu < possible; cpu++) {
        char *const second = unit(p, cpu) + LW_PERCPU_SECOND;
        ASSERT_EQ(mprotect(second, LW_PERCPU_SECOND, PROT_NONE), 0);
        if (LW__RSEQ_LIMIT_GROWS) {
            ASSERT_EQ(mprotect(unit(p, cpu), LW_PERCPU_SECOND, PROT_NONE), 0);
        }
    }
    EXPECT_EQ(lw_percpu_sum(p), 15u);
    for (unsigned cpu = unused; cpu < possible; cpu++)
        ASSERT_EQ(mprotect(unit(p, cpu), LW_PERCPU_STRIDE, PROT_READ | PROT_WRITE), 0);
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

// The program begins on one CPU and may use more later: those count as soon as a thread counts there. LW_THEN_ON: the CPUs to
// use after that, in a program that was started anew.
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
