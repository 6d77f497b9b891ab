// SPDX-License-Identifier: MIT
// Who else uses the machine: other programs' load from a file like /proc/stat, other runs by the name that they hold.
#include "probe/company.hpp"
#include "wire/claim.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace lw::probe;
using lw::wire::claim_machine, lw::wire::other_run_here;

struct Stat {
    std::string path = ::testing::TempDir() + "stat-" + std::to_string(getpid());
    ~Stat() { std::remove(path.c_str()); }

    void write(double user_s, double idle_s, double steal_s) const {
        const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
        std::ofstream(path) << "cpu  " << static_cast<long>(user_s * ticks) << " 0 0 " << static_cast<long>(idle_s * ticks)
                            << " 7 0 0 " << static_cast<long>(steal_s * ticks) << " 0 0\ncpu0 1 2 3\n";
    }
};

TEST(Load, IsWhatOthersDidMeanwhile) {
    Stat stat;
    stat.write(100, 50, 0);
    const auto begin = std::chrono::steady_clock::now();
    Load_since since(stat.path);
    stat.write(1'100, 60, 30); // 1000 s of processor time, in 0.1 s or longer
    const auto others = since.others();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(others);
    EXPECT_GT(*others * passed.count(), 1'000 - passed.count()) << "what this process itself did meanwhile is no load";
    EXPECT_LE(*others, 10'000);
}

TEST(Load, IdleAndStolenTimeAreNoLoad) {
    Stat stat;
    stat.write(100, 50, 0);
    Load_since since(stat.path);
    stat.write(100, 950, 500);
    EXPECT_EQ(since.others(), 0.0);
}

TEST(Load, IsUnknownWithoutTheFile) {
    EXPECT_FALSE(Load_since("/absent").others());
    Stat stat;
    std::ofstream(stat.path) << "processes 7\n";
    EXPECT_FALSE(Load_since(stat.path).others());
}

// In a network namespace of its own: a run elsewhere on this machine holds the name here.
TEST(Claim, LastsAsLongAsTheProcess) {
    const pid_t all = fork();
    if (all == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && unshare(CLONE_NEWNET) != 0)
            _exit(77);
        if (other_run_here())
            _exit(1);
        int ready[2], go[2];
        if (pipe(ready) != 0 || pipe(go) != 0)
            _exit(2);
        const pid_t child = fork();
        char byte = 0;
        if (child == 0) {
            byte = claim_machine() ? 'x' : 'c';
            (void)!write(ready[1], &byte, 1);
            close(go[1]); // this end's copy, so that the parent's end is the last
            (void)!read(go[0], &byte, 1);
            _exit(0);
        }
        if (read(ready[0], &byte, 1) != 1 || byte != 'c')
            _exit(3);
        if (!other_run_here() || !claim_machine())
            _exit(4);
        close(go[1]);
        waitpid(child, nullptr, 0);
        // This process began beside the child and outlasts it: it holds a name, and another run notices it.
        const pid_t later = fork();
        if (later == 0)
            _exit(other_run_here() && claim_machine() ? 6 : 5);
        int said = 0;
        waitpid(later, &said, 0);
        _exit(WEXITSTATUS(said) == 6 ? 0 : 5);
    }
    int status = 0;
    waitpid(all, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        GTEST_SKIP() << "no namespace may be made here";
    EXPECT_EQ(status, 0);
}

} // namespace
