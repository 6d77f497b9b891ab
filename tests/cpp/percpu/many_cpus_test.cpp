// SPDX-License-Identifier: MIT
// A machine with thousands of possible CPUs and holes between them costs addresses, not memory, and works the same.
#include <linewright/percpu.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../own_memory.hpp"

namespace {

long resident_pages() { return own_memory_kib() / (sysconf(_SC_PAGESIZE) / 1024); }

TEST(ManyCpus, PagesComeWithUse) {
    ASSERT_EQ(lw_percpu_nr_cpus(), 1004u); // the list this test was built with is 0-1,1000-1003
    const long before = resident_pages();
    if (!before)
        GTEST_SKIP() << "this kernel does not count pages";
    auto *p = static_cast<uint64_t *>(lw_percpu_alloc(4096, 8));
    ASSERT_NE(p, nullptr);
    lw_this_cpu_inc(p);
    EXPECT_EQ(lw_percpu_sum(p), 1u); // reads all 1004 copies; reading makes no page
    EXPECT_LT(resident_pages() - before, 100) << "pages of CPUs that never ran came into being";
    EXPECT_EQ(lw_percpu_free(p), 0);
    // Used again: zeroing must not touch the untouched either.
    auto *q = static_cast<uint64_t *>(lw_percpu_alloc(4096, 8));
    EXPECT_EQ(lw_percpu_sum(q), 0u);
    EXPECT_LT(resident_pages() - before, 100);
    EXPECT_EQ(lw_percpu_free(q), 0);
}

TEST(ManyCpus, HighestCpuHasACopy) {
    auto *p = static_cast<uint32_t *>(lw_percpu_alloc(4, 4));
    *static_cast<uint32_t *>(lw_per_cpu_ptr(p, 1003)) = 5;
    EXPECT_EQ(lw_percpu_sum(p), 5u);
    EXPECT_EQ(lw_per_cpu_ptr(p, 1004), nullptr);
    EXPECT_EQ(lw_percpu_free(p), 0);
}

TEST(ManyCpus, NoMemoryIsSaid) {
    std::vector<void *> all;
    rlimit old;
    getrlimit(RLIMIT_AS, &old);
    const rlimit tight = {rlim_t{256} << 20, old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    void *p = nullptr;
    do {
        errno = 0;
        p = lw_percpu_alloc(LW_PERCPU_MAX_SIZE, 8);
        if (p)
            all.push_back(p);
    } while (p && all.size() < 64);
    const int said = errno;
    setrlimit(RLIMIT_AS, &old);
    EXPECT_EQ(p, nullptr);
    EXPECT_EQ(said, ENOMEM);
    for (void *each : all)
        EXPECT_EQ(lw_percpu_free(each), 0);
}

} // namespace
