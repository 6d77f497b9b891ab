// SPDX-License-Identifier: MIT
// Locks are timed as those of a process that has threads. A program of its own, since one test's thread spoils the other.
#include "probe/window.hpp"
#include "this_machine.hpp"

#include <gtest/gtest.h>
#include <sys/single_threaded.h>

// A mutex pair is 7 ns before a process has a second thread and 20 ns after (glibc 2.36, Intel Xeon, 24 November 2026).
TEST(Locks, AreThoseOfAProcessWithThreads) {
    ASSERT_TRUE(__libc_single_threaded);
    const lw::probe::User_space own(lw::probe::machine());
    EXPECT_FALSE(__libc_single_threaded);
}
