// SPDX-License-Identifier: MIT
// Wrong uses of a readers-writer lock in code compiled with LW_DEBUG: each ends the process and names its place. Without LW_DEBUG the same calls
// return an error: rwlock_test.cpp.
#define LW_DEBUG
#include <linewright/rwlock.h>

#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace {

class RwlockDebug : public testing::TestWithParam<bool> {
protected:
    lw_rwlock l = LW_RWLOCK_INIT;
    void SetUp() override {
        // How many reads it takes depends on what ending biases cost here.
        for (int i = 0; GetParam() && l.biased != LW__RW_BIASED && i < 100'000'000; i++)
            ASSERT_FALSE(lw_rwlock_read_lock(&l) || lw_rwlock_read_unlock(&l));
        ASSERT_EQ(l.biased == LW__RW_BIASED, GetParam());
    }
};
INSTANTIATE_TEST_SUITE_P(, RwlockDebug, testing::Bool(), [](const auto &p) { return p.param ? "biased" : "plain"; });

std::string at(int line, const std::string &why) {
    return "debug_test.cpp:" + std::to_string(line) + ", called from 0x[0-9a-f]+: " + why;
}
#define ABORTS(statement, why) EXPECT_DEATH(statement, at(__LINE__, why))

TEST_P(RwlockDebug, ALockThatIsNotHeldIsReleased) {
    ABORTS((void)lw_rwlock_read_unlock(&l), "no thread holds the lock");
    ABORTS((void)lw_rwlock_write_unlock(&l), "no thread holds the lock");
}

TEST_P(RwlockDebug, ALockIsReleasedTwice) {
    ASSERT_FALSE(lw_rwlock_write_lock(&l) || lw_rwlock_write_unlock(&l));
    ABORTS((void)lw_rwlock_write_unlock(&l), "no thread holds the lock");
    ASSERT_FALSE(lw_rwlock_read_lock(&l) || lw_rwlock_read_unlock(&l));
    ABORTS((void)lw_rwlock_read_unlock(&l), "no thread holds the lock");
}

TEST_P(RwlockDebug, ALockIsReleasedAsTheOtherKind) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    ABORTS((void)lw_rwlock_write_unlock(&l), "threads hold the lock for reading only");
    ABORTS((void)lw_rwlock_downgrade(&l), "threads hold the lock for reading only");
    ASSERT_EQ(lw_rwlock_read_unlock(&l), 0);
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    ABORTS((void)lw_rwlock_read_unlock(&l), "a thread holds the lock for writing");
    EXPECT_DEATH(std::thread([&] { (void)lw_rwlock_write_unlock(&l); }).join(), "a thread holds the lock for writing");
    ASSERT_EQ(lw_rwlock_write_unlock(&l), 0);
}

TEST_P(RwlockDebug, ALockIsDestroyedWhileItIsHeld) {
    ASSERT_EQ(lw_rwlock_read_lock(&l), 0);
    ABORTS((void)lw_rwlock_destroy(&l), "threads hold the lock for reading only");
    ASSERT_EQ(lw_rwlock_read_unlock(&l), 0);
    ASSERT_EQ(lw_rwlock_write_lock(&l), 0);
    ABORTS((void)lw_rwlock_destroy(&l), "a thread holds the lock for writing");
    ASSERT_EQ(lw_rwlock_write_unlock(&l), 0);
    EXPECT_EQ(lw_rwlock_destroy(&l), 0);
}

TEST(RwlockDebugCpp, TheClassIsReleasedWithoutBeingHeld) {
    lw::shared_mutex m;
    EXPECT_DEATH(m.unlock(), "rwlock_mutex.h:[0-9]+, called from 0x[0-9a-f]+: no thread holds the lock");
    EXPECT_DEATH(m.unlock_shared(), "rwlock_mutex.h:[0-9]+, called from 0x[0-9a-f]+: no thread holds the lock");
    std::scoped_lock right(m);
}

} // namespace
